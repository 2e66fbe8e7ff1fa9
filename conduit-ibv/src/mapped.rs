//! Memory that is mapped, zero at first, and unmapped with its owner.

use crate::verbs::Errno;
use gasnet_sys::mem;

/// Whole pages.
pub struct Mapped {
    address: usize,
    bytes: usize,
}

impl Mapped {
    /// At least so many bytes.
    pub fn new(bytes: usize) -> Result<Self, Errno> {
        let bytes = bytes.next_multiple_of(4096);
        let address = mem::map_private(bytes).map_err(|why| Errno(why.raw_os_error().unwrap_or(libc::ENOMEM)))?;
        Ok(Self { address, bytes })
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.address
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`. Owners drop the regions of it first; queue pairs are gone, or the
        // process ends, so no work request uses it.
        unsafe { mem::unmap(self.address, self.bytes) };
    }
}
