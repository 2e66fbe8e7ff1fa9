//! Segments of this process, registered with all its domains, segments of peers, and registrations
//! for single operations.

pub mod registrations;

use crate::ffi::{Arrivals, Code, Domain, RegisteredMemory, Remote};
use crate::memory::registrations::Registrations;
use crate::settings::Settings;
use gasnet_conduit::{LocalMemory, LocalSegment, RemoteMemory, RemoteSegment, SegmentMemory};
use gasnet_conduit_util::slot_table::SlotTable;
use gasnet_gni_abi as abi;

/// Bytes of a key: the handle of the first domain.
pub const KEY_BYTES: usize = 16;

/// A segment of this process: its registrations by domain.
#[derive(Debug)]
struct Own(Box<[RegisteredMemory]>);

/// Memory that posts reach.
#[derive(Debug)]
pub struct Memory {
    own: SlotTable<Own>,
    learned: SlotTable<abi::gni_mem_handle_t>,
    registrations: Registrations,
    /// Destination of the events of peers' operations on segments, and `GNI_MEM_*` of these.
    events: Arrivals,
    flags: u32,
    /// Bytes of segments that may be registered.
    max_bytes: usize,
}

impl Memory {
    /// No segments, of which so many bytes may be registered.
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

    /// Bytes of segments that may be registered.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Registrations of memory outside segments.
    pub fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    /// Registers a segment. Returns it, and its key for peers.
    pub fn register<A>(&self, domains: &[Domain<A>], memory: &SegmentMemory) -> Result<(LocalSegment, Vec<u8>), Code> {
        let mut registered = Vec::new();
        for (index, domain) in domains.iter().enumerate() {
            // Operations of peers name the first domain's handle.
            let events = if index == 0 { self.events } else { Arrivals::None };
            // SAFETY: the runtime keeps segments mapped until they are deregistered.
            match unsafe { domain.register_all((memory.base, memory.bytes), events, self.flags) } {
                Ok(memory) => registered.push(memory),
                Err(code) => {
                    release(domains, &registered);
                    return Err(code);
                }
            }
        }
        let handle = registered[0].handle;
        let key = [handle.qword1, handle.qword2].map(u64::to_le_bytes).concat();
        Ok((LocalSegment(self.own.add(Own(registered.into()))), key))
    }

    /// Reverts it.
    pub fn deregister<A>(&self, domains: &[Domain<A>], segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        if let Some(own) = unsafe { self.own.remove(segment.0) } {
            release(domains, &own.0);
        }
    }

    /// Takes note of a segment of a peer. None if the key is none of ours.
    pub fn learn(&self, key: &[u8]) -> Option<RemoteSegment> {
        let key: &[u8; KEY_BYTES] = key.try_into().ok()?;
        let word = |from: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&key[from..from + 8]);
            u64::from_le_bytes(bytes)
        };
        let (qword1, qword2) = (word(0), word(8));
        Some(RemoteSegment(
            self.learned.add(abi::gni_mem_handle_t { qword1, qword2 }),
        ))
    }

    /// Reverts it.
    pub fn forget(&self, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        let _ = unsafe { self.learned.remove(segment.0) };
    }

    /// The handle of local memory for a domain. None if it lies in no segment.
    #[inline]
    pub fn local(&self, memory: &LocalMemory, domain: usize) -> Option<abi::gni_mem_handle_t> {
        // SAFETY: the runtime deregisters a segment only when no operation uses it.
        let own = unsafe { self.own.get(memory.segment.0) }?;
        Some(own.0[domain].handle)
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

fn release<A>(domains: &[Domain<A>], registered: &[RegisteredMemory]) {
    for (domain, memory) in domains.iter().zip(registered) {
        domain.deregister(*memory);
    }
}
