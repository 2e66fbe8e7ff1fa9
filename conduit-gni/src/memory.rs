//! Segments of this process, registered with all its domains, and those of peers.

pub mod registrations;

use crate::ffi::{Arrivals, Code, Domain, Memory};
use gasnet_conduit::{LocalMemory, LocalSegment, RemoteMemory, RemoteSegment, SegmentMemory};
use gasnet_conduit_util::slot_table::SlotTable;
use gasnet_gni_abi as abi;

/// Bytes of a key: the handle of the first domain.
pub const KEY_BYTES: usize = 16;

/// A segment of this process: its registrations by domain.
#[derive(Debug)]
struct Own(Box<[Memory]>);

/// All of them.
#[derive(Debug, Default)]
pub struct Segments {
    own: SlotTable<Own>,
    learned: SlotTable<abi::gni_mem_handle_t>,
}

impl Segments {
    /// Registers a segment. Returns it, and its key for peers.
    pub fn register(
        &self,
        domains: &[Domain],
        memory: &SegmentMemory,
        (events, flags): (Arrivals, u32),
    ) -> Result<(LocalSegment, Vec<u8>), Code> {
        let mut registered = Vec::new();
        for (index, domain) in domains.iter().enumerate() {
            // Operations of peers name the first domain's handle.
            let events = if index == 0 { events } else { Arrivals::None };
            // SAFETY: the runtime keeps segments mapped until they are deregistered.
            match unsafe { domain.register_all((memory.base, memory.bytes), events, flags) } {
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
    pub fn deregister(&self, domains: &[Domain], segment: LocalSegment) {
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

    /// That of a peer's memory.
    #[inline]
    pub fn remote(&self, memory: &RemoteMemory) -> abi::gni_mem_handle_t {
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        match unsafe { self.learned.get(memory.segment.0) } {
            Some(handle) => *handle,
            None => panic!("defect: no segment {} of rank {}", memory.segment.0, memory.peer),
        }
    }
}

fn release(domains: &[Domain], registered: &[Memory]) {
    for (domain, memory) in domains.iter().zip(registered) {
        domain.deregister(*memory);
    }
}
