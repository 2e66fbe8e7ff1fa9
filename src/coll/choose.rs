//! Which algorithm does a collective, by size and layout: all the rules, and whose algorithms they are.
//!
//! | collective | when | algorithm |
//! |---|---|---|
//! | barrier | one neighbourhood, up to 16 members | each looks at all: one step through shared memory |
//! | | one neighbourhood, more | combining tree of counters, radix 8, in shared memory (Yew, Tzeng and Lawrie 1987); the last to come tells all |
//! | | several neighbourhoods | that tree, then dissemination among first members |
//! | | otherwise | dissemination in messages (Hensgen, Finkel and Manber 1988) |
//! | broadcast | one neighbourhood | all read what the root shows: a note, staged chunks, or, from 8 or 64 KiB on, its segment itself |
//! | | several neighbourhoods | messages to one member of each, which shows it there |
//! | | otherwise | binomial tree, pipelined in chunks (Watts and van de Geijn 1995) |
//! | reduction to one | one neighbourhood, up to 4 members | the root combines what the others show |
//! | | one neighbourhood, more | tree of radix 4, pipelined; flat if the operation does not commute and the root is not rank 0 |
//! | | several neighbourhoods | in each as above, then messages among one member of each |
//! | | otherwise | binomial tree, pipelined in chunks |
//! | reduction to all | one neighbourhood, up to 3 members, or 16 members (4) and 16 KiB in all | everybody combines what all show |
//! | | one neighbourhood, more members, up to 16 KiB in all | whoever comes last combines what all show |
//! | | one neighbourhood, more | reduce-scatter and all-gather per chunk, both flat (after Rabenseifner) |
//! | | several neighbourhoods | to one in each, then messages among first members, then each shows the result |
//! | | otherwise, up to a message | recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.5) |
//! | | otherwise, from 4 members on | recursive halving and doubling (Rabenseifner 2004), distances doubling first, which keeps order |
//! | | otherwise | up the tree and down again, both pipelined |
//! | gather, scatter, all-gather, all-to-all of equal parts | one neighbourhood | through shared memory, as a broadcast |
//! | all-gather of equal parts | otherwise, up to a message | Bruck and others 1997 |
//! | | otherwise | ring |
//! | all-to-all | otherwise | by pairs |
//! | scan | one neighbourhood | everybody combines what those below show |
//! | | otherwise | recursive doubling (Hillis and Steele 1986) |
//!
//! Numbers in brackets are for hosts with more ranks than cores, where work that everybody does takes the others' time.
//! Shared memory is for teams with one member per process that have lanes (`GASNET_PSHM_COLL_TEAMS`), and for elements that a slot holds. "Several
//! neighbourhoods" is for teams with more members than neighbourhoods; for an operation that does not commute only when the members of a
//! neighbourhood follow each other. All members know the same about all of that, and so choose the same.

use crate::shm::memory::{SLOTS, STAGING_SLOT_BYTES};
use crate::team::groups::Groups;
use crate::team::pshm::PshmTeam;
use crate::team::Team;

/// Most members of whom each looks at all in a barrier.
const MAX_FLAT_BARRIER: usize = 16;
/// Most members who all combine everything in a reduction to all: in general, and with more ranks than cores, when that takes the others' time.
const MAX_FLAT_TO_ALL: [usize; 2] = [16, 4];
/// Most members whose operands the root of a reduction to one combines alone.
const MAX_FLAT_TO_ONE: usize = 4;
/// Each member of the tree of a reduction to one has up to one less than this many children on a level.
pub const TO_ONE_RADIX: usize = 4;
/// Most members that combine everything themselves in a reduction to all, and most bytes of all operands with which more of them do.
const ALWAYS_FLAT_TO_ALL: (usize, usize) = (3, 16_384);
/// From this length on data is read where it lies, if neighbours can: no copy, but its owner waits until all have read it. With more ranks than
/// cores a wait is dear, and who has left a copy can run ahead.
const MIN_DIRECT: usize = 8192;
const MIN_DIRECT_OVERSUBSCRIBED: usize = 65_536;
/// Least bytes of a staged chunk. Longer data has longer chunks as far as slots hold them, so that a writer seldom waits for readers.
const MIN_CHUNK: usize = 16_384;
/// Fewest members for recursive halving: fewer send as much up and down a tree.
const MIN_HALVING: u32 = 4;

/// Where a collective takes place.
#[derive(Clone, Copy, Debug)]
pub enum Path {
    /// In the shared memory of a neighbourhood.
    IntraNbrhd(&'static PshmTeam),
    /// Inside each neighbourhood, and in messages among one member of each.
    Hierarchical(&'static Groups),
    /// In messages.
    Network,
}

/// For data of `bytes` in elements of `element` whose order is free or not. A barrier has none.
pub fn path(team: &'static Team, bytes: usize, element: usize, order_is_free: bool) -> Path {
    let groups = &team.groups;
    if !groups.take(bytes, element) || groups.leaders.len() == team.size as usize {
        return Path::Network;
    }
    match &groups.pshm {
        Some(pshm) if groups.leaders.len() == 1 => Path::IntraNbrhd(pshm),
        _ if groups.leaders.len() > 1 && (order_is_free || groups.contiguous) => Path::Hierarchical(groups),
        _ => Path::Network,
    }
}

/// Where a collective takes place that has no layers.
pub fn intra_nbrhd(team: &'static Team, bytes: usize, element: usize) -> Option<&'static PshmTeam> {
    match path(team, bytes, element, true) {
        Path::IntraNbrhd(pshm) => Some(pshm),
        _ => None,
    }
}

/// Whether each of `members` of a neighbourhood looks at all in a barrier.
pub const fn barrier_is_flat(members: usize) -> bool {
    members <= MAX_FLAT_BARRIER
}

/// Whether the root of a reduction to one combines all operands itself. In the tree ranks are counted from the root on.
pub const fn to_one_is_flat(members: usize, root: usize, commutes: bool) -> bool {
    members <= MAX_FLAT_TO_ONE || !(commutes || root == 0)
}

/// Whether data of `bytes` is rather read where it lies than copied.
pub const fn is_direct(bytes: usize, oversubscribed: bool) -> bool {
    bytes
        >= if oversubscribed {
            MIN_DIRECT_OVERSUBSCRIBED
        } else {
            MIN_DIRECT
        }
}

/// Bytes of the chunks in which data of `bytes` in elements of `element` is staged: whole elements.
pub const fn chunk(bytes: usize, element: usize) -> usize {
    let wanted = bytes.div_ceil(SLOTS);
    let most = if wanted < MIN_CHUNK {
        MIN_CHUNK
    } else if wanted < STAGING_SLOT_BYTES {
        wanted
    } else {
        STAGING_SLOT_BYTES
    };
    if element > most {
        element
    } else {
        most / element * element
    }
}

/// How a reduction to all goes in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PshmReduceToAll {
    /// Everybody combines everything.
    Flat,
    /// The last to come combines everything.
    Last,
    /// Everybody combines a part.
    ReduceScatter,
}

/// For `bytes` from each of `members`. A host's ranks agree whether it is crowded.
pub fn pshm_to_all(members: usize, bytes: usize, oversubscribed: bool) -> PshmReduceToAll {
    if members <= ALWAYS_FLAT_TO_ALL.0 {
        PshmReduceToAll::Flat
    } else if members.saturating_mul(bytes) > ALWAYS_FLAT_TO_ALL.1 {
        PshmReduceToAll::ReduceScatter
    } else if members <= MAX_FLAT_TO_ALL[usize::from(oversubscribed)] {
        PshmReduceToAll::Flat
    } else {
        PshmReduceToAll::Last
    }
}

/// How a reduction to all goes in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkReduceToAll {
    /// Recursive doubling.
    Doubling,
    /// Recursive halving, then doubling.
    Halving,
    /// Up the tree and down again.
    Tree,
}

/// For `bytes` in elements of `element` from each of `members`, when a message carries `message` bytes.
pub const fn network_to_all(members: u32, bytes: usize, element: usize, message: usize) -> NetworkReduceToAll {
    if bytes <= message {
        NetworkReduceToAll::Doubling
    } else if members >= MIN_HALVING && bytes / element >= members as usize {
        NetworkReduceToAll::Halving
    } else {
        NetworkReduceToAll::Tree
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_switch_where_the_table_says() {
        assert!(barrier_is_flat(16) && !barrier_is_flat(17));
        assert!(
            to_one_is_flat(4, 3, true)
                && !to_one_is_flat(5, 3, true)
                && to_one_is_flat(5, 3, false)
                && !to_one_is_flat(5, 0, false)
        );
        assert_eq!(
            [chunk(200, 8), chunk(131_072, 24), chunk(262_144, 8), chunk(1 << 30, 8)],
            [16_384, 16_368, 32_768, 65_536]
        );
        assert_eq!([chunk(200_000, 40_000), chunk(200_000, 65_536)], [40_000, 65_536]);
        assert_eq!(pshm_to_all(3, 1 << 20, true), PshmReduceToAll::Flat);
        assert_eq!(
            [pshm_to_all(5, 8, true), pshm_to_all(5, 4096, true)],
            [PshmReduceToAll::Last, PshmReduceToAll::ReduceScatter]
        );
        assert_eq!(
            [pshm_to_all(4, 4096, false), pshm_to_all(4, 4097, false)],
            [PshmReduceToAll::Flat, PshmReduceToAll::ReduceScatter]
        );
        assert_eq!(network_to_all(7, 65_536, 8, 65_536), NetworkReduceToAll::Doubling);
        assert_eq!(network_to_all(7, 65_544, 8, 65_536), NetworkReduceToAll::Halving);
        assert_eq!(network_to_all(3, 65_544, 8, 65_536), NetworkReduceToAll::Tree);
        assert_eq!(network_to_all(7, 1_200_000, 200_000, 65_536), NetworkReduceToAll::Tree);
    }
}
