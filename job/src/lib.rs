//! Jobs: how ranks start, find each other, and end together.
//!
//! [`start`] turns the calling process into the node agent of new processes, the ranks, and returns
//! only in the ranks. The node agent only waits ([`agent`]): it ends with the job's exit code, and
//! ends the job when a rank is lost. A rank whose agent is lost ends at once, by a signal
//! ([`control_socket`]). A job of one rank on one host has no agent.
//!
//! A job on several hosts has a node agent on each: the same program, started by remote shells
//! ([`spawn`]). The agents form a tree ([`tree`]). Exchanges travel up and down; the root decides
//! how the job ends.
//!
//! If the calling process has other threads, the ranks are fresh processes instead of forked ones
//! ([`fresh`]), and the calling process stands in for the node agent ([`stand_in`]).
//!
//! The memory that ranks of a host share is created before the fork and has no name, so nothing
//! remains whichever process is killed, and whenever.

mod agent;
mod control_block;
mod control_socket;
mod custom;
mod exchange;
mod exit;
mod fresh;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod invitation;
mod launch;
pub mod launcher_record;
mod layout;
mod mpi;
mod nbrhd;
mod options;
mod pmi;
mod pmi_bootstrap;
mod restart;
mod signals;
mod spawn;
pub mod spawner;
mod stand_in;
mod tree;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use control_block::ControlBlock;
pub use exchange::on_idle_hook;
pub use exit::{set_exit_hooks, ExitHooks};
#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;
use gasnet_sys::mem::AnonMemory;
use gasnet_sys::process::Pid;
use gasnet_sys::{fd, net, process};
use launch::RankMemory;
use layout::JobLayout;
pub use nbrhd::Nbrhd;
pub use options::{Count, Library, StartOptions, MAX_RANKS};
use pmi::current;
pub use restart::restart;
pub use shlex::split as shell_words;
pub use signals::set_fault_note;
pub use spawn::hosts;

/// Why a job could not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobError {
    /// What failed, why, and what to try.
    pub message: String,
}

impl JobError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }

    /// For a system call that failed.
    fn io(what: &str, why: &std::io::Error) -> Self {
        Self::new(format!("{what} failed: {why}"))
    }
}

/// A failure of the start.
fn refuse<T>(message: impl Into<String>) -> Result<T, JobError> {
    Err(JobError::new(message))
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JobError {}

/// The phase word of a process without a job.
static NEVER: AtomicU32 = AtomicU32::new(0);
static PHASE: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
/// Name of the communication memory in the system's list of mappings.
pub const COMM_NAME: &str = "gasnet-comm";
static JOB: OnceLock<Job> = OnceLock::new();

/// A rank's view of its job.
#[derive(Debug)]
pub struct Job {
    rank: u32,
    layout: JobLayout,
    /// The ranks of this host, in ascending order.
    here: Vec<u32>,
    pid: Pid,
    token: u128,
    cpus: u32,
    control: ControlBlock,
    /// Exchange rounds so far. Exchanges are collective, so all ranks count alike.
    round: AtomicU32,
    memory: RankMemory,
    /// The socket to the node agent. None in a job of one rank.
    control_socket: Option<OwnedFd>,
    options: StartOptions,
}

/// Starts the job that `options` describe. Returns in each rank, and never in the process that
/// becomes the node agent. After an error there is no job: nothing was started, or what was started
/// has ended. Call it once per process; a second call returns the job of the first.
pub fn start(options: &StartOptions) -> Result<&'static Job, JobError> {
    if let Some(job) = JOB.get() {
        return Ok(job);
    }
    fd::open_standard_streams();
    signals::prepare_stack();
    let job = JOB.get_or_init({
        let job = launch::launch(options)?;
        || job
    });
    job.control
        .status(job.rank)
        .process
        .store(job.pid as u32, Ordering::Relaxed);
    gasnet_tools::freeze::set_hook(|frozen| {
        if let Some(job) = JOB.get() {
            job.control
                .status(job.rank)
                .frozen
                .store(u32::from(frozen), Ordering::Relaxed);
        }
    });
    PHASE.store(
        std::ptr::from_ref(job.control.phase_word()).cast_mut(),
        Ordering::Release,
    );
    process::stay_mapped();
    signals::install(job);
    gasnet_tools::freeze::at_start();
    if job.options.catch_exit {
        exit::catch_exit();
    }
    Ok(job)
}

/// The job of this process, once it has started.
pub fn current() -> Option<&'static Job> {
    JOB.get()
}

/// Ends the job and the process ([`Job::exit`]). Before a job has started: a plain `_exit`.
pub fn exit(code: i32) -> ! {
    match JOB.get() {
        Some(job) => job.exit(code),
        None => exit::without_job(code),
    }
}

/// Whether a rank has called exit: one relaxed load. A wait whose own condition does not hold then
/// calls [`Job::while_exiting`].
#[inline]
pub fn exiting() -> bool {
    // SAFETY: the pointer is to a static or into the control block, which is never unmapped.
    unsafe { &*PHASE.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// What an idle waiter calls: when the job is ending, this may never return.
#[inline]
pub fn check_exit(inside: Inside) {
    if exiting() {
        if let Some(job) = current() {
            job.while_exiting(inside);
        }
    }
}

/// The address of this host in the network that contains `network`; `network` itself if it is one
/// of this host's.
fn address_in(network: IpAddr) -> Result<IpAddr, JobError> {
    let all = net::addresses();
    let exact = all.iter().find(|own| own.ip == network);
    if let Some(own) = exact.or_else(|| all.iter().find(|own| own.network_has(network))) {
        return Ok(own.ip);
    }
    let own: Vec<String> = all.iter().map(|a| format!("{}/{}", a.ip, a.prefix)).collect();
    Err(JobError::new(format!(
        "GASNET_WORKERIP={network}: host {} has no address in that network; it has {}",
        net::host_name(),
        own.join(", ")
    )))
}

/// Call this before the configuration is read: a worker of a custom spawner gets its environment
/// from the launcher process, and variables that a launcher has set for others are removed.
pub fn prepare() -> Result<(), JobError> {
    if let Some(launcher) = custom::prepare()? {
        current::set(Box::new(launcher));
    }
    if current::membership().is_none() && !spawn::Contact::is_there() {
        launcher_record::discard_inside();
    }
    Ok(())
}

/// What a thread is doing when it finds that the job ends. See [`Job::while_exiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It waits for a condition and can do nothing else.
    Wait,
    /// It polled once and found nothing; its caller may have other work.
    Poll,
}

impl Job {
    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks in the job.
    pub fn size(&self) -> u32 {
        self.layout.size()
    }

    /// The neighbourhood of this rank.
    pub fn nbrhd(&self) -> Nbrhd {
        self.layout.nbrhd(self.nbrhd_of(self.rank))
    }

    /// The leader of each neighbourhood of the job, in the order of neighbourhoods.
    pub fn leaders(&self) -> &[u32] {
        self.layout.leaders()
    }

    /// The neighbourhood of `rank`.
    pub fn nbrhd_of(&self, rank: u32) -> u32 {
        self.layout.nbrhd_of(rank)
    }

    /// The number of hosts in the job.
    pub fn host_count(&self) -> u32 {
        self.layout.hosts()
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
        match self.options.workers {
            Some(network) => address_in(network),
            None => Ok(self.control.address().unwrap_or(Ipv4Addr::LOCALHOST.into())),
        }
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

    /// Tells the node agent that a thread of the library serves messages while the client's sleep.
    pub fn note_receiving(&self) {
        self.control.status(self.rank).receives.store(1, Ordering::Relaxed);
    }

    /// Records that this rank has entered `phases` phases of the named barrier.
    #[inline]
    pub fn note_barrier(&self, phases: u32) {
        self.control.status(self.rank).barrier.store(phases, Ordering::Relaxed);
    }

    fn ranks_where(&self, holds: impl Fn(&control_block::RankStatus) -> bool) -> Vec<u32> {
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
        let stopped = |line: &control_block::RankStatus| {
            let pid = line.process.load(Ordering::Relaxed);
            line.frozen.load(Ordering::Relaxed) != 0 || (pid != 0 && gasnet_sys::process::is_stopped(pid as Pid))
        };
        !self.ranks_where(stopped).is_empty()
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
        let line = self.control.status(self.rank);
        line.witness.store(witness, Ordering::Relaxed);
        line.pid.store(self.pid as u32, Ordering::Release);
    }

    /// What `rank` has published with [`Job::publish_memory`].
    pub fn published_memory(&self, rank: u32) -> Option<(Pid, usize)> {
        let line = self.control.status(rank);
        let pid = line.pid.load(Ordering::Acquire) as Pid;
        (pid > 0).then(|| (pid, line.witness.load(Ordering::Relaxed)))
    }

    /// Whether this is the process of the rank, and not a child that the client has forked.
    pub fn is_own_process(&self) -> bool {
        gasnet_sys::process::pid() == self.pid
    }
}
