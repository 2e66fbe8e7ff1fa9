//! Memory that is mapped, zero at first, and unmapped with its owner.

use crate::verbs::{Access, Domain, Errno, Region};
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

/// Such memory, registered with several HCAs.
pub struct Pinned {
    // Before the memory that they are of.
    regions: Vec<Region>,
    memory: Mapped,
}

impl Pinned {
    /// At least so many bytes.
    pub fn new<'a>(bytes: usize, domains: impl Iterator<Item = &'a Domain>, access: Access) -> Result<Self, Errno> {
        let mut pinned = Self {
            regions: Vec::new(),
            memory: Mapped::new(bytes)?,
        };
        for domain in domains {
            // SAFETY: unmapped after the region is dropped.
            let region = unsafe { domain.register(pinned.address(), bytes, access)? };
            pinned.regions.push(region);
        }
        Ok(pinned)
    }

    /// First byte.
    pub fn address(&self) -> usize {
        self.memory.address()
    }

    /// The keys for the HCAs.
    pub fn lkeys(&self) -> impl Iterator<Item = u32> + '_ {
        self.regions.iter().map(|region| region.lkey)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`. Owners drop the regions of it first; queue pairs are gone, or the
        // process ends, so no work request uses it.
        unsafe { mem::unmap(self.address, self.bytes) };
    }
}
