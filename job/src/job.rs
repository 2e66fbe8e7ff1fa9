//! A rank's view of its job.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use super::control_block::{ControlBlock, RankStatus};
use super::control_socket::{self, RankMessage};
use super::counters::RankCounters;
use super::host::{HostState, RankMemory};
use super::layout::JobLayout;
use super::{JobError, Nbrhd, StartOptions};
use gasnet_conduit::config;
use gasnet_sys::mem::AnonMemory;
use gasnet_sys::process::{self, Pid};

/// The job of this process, once it has started.
pub(super) static JOB: OnceLock<Job> = OnceLock::new();

/// The job of this process, once it has started.
pub fn current() -> Option<&'static Job> {
    JOB.get()
}

/// A rank's view of its job.
#[derive(Debug)]
pub struct Job {
    pub(super) rank: u32,
    layout: JobLayout,
    /// The ranks of this host, in ascending order.
    here: Vec<u32>,
    pid: Pid,
    token: u128,
    cpus: u32,
    pub(super) control: ControlBlock,
    /// Exchange rounds so far. Exchanges are collective, so all ranks count alike.
    pub(super) round: AtomicU32,
    memory: RankMemory,
    /// The socket to the node agent. None in a job of one rank.
    pub(super) control_socket: Option<OwnedFd>,
    pub(super) options: StartOptions,
}

impl Job {
    /// The job of a rank of this host.
    pub(super) fn new(
        options: &StartOptions,
        host_state: &HostState,
        rank: u32,
        memory: RankMemory,
        control_socket: Option<OwnedFd>,
    ) -> Self {
        let here = host_state
            .host
            .map_or_else(Vec::new, |host| host_state.layout.ranks_on(host));
        let place = here.binary_search(&rank).unwrap_or(0);
        host_state
            .control
            .status(rank)
            .place
            .store(place as u32, Ordering::Relaxed);
        Self {
            rank,
            here,
            layout: host_state.layout.clone(),
            pid: process::pid(),
            token: host_state.token,
            cpus: match config::get().get(&config::HOST_CORES) {
                0 => host_state.cpus,
                cores => cores,
            },
            control: host_state.control,
            round: AtomicU32::new(0),
            memory,
            control_socket,
            options: options.clone(),
        }
    }

    /// The status line of this rank.
    pub(super) fn status(&self) -> &'static RankStatus {
        self.control.status(self.rank)
    }

    /// Sends the node agent a message, if there is an agent. Async-signal-safe.
    pub(super) fn send(&self, message: RankMessage) {
        if let Some(socket) = &self.control_socket {
            control_socket::send(socket.as_raw_fd(), self.status(), message);
        }
    }

    /// The counters and states of this rank.
    pub fn counters(&self) -> &'static RankCounters {
        self.control.counters(self.rank)
    }

    /// See [`ControlBlock::coarse_clock`].
    pub fn coarse_clock(&self) -> &'static AtomicU64 {
        self.control.coarse_clock()
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.layout.size
    }

    /// The neighbourhood of this rank.
    pub fn nbrhd(&self) -> Nbrhd {
        self.layout.nbrhd(self.nbrhd_of(self.rank))
    }

    /// The leader of each neighbourhood of the job, in the order of neighbourhoods.
    pub fn leaders(&self) -> &[u32] {
        &self.layout.leaders
    }

    /// The neighbourhood of `rank`.
    pub fn nbrhd_of(&self, rank: u32) -> u32 {
        self.layout.nbrhd_of(rank)
    }

    /// The number of hosts in the job.
    pub fn host_count(&self) -> u32 {
        self.layout.hosts
    }

    /// The host of `rank`.
    pub fn host_of(&self, rank: u32) -> u32 {
        self.layout.host_of(rank)
    }

    /// The ranks on this host, in ascending order.
    pub fn host(&self) -> &[u32] {
        &self.here
    }

    /// The address of this host for ranks on other hosts: in the network of `GASNET_WORKERIP`, else
    /// the one that the tree of agents uses. On one host the loopback address. Valid after the
    /// first exchange.
    pub fn address(&self) -> Result<IpAddr, JobError> {
        let chosen = self.options.worker_address()?;
        Ok(chosen
            .or_else(|| self.control.address())
            .unwrap_or(Ipv4Addr::LOCALHOST.into()))
    }

    /// A secret that is the same in all ranks of this job and differs in other jobs.
    pub fn token(&self) -> u128 {
        self.token
    }

    /// Cores that the ranks on this host share: `GASNET_HOST_CORES`, or those of the affinity mask
    /// within the control group's quota.
    pub fn host_cpus(&self) -> u32 {
        self.cpus
    }

    /// Two words, initially zero, that the ranks of this host share.
    pub fn host_words(&self) -> &'static [AtomicU64; 2] {
        self.control.host_words()
    }

    /// Whether this host has more ranks than cores, so that spinning only delays other ranks.
    pub fn oversubscribed(&self) -> bool {
        self.here.len() as u32 > self.cpus
    }

    /// The neighbourhood's communication memory. One rank sets its size.
    pub fn comm_memory(&self) -> &AnonMemory {
        &self.memory.comm
    }

    /// The memory of the neighbourhood's segments. One rank sets its size.
    pub fn segment_memory(&self) -> &AnonMemory {
        &self.memory.segment
    }

    /// Memory that the ranks of this host share. One rank sets its size.
    pub fn host_memory(&self) -> &AnonMemory {
        &self.memory.host
    }

    /// Records that a thread of the library serves messages while the client's threads sleep.
    pub fn note_receiving(&self) {
        self.status().receives.store(1, Ordering::Relaxed);
    }

    /// Records that this rank has entered `phases` phases of the named barrier.
    #[inline]
    pub fn note_barrier(&self, phases: u32) {
        self.status().barrier.store(phases, Ordering::Relaxed);
    }

    fn ranks_where(&self, holds: impl Fn(&RankStatus) -> bool) -> Vec<u32> {
        self.here
            .iter()
            .copied()
            .filter(|&rank| holds(self.control.status(rank)))
            .collect()
    }

    /// Ranks of this host that have entered fewer than `phases` phases of the named barrier.
    pub fn late_for_barrier(&self, phases: u32) -> Vec<u32> {
        self.ranks_where(|line| (line.barrier.load(Ordering::Relaxed).wrapping_sub(phases) as i32) < 0)
    }

    /// Ranks of this host that have not called exit.
    pub fn not_in_exit(&self) -> Vec<u32> {
        self.ranks_where(|line| line.in_exit.load(Ordering::Relaxed) == 0)
    }

    /// Whether a rank of this host is stopped by a signal or a debugger, or frozen for one.
    pub fn any_rank_is_stopped(&self) -> bool {
        let stopped = |line: &RankStatus| {
            let pid = line.process.load(Ordering::Relaxed);
            line.frozen.load(Ordering::Relaxed) != 0 || (pid != 0 && process::is_stopped(pid as Pid))
        };
        !self.ranks_where(stopped).is_empty()
    }

    /// Claims to be the rank that reports the stall of this host, until [`Job::end_report`].
    /// Returns false where another one does.
    pub fn begin_report(&self) -> bool {
        let mine = self.rank() + 1;
        let claimed = self
            .control
            .reporter()
            .compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed);
        claimed.is_ok()
    }

    /// This rank gets on, and reports no more.
    pub fn end_report(&self) {
        let mine = self.rank() + 1;
        let _ = self
            .control
            .reporter()
            .compare_exchange(mine, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The options of the job.
    pub fn options(&self) -> &StartOptions {
        &self.options
    }

    /// Publishes this process's id, and the address of a word by which the ranks of this host
    /// verify that they reach this process.
    ///
    /// SYNC POINT published-memory: the id is stored last (release) and read first (acquire).
    pub fn publish_memory(&self, witness: usize) {
        let line = self.status();
        line.witness.store(witness, Ordering::Relaxed);
        line.pid.store(self.pid as u32, Ordering::Release);
    }

    /// The process id and the address that `rank` has published ([`Job::publish_memory`]).
    pub fn published_memory(&self, rank: u32) -> Option<(Pid, usize)> {
        let line = self.control.status(rank);
        let pid = line.pid.load(Ordering::Acquire) as Pid;
        (pid > 0).then(|| (pid, line.witness.load(Ordering::Relaxed)))
    }

    /// Whether this is the process of the rank, and not a child that the client has forked.
    pub fn is_own_process(&self) -> bool {
        process::pid() == self.pid
    }
}
