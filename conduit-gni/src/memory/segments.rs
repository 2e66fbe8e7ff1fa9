//! Segments: registered with all domains, and learned from peers.

use crate::ffi::Arrivals;
use crate::rma::OneSided;
use gasnet_conduit::{ConduitError, JobRank, LocalSegment, Registration, RemoteSegment, SegmentMemory, Segments};
use gasnet_conduit_util::record::records;
use gasnet_gni_abi as abi;

/// Bytes of a key: the handle of the first domain.
const KEY_BYTES: usize = 16;

impl OneSided {
    /// Reverts registrations with the first domains.
    fn release(&self, handles: &[abi::gni_mem_handle_t]) {
        for (domain, handle) in self.posts.domains.iter().zip(handles) {
            domain.deregister(*handle);
        }
    }
}

impl Segments for OneSided {
    fn max_key_bytes(&self) -> usize {
        KEY_BYTES
    }

    fn max_bytes(&self) -> usize {
        self.memory.max_bytes
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let mut handles = Vec::new();
        for domain in &self.posts.domains {
            // Operations of peers name the first domain's handle.
            let events = if handles.is_empty() {
                self.memory.events
            } else {
                Arrivals::None
            };
            // SAFETY: the runtime keeps segments mapped until they are deregistered.
            let handle = unsafe { domain.register_all((memory.base, memory.bytes), events, self.memory.flags) };
            handles.push(handle.map_err(|code| {
                self.release(&handles);
                ConduitError {
                    message: format!(
                        "The gni conduit cannot register {} bytes at {:#x}: {code}. GASNET_MAX_SEGSIZE and \
                         GASNET_PHYSMEM_MAX limit segments.",
                        memory.bytes, memory.base
                    ),
                }
            })?);
        }
        let words = [handles[0].qword1, handles[0].qword2];
        Ok(Registration {
            key: words.map(u64::to_le_bytes).concat(),
            segment: LocalSegment(self.memory.own.add(handles.into())),
        })
    }

    fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        if let Some(handles) = unsafe { self.memory.own.remove(segment.0) } {
            self.release(&handles);
        }
    }

    fn learn(&self, peer: JobRank, _: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        let words: Vec<u64> = records(key).collect();
        let ([qword1, qword2], KEY_BYTES) = (&*words, key.len()) else {
            return Err(ConduitError {
                message: gasnet_conduit_util::record::bad_key("gni", peer),
            });
        };
        let (qword1, qword2) = (*qword1, *qword2);
        Ok(RemoteSegment(
            self.memory.learned.add(abi::gni_mem_handle_t { qword1, qword2 }),
        ))
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        let _ = unsafe { self.memory.learned.remove(segment.0) };
    }
}
