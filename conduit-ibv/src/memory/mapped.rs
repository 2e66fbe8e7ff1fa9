//! Memory that is mapped and registered, and unmapped with its owner.

use crate::ffi::{Access, Domain, Errno, Region};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pool::Chunk;

/// Memory that is mapped, registered with several HCAs.
#[derive(Debug)]
pub struct Pinned {
    // Before the memory that they are of.
    regions: Vec<Region>,
    memory: Mapped,
}

impl Pinned {
    /// At least `bytes` bytes.
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

    /// The key by which peers reach it through an HCA.
    pub fn rkey(&self, rail: usize) -> u32 {
        self.regions[rail].rkey
    }

    /// The keys for the HCAs.
    pub fn lkeys(&self) -> impl Iterator<Item = u32> + '_ {
        self.regions.iter().map(|region| region.lkey)
    }
}

// SAFETY: mapped memory.
unsafe impl Chunk for Pinned {
    fn address(&self) -> usize {
        self.memory.address()
    }
}
