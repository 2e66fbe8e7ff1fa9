//! The members of a team and their ranks.

use crate::types::{Location, Rank};
use gasnet_conduit::JobRank;

/// The members of a team, in the order of their ranks.
#[derive(Debug, PartialEq, Eq)]
pub enum Members {
    /// Rank `i` is the primordial endpoint of process `first + i`: a team like this costs nothing
    /// per member.
    Consecutive {
        /// Process of rank 0.
        first: JobRank,
        /// Members.
        count: u32,
    },
    /// Any endpoints in any order: 12 bytes per member.
    Listed {
        /// By rank.
        members: Box<[Location]>,
        /// Ranks, in the order of their members' places.
        sorted: Box<[Rank]>,
    },
}

impl Members {
    /// The endpoints in `list`, in this order; each once.
    pub fn new(list: Vec<Location>) -> Self {
        let first = list.first().map_or(JobRank(0), |m| m.rank);
        let in_a_row = |(i, m): (usize, &Location)| m.ep == 0 && u64::from(m.rank.0) == u64::from(first.0) + i as u64;
        if list.iter().enumerate().all(in_a_row) {
            return Self::Consecutive {
                first,
                count: list.len() as u32,
            };
        }
        let mut sorted: Vec<Rank> = (0..list.len() as u32).map(Rank).collect();
        sorted.sort_by_key(|&rank| sort_key(list[rank.index()]));
        Self::Listed {
            members: list.into(),
            sorted: sorted.into(),
        }
    }

    /// Their number.
    pub fn count(&self) -> u32 {
        match self {
            Self::Consecutive { count, .. } => *count,
            Self::Listed { members, .. } => members.len() as u32,
        }
    }

    /// The member with `rank`. None above the size of a listed team; of others the caller knows the
    /// size.
    #[inline]
    pub fn locate(&self, rank: Rank) -> Option<Location> {
        match self {
            Self::Consecutive { first, .. } => Some(Location {
                rank: JobRank(first.0.wrapping_add(rank.0)),
                ep: 0,
            }),
            Self::Listed { members, .. } => members.get(rank.index()).copied(),
        }
    }

    /// The rank of the member in `process`; of several the one with the lowest endpoint index.
    pub fn rank_in(&self, process: JobRank) -> Option<Rank> {
        match self {
            Self::Consecutive { first, count } => process.0.checked_sub(first.0).filter(|rank| rank < count).map(Rank),
            Self::Listed { members, sorted } => {
                let at = sorted.partition_point(|&rank| members[rank.index()].rank < process);
                sorted
                    .get(at)
                    .copied()
                    .filter(|&rank| members[rank.index()].rank == process)
            }
        }
    }
}

/// Sort key of members.
pub fn sort_key(member: Location) -> (JobRank, u16) {
    (member.rank, member.ep)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(ranks: &[u32]) -> Vec<Location> {
        ranks
            .iter()
            .map(|&rank| Location {
                rank: JobRank(rank),
                ep: 0,
            })
            .collect()
    }

    #[test]
    fn neighbours_in_a_row_need_no_list() {
        assert_eq!(
            Members::new(list(&[3, 4, 5])),
            Members::Consecutive {
                first: JobRank(3),
                count: 3
            }
        );
        assert!(matches!(Members::new(list(&[3, 5])), Members::Listed { .. }));
        assert!(matches!(Members::new(list(&[4, 3])), Members::Listed { .. }));
    }

    #[test]
    fn ranks_and_processes_translate_both_ways() {
        for ranks in [&[0, 1, 2, 3][..], &[7], &[5, 2, 9], &[9, 8, 7, 1], &[2, 4, 6, 8]] {
            let members = Members::new(list(ranks));
            assert_eq!(members.count() as usize, ranks.len());
            for (i, &rank) in ranks.iter().enumerate() {
                assert_eq!(members.locate(Rank(i as u32)).map(|m| m.rank), Some(JobRank(rank)));
                assert_eq!(members.rank_in(JobRank(rank)), Some(Rank(i as u32)));
            }
            for absent in (0..12).filter(|r| !ranks.contains(r)) {
                assert_eq!(members.rank_in(JobRank(absent)), None);
            }
        }
    }
}
