//! The state of a process inside a job: made once by `init`, read everywhere.

use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::endpoint::{self, Endpoint};
use crate::segment::directory::Directory;
use crate::shm::kernel_copy::KernelCopy;
use crate::shm::Comm;
use crate::team::Team;
use gasnet_conduit::{Abilities, Conduit, Identity, JobRank, Limits, Network};
use gasnet_job::{self as job, Job, Nbrhd};
use gasnet_sys::atomic::Mutex;

unsafe extern "Rust" {
    /// The networks of this library. The crate that links runtime and conduits defines it by
    /// [`conduits!`](crate::conduits). The runtime knows its conduits by nothing else.
    #[link_name = "gasneti_conduits"]
    pub safe fn linked_conduits() -> &'static [&'static dyn Conduit];
}

/// Makes the current crate a library with these conduits, a constant
/// `&[&dyn gasnet_conduit::Conduit]`, in order of preference: a job uses the first that all its
/// processes can use.
#[macro_export]
macro_rules! conduits {
    ($list:expr) => {
        static CONDUITS: &[&dyn ::gasnet_conduit::Conduit] = $list;

        /// The conduits of this library. The runtime declares it as a foreign function, and so
        /// depends on no conduit.
        #[no_mangle]
        pub extern "Rust" fn gasneti_conduits() -> &'static [&'static dyn ::gasnet_conduit::Conduit] {
            CONDUITS
        }
    };
}

/// Everything that lives from initialisation to the end of the process.
pub struct Runtime {
    /// The job.
    pub job: &'static Job,
    /// Own rank.
    pub rank: JobRank,
    /// Ranks in the job.
    pub size: u32,
    /// Ranks that share memory with this one.
    pub nbrhd: Nbrhd,
    /// The neighbourhood's communication memory.
    pub comm: Comm,
    /// How to get at memory of neighbours that is not mapped.
    pub kernel_copy: KernelCopy,
    /// Whether leaders of neighbourhoods share cores on any host, in which case throughput matters
    /// more than latency. The same on all ranks.
    pub oversubscribed: bool,
    /// The network.
    pub network: &'static dyn Network,
    /// Its abilities, as far as the job uses them.
    pub abilities: Abilities<'static>,
    /// Most bytes of [`gasnet_conduit::Rma::put_small`].
    pub small_put: usize,
    /// Its conduit.
    pub conduit: Identity,
    /// The conduit's name, as C reads it.
    pub conduit_name: CString,
    /// Its limits.
    pub conduit_limits: Limits,
    /// The client.
    pub client: &'static Client,
    /// The primordial endpoint.
    pub endpoint0: &'static Endpoint,
    /// The primordial team.
    pub team0: &'static Team,
    /// Bound segments, after Attach.
    pub directory: OnceLock<Directory>,
    /// Largest segment for this rank.
    pub max_local_bytes: usize,
    /// The least `max_local_bytes` of all ranks.
    pub max_global_bytes: usize,
}

static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());
/// Whether this process has begun to initialise.
pub static STARTED: AtomicBool = AtomicBool::new(false);

/// Makes `runtime` the one of this process.
pub fn install(runtime: Runtime) {
    RUNTIME.store(Box::into_raw(Box::new(runtime)), Ordering::Release);
}

/// The runtime, once `init` is done.
#[inline]
pub fn try_get() -> Option<&'static Runtime> {
    // SAFETY: set once from a leaked Box, never freed.
    unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }
}

/// The runtime. Fatal before initialisation.
#[inline(always)]
pub fn get() -> &'static Runtime {
    try_get().unwrap_or_else(|| none_yet())
}

#[cold]
#[inline(never)]
fn none_yet() -> ! {
    if STARTED.load(Ordering::Relaxed) {
        fatal!("a GASNet function was called in a process where gex_Client_Init (or gasnet_init) did not succeed");
    }
    fatal!("a GASNet function was called before gex_Client_Init (or gasnet_init) returned")
}

impl Runtime {
    /// Whether `rank` shares memory with this process (which does so with itself).
    #[inline]
    pub fn is_neighbour(&self, rank: JobRank) -> bool {
        self.nbrhd.contains(rank.0)
    }

    /// The index of a neighbour in the neighbourhood.
    #[inline]
    pub fn nbrhd_index(&self, rank: JobRank) -> usize {
        self.nbrhd.index(rank.0)
    }

    /// The neighbour with this index.
    #[inline]
    pub fn nbrhd_rank(&self, index: usize) -> JobRank {
        JobRank(self.nbrhd.rank(index))
    }

    /// All neighbours, ascending.
    pub fn nbrhd_ranks(&self) -> impl Iterator<Item = JobRank> + '_ {
        self.nbrhd.ranks().map(JobRank)
    }

    /// Whether this process is the leader of its neighbourhood.
    pub fn leads_nbrhd(&self) -> bool {
        self.rank == JobRank(self.nbrhd.first())
    }

    /// The number of the neighbourhood of `rank`.
    pub fn nbrhd_of(&self, rank: JobRank) -> u32 {
        self.job.nbrhd_of(rank.0)
    }

    /// The number of the host of `rank`.
    pub fn host_of(&self, rank: JobRank) -> u32 {
        self.job.host_of(rank.0)
    }

    /// The ranks that have entered fewer than `phases` phases of the barrier of GASNet-1.
    pub fn late_for_barrier(&self, phases: u32) -> Vec<JobRank> {
        self.job.late_for_barrier(phases).into_iter().map(JobRank).collect()
    }

    /// Whether the neighbourhood is the whole job: then the conduit is never used.
    #[inline]
    pub fn single_neighbourhood(&self) -> bool {
        self.nbrhd.count() == self.size
    }

    /// A local endpoint.
    #[inline]
    pub fn endpoint(&self, index: u16) -> Option<&'static Endpoint> {
        if index == 0 {
            Some(self.endpoint0)
        } else {
            endpoint::other(index)
        }
    }
}

/// Whether handlers have to wait while this process is in an exchange.
static HANDLERS_WAIT: AtomicBool = AtomicBool::new(false);

/// Whether that is so now.
pub fn handlers_wait() -> bool {
    HANDLERS_WAIT.load(Ordering::Relaxed)
}

/// Runs `body`, whose exchanges run no handlers. For calls before which no rank may have sent
/// anything, so none waits for an answer.
pub fn without_handlers<R>(body: impl FnOnce() -> R) -> R {
    HANDLERS_WAIT.store(true, Ordering::Relaxed);
    let result = body();
    HANDLERS_WAIT.store(false, Ordering::Relaxed);
    result
}

/// Time that the job layer has to report why a peer is lost.
const PEER_LOSS_GRACE: Duration = Duration::from_secs(1);

/// A loss that the conduit has reported.
struct Loss {
    /// None: the network.
    peer: Option<JobRank>,
    why: String,
    deadline: Instant,
}

static LOSS: Mutex<Option<Loss>> = Mutex::new(None);
static HAS_LOSS: AtomicBool = AtomicBool::new(false);

/// The conduit lost `peer`, or the whole network. A killed peer's sockets close before its node
/// agent reports the exit status, which is the better message; so this one ends the job only after
/// a while, in [`check_loss`], unless the job is ending by then. The first loss counts.
pub fn lost(peer: Option<JobRank>, why: &str) {
    let mut loss = gasnet_sys::lock(&LOSS);
    loss.get_or_insert_with(|| Loss {
        peer,
        why: why.to_owned(),
        deadline: Instant::now() + PEER_LOSS_GRACE,
    });
    HAS_LOSS.store(true, Ordering::Relaxed);
}

/// Ends the job if a peer or the network is lost, and nothing else has ended it in time. Polls call
/// it.
#[inline]
pub fn check_loss() {
    if HAS_LOSS.load(Ordering::Relaxed) {
        end_by_loss();
    }
}

#[cold]
fn end_by_loss() {
    if job::exiting() {
        return;
    }
    let due = gasnet_sys::lock(&LOSS).take_if(|loss| Instant::now() >= loss.deadline);
    let Some(Loss { peer, why, .. }) = due else { return };
    let rank = get().rank;
    match peer {
        Some(peer) => fatal!("rank {rank}: the connection to rank {peer} is lost: {why}"),
        None => fatal!("rank {rank}: the network has failed: {why}"),
    }
}
