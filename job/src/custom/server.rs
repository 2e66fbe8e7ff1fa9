//! The launcher process's service for the workers that its command has started: it assigns ranks,
//! and completes the fences of the PMI bootstrap.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::env;
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use super::{Secret, StartOptions, CHECK_INTERVAL};
use crate::layout::JobLayout;
use crate::pmi_bootstrap::hosts;
use crate::tree::link::{Link, WORKER_ID};
use crate::tree::listener::{Caller, Listener};
use crate::tree::message::{mask_pairs, AgentMessage, Host};
use gasnet_sys::{fd, net};

/// Fences of the PMI bootstrap.
const FENCES: u32 = 2;

/// Time from the end of the command to the message that reports missing workers.
const NOTICE: Duration = Duration::from_secs(5);

/// The identity of this host: boot of the kernel, network namespace, and name.
pub fn identity() -> String {
    format!("{} {}", net::boot_and_namespace(), net::host_name())
}

/// The name in the identity of a host.
fn name(identity: &[u8]) -> &[u8] {
    identity.rsplit(|&c| c == b' ').next().unwrap_or_default()
}

/// The rank that a worker requests, and its host.
type Registration = (Option<u32>, Vec<u8>);

/// A process that has connected.
struct Worker {
    link: Link,
    /// Once it has sent it.
    registration: Option<Registration>,
    rank: u32,
    in_fence: bool,
}

pub struct LauncherServer<'a> {
    options: &'a StartOptions,
    secret: Secret,
    listener: &'a mut Listener,
    workers: Vec<Worker>,
    are_assigned: bool,
    fences: u32,
}

impl<'a> LauncherServer<'a> {
    /// Serves `options.ranks` workers, which connect to `listener`, until their last fence. Returns
    /// the layout of the job and its hosts, which connect afterwards. `still_there` gets the number
    /// of missing workers; it returns whether the command runs, or an error if waiting is useless.
    pub fn serve(
        options: &'a StartOptions,
        secret: Secret,
        listener: &'a mut Listener,
        mut still_there: impl FnMut(u32) -> Result<bool, String>,
    ) -> Result<(JobLayout, Vec<Host>), String> {
        let mut server = Self {
            options,
            secret,
            listener,
            workers: Vec::new(),
            are_assigned: false,
            fences: 0,
        };
        let start = Instant::now();
        let limit = options.remote.limit;
        let all = options.ranks;
        let (mut ended, mut is_reported) = (None, false);
        loop {
            server.accept();
            server.receive()?;
            if server.workers.len() > all as usize {
                return Err(format!(
                    "the command of GASNET_CSPAWN_CMD has started more processes than the job's {all}; %N in it \
                     stands for that number"
                ));
            }
            let missing = all - server.workers.iter().filter(|w| w.registration.is_some()).count() as u32;
            if missing > 0 {
                if !still_there(missing)? {
                    let since = *ended.get_or_insert_with(Instant::now);
                    if since.elapsed() >= NOTICE && !std::mem::replace(&mut is_reported, true) {
                        eprintln!(
                            "gasnet: the command of GASNET_CSPAWN_CMD has ended without an error, and of {all} \
                             processes {missing} have not called back; still waiting, because they may be \
                             queued"
                        );
                    }
                }
                if let Some(limit) = limit.filter(|&limit| start.elapsed() >= limit) {
                    return Err(format!(
                        "of {all} processes {missing} have not called back within {} seconds. Connections to \
                         this host may be blocked (GASNET_MASTERIP sets the address to use), or the command of \
                         GASNET_CSPAWN_CMD, which {}, starts fewer (GASNET_SPAWN_TIMEOUT)",
                        limit.as_secs(),
                        if ended.is_some() { "has ended" } else { "still runs" }
                    ));
                }
            } else if !server.are_assigned {
                server.assign()?;
            } else if server.workers.iter().all(|w| w.in_fence) {
                for worker in &mut server.workers {
                    worker.in_fence = false;
                    worker.link.send(&AgentMessage::Fence {});
                }
                server.fences += 1;
                if server.fences == FENCES {
                    return server.layout();
                }
            }
            let mut items = server.workers.iter().map(|w| w.link.poll_item()).collect();
            server.listener.poll_items(&mut items);
            let _ = fd::poll(&mut items, Some(CHECK_INTERVAL));
        }
    }

    fn accept(&mut self) {
        for caller in self.listener.accept(self.secret, self.options.ranks as usize) {
            // Agents connect after the last fence.
            if let Caller::Agent(WORKER_ID, link) = caller {
                self.workers.push(Worker {
                    link,
                    registration: None,
                    rank: 0,
                    in_fence: false,
                });
            }
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        for worker in &mut self.workers {
            while let Some(message) = worker.link.receive() {
                match message {
                    AgentMessage::Register { requested_rank, host } if worker.registration.is_none() => {
                        worker.registration = Some((requested_rank, host));
                    }
                    AgentMessage::Fence {} if self.are_assigned && !worker.in_fence => worker.in_fence = true,
                    _ => return Err("a process sent an unexpected message".into()),
                }
            }
            if worker.link.broken.is_some() {
                return Err(format!("a process ended before the job began: {}", Self::who(worker)));
            }
        }
        Ok(())
    }

    fn who(worker: &Worker) -> String {
        let Some((_, host)) = &worker.registration else {
            return "its host is unknown".into();
        };
        format!("rank {} on host {}", worker.rank, String::from_utf8_lossy(name(host)))
    }

    fn layout(&self) -> Result<(JobLayout, Vec<Host>), String> {
        let registered = self
            .workers
            .iter()
            .filter_map(|w| Some((w.rank, w.registration.as_ref()?)));
        let (mut firsts, mut ranks) = (HashMap::new(), Vec::new());
        for (rank, (_, host)) in registered.collect::<BTreeMap<_, _>>() {
            ranks.push((*firsts.entry(host).or_insert(rank), name(host).to_vec()));
        }
        hosts::layout(ranks, self.options.nbrhd_max)
    }

    /// All workers have connected: assigns their ranks.
    fn assign(&mut self) -> Result<(), String> {
        let size = self.options.ranks;
        let registrations: Vec<_> = self.workers.iter().filter_map(|w| w.registration.as_ref()).collect();
        let ranks = assign_ranks(&registrations)?;
        let environment = env::vars_os().map(|(n, v)| (n.into_vec(), v.into_vec())).collect();
        let environment = mask_pairs(&environment, self.secret);
        for (worker, rank) in self.workers.iter_mut().zip(ranks) {
            worker.rank = rank;
            worker.link.send(&AgentMessage::Assign {
                rank,
                size,
                environment: environment.clone(),
            });
        }
        self.are_assigned = true;
        Ok(())
    }
}

/// Ranks for workers with these registrations. Requested ranks are followed if there is any.
/// Otherwise the ranks of a host are consecutive, and hosts are in the order of their first
/// connections.
fn assign_ranks(registrations: &[&Registration]) -> Result<Vec<u32>, String> {
    let size = registrations.len();
    if registrations.iter().any(|(requested_rank, _)| requested_rank.is_some()) {
        let requested: Option<Vec<u32>> = registrations
            .iter()
            .map(|(requested_rank, _)| *requested_rank)
            .collect();
        let requested = requested.ok_or("GASNET_WORKER_RANK is set for some processes, but not for all")?;
        let mut taken = BTreeSet::new();
        return match requested.iter().find(|&&r| r as usize >= size || !taken.insert(r)) {
            Some(bad) => Err(format!(
                "GASNET_WORKER_RANK={bad}: ranks are 0 to {}, each once",
                size - 1
            )),
            None => Ok(requested),
        };
    }
    let first_of_host = |i: &usize| registrations.iter().position(|(_, host)| *host == registrations[*i].1);
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by_cached_key(first_of_host);
    let mut ranks = vec![0; size];
    for (rank, i) in (0..).zip(order) {
        ranks[i] = rank;
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_requested_or_consecutive_on_a_host() {
        for (requested, hosts, ranks) in [
            (&[None; 5][..], "babca", Ok(&[0, 2, 1, 4, 3][..])),
            (&[Some(2), Some(0), Some(1)], "aaa", Ok(&[2, 0, 1])),
            (&[Some(2), None, Some(1)], "aaa", Err("not for all")),
            (&[Some(1), Some(1)], "aa", Err("each once")),
            (&[Some(2), Some(0)], "aa", Err("0 to 1")),
        ] {
            let registrations: Vec<_> = requested
                .iter()
                .copied()
                .zip(hosts.bytes().map(|host| vec![host]))
                .collect();
            match (assign_ranks(&registrations.iter().collect::<Vec<_>>()), ranks) {
                (Ok(assigned), Ok(ranks)) => assert_eq!(assigned, ranks),
                (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
                other => panic!("{hosts}: {other:?}"),
            }
        }
    }
}
