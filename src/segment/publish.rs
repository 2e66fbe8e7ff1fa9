//! Telling a team which segments are bound (GASNet-EX 0.19, "gex_EP_PublishBoundSegment").

use super::{published, Memory};
use crate::coll;
use crate::coll::call::Call;
use crate::coll::gather::{self, Parts};
use crate::coll::p2p::Span;
use crate::coll::team_barrier;
use crate::endpoint::Endpoint;
use crate::runtime::Runtime;
use crate::team::Team;
use crate::types::{Location, Rank};

/// Tells all members of `team` the bound segments of `endpoints`, and records theirs. Collective
/// over it; also a barrier.
pub fn publish(rt: &Runtime, team: &'static Team, endpoints: &[&Endpoint]) -> Result<(), String> {
    // The exchange below is also the synchronisation that neighbours need.
    rt.kernel_copy.admit_neighbours();
    let bound = |ep: &&Endpoint| ep.bound().map(|segment| (ep.index, segment));
    // Attached segments are known everywhere.
    let mut own: Vec<u8> = endpoints
        .iter()
        .filter_map(bound)
        .filter(|(_, segment)| segment.memory != Memory::Attached)
        .flat_map(|(index, segment)| {
            let key = segment.registration.as_ref().map(|registration| &registration.key[..]);
            published::encode(index, &segment.memory(), key)
        })
        .collect();
    let mut count = own.len() as u64;
    let mut counts = vec![0u64; team.size as usize];
    let span = |bytes: &mut [u8]| Span {
        at: bytes.as_mut_ptr(),
        bytes: bytes.len(),
    };
    let lengths = Span {
        at: counts.as_mut_ptr().cast(),
        bytes: size_of_val(&counts[..]),
    };
    let length = Span {
        at: std::ptr::from_mut(&mut count).cast(),
        bytes: size_of::<u64>(),
    };
    coll::run(gather::to_all(Call::next(team), Parts::Equal(lengths, 8), length));
    // All members find the same, and none goes on.
    let counts = published::lengths(&counts).map_err(|member| {
        let rank = team.locate(Rank(member as u32)).rank;
        format!("rank {rank} announces {} bytes of segments", counts[member])
    })?;
    let mut all: Vec<Vec<u8>> = counts.iter().map(|&count| vec![0; count]).collect();
    let target = Parts::Listed(all.iter_mut().map(|bytes| span(bytes)).collect());
    coll::run(gather::to_all(Call::next(team), target, span(&mut own)));
    for (member, bytes) in team.ranks().zip(&all) {
        let rank = team.locate(member).rank;
        let mut rest = &bytes[..];
        while rank != rt.rank && !rest.is_empty() {
            let Some((ep, memory, key)) = published::decode(&mut rest) else {
                return Err(format!("rank {rank} published a malformed segment"));
            };
            published::add(Location { rank, ep }, memory, key, rt.abilities.segments);
        }
    }
    // Only now may a member's request be answered with an access to its segment.
    coll::run(team_barrier::barrier(team));
    Ok(())
}
