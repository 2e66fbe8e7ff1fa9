//! The memory of this process that messages of other ranks may name. Every handler of such a
//! message asks [`Runtime::admit`] before it touches that memory; what conduits reach by themselves
//! is registered, which only segments are.

use super::configuration::is_everything;
use super::Segment;
use crate::endpoint::{self, Endpoint};
use crate::mk::MemRef;
use crate::runtime::Runtime;
use crate::types::{EpIndex, ANYWHERE};
use gasnet_conduit::JobRank;
use std::sync::atomic::{AtomicBool, Ordering};

static LIMITED: AtomicBool = AtomicBool::new(true);

/// Sets `GASNET_LIMIT_TO_SEGMENTS`, at initialisation.
pub fn set_limited(limited: bool) {
    LIMITED.store(limited, Ordering::Relaxed);
}

/// Whether remote addresses outside bound segments are refused, whatever the flags of the call. In
/// EVERYTHING all memory is a segment.
#[inline]
pub fn is_limited() -> bool {
    LIMITED.load(Ordering::Relaxed) && !is_everything()
}

impl Runtime {
    /// The memory `[address, address + bytes)` that rank `source` names through endpoint `ep`, with
    /// [`ANYWHERE`] if its call had the flags for that. Fatal, with the name of `source`, unless it
    /// is one that `source` may name: memory of the endpoint's bound segment; with [`ANYWHERE`] of
    /// any bound segment, and all memory if that is not limited to segments.
    #[inline]
    pub fn admit(&self, source: JobRank, ep: EpIndex, address: usize, bytes: usize) -> MemRef {
        let memory = if ep & ANYWHERE != 0 && is_limited() {
            self.in_any_segment(address, bytes)
        } else {
            self.own_mem(ep, address, bytes)
        };
        memory.unwrap_or_else(|| self.refuse(source, ep, address, bytes))
    }

    /// The bound segments of this process.
    pub fn bound_segments(&self) -> impl Iterator<Item = &'static Segment> {
        std::iter::once(self.endpoint0)
            .chain(endpoint::others())
            .filter_map(Endpoint::bound)
    }

    fn in_any_segment(&self, address: usize, bytes: usize) -> Option<MemRef> {
        let around = self.bound_segments().find(|s| s.bounds().contains(address, bytes));
        around.map(|segment| MemRef {
            kind: segment.kind,
            address,
        })
    }

    #[cold]
    fn refuse(&self, source: JobRank, ep: EpIndex, address: usize, bytes: usize) -> ! {
        let shown = |segment: &Segment| format!("[{:#x}, {:#x})", segment.base, segment.base + segment.bytes);
        let (end, rank) = (address.wrapping_add(bytes), self.rank);
        if ep & ANYWHERE == 0 {
            let bound = self.endpoint(ep).and_then(Endpoint::bound);
            let bound = bound.map_or("no segment".to_owned(), shown);
            fatal!(
                "rank {rank}: a message from rank {source} names the range [{address:#x}, {end:#x}) of endpoint {ep} \
                 here, to which {bound} is bound. The memory of rank {source} is corrupt, or the two ranks run \
                 different versions of libgasnet."
            );
        }
        let bound: Vec<String> = self.bound_segments().map(shown).collect();
        let bound = if bound.is_empty() {
            "there is none".to_owned()
        } else {
            bound.join(", ")
        };
        fatal!(
            "rank {rank}: an operation of rank {source} names the remote range [{address:#x}, {end:#x}), which is in \
             no bound segment of rank {rank} ({bound}). GASNET_LIMIT_TO_SEGMENTS=0 admits other memory to operations \
             with GEX_FLAG_PEER_SEG_UNKNOWN or _SOME."
        )
    }
}
