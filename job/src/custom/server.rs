//! The launcher process's service for the workers that its command has started: it assigns ranks,
//! and stores the values that workers publish.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::env;
use std::net::{TcpListener, TcpStream};
use std::os::unix::ffi::OsStringExt;
use std::time::{Duration, Instant};

use super::{Secret, StartOptions, CHECK_INTERVAL};
use crate::tree::link::{accept_peers, poll_items, Authentication, Link, UnauthenticatedPeer, WORKER_ID};
use crate::tree::message::AgentMessage;
use gasnet_sys::{fd, mem, net};

/// Fences of the PMI bootstrap.
const FENCES: u32 = 2;

/// How long after the command has ended a message reports missing workers.
const NOTICE: Duration = Duration::from_secs(5);

/// The identity of this host: boot of the kernel, network namespace, and name.
pub fn identity() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let network = std::fs::read_link("/proc/self/ns/net")
        .map(|l| l.to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{} {network} {}", boot.trim(), net::host_name())
}

/// The error for a command that starts more processes than ranks.
pub fn too_many(ranks: u32) -> String {
    format!(
        "the command of GASNET_CSPAWN_CMD has started more processes than the job's {ranks}; %N in it \
     stands for that number"
    )
}

/// Connections to the launcher process that are not workers'.
#[derive(Default)]
pub struct Connections {
    /// Agents, by the first rank of their host.
    pub agents: Vec<(u32, Link)>,
    /// Connections for output of these agents.
    pub outputs: Vec<(u32, u32, TcpStream)>,
    /// Peers that are not authenticated yet.
    pub unauthenticated: Vec<UnauthenticatedPeer>,
}

/// A process that has connected.
struct Worker {
    link: Link,
    /// The rank that it requests and its host, once it has sent them.
    registration: Option<(Option<u32>, Vec<u8>)>,
    rank: u32,
    fences: u32,
    in_fence: bool,
    is_over: bool,
}

/// The service.
pub struct LauncherServer<'a> {
    options: &'a StartOptions,
    secret: Secret,
    listener: &'a TcpListener,
    unauthenticated: Vec<UnauthenticatedPeer>,
    workers: Vec<Worker>,
    /// Agents that have connected before the service ended.
    agents: Vec<(u32, Link)>,
    outputs: Vec<(u32, u32, TcpStream)>,
    values: HashMap<(u32, Vec<u8>), Vec<u8>>,
    placed: bool,
}

impl<'a> LauncherServer<'a> {
    /// For a job of `options.ranks` workers, which connect to `listener`.
    pub fn new(options: &'a StartOptions, secret: Secret, listener: &'a TcpListener) -> Self {
        Self {
            options,
            secret,
            listener,
            unauthenticated: Vec::new(),
            workers: Vec::new(),
            agents: Vec::new(),
            outputs: Vec::new(),
            values: HashMap::new(),
            placed: false,
        }
    }

    /// Serves all workers until none has requests. Returns the other connections made meanwhile.
    /// `still_there` gets the number of missing workers; it returns whether the command runs, or an
    /// error if waiting is useless.
    pub fn serve(&mut self, mut still_there: impl FnMut(u32) -> Result<bool, String>) -> Result<Connections, String> {
        let limit = self.options.remote.limit;
        let end = (!limit.is_zero()).then(|| Instant::now() + limit);
        let (mut ended, mut is_reported) = (None, false);
        loop {
            self.accept();
            self.receive()?;
            if self.workers.len() > self.options.ranks as usize {
                return Err(too_many(self.options.ranks));
            }
            let registered = self.workers.iter().filter(|w| w.registration.is_some()).count() as u32;
            let missing = self.options.ranks.saturating_sub(registered);
            if !self.placed && missing == 0 {
                self.assign()?;
            }
            self.end_fence();
            if self.placed && self.workers.iter().all(|w| w.is_over) {
                return Ok(Connections {
                    agents: std::mem::take(&mut self.agents),
                    outputs: std::mem::take(&mut self.outputs),
                    unauthenticated: std::mem::take(&mut self.unauthenticated),
                });
            }
            if missing > 0 {
                let all = self.options.ranks;
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
                if end.is_some_and(|end| Instant::now() >= end) {
                    return Err(format!(
                        "of {all} processes {missing} have not called back within {} seconds. Connections to \
                         this host may be blocked (GASNET_MASTERIP sets the address to use), or the command of \
                         GASNET_CSPAWN_CMD, which {}, starts fewer (GASNET_SPAWN_TIMEOUT)",
                        limit.as_secs(),
                        if ended.is_some() { "has ended" } else { "still runs" }
                    ));
                }
            }
            self.sleep();
        }
    }

    fn accept(&mut self) {
        accept_peers(self.listener, &mut self.unauthenticated, self.options.ranks as usize);
        for peer in std::mem::take(&mut self.unauthenticated) {
            match peer.authenticate(self.secret) {
                Authentication::Pending(peer) => self.unauthenticated.push(peer),
                Authentication::Rejected => {}
                Authentication::Accepted(WORKER_ID, link) => self.workers.push(Worker {
                    link,
                    registration: None,
                    rank: 0,
                    fences: 0,
                    in_fence: false,
                    is_over: false,
                }),
                Authentication::Accepted(first, link) => self.agents.push((first, link)),
                Authentication::Output(first, stream, connection) => self.outputs.push((first, stream, connection)),
            }
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        for worker in self.workers.iter_mut().filter(|w| !w.is_over) {
            worker.link.push();
            while let Some(message) = worker.link.receive() {
                match message {
                    AgentMessage::Register { requested_rank, host } if worker.registration.is_none() => {
                        worker.registration = Some((requested_rank, host));
                    }
                    AgentMessage::Fence { puts } if !worker.in_fence => {
                        worker.in_fence = true;
                        self.values
                            .extend(puts.into_iter().map(|(key, bytes)| ((worker.rank, key), bytes)));
                    }
                    AgentMessage::Get { owner, key } => match self.values.get(&(owner, key)) {
                        Some(bytes) => worker.link.send(&AgentMessage::Value { bytes: bytes.clone() }),
                        None => {
                            return Err(format!(
                                "rank {} requests a value that rank {owner} has not published",
                                worker.rank
                            ))
                        }
                    },
                    _ => return Err("a process sent an unexpected message".into()),
                }
            }
            if worker.link.broken().is_some() {
                // After the last fence, a rank that does not lead its host has no more requests.
                if worker.fences < FENCES {
                    return Err(format!("a process ended before the job began: {}", Self::who(worker)));
                }
                worker.is_over = true;
            }
        }
        Ok(())
    }

    fn who(worker: &Worker) -> String {
        let Some((_, host)) = &worker.registration else {
            return "its host is unknown".into();
        };
        let host = String::from_utf8_lossy(host);
        let name = host.split(' ').next_back().unwrap_or_default();
        format!("rank {} on host {name}", worker.rank)
    }

    /// All workers have connected: assigns their ranks.
    fn assign(&mut self) -> Result<(), String> {
        let size = self.options.ranks;
        let registrations: Vec<_> = self.workers.iter().filter_map(|w| w.registration.clone()).collect();
        let ranks = assign_ranks(&registrations)?;
        let environment: Vec<_> = env::vars_os().map(|(n, v)| (n.into_vec(), v.into_vec())).collect();
        let job = format!("launcher-{:016x}", mem::random_u64()).into_bytes();
        for (worker, rank) in self.workers.iter_mut().zip(ranks) {
            worker.rank = rank;
            worker.link.send(&AgentMessage::Assign {
                rank,
                size,
                job: job.clone(),
                environment: environment.clone(),
            });
        }
        self.placed = true;
        Ok(())
    }

    fn end_fence(&mut self) {
        if !self.placed || !self.workers.iter().all(|w| w.in_fence) {
            return;
        }
        for worker in &mut self.workers {
            worker.in_fence = false;
            worker.fences += 1;
            worker.link.send(&AgentMessage::Value { bytes: Vec::new() });
        }
    }

    fn sleep(&self) {
        let mut items = Vec::new();
        let links = self.workers.iter().filter(|w| !w.is_over).map(|w| &w.link);
        poll_items(links, &self.unauthenticated, Some(self.listener), &mut items);
        let _ = fd::poll(&mut items, Some(CHECK_INTERVAL));
    }
}

/// Ranks for workers with these requested ranks and hosts. The requests are followed if there is
/// any. Otherwise the ranks of a host are consecutive, and hosts are in the order of their first
/// connections.
fn assign_ranks(registrations: &[(Option<u32>, Vec<u8>)]) -> Result<Vec<u32>, String> {
    let size = registrations.len() as u32;
    if registrations.iter().any(|(requested_rank, _)| requested_rank.is_some()) {
        let mut taken = BTreeMap::new();
        for (i, (requested_rank, _)) in registrations.iter().enumerate() {
            let requested_rank =
                requested_rank.ok_or("GASNET_WORKER_RANK is set for some processes, but not for all")?;
            if requested_rank >= size || taken.insert(requested_rank, i).is_some() {
                return Err(format!(
                    "GASNET_WORKER_RANK={requested_rank}: ranks are 0 to {}, each once",
                    size - 1
                ));
            }
        }
        return Ok(registrations
            .iter()
            .filter_map(|(requested_rank, _)| *requested_rank)
            .collect());
    }
    let mut hosts: Vec<&[u8]> = Vec::new();
    let mut addresses: Vec<(usize, usize)> = Vec::new();
    for (i, (_, host)) in registrations.iter().enumerate() {
        let place = hosts.iter().position(|h| h == host).unwrap_or_else(|| {
            hosts.push(host);
            hosts.len() - 1
        });
        addresses.push((place, i));
    }
    addresses.sort_unstable();
    let mut ranks = vec![0; registrations.len()];
    for (rank, (_, i)) in addresses.into_iter().enumerate() {
        ranks[i] = rank as u32;
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registration(requested_rank: Option<u32>, host: &str) -> (Option<u32>, Vec<u8>) {
        (requested_rank, host.as_bytes().to_vec())
    }

    #[test]
    fn those_of_a_host_are_in_a_row() {
        let hosts = ["b", "a", "b", "c", "a"].map(|h| registration(None, h));
        assert_eq!(assign_ranks(&hosts).unwrap(), [0, 2, 1, 4, 3]);
    }

    #[test]
    fn wishes_are_granted_if_they_can_be() {
        let wishes = |w: &[Option<u32>]| assign_ranks(&w.iter().map(|&w| registration(w, "a")).collect::<Vec<_>>());
        assert_eq!(wishes(&[Some(2), Some(0), Some(1)]).unwrap(), [2, 0, 1]);
        assert!(wishes(&[Some(2), None, Some(1)]).unwrap_err().contains("not for all"));
        assert!(wishes(&[Some(1), Some(1)]).unwrap_err().contains("each once"));
        assert!(wishes(&[Some(2), Some(0)]).unwrap_err().contains("0 to 1"));
    }
}
