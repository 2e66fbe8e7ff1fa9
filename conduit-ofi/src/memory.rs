//! Registered memory and keys.

mod segments;

use crate::ffi::{mr_mode, Endpoint, Info, Region, Remote, Source};
use gasnet_conduit::{LocalMemory, RemoteMemory};
use gasnet_conduit_util::slot_table::SlotTable;

/// Whether local host memory of operations must be registered.
pub fn wants_registration(info: &Info) -> bool {
    info.mr_mode() & mr_mode::LOCAL != 0
}

/// Segments of this process, and those of peers that it has learned.
#[derive(Default)]
pub struct Segments {
    pub own: SlotTable<Region>,
    pub learned: SlotTable<Learned>,
}

/// A segment of a peer.
pub struct Learned {
    pub key: u64,
    /// Subtracted from addresses: providers without `FI_MR_VIRT_ADDR` take offsets.
    pub base: u64,
}

impl Segments {
    /// The remote side of an operation, with the peer's number in the address vector.
    #[inline]
    pub fn remote(&self, memory: &RemoteMemory, peer: u64) -> Remote {
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        let learned = unsafe { self.learned.get(memory.segment.0) };
        let learned = learned.unwrap_or_else(|| panic!("defect: {memory:?} was not learned"));
        Remote {
            peer,
            address: memory.address as u64 - learned.base,
            key: learned.key,
        }
    }

    /// The local side of an operation. None if it must be registered first.
    #[inline]
    pub fn local(&self, endpoint: &Endpoint, memory: &LocalMemory, bytes: usize) -> Option<Source> {
        // SAFETY: the runtime deregisters a segment only when no operation uses it.
        let region = unsafe { self.own.get(memory.segment.0) };
        let needs_none = memory.device.is_none() && !wants_registration(endpoint.info());
        // efa looks memory up that it gets no descriptor of, although it demands none.
        let descriptor = match region {
            Some(region) => region.descriptor(),
            None if needs_none => std::ptr::null_mut(),
            None => return None,
        };
        Some(Source {
            address: memory.address,
            bytes,
            descriptor,
        })
    }
}
