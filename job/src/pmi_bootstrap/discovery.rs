//! Discovery of the layout: each agent reports the ranks of its host and of those below to the
//! agent above; the root sends the layout to all.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::environment;
use crate::custom::too_many;
use crate::layout::{JobLayout, RankRange};
use crate::tree::link::{Caller, Link, Listener, OutputLink, Up};
use crate::tree::message::{AgentMessage, Host, Pairs};
use crate::tree::secret::Secret;
use crate::tree::{Branch, Tree};
use crate::StartOptions;
use gasnet_sys::{fd, net};

/// The result of discovery.
pub struct Discovered {
    /// The layout of the job.
    pub layout: JobLayout,
    /// This host's number, if it has ranks.
    pub host: Option<u32>,
    /// The connections of this agent.
    pub tree: Tree,
    /// Variables of the first host.
    pub variables: Pairs,
}

/// What is known so far.
pub struct Discovery<'a> {
    /// The first rank of this host. None in a launcher process, which has no ranks.
    first: Option<u32>,
    up: Option<Up>,
    secret: Secret,
    listener: Listener,
    options: &'a StartOptions,
    /// Known hosts, this one and those below, by first rank: their names and ranks.
    hosts: BTreeMap<u32, (Vec<u8>, Vec<u32>)>,
    /// Agents directly below: first rank, connection, and the first ranks of the hosts they have
    /// reported.
    below: Vec<(u32, Link, Vec<u32>)>,
    /// Their connections for output: first rank and stream.
    outputs: Vec<(u32, u32, OutputLink)>,
}

impl<'a> Discovery<'a> {
    /// For the host with these ranks, below `up`.
    pub fn new(
        first: u32,
        ranks: Vec<u32>,
        up: Option<Up>,
        (secret, listener): (Secret, Listener),
        options: &'a StartOptions,
    ) -> Self {
        let mut new = Self {
            first: Some(first),
            up,
            ..Self::of_launcher(secret, listener, options)
        };
        new.note(first, net::host_name().into_bytes(), ranks);
        new
    }

    /// For a launcher process.
    pub fn of_launcher(secret: Secret, listener: Listener, options: &'a StartOptions) -> Self {
        Self {
            first: None,
            up: None,
            secret,
            listener,
            options,
            hosts: BTreeMap::new(),
            below: Vec::new(),
            outputs: Vec::new(),
        }
    }

    fn note(&mut self, first: u32, name: Vec<u8>, ranks: Vec<u32>) {
        if let Some(up) = &mut self.up {
            let (name, ranks) = (name.clone(), ranks.clone());
            up.link.send(&AgentMessage::HostRanks { first, name, ranks });
        }
        self.hosts.insert(first, (name, ranks));
    }

    fn ranks_known(&self) -> usize {
        self.hosts.values().map(|(_, ranks)| ranks.len()).sum()
    }

    /// Waits until the layout is known.
    pub fn run(mut self) -> Result<Discovered, String> {
        let routed = self.options.route_output.is_some();
        let limit = self.options.remote.limit;
        let end = (!limit.is_zero()).then(|| Instant::now() + limit);
        let mut start = None;
        let (ranges, nbrhd_max, variables) = loop {
            self.receive()?;
            if let Some(up) = &mut self.up {
                match up.link.receive() {
                    Some(AgentMessage::Start {
                        ranges,
                        nbrhd_max,
                        variables,
                        ..
                    }) => start = Some((ranges, nbrhd_max, variables)),
                    Some(_) => return Err("unexpected message from the host above instead of the job's layout".into()),
                    None => {}
                }
                if let Some(why) = up.link.broken().filter(|_| start.is_none()) {
                    return Err(format!("lost the connection to the host above: {why}"));
                }
            } else if self.ranks_known() >= self.options.ranks as usize && start.is_none() {
                // The launcher process has sent its environment to all workers.
                let variables = self.first.map_or_else(Pairs::new, |_| environment::own());
                start = Some((self.layout()?, self.options.nbrhd_max, variables));
            }
            let outputs = if routed { 2 * self.below.len() } else { 0 };
            if let Some(start) = start.take_if(|_| self.outputs.len() == outputs) {
                break start;
            }
            if end.is_some_and(|end| Instant::now() >= end) {
                return Err(format!(
                    "of {} ranks, {} have been reported after {} seconds, on {} hosts. Connections between \
                     hosts may be blocked, or another network may be needed (GASNET_WORKERIP, \
                     GASNET_SPAWN_TIMEOUT)",
                    self.options.ranks,
                    self.ranks_known(),
                    limit.as_secs(),
                    self.hosts.len()
                ));
            }
            self.sleep();
        };
        let layout = JobLayout::new(ranges.clone(), nbrhd_max).ok_or("it received an impossible job layout")?;
        let number = |first: u32| {
            if first < layout.size() {
                Ok(layout.host_of(first))
            } else {
                Err("a rank is not in the job".to_owned())
            }
        };
        let host = self.first.map(number).transpose()?;
        let mut tree = Tree::new(self.secret, self.up, routed);
        for (first, mut link, firsts) in self.below {
            link.send(&AgentMessage::Start {
                ranges: ranges.clone(),
                nbrhd_max,
                variables: variables.clone(),
                todo: Vec::new(),
            });
            let ranks = firsts
                .iter()
                .filter_map(|f| self.hosts.get(f))
                .map(|(_, ranks)| ranks.len() as u32)
                .sum();
            let name = self.hosts.get(&first).map(|(name, _)| name.clone()).unwrap_or_default();
            let number = number(first)?;
            tree.add(Branch::linked(Host { number, name }, firsts.len(), ranks, link));
        }
        for (first, stream, connection) in self.outputs {
            tree.add_output(number(first)?, stream, connection);
        }
        Ok(Discovered {
            layout,
            host,
            tree,
            variables,
        })
    }

    /// At the root: numbers the hosts in the order of their first ranks.
    fn layout(&self) -> Result<Vec<RankRange>, String> {
        let mut hosts = vec![u32::MAX; self.options.ranks as usize];
        for (number, (_, ranks)) in self.hosts.values().enumerate() {
            for &rank in ranks {
                match hosts.get_mut(rank as usize) {
                    Some(place) if *place == u32::MAX => *place = number as u32,
                    _ => return Err(format!("rank {rank} was reported twice, or is not in the job")),
                }
            }
        }
        let layout = JobLayout::from_hosts(&hosts, 0).ok_or("not all ranks are on a host")?;
        Ok(layout.ranges().to_vec())
    }

    /// Adds peers that have connected.
    pub fn meet(&mut self, callers: Vec<Caller>) -> Result<(), String> {
        for caller in callers {
            match caller {
                Caller::Agent(first, link) => self.below.push((first, link, Vec::new())),
                Caller::Output(first, stream, connection) => self.outputs.push((first, stream, connection)),
                Caller::Worker(_) if self.first.is_none() => return Err(too_many(self.options.ranks)),
                Caller::Worker(_) => {}
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), String> {
        let callers = self.listener.accept(self.secret, self.options.ranks as usize);
        self.meet(callers)?;
        let mut reports = Vec::new();
        for (first, link, firsts) in &mut self.below {
            while let Some(message) = link.receive() {
                let AgentMessage::HostRanks { first, name, ranks } = message else {
                    return Err("a host below sent an unexpected message instead of its ranks".into());
                };
                firsts.push(first);
                reports.push((first, name, ranks));
            }
            if let Some(why) = link.broken() {
                return Err(format!("lost the connection to the host of rank {first}: {why}"));
            }
        }
        for (first, name, ranks) in reports {
            self.note(first, name, ranks);
        }
        Ok(())
    }

    fn sleep(&self) {
        let links = self
            .up
            .iter()
            .map(|up| &up.link)
            .chain(self.below.iter().map(|(_, link, _)| link));
        let mut items = links.map(Link::poll_item).collect();
        self.listener.poll_items(&mut items);
        let _ = fd::poll(&mut items, Some(Duration::from_millis(100)));
    }
}
