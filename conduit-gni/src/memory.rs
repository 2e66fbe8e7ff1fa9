//! Segments of this process, registered with all its domains, segments of peers, and registrations
//! for single operations.

pub mod registrations;
mod segments;

use crate::ffi::{Arrivals, Remote};
use crate::memory::registrations::Registrations;
use crate::settings::Settings;
use gasnet_conduit::{LocalMemory, RemoteMemory};
use gasnet_conduit_util::slot_table::SlotTable;
use gasnet_gni_abi as abi;

/// Memory that posts reach.
#[derive(Debug)]
pub struct Memory {
    /// Segments of this process: their handles, by domain.
    pub own: SlotTable<Box<[abi::gni_mem_handle_t]>>,
    /// Those of peers.
    pub learned: SlotTable<abi::gni_mem_handle_t>,
    /// Those of memory outside segments.
    pub registrations: Registrations,
    /// Destination of the events of peers' operations on segments, and `GNI_MEM_*` of these.
    pub events: Arrivals,
    pub flags: u32,
    /// Bytes of segments that may be registered.
    pub max_bytes: usize,
}

impl Memory {
    /// No segments yet. At most `max_bytes` bytes may be registered.
    pub fn new(settings: &Settings, max_bytes: usize) -> Self {
        Self {
            own: SlotTable::default(),
            learned: SlotTable::default(),
            registrations: Registrations::new(settings.registrations, settings.shares_registrations),
            events: if settings.flushes_by_events() {
                Arrivals::Sink
            } else {
                Arrivals::Ours
            },
            flags: settings.segment_flags(),
            max_bytes,
        }
    }

    /// The handle of local memory for a domain. None if it lies in no segment.
    #[inline]
    pub fn local(&self, memory: &LocalMemory, domain: usize) -> Option<abi::gni_mem_handle_t> {
        // SAFETY: the runtime deregisters a segment only when no operation uses it.
        let own = unsafe { self.own.get(memory.segment.0) }?;
        Some(own[domain])
    }

    /// Memory of a peer.
    #[inline]
    pub fn remote(&self, memory: &RemoteMemory) -> Remote {
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        match unsafe { self.learned.get(memory.segment.0) } {
            Some(handle) => Remote {
                address: memory.address,
                handle: *handle,
            },
            None => panic!("defect: no segment {} of rank {}", memory.segment.0, memory.peer),
        }
    }
}
