//! Selection of the algorithm of a collective, by size and layout: all rules, with their sources.
//!
//! | collective | when | algorithm |
//! |---|---|---|
//! | barrier | one nbrhd, up to 16 members (0) | flat: each member reads the flags of all, one step |
//! | | one nbrhd, more | combining tree of counters, radix 8 (Yew, Tzeng and Lawrie 1987); the last arrival releases all |
//! | | several nbrhds | that tree in each, then dissemination among leaders |
//! | | otherwise | dissemination (Hensgen, Finkel and Manber 1988) |
//! | broadcast | one nbrhd | all read what the root publishes: an inline slot, staged chunks, or, from 8 KiB (64 KiB) on, its segment |
//! | | several nbrhds | network to one member of each, which publishes it there |
//! | | otherwise | binomial tree, pipelined in chunks (Watts and van de Geijn 1995) |
//! | reduction to one | one nbrhd, up to 4 members | flat: the root combines all operands |
//! | | one nbrhd, more | tree of radix 4, pipelined; flat if the operation does not commute and the root is not rank 0 |
//! | | several nbrhds | as above in each, then network among one member of each |
//! | | otherwise | binomial tree, pipelined in chunks |
//! | reduction to all | one nbrhd, up to 3 members, or 16 (4) members and 16 KiB in all | flat: every member combines all operands |
//! | | one nbrhd, more members, up to 16 KiB in all | the last arrival combines all operands |
//! | | one nbrhd, more | reduce-scatter and all-gather per chunk, both flat (after Rabenseifner) |
//! | | several nbrhds | to one in each, network among leaders, broadcast in each |
//! | | otherwise, up to one message | recursive doubling (Thakur, Rabenseifner and Gropp 2005, section 4.5) |
//! | | otherwise, 4 members and more | recursive halving and doubling (Rabenseifner 2004), distances doubling first, which keeps the order of operands |
//! | | otherwise | up and down a tree, both pipelined |
//! | gather, scatter, all-gather, all-to-all of equal parts | one nbrhd | shared memory, as a broadcast |
//! | all-gather of equal parts | otherwise, up to one message | Bruck and others 1997 |
//! | | otherwise | ring |
//! | all-to-all | otherwise | pairwise exchange |
//! | scan | one nbrhd | each member combines the operands of lower ranks |
//! | | otherwise | recursive doubling (Hillis and Steele 1986) |
//!
//! Numbers in brackets are for oversubscribed hosts, where redundant work takes cores from other
//! ranks.
//!
//! Shared memory needs a team with one member per process, a collective buffer at every member
//! (`GASNET_PSHM_COLL_TEAMS`), and elements that fit into a staging slot. "Several nbrhds" needs
//! more members than neighbourhoods; for an operation that does not commute, the members of each
//! neighbourhood must also have consecutive ranks. The rules use only facts that all members share,
//! so all members choose the same algorithm.

use crate::shm::memory::{SLOTS, STAGING_SLOT_BYTES};
use crate::team::groups::Groups;
use crate::team::pshm::PshmTeam;
use crate::team::Team;

/// Members up to which a barrier is flat.
const MAX_FLAT_BARRIER: usize = 16;
/// Members up to which a reduction to all of up to 16 KiB is flat: undersubscribed, oversubscribed.
/// Flat reductions repeat work on every member, which takes cores from other ranks.
const MAX_FLAT_TO_ALL: [usize; 2] = [16, 4];
/// Members up to which the root of a reduction to one combines all operands.
const MAX_FLAT_TO_ONE: usize = 4;
/// Radix of the tree of a reduction to one: up to one child less than this on each level.
pub const TO_ONE_RADIX: usize = 4;
/// Members up to which a reduction to all is always flat, and bytes of all operands up to which
/// [`MAX_FLAT_TO_ALL`] applies.
const ALWAYS_FLAT_TO_ALL: (usize, usize) = (3, 16_384);
/// Bytes from which neighbours read data in place, in a mapped segment. This saves copies, but the
/// owner must wait for all readers. On oversubscribed hosts waiting costs more, and a rank that has
/// staged its data can run ahead.
const MIN_DIRECT: usize = 8192;
const MIN_DIRECT_OVERSUBSCRIBED: usize = 65_536;
/// Minimum bytes of a staged chunk. Longer data has longer chunks, up to a staging slot, so that a
/// writer rarely waits for readers.
const MIN_CHUNK: usize = 16_384;
/// Members from which recursive halving is used; below, a tree sends no more data.
const MIN_HALVING: u32 = 4;

/// The place of a collective.
#[derive(Clone, Copy, Debug)]
pub enum Path {
    /// In shared memory only.
    IntraNbrhd(&'static PshmTeam),
    /// In shared memory in each neighbourhood, and over the network among one member of each.
    Hierarchical(&'static Groups),
    /// Over the network only.
    Network,
}

/// The path of `bytes` of data in elements of `element` bytes; `order_is_free` if operands commute.
/// A barrier has no bytes.
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

/// The path of a collective without a hierarchical form: shared memory, or None for the network.
pub fn intra_nbrhd(team: &'static Team, bytes: usize, element: usize) -> Option<&'static PshmTeam> {
    match path(team, bytes, element, true) {
        Path::IntraNbrhd(pshm) => Some(pshm),
        _ => None,
    }
}

/// Whether each of `members` in a neighbourhood reads the flags of all in a barrier. Where they
/// share cores, each poll of a flat barrier reads flags that no other rank could set meanwhile.
pub const fn barrier_is_flat(members: usize, oversubscribed: bool) -> bool {
    members <= MAX_FLAT_BARRIER && !oversubscribed
}

/// Whether the root of a reduction to one combines all operands. In the tree, ranks count from the
/// root.
pub const fn to_one_is_flat(members: usize, root: usize, commutes: bool) -> bool {
    members <= MAX_FLAT_TO_ONE || !(commutes || root == 0)
}

/// Whether `bytes` of data are read in place rather than staged.
pub const fn is_direct(bytes: usize, oversubscribed: bool) -> bool {
    bytes
        >= if oversubscribed {
            MIN_DIRECT_OVERSUBSCRIBED
        } else {
            MIN_DIRECT
        }
}

/// Bytes per staged chunk for `bytes` of data: a multiple of `element`.
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

/// Algorithms of a reduction to all in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PshmReduceToAll {
    /// Every member combines all operands.
    Flat,
    /// The last arrival combines all operands.
    Last,
    /// Every member combines one part of each chunk.
    ReduceScatter,
}

/// For `bytes` from each of `members`. All ranks of a host agree on `oversubscribed`.
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

/// Algorithms of a reduction to all over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkReduceToAll {
    /// Recursive doubling.
    Doubling,
    /// Recursive halving, then doubling.
    Halving,
    /// Up and down a tree.
    Tree,
}

/// For `bytes` in elements of `element` bytes from each of `members`; `message` is the largest
/// message.
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
    fn rules_switch_at_the_documented_sizes() {
        assert!(barrier_is_flat(16, false) && !barrier_is_flat(17, false) && !barrier_is_flat(2, true));
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
