//! The layout of a job: the host and the neighbourhood of each rank.

use super::nbrhd::Nbrhd;

/// Consecutive ranks on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankRange {
    pub first: u32,
    /// Number of ranks.
    pub count: u32,
    pub host: u32,
}

/// Most ranks of a job, which bounds the memory for a layout that another host sends.
const SIZE_MAX: u32 = 1 << 24;

/// The layout of a job. The ranks of a host are divided, in ascending order, into neighbourhoods of
/// bounded size. Neighbourhoods are numbered by their first ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLayout {
    pub size: u32,
    pub hosts: u32,
    /// Most ranks in a neighbourhood; 0: no limit.
    pub nbrhd_max: u32,
    /// Ascending, without gaps.
    pub ranges: Vec<RankRange>,
    /// Consecutive ranks of one neighbourhood: the first rank and the neighbourhood. Ascending,
    /// without gaps.
    parts: Vec<(u32, u32)>,
    /// First ranks of the neighbourhoods, ascending.
    pub leaders: Vec<u32>,
}

impl JobLayout {
    /// From ranges in ascending order, with at most `nbrhd_max` ranks per neighbourhood (0: no
    /// limit). None if there is a gap, a host without ranks, no rank at all, or too many.
    pub fn new(ranges: Vec<RankRange>, nbrhd_max: u32) -> Option<Self> {
        let mut joined: Vec<RankRange> = Vec::with_capacity(ranges.len());
        let mut size = 0u32;
        let mut hosts = 0;
        for range in ranges {
            if range.first != size || range.count == 0 {
                return None;
            }
            size = size.checked_add(range.count).filter(|&size| size <= SIZE_MAX)?;
            hosts = hosts.max(range.host.checked_add(1)?);
            match joined.last_mut().filter(|last| last.host == range.host) {
                Some(last) => last.count += range.count,
                None => joined.push(range),
            }
        }
        let mut seen = vec![false; joined.len()];
        if joined.is_empty() || hosts as usize > joined.len() {
            return None;
        }
        for range in &joined {
            seen[range.host as usize] = true;
        }
        if seen[..hosts as usize].contains(&false) {
            return None;
        }
        let (parts, leaders) = divide(&joined, hosts, nbrhd_max);
        Some(Self {
            size,
            hosts,
            nbrhd_max,
            ranges: joined,
            parts,
            leaders,
        })
    }

    /// From the host of every rank, in the order of ranks.
    pub fn from_hosts(hosts: &[u32], nbrhd_max: u32) -> Option<Self> {
        let range = |(rank, &host): (usize, &u32)| RankRange {
            first: rank as u32,
            count: 1,
            host,
        };
        Self::new(hosts.iter().enumerate().map(range).collect(), nbrhd_max)
    }

    pub fn host_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size);
        self.ranges[self.ranges.partition_point(|range| range.first <= rank) - 1].host
    }

    /// The ranks on `host`, ascending.
    pub fn ranks_on(&self, host: u32) -> Vec<u32> {
        let here = self.ranges.iter().filter(|range| range.host == host);
        here.flat_map(|range| range.first..range.first + range.count).collect()
    }

    pub fn nbrhd_of(&self, rank: u32) -> u32 {
        assert!(rank < self.size);
        self.parts[self.parts.partition_point(|(first, _)| *first <= rank) - 1].1
    }

    pub fn nbrhd(&self, number: u32) -> Nbrhd {
        let ends = self.parts[1..].iter().map(|(first, _)| *first).chain([self.size]);
        let own = self.parts.iter().zip(ends).filter(|((_, nbrhd), _)| *nbrhd == number);
        Nbrhd::new(&own.flat_map(|((first, _), end)| *first..end).collect::<Vec<_>>())
    }
}

/// Divides the ranges into neighbourhoods. Returns their parts and their first ranks.
fn divide(ranges: &[RankRange], hosts: u32, nbrhd_max: u32) -> (Vec<(u32, u32)>, Vec<u32>) {
    let most = if nbrhd_max == 0 { u32::MAX } else { nbrhd_max };
    let (mut parts, mut leaders) = (Vec::with_capacity(ranges.len()), Vec::new());
    // By host: the neighbourhood that has room, and its number of ranks so far.
    let mut open = vec![(0, most); hosts as usize];
    for range in ranges {
        let (nbrhd, ranks) = &mut open[range.host as usize];
        let (mut first, end) = (range.first, range.first + range.count);
        while first < end {
            if *ranks == most {
                (*nbrhd, *ranks) = (leaders.len() as u32, 0);
                leaders.push(first);
            }
            parts.push((first, *nbrhd));
            let count = (most - *ranks).min(end - first);
            *ranks += count;
            first += count;
        }
    }
    (parts, leaders)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks of all neighbourhoods, checked against each rank's own neighbourhood.
    fn nbrhds(layout: &JobLayout) -> Vec<Vec<u32>> {
        let numbers = 0..layout.leaders.len() as u32;
        let all: Vec<Vec<u32>> = numbers.map(|n| layout.nbrhd(n).ranks().collect()).collect();
        for (number, ranks) in (0..).zip(&all) {
            assert_eq!(layout.leaders[number as usize], ranks[0]);
            assert!(ranks.iter().all(|&rank| layout.nbrhd_of(rank) == number));
        }
        assert_eq!(all.iter().map(Vec::len).sum::<usize>(), layout.size as usize);
        all
    }

    #[test]
    fn one_host_is_cut_into_neighbourhoods() {
        let nbrhds = |most| nbrhds(&JobLayout::from_hosts(&[0; 7], most).unwrap());
        assert_eq!(nbrhds(3), [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
        assert_eq!(nbrhds(0), [vec![0, 1, 2, 3, 4, 5, 6]]);
    }

    #[test]
    fn hosts_in_any_order() {
        let layout = JobLayout::from_hosts(&[1, 1, 0, 2, 2, 2, 1], 2).unwrap();
        assert_eq!((layout.hosts, layout.ranges.len()), (3, 4));
        assert_eq!((layout.ranks_on(1), layout.host_of(6)), (vec![0, 1, 6], 1));
        assert_eq!(nbrhds(&layout), [vec![0, 1], vec![2], vec![3, 4], vec![5], vec![6]]);
    }

    #[test]
    fn cyclic_placement() {
        let nbrhds = |most| nbrhds(&JobLayout::from_hosts(&[0, 1, 2, 0, 1, 2, 0, 1], most).unwrap());
        for most in [0, 3] {
            assert_eq!(nbrhds(most), [vec![0, 3, 6], vec![1, 4, 7], vec![2, 5]]);
        }
        assert_eq!(nbrhds(2), [vec![0, 3], vec![1, 4], vec![2, 5], vec![6], vec![7]]);
        assert_eq!(nbrhds(1).len(), 8);
        // One rank of a host fills up with a part of the host's next range.
        let layout = JobLayout::from_hosts(&[0, 1, 0, 0], 2).unwrap();
        assert_eq!(self::nbrhds(&layout), [vec![0, 2], vec![1], vec![3]]);
    }

    #[test]
    fn nonsense_is_refused() {
        let range = |(first, count, host)| RankRange { first, count, host };
        for bad in [
            &[][..],
            &[(1, 1, 0)],
            &[(0, 1, 0), (2, 1, 0)],
            &[(0, 0, 0)],
            &[(0, 1, 1)],
            &[(0, 1, 0), (1, 1, 2)],
            &[(0, u32::MAX, 0), (u32::MAX, 2, 0)],
            &[(0, 1, u32::MAX)],
            &[(0, SIZE_MAX + 1, 0)],
            &[(0, SIZE_MAX, 0), (SIZE_MAX, 1, 0)],
        ] {
            let ranges = bad.iter().copied().map(range).collect();
            assert!(JobLayout::new(ranges, 0).is_none(), "{bad:?}");
        }
    }
}
