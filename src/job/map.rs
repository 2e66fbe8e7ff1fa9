//! Where the ranks of a job are: on which hosts, and in which neighbourhoods.

use std::ops::Range;

/// Ranks in a row on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first of them.
    pub first: u32,
    /// How many.
    pub count: u32,
    /// Their host's number.
    pub host: u32,
}

/// The layout of a job. Neighbourhoods are ranks in a row: where a host has several runs of ranks, each is a neighbourhood of its own, or several.
#[derive(Clone, Debug)]
pub struct Map {
    size: u32,
    hosts: u32,
    /// Most ranks in a neighbourhood; 0: no limit.
    nbrhd_max: u32,
    /// Ascending, without gaps.
    runs: Vec<Run>,
    /// First ranks of the neighbourhoods, ascending.
    nbrhds: Vec<u32>,
}

impl Map {
    /// Of runs in the order of their ranks, with at most `nbrhd_max` ranks in a neighbourhood (0: no limit). None if they leave a gap, if a host
    /// has no rank or there are no ranks.
    pub fn new(runs: Vec<Run>, nbrhd_max: u32) -> Option<Self> {
        let mut joined: Vec<Run> = Vec::with_capacity(runs.len());
        let mut size = 0u32;
        let mut hosts = 0;
        for run in runs {
            if run.first != size || run.count == 0 {
                return None;
            }
            size = size.checked_add(run.count)?;
            hosts = hosts.max(run.host.checked_add(1)?);
            match joined.last_mut().filter(|last| last.host == run.host) {
                Some(last) => last.count += run.count,
                None => joined.push(run),
            }
        }
        let mut seen = vec![false; joined.len()];
        if joined.is_empty() || hosts as usize > joined.len() {
            return None;
        }
        for run in &joined {
            seen[run.host as usize] = true;
        }
        if seen[..hosts as usize].contains(&false) {
            return None;
        }
        let step = if nbrhd_max == 0 { u32::MAX } else { nbrhd_max };
        let nbrhds = joined
            .iter()
            .flat_map(|run| (run.first..run.first + run.count).step_by(step as usize))
            .collect();
        Some(Self {
            size,
            hosts,
            nbrhd_max,
            runs: joined,
            nbrhds,
        })
    }

    /// All ranks on one host.
    pub fn one_host(size: u32, nbrhd_max: u32) -> Option<Self> {
        let all = Run {
            first: 0,
            count: size,
            host: 0,
        };
        Self::new(vec![all], nbrhd_max)
    }

    /// The host of every rank, in the order of ranks.
    pub fn from_hosts(hosts: &[u32], nbrhd_max: u32) -> Option<Self> {
        let run = |(rank, &host): (usize, &u32)| Run {
            first: rank as u32,
            count: 1,
            host,
        };
        Self::new(hosts.iter().enumerate().map(run).collect(), nbrhd_max)
    }

    /// Ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Hosts of the job.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Most ranks in a neighbourhood; 0: no limit.
    pub fn nbrhd_max(&self) -> u32 {
        self.nbrhd_max
    }

    /// All runs, ascending.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The host that `rank` is on.
    pub fn host_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size);
        self.runs[self.runs.partition_point(|run| run.first <= rank) - 1].host
    }

    /// The ranks on `host`, ascending.
    pub fn ranks_on(&self, host: u32) -> Vec<u32> {
        let here = self.runs.iter().filter(|run| run.host == host);
        here.flat_map(|run| run.first..run.first + run.count).collect()
    }

    /// How many neighbourhoods there are.
    pub fn nbrhd_count(&self) -> u32 {
        self.nbrhds.len() as u32
    }

    /// The neighbourhood of `rank`.
    pub fn nbrhd_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size);
        self.nbrhds.partition_point(|&first| first <= rank) as u32 - 1
    }

    /// The ranks of a neighbourhood.
    pub fn nbrhd_range(&self, nbrhd: u32) -> Range<u32> {
        let next = self.nbrhds.get(nbrhd as usize + 1).copied();
        self.nbrhds[nbrhd as usize]..next.unwrap_or(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_is_cut_into_neighbourhoods() {
        let map = Map::one_host(7, 3).unwrap();
        assert_eq!((map.size(), map.hosts(), map.nbrhd_count()), (7, 1, 3));
        assert_eq!((map.nbrhd_of(5), map.nbrhd_range(1), map.nbrhd_range(2)), (1, 3..6, 6..7));
        assert_eq!(Map::one_host(7, 0).unwrap().nbrhd_range(0), 0..7);
        assert!(Map::one_host(0, 0).is_none());
    }

    #[test]
    fn hosts_in_any_order() {
        let map = Map::from_hosts(&[1, 1, 0, 2, 2, 2, 1], 2).unwrap();
        assert_eq!((map.hosts(), map.nbrhd_count()), (3, 5));
        assert_eq!((map.ranks_on(1), map.host_of(6), map.host_of(2)), (vec![0, 1, 6], 1, 0));
        let nbrhds: Vec<_> = (0..5).map(|n| map.nbrhd_range(n)).collect();
        assert_eq!(nbrhds, [0..2, 2..3, 3..5, 5..6, 6..7]);
        assert!((0..7).all(|rank| map.nbrhd_range(map.nbrhd_of(rank)).contains(&rank)));
        assert_eq!(map.runs().len(), 4);
    }

    #[test]
    fn nonsense_is_refused() {
        let run = |first, count, host| Run { first, count, host };
        for bad in [
            vec![run(1, 1, 0)],
            vec![run(0, 1, 0), run(2, 1, 0)],
            vec![run(0, 0, 0)],
            vec![run(0, 1, 1)],
            vec![run(0, 1, 0), run(1, 1, 2)],
            vec![run(0, u32::MAX, 0), run(u32::MAX, 2, 0)],
            vec![run(0, 1, u32::MAX)],
        ] {
            assert!(Map::new(bad.clone(), 0).is_none(), "{bad:?}");
        }
    }
}
