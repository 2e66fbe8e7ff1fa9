//! Telling a team which segments are bound (GASNet-EX 0.19, "gex_EP_PublishBoundSegment").

use super::Memory;
use crate::coll;
use crate::coll::call::Call;
use crate::coll::gather::{self, Parts};
use crate::coll::p2p::Span;
use crate::endpoint::{self, Endpoint};
use crate::runtime::Runtime;
use crate::team::Team;
use crate::types::{EpIndex, Location};
use gasnet_conduit::{RemoteSegment, SegmentKey};

/// Words of what a member publishes about one endpoint: index, base, length, whether it is on a
/// device, key.
const WORDS: usize = 4 + 8;

/// Tells all members of `team` the bound segments of `endpoints`, and learns theirs. Collective
/// over it; also a barrier.
pub fn publish(rt: &Runtime, team: &'static Team, endpoints: &[&Endpoint]) -> Result<(), String> {
    // What follows is also the synchronisation that neighbours need.
    rt.kernel_copy().admit_neighbours();
    let bound = |ep: &&Endpoint| ep.bound().map(|segment| (ep.index, segment));
    // What was attached is known everywhere.
    let mut own: Vec<u64> = endpoints
        .iter()
        .filter_map(bound)
        .filter(|(_, segment)| segment.memory != Memory::Attached)
        .flat_map(|(index, s)| {
            let head = [
                u64::from(index),
                s.base as u64,
                s.bytes as u64,
                u64::from(s.kind.is_some()),
            ];
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
    for (member, words) in team.ranks().zip(&all) {
        let rank = team.locate(member).rank;
        for entry in words.chunks_exact(WORDS).filter(|_| rank != rt.rank()) {
            let mut segment = RemoteSegment {
                base: entry[1] as usize,
                bytes: entry[2] as usize,
                key: SegmentKey::default(),
                on_device: entry[3] != 0,
            };
            segment.key.words.copy_from_slice(&entry[4..]);
            if rt.conduit_needs_segment_of(rank) && (!segment.on_device || rt.conduit_reaches_devices()) {
                rt.conduit()
                    .learn_segment(rank, &mut segment)
                    .map_err(|why| why.message)?;
            }
            let ep = entry[0] as EpIndex;
            endpoint::add_published(Location { rank, ep }, segment);
        }
    }
    Ok(())
}
