//! Segments of this process, and those of peers: their addresses in the process and in the network.
//! On Elan4 both are the same.

use crate::ffi::Shim;
use gasnet_conduit::{
    ConduitError, JobRank, LocalSegment, Registration, RemoteMemory, RemoteSegment, SegmentMemory, Segments,
};
use gasnet_conduit_util::slot_table::SlotTable;
use std::sync::Arc;

/// Bytes of a key: the network address.
const KEY_BYTES: usize = 8;
/// The network maps whole pages.
const PAGE: usize = 4096;

/// All of them.
#[derive(Debug)]
pub struct Memory {
    /// The mapped pages: address and bytes.
    own: SlotTable<(usize, usize)>,
    /// Difference between the network addresses of a segment and the owner's.
    learned: SlotTable<u64>,
    shim: Arc<Shim>,
}

impl Memory {
    /// No segments.
    pub fn new(shim: Arc<Shim>) -> Self {
        Self {
            own: SlotTable::default(),
            learned: SlotTable::default(),
            shim,
        }
    }

    /// The network address of memory of a peer.
    #[inline]
    pub fn address(&self, memory: &RemoteMemory) -> u64 {
        if memory.segment == RemoteSegment::ALL_MEMORY {
            return memory.address as u64;
        }
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        match unsafe { self.learned.get(memory.segment.0) } {
            Some(distance) => distance.wrapping_add(memory.address as u64),
            None => panic!("defect: no segment {} of rank {}", memory.segment.0, memory.peer),
        }
    }
}

impl Segments for Memory {
    fn max_key_bytes(&self) -> usize {
        KEY_BYTES
    }

    fn max_bytes(&self) -> usize {
        // Two segments that begin and end in the middle of pages.
        usize::try_from(self.shim.info.map_bytes).map_or(usize::MAX, |bytes| bytes.saturating_sub(4 * PAGE))
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        let start = memory.base & !(PAGE - 1);
        let bytes = (memory.base + memory.bytes).next_multiple_of(PAGE) - start;
        let mapped = self.shim.map(start, bytes).ok_or_else(|| ConduitError {
            message: format!(
                "The elan conduit cannot map {bytes} bytes: the network's addresses have room for {} in all. \
                 GASNET_MAX_SEGSIZE limits segments.",
                self.shim.info.map_bytes
            ),
        })?;
        let address = mapped + (memory.base - start) as u64;
        Ok(Registration {
            segment: LocalSegment(self.own.add((start, bytes))),
            key: address.to_le_bytes().into(),
        })
    }

    fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        if let Some((start, bytes)) = unsafe { self.own.remove(segment.0) } {
            self.shim.unmap(start, bytes);
        }
    }

    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError> {
        let address = key.try_into().map(u64::from_le_bytes).map_err(|_| ConduitError {
            message: gasnet_conduit_util::record::bad_key("elan", peer),
        })?;
        let distance = address.wrapping_sub(memory.base as u64);
        Ok(RemoteSegment(self.learned.add(distance)))
    }

    fn forget(&self, _: JobRank, segment: RemoteSegment) {
        // SAFETY: no operation on the segment is under way.
        let _ = unsafe { self.learned.remove(segment.0) };
    }
}
