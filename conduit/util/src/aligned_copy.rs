//! Messages that wait in memory, and data that was read into a buffer.

use gasnet_conduit::PACKET_ALIGN;

/// A copy of a message, aligned as messages are delivered.
#[derive(Debug)]
pub struct AlignedCopy {
    words: Vec<u128>,
    bytes: usize,
}

impl AlignedCopy {
    /// Copies a message.
    pub fn new(message: &[u8]) -> Self {
        let mut words = vec![0_u128; message.len().div_ceil(PACKET_ALIGN)];
        // SAFETY: as many bytes, and any bytes are valid.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(message.as_ptr(), message.len());
        };
        Self {
            words,
            bytes: message.len(),
        }
    }

    /// The message.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: inside the words.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().cast(), self.bytes) }
    }
}

/// Copies data that was read into a buffer to its destination. Aligned words are written at once,
/// because clients wait on flags.
///
/// # Safety
/// `from` is aligned to [`PACKET_ALIGN`] and readable for `bytes` bytes, `to` is writable.
pub unsafe fn copy_out(from: usize, to: usize, bytes: usize) {
    use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Release};
    // SAFETY: the caller's; `to` is aligned where the type requires that.
    unsafe {
        match bytes {
            0 => {}
            2 if to % 2 == 0 => (*(to as *const AtomicU16)).store(*(from as *const u16), Release),
            4 if to % 4 == 0 => (*(to as *const AtomicU32)).store(*(from as *const u32), Release),
            8 if to % 8 == 0 => (*(to as *const AtomicU64)).store(*(from as *const u64), Release),
            _ => (to as *mut u8).copy_from_nonoverlapping(from as *const u8, bytes),
        }
    }
}
