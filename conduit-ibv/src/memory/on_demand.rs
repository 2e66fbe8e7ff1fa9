//! All memory of this process, on HCAs that page on demand.
#![forbid(unsafe_code)]

use crate::ffi::{Access, Domain, Region};

/// A region for each direction. mlx5 asks for write access at every page fault of a region that
/// may be written, also where an operation only reads (torvalds/linux
/// drivers/infiniband/hw/mlx5/odp.c): through such a region, puts from constant tables fail and
/// private pages are copied.
pub struct OnDemand {
    read: Region,
    write: Region,
}

impl OnDemand {
    /// None if the HCA refuses a region.
    pub fn register(domain: &Domain) -> Option<Self> {
        Some(Self {
            read: domain.register_on_demand(Access::LOCAL_READ).ok()?,
            write: domain.register_on_demand(Access::LOCAL).ok()?,
        })
    }

    /// The key of all memory for operations that write it (gets), or only read it (puts, messages).
    #[inline]
    pub fn lkey(&self, is_written: bool) -> u32 {
        if is_written {
            self.write.lkey
        } else {
            self.read.lkey
        }
    }
}
