//! All memory of this process, on HCAs that page on demand.
#![forbid(unsafe_code)]

use crate::ffi::{Access, Domain, Region};

/// Direction of the data of an operation, as this process sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The HCA reads local memory: puts and messages.
    Out,
    /// The HCA writes it: gets.
    In,
}

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

    /// The key of all memory for operations of a direction.
    #[inline]
    pub fn lkey(&self, direction: Direction) -> u32 {
        match direction {
            Direction::Out => self.read.lkey,
            Direction::In => self.write.lkey,
        }
    }
}
