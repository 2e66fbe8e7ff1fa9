//! The hosts of a job whose ranks exist before it, and the tree of their agents. The id of a host
//! is its first rank. An agent finds the one above it by rank numbers alone, because only the root
//! knows the layout before the tree exists.
#![forbid(unsafe_code)]

use std::collections::HashMap;

use crate::layout::JobLayout;
use crate::tree::message::Host;
use crate::tree::Branch;

/// Hosts below each agent, if each host has one rank.
const DEGREE: u32 = 16;

/// A rank on the host whose agent is above that of the host with this first rank. None for the
/// root.
pub fn above(first: u32) -> Option<u32> {
    first.checked_sub(1).map(|before| before / DEGREE)
}

/// The layout of a job and its hosts, from the first rank on each rank's host and that host's name.
pub fn layout(
    ranks: impl IntoIterator<Item = (u32, Vec<u8>)>,
    nbrhd_max: u32,
) -> Result<(JobLayout, Vec<Host>), String> {
    let (mut hosts, mut numbers) = (Vec::<Host>::new(), Vec::new());
    for (rank, (first, name)) in (0..).zip(ranks) {
        if first == rank {
            hosts.push(Host { number: first, name });
        }
        match hosts.binary_search_by_key(&first, |host| host.number) {
            Ok(number) => numbers.push(number as u32),
            Err(_) => return Err(format!("rank {rank} has an impossible host, that of rank {first}")),
        }
    }
    let layout = JobLayout::from_hosts(&numbers, nbrhd_max).ok_or("the job has no ranks")?;
    Ok((layout, hosts))
}

/// The branches of host number `own` among `hosts`, which are those below it in ascending order.
pub fn branches(layout: &JobLayout, own: u32, hosts: Vec<Host>) -> Result<Vec<Branch>, String> {
    let mut parts: Vec<(Host, Vec<Host>)> = Vec::new();
    // By number of a host: the branch that contains it.
    let mut of_host = HashMap::new();
    for host in hosts {
        let impossible = || format!("rank {} is the first of no host below this one", host.number);
        let above = above(host.number).filter(|_| host.number < layout.size);
        let above = layout.host_of(above.ok_or_else(impossible)?);
        let branch = match of_host.get(&above) {
            _ if above == own => parts.len(),
            Some(&branch) => branch,
            None => return Err(impossible()),
        };
        of_host.insert(layout.host_of(host.number), branch);
        match parts.get_mut(branch) {
            Some((_, below)) => below.push(host),
            None => parts.push((host, Vec::new())),
        }
    }
    let ranks = |host: &Host| layout.ranks_on(layout.host_of(host.number)).len() as u32;
    let branch = |(host, below): (Host, Vec<Host>)| {
        let all = ranks(&host) + below.iter().map(ranks).sum::<u32>();
        Branch::new(host, below, all)
    };
    Ok(parts.into_iter().map(branch).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_is_below_the_one_that_its_agent_connects_to() {
        for (per_host, cyclic) in [(1, false), (3, false), (3, true), (40, true)] {
            let hosts = 100;
            let first = |rank| {
                if cyclic {
                    rank % hosts
                } else {
                    rank / per_host * per_host
                }
            };
            let (layout, all) = layout((0..hosts * per_host).map(|rank| (first(rank), Vec::new())), 0).unwrap();
            assert_eq!((layout.hosts, all.len()), (hosts, hosts as usize));
            // Each agent divides what it gets from the one above.
            let mut agents = vec![(0, all[1..].to_vec())];
            let mut seen = 0;
            while let Some((own, below)) = agents.pop() {
                seen += 1;
                let branches = branches(&layout, own, below.clone()).unwrap();
                assert_eq!(branches.iter().map(|b| b.hosts).sum::<usize>(), below.len());
                for branch in branches {
                    assert_eq!(layout.host_of(above(branch.host.number).unwrap()), own);
                    assert_eq!(branch.counts.present, branch.hosts as u32 * per_host);
                    agents.push((layout.host_of(branch.host.number), branch.todo));
                }
            }
            assert_eq!(seen, hosts);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let names = |firsts: &[u32]| layout(firsts.iter().map(|&first| (first, Vec::new())), 0).map(|(_, h)| h);
        assert_eq!(names(&[0, 1, 0]).unwrap().len(), 2);
        assert!(names(&[]).is_err());
        assert!(names(&[0, 0, 1]).unwrap_err().contains("rank 2"));
        assert!(names(&[1, 1]).unwrap_err().contains("rank 0"));
        let (layout, _) = layout((0..20).map(|rank| (rank, Vec::new())), 0).unwrap();
        let host = |number| Host {
            number,
            name: Vec::new(),
        };
        for bad in [0, 20, 17, u32::MAX] {
            assert!(branches(&layout, 0, vec![host(bad)]).is_err(), "{bad}");
        }
    }
}
