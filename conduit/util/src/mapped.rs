//! Memory that is mapped, zero at first, and unmapped with its owner.

use crate::pool::Chunk;
use gasnet_sys::mem;
use std::io;

/// Whole pages.
#[derive(Debug)]
pub struct Mapped {
    address: usize,
    bytes: usize,
}

impl Mapped {
    /// Maps at least this number of bytes.
    pub fn new(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(mem::page_size());
        let address = mem::map_private(bytes)?;
        Ok(Self { address, bytes })
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.address
    }
}

// SAFETY: whole pages, zero at first, unmapped at the end.
unsafe impl Chunk for Mapped {
    fn address(&self) -> usize {
        self.address
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`. Owners revert its registrations first, so no network uses it.
        unsafe { mem::unmap(self.address, self.bytes) };
    }
}
