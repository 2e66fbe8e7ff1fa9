//! The job: its processes, how they start, find each other, and end together.
//!
//! [`start`] turns the process that calls it into the supervisor of new processes, the ranks, and returns in the ranks only. The
//! supervisor, the agent of its host, does nothing but wait ([`agent`]): it ends with the job's exit code and takes the job down when a rank is lost.
//! A rank whose supervisor is lost ends at once, by a signal ([`control_socket`]). A job of one rank on one host has no supervisor.
//!
//! A job on several hosts has an agent on each, the same program, which remote shells have started ([`spawn`]). The agents form a tree ([`tree`]):
//! exchanges go up and down, and the first agent decides how the job ends.
//!
//! What the ranks of a host share is made before the fork and has no name, so that whatever is killed, whenever, leaves nothing behind.

mod agent;
mod control_block;
mod control_socket;
mod custom;
mod exchange;
mod exit;
mod launch;
mod layout;
mod mpi;
mod nbrhd;
mod options;
mod pmi;
mod pmi_bootstrap;
mod restart;
mod signals;
mod spawn;
mod tree;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use control_block::ControlBlock;
pub use exchange::on_idle_hook;
use gasnet_sys::mem::AnonMemory;
use gasnet_sys::process::Pid;
use gasnet_sys::{fd, net, process};
use layout::JobLayout;
pub use nbrhd::Nbrhd;
use options::StartMethod;
pub use options::{Count, Library, StartOptions, MAX_RANKS};
pub use restart::restart;
pub use signals::set_fault_note;
pub use spawn::{hosts, script::words as shell_words};

/// A job could not start.
#[derive(Debug)]
pub struct JobError {
    /// What failed, why, and what to try.
    pub message: String,
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JobError {}

/// What a process without a job looks at when it asks whether the job ends.
static NEVER: AtomicU32 = AtomicU32::new(0);
static PHASE: AtomicPtr<AtomicU32> = AtomicPtr::new((&raw const NEVER).cast_mut());
/// What the communication memory is called where the system lists mappings.
pub const COMM_NAME: &str = "gasnet-comm";
static JOB: OnceLock<Job> = OnceLock::new();

/// This process's place in its job.
#[derive(Debug)]
pub struct Job {
    rank: u32,
    layout: JobLayout,
    /// The ranks of this host, ascending.
    here: Vec<u32>,
    pid: Pid,
    token: u64,
    cpus: u32,
    control: ControlBlock,
    /// Rounds of exchanges so far. Exchanges are collective, so that all ranks count alike.
    round: AtomicU32,
    comm: AnonMemory,
    segment: AnonMemory,
    /// The socket to the supervisor; none in a job of one.
    control_socket: Option<OwnedFd>,
    options: StartOptions,
}

/// Starts the job that `options` describe. Returns in each rank; never returns in the process that becomes the supervisor. An error
/// means that there is no job: nothing was started, or it has been ended again. To be called once per process; a second call
/// returns the job that there is.
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
    job.control.status(job.rank).process.store(job.pid as u32, Ordering::Relaxed);
    gasnet_tools::freeze::set_hook(|frozen| {
        if let Some(job) = JOB.get() {
            job.control
                .status(job.rank)
                .frozen
                .store(u32::from(frozen), Ordering::Relaxed);
        }
    });
    PHASE.store(std::ptr::from_ref(job.control.phase_word()).cast_mut(), Ordering::Release);
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

/// Ends the process, and the job if there is one: [`Job::exit`], or a plain `_exit` before a job started.
pub fn exit(code: i32) -> ! {
    match JOB.get() {
        Some(job) => job.exit(code),
        None => exit::without_job(code),
    }
}

/// Whether some rank has called exit: one relaxed load and nothing else. Waits that see it and find their own condition not
/// fulfilled call [`Job::while_exiting`].
#[inline]
pub fn exiting() -> bool {
    // SAFETY: the pointer is to a static or to the board, which is never unmapped.
    unsafe { &*PHASE.load(Ordering::Relaxed) }.load(Ordering::Relaxed) != 0
}

/// What an idle waiter calls: when the job is ending, this may never return.
#[inline]
pub fn heed_exit(inside: Inside) {
    if exiting() {
        if let Some(job) = current() {
            job.while_exiting(inside);
        }
    }
}

/// Registers, once, what a rank does again and again that is in exit and waits for others: the runtime lets its conduit do what that owes them. It runs
/// outside of signal handlers.
pub fn on_linger_hook(hook: fn()) {
    exit::set_linger(hook);
}

/// Registers, once, what a rank in exit calls each time that it has waited in vain for the others, on the thread that ends the process.
pub fn on_exit_wait_hook(hook: fn(&Job)) {
    exit::set_wait_hook(hook);
}

/// Registers what the ending process runs once, before its last output: the runtime stops its conduit here. The function may run on any
/// thread, in a signal handler, and while other threads are inside GASNet.
pub fn on_exit_hook(hook: fn()) {
    exit::set_hook(hook);
}

/// The address of this host in the network that has `network`, or just that.
fn address_in(network: IpAddr) -> Result<IpAddr, JobError> {
    let all = net::addresses();
    let exact = all.iter().find(|own| own.ip == network);
    if let Some(own) = exact.or_else(|| all.iter().find(|own| own.network_has(network))) {
        return Ok(own.ip);
    }
    let own: Vec<String> = all.iter().map(|a| format!("{}/{}", a.ip, a.prefix)).collect();
    Err(JobError {
        message: format!(
            "GASNET_WORKERIP={network}: host {} has no address in that network; it has {}",
            net::host_name(),
            own.join(", ")
        ),
    })
}

/// Learns from the process manager, if one has started this process, how many ranks there are. Before [`start`].
pub fn connect_manager(options: &mut StartOptions) -> Result<(), JobError> {
    match options.start.clone() {
        StartMethod::Managed(kind) => pmi_bootstrap::meet(Some(kind), options),
        StartMethod::CustomWorker => pmi_bootstrap::meet(None, options),
        _ => Ok(()),
    }
}

/// What has to be done before the configuration is read: a process that a custom spawner has started gets its environment from the console.
pub fn prepare() -> Result<(), JobError> {
    pmi_bootstrap::prepare()
}

/// What a thread does that meets an ending job. See [`Job::while_exiting`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// It waits for something that has not come yet, and can do nothing else.
    Wait,
    /// It polled once and found nothing; its caller may have more to do.
    Poll,
}

impl Job {
    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        self.layout.size()
    }

    /// The ranks of this rank's neighbourhood.
    pub fn nbrhd(&self) -> Nbrhd {
        self.layout.nbrhd(self.nbrhd_of(self.rank))
    }

    /// The first rank of each neighbourhood of the job, by their numbers.
    pub fn leaders(&self) -> &[u32] {
        self.layout.leaders()
    }

    /// The neighbourhood that `rank` belongs to.
    pub fn nbrhd_of(&self, rank: u32) -> u32 {
        self.layout.nbrhd_of(rank)
    }

    /// Hosts in the job.
    pub fn host_count(&self) -> u32 {
        self.layout.hosts()
    }

    /// The host that `rank` runs on.
    pub fn host_of(&self, rank: u32) -> u32 {
        self.layout.host_of(rank)
    }

    /// The ranks on this rank's host, ascending.
    pub fn host(&self) -> &[u32] {
        &self.here
    }

    /// The address of this host for ranks on other hosts: of the network that `GASNET_WORKERIP` names, else that by which the hosts of the job
    /// have found each other; on one host that of the loop-back interface. After the first exchange.
    pub fn address(&self) -> Result<IpAddr, JobError> {
        match self.options.workers {
            Some(network) => address_in(network),
            None => Ok(self.control.address().unwrap_or(Ipv4Addr::LOCALHOST.into())),
        }
    }

    /// The same in all ranks of this job, and in no other job.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Processor cores that the ranks on this host share: as the user says, or those of the affinity mask, less what a control group's quota takes away.
    pub fn host_cpus(&self) -> u32 {
        self.cpus
    }

    /// Two words, zero at first, that the ranks of this host share.
    pub fn host_words(&self) -> &'static [AtomicU64; 2] {
        self.control.host_words()
    }

    /// Whether there are more ranks than cores, so that spinning only keeps others from running.
    pub fn oversubscribed(&self) -> bool {
        self.here.len() as u32 > self.cpus
    }

    /// The descriptor of the neighbourhood's communication memory; close-on-exec.
    pub fn comm_fd(&self) -> i32 {
        self.comm.fd()
    }

    /// The neighbourhood's communication memory. One rank sets its size.
    pub fn comm_memory(&self) -> &AnonMemory {
        &self.comm
    }

    /// The descriptor of the memory for the neighbourhood's segments; close-on-exec.
    pub fn segment_fd(&self) -> i32 {
        self.segment.fd()
    }

    /// The memory for the neighbourhood's segments. One rank sets its size.
    pub fn segment_memory(&self) -> &AnonMemory {
        &self.segment
    }

    /// This rank has entered `phases` phases of the named barrier.
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

    /// The options that the job was started with.
    pub fn options(&self) -> &StartOptions {
        &self.options
    }

    /// Tells the ranks of this host the process number, and the address of a word by which they know the process.
    ///
    /// SYNC POINT published-memory: the number is stored last (release) and read first (acquire).
    pub fn publish_memory(&self, witness: usize) {
        let line = self.control.status(self.rank);
        line.witness.store(witness, Ordering::Relaxed);
        line.pid.store(self.pid as u32, Ordering::Release);
    }

    /// What `rank` has told by [`Job::publish_memory`], if it has.
    pub fn published_memory(&self, rank: u32) -> Option<(Pid, usize)> {
        let line = self.control.status(rank);
        let pid = line.pid.load(Ordering::Acquire) as Pid;
        (pid > 0).then(|| (pid, line.witness.load(Ordering::Relaxed)))
    }

    /// Whether this is the process that the job knows, and not a child that the client has forked.
    pub fn is_own_process(&self) -> bool {
        gasnet_sys::process::pid() == self.pid
    }
}
