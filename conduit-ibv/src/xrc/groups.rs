//! Groups: the processes of a host that use the same ports in the same way, so that XRC reaches
//! them by the same queue pairs.
#![forbid(unsafe_code)]

use gasnet_conduit::JobRank;
use std::collections::HashMap;

/// The groups of a job, numbered in the order of their first processes: equal in all processes.
#[derive(Debug)]
pub struct Groups {
    /// By rank.
    of: Box<[u32]>,
    pub all: Vec<Group>,
}

/// A group.
#[derive(Debug)]
pub struct Group {
    /// Its first process.
    pub first: JobRank,
    /// Number of groups of the host that precede it.
    pub place: usize,
    pub processes: usize,
}

impl Groups {
    /// Those of processes with these hosts and ports ([`crate::boot_record::BootRecord::ports`]),
    /// by rank.
    pub fn new(processes: impl Iterator<Item = (u32, u64)>) -> Self {
        let (mut numbers, mut on_host) = (HashMap::new(), HashMap::<u32, usize>::new());
        let mut all: Vec<Group> = Vec::new();
        let group_of = |(rank, process): (u32, (u32, u64))| {
            let number = *numbers.entry(process).or_insert(all.len() as u32);
            if number as usize == all.len() {
                let count = on_host.entry(process.0).or_default();
                all.push(Group {
                    first: JobRank(rank),
                    place: *count,
                    processes: 0,
                });
                *count += 1;
            }
            all[number as usize].processes += 1;
            number
        };
        let of = (0..).zip(processes).map(group_of).collect();
        Self { of, all }
    }

    /// The number of a process's group.
    pub fn of(&self, rank: JobRank) -> usize {
        self.of[rank.index()] as usize
    }

    /// Most groups of a host.
    pub fn most_of_a_host(&self) -> usize {
        self.all.iter().map(|group| group.place + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_of_a_host_with_the_same_ports_are_a_group() {
        let groups = Groups::new([(0, 7), (1, 7), (0, 8), (1, 7), (0, 7)].into_iter());
        assert_eq!([0, 1, 2, 3, 4].map(|rank| groups.of(JobRank(rank))), [0, 1, 2, 1, 0]);
        assert_eq!([0, 1, 2].map(|group| groups.all[group].processes), [2, 2, 1]);
        assert_eq!([0, 1, 2].map(|group| groups.all[group].first.0), [0, 1, 2]);
        assert_eq!([0, 1, 2].map(|group| groups.all[group].place), [0, 0, 1]);
        assert_eq!([groups.all.len(), groups.most_of_a_host()], [3, 2]);
    }
}
