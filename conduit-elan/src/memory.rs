//! Segments of this process, and those of peers: their addresses in the process and in the network.
//! On Elan4 both are the same.

use crate::ffi::Shim;
use gasnet_conduit::{
    ConduitError, JobRank, LocalSegment, Registration, RemoteMemory, RemoteSegment, SegmentMemory, Segments,
};
use gasnet_conduit_util::slot_table::SlotTable;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::{lock, mem};
use std::sync::Arc;

/// Bytes of a key: the network address.
const KEY_BYTES: usize = 8;

/// Pages that are mapped for a segment, and for others that lie inside them.
#[derive(Debug)]
struct Mapping {
    /// Address and bytes.
    pages: (usize, usize),
    network_address: u64,
    segments: usize,
}

impl Mapping {
    /// Whether some of the pages are among these.
    fn meets(&self, (start, bytes): (usize, usize)) -> bool {
        self.pages.0 < start + bytes && start < self.pages.0 + self.pages.1
    }

    /// Whether all of these pages are mapped.
    fn covers(&self, (start, bytes): (usize, usize)) -> bool {
        self.pages.0 <= start && start + bytes <= self.pages.0 + self.pages.1
    }
}

/// All of them.
#[derive(Debug)]
pub struct Memory {
    /// The pages of the mapping of each segment: address and bytes.
    own: SlotTable<(usize, usize)>,
    /// On Elan3 they have no page in common, since mapping a page again ends its former mapping.
    mappings: Mutex<Vec<Mapping>>,
    /// Difference between the network addresses of a segment and the owner's.
    learned: SlotTable<u64>,
    shim: Arc<Shim>,
}

impl Memory {
    /// No segments.
    pub fn new(shim: Arc<Shim>) -> Self {
        Self {
            own: SlotTable::default(),
            mappings: Mutex::default(),
            learned: SlotTable::default(),
            shim,
        }
    }

    /// Maps pages, unless they lie in a mapping. Returns that, and the network address of the first
    /// page.
    fn map(&self, pages: (usize, usize)) -> Result<((usize, usize), u64), ConduitError> {
        let mut mappings = lock(&self.mappings);
        let is_shared = |mapping: &&mut Mapping| self.shim.info.elan == 3 && mapping.meets(pages);
        if let Some(mapping) = mappings.iter_mut().find(is_shared) {
            if !mapping.covers(pages) {
                return Err(ConduitError {
                    message: format!(
                        "The elan conduit cannot map a segment that has a page in common with another and is not \
                         inside it: Elan3 maps a page once. Align segments to {} bytes.",
                        mem::page_size()
                    ),
                });
            }
            mapping.segments += 1;
            let offset = pages.0 - mapping.pages.0;
            return Ok((mapping.pages, mapping.network_address + offset as u64));
        }
        let mapped = self.shim.map(pages.0, pages.1).ok_or_else(|| ConduitError {
            message: format!(
                "The elan conduit cannot map {} bytes: the network's addresses have room for {} in all. \
                 GASNET_MAX_SEGSIZE limits segments.",
                pages.1, self.shim.info.map_bytes
            ),
        })?;
        mappings.push(Mapping {
            pages,
            network_address: mapped,
            segments: 1,
        });
        Ok((pages, mapped))
    }

    /// Unmaps the pages of a mapping, unless other segments lie inside it.
    fn unmap(&self, pages: (usize, usize)) {
        let mut mappings = lock(&self.mappings);
        let Some(place) = mappings.iter().position(|mapping| mapping.pages == pages) else {
            return;
        };
        mappings[place].segments -= 1;
        if mappings[place].segments == 0 {
            mappings.swap_remove(place);
            self.shim.unmap(pages.0, pages.1);
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
        usize::try_from(self.shim.info.map_bytes).map_or(usize::MAX, |bytes| bytes.saturating_sub(4 * mem::page_size()))
    }

    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError> {
        // The network maps whole pages.
        let page = mem::page_size();
        let start = memory.base & !(page - 1);
        let bytes = (memory.base + memory.bytes).next_multiple_of(page) - start;
        let (mapping, mapped) = self.map((start, bytes))?;
        let address = mapped + (memory.base - start) as u64;
        Ok(Registration {
            segment: LocalSegment(self.own.add(mapping)),
            key: address.to_le_bytes().into(),
        })
    }

    fn deregister(&self, segment: LocalSegment) {
        // SAFETY: the runtime uses the segment no more.
        if let Some(mapping) = unsafe { self.own.remove(segment.0) } {
            self.unmap(mapping);
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
