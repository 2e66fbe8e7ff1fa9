//! Segments beyond the attached one (GASNet-EX Memory Kinds 2025.8, "gex_Segment_Create", "gex_EP_BindSegment"), and publishing them
//! (GASNet-EX 0.19, "gex_EP_PublishBoundSegment").

use std::ptr;
use std::sync::atomic::AtomicPtr;

use super::{Memory, Segment};
use crate::am::{EpIndex, Location};
use crate::coll;
use crate::coll::call::Call;
use crate::coll::gather::{self, Parts};
use crate::coll::mail::Span;
use crate::conduit::{RemoteSegment, SegmentKey};
use crate::endpoint::{self, Endpoint};
use crate::os::mem;
use crate::runtime::Runtime;
use crate::team::Team;

impl Segment {
    /// As peers know it.
    pub fn as_remote(&self) -> RemoteSegment {
        RemoteSegment {
            base: self.base,
            bytes: self.bytes,
            key: self.key,
        }
    }
}

/// Makes a segment of host memory: the client's `bytes` at `address`, or, when that is null, memory of the library's. The error is a sentence.
pub fn create(rt: &Runtime, address: usize, bytes: usize) -> Result<&'static Segment, String> {
    let (base, bytes, memory) = if address == 0 {
        let bytes = bytes.next_multiple_of(mem::page_size());
        let base = mem::map_private(bytes).map_err(|why| format!("{bytes} bytes for a segment cannot be mapped: {why}"))?;
        (base, bytes, Memory::Mapped)
    } else {
        (address, bytes, Memory::Client)
    };
    let key = if rt.conduit_has_segments() {
        rt.conduit.register_segment(base, bytes).map_err(|why| why.message)?
    } else {
        SegmentKey::default()
    };
    Ok(Box::leak(Box::new(Segment {
        base,
        bytes,
        memory,
        key,
        cdata: AtomicPtr::new(ptr::null_mut()),
    })))
}

/// Ends a segment and gives its memory back to whom it came from.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn destroy(rt: &Runtime, segment: &'static Segment) {
    endpoint::unbind(rt.endpoint0, segment);
    if rt.conduit_has_segments() {
        rt.conduit.deregister_segment(&segment.key);
    }
    let (base, bytes, memory) = (segment.base, segment.bytes, segment.memory);
    // SAFETY: `create` leaked it from a Box, and this is its last use (contract).
    drop(unsafe { Box::from_raw(ptr::from_ref(segment).cast_mut()) });
    if memory == Memory::Mapped {
        // SAFETY: `create` mapped it for this segment alone.
        unsafe { mem::unmap(base, bytes) };
    }
}

/// Words of what a member publishes about one endpoint: index, base, length, key.
const WORDS: usize = 3 + 8;

/// Tells all members of `team` the bound segments of `endpoints`, and learns theirs. Collective over it; also a barrier.
pub fn publish(rt: &Runtime, team: &'static Team, endpoints: &[&Endpoint]) -> Result<(), String> {
    // What follows is also the synchronisation that neighbours need.
    rt.kernel_copy.admit_neighbours();
    let bound = |ep: &&Endpoint| ep.bound().map(|segment| (ep.index, segment));
    // What was attached is known everywhere.
    let mut own: Vec<u64> = endpoints
        .iter()
        .filter_map(bound)
        .filter(|(_, segment)| segment.memory != Memory::Attached)
        .flat_map(|(index, s)| {
            let head = [u64::from(index), s.base as u64, s.bytes as u64];
            head.into_iter().chain(s.key.words)
        })
        .collect();
    let mut count = [own.len() as u64];
    let mut counts = vec![0u64; team.size as usize];
    let span = |words: &mut [u64]| Span {
        at: words.as_mut_ptr().cast(),
        bytes: size_of_val(words),
    };
    let target = Parts::Equal(span(&mut counts), 8);
    coll::run(gather::to_all(Call::next(team), target, span(&mut count)));
    let mut all: Vec<Vec<u64>> = counts.iter().map(|&count| vec![0; count as usize]).collect();
    let target = Parts::Listed(all.iter_mut().map(|words| span(words)).collect());
    coll::run(gather::to_all(Call::next(team), target, span(&mut own)));
    for (member, words) in all.iter().enumerate() {
        let rank = team.locate(member as u32).rank;
        for entry in words.chunks_exact(WORDS).filter(|_| rank != rt.rank) {
            let mut segment = RemoteSegment {
                base: entry[1] as usize,
                bytes: entry[2] as usize,
                key: SegmentKey::default(),
            };
            segment.key.words.copy_from_slice(&entry[3..]);
            if rt.conduit_learns(rank) {
                rt.conduit.learn_segment(rank, &mut segment).map_err(|why| why.message)?;
            }
            let ep = entry[0] as EpIndex;
            endpoint::learn(Location { rank, ep }, segment);
        }
    }
    Ok(())
}
