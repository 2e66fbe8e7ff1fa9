//! Alignment that keeps the words of different threads or processes on different cache lines.

use std::ops::Deref;

/// A value on cache lines of its own. 128 bytes: two lines of x86, which its prefetcher fetches
/// together, or one of POWER. 256 bytes: the longest line of AArch64, that of the A64FX.
#[cfg_attr(target_arch = "aarch64", repr(C, align(256)))]
#[cfg_attr(not(target_arch = "aarch64"), repr(C, align(128)))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);

/// Bytes of these lines.
pub const LINE: usize = align_of::<Padded<()>>();

impl<T> Deref for Padded<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
