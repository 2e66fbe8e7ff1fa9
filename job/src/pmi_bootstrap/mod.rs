//! Ranks that a process manager has started: hydra, srun, prterun and their like. They have no agent, so they make one for each host.
//!
//! The ranks of a host find each other at a local socket, whose name follows from the job's: who binds it first leads. All tell the manager's store
//! where their host can be called; two fences, and the manager is not needed any more before the end. The leader forks the agent, which is nobody's
//! child. The agents call each other in a tree that follows from the numbers of the ranks, tell the first one which ranks they have, and hear from it
//! what the job looks like. Then each gives its ranks what forked ones are born with: control_socket, board, memory.

mod acceptor;
mod discovery;
mod environment;
mod handshake;
mod leader;
mod rendezvous;

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::pmi::{self, PmiError, ProcessManager};
use super::tree::secret::Secret;
use super::{custom, Job, JobError, StartOptions, MAX_RANKS};
pub(super) use discovery::Discovery;
use gasnet_sys::{fd, process};
use handshake::Handshake;
use leader::Leader;
use rendezvous::Rendezvous;

/// How long a rank waits for its leader beyond what its hosts may take.
const MARGIN: Duration = Duration::from_secs(30);
/// Ranks of a manager's, whose programs may do much before they call gex_Client_Init, wait for each other for so many times as long as for a host.
const TIMES: u32 = 10;
/// How long a manager may take to pass on a sentence.
const SAID: Duration = Duration::from_millis(100);

type Manager = Box<dyn ProcessManager>;

/// The manager, from [`meet`] to [`take_leave`].
static MANAGER: Mutex<Option<Manager>> = Mutex::new(None);

impl From<PmiError> for JobError {
    fn from(error: PmiError) -> Self {
        Self {
            message: error.to_string(),
        }
    }
}

fn failed(what: &str, error: &io::Error) -> JobError {
    JobError {
        message: format!("{what} failed: {error}"),
    }
}

/// Calls the console of a custom spawner, if one has started this process. Before the configuration is read.
pub(super) fn prepare() -> Result<(), JobError> {
    if let Some(client) = custom::prepare()? {
        hold(Box::new(client));
    }
    Ok(())
}

fn hold(manager: Manager) {
    *MANAGER.lock().unwrap_or_else(PoisonError::into_inner) = Some(manager);
}

/// Whether there is a manager already.
pub(super) fn is_prepared() -> bool {
    MANAGER.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Speaks to the manager: sets how many ranks there are.
pub(super) fn meet(kind: Option<pmi::DetectedManager>, options: &mut StartOptions) -> Result<(), JobError> {
    if let Some(kind) = kind {
        hold(pmi::connect(kind)?);
    }
    let held = MANAGER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(manager) = held.as_ref() else { return Ok(()) };
    if options.verbose && manager.rank() == 0 {
        eprintln!("gasnet: {} ranks of {}", manager.size(), manager.describe());
    }
    options.set_ranks(manager.size());
    Ok(())
}

/// This rank ends in order; `whole` as for [`pmi::ProcessManager::finalize`]. May be called when there is no manager, and from any thread.
pub(super) fn take_leave(whole: bool) {
    // Somebody who holds it is on the way out, too.
    if let Some(mut manager) = MANAGER.try_lock().ok().and_then(|mut held| held.take()) {
        manager.finalize(whole);
    }
}

/// Joins the job of the manager that [`meet`] has met.
pub(super) fn join(options: &StartOptions) -> Result<Job, JobError> {
    let mut held = MANAGER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(manager) = held.as_mut() else {
        return Err(JobError {
            message: "defect: no process manager was met".into(),
        });
    };
    let joined = join_with(manager, options);
    if let Err(error) = &joined {
        let _ = fd::write_all(2, format!("gasnet: rank {}: {error}\n", manager.rank()).as_bytes());
        // It ends this process, perhaps before it has passed that on.
        thread::sleep(SAID);
        manager.abort(1, &error.message);
    }
    joined
}

fn join_with(manager: &mut Manager, options: &StartOptions) -> Result<Job, JobError> {
    let rank = manager.rank();
    // Whoever leads has a connection and a process for each rank of its host until the agent has them; and a socket for what else it does.
    let wanted = process::open_descriptors() + 2 * u64::from(manager.size().min(MAX_RANKS)) + 32;
    let descriptors = process::allow_descriptors(wanted).ok();
    let mut rendezvous = Rendezvous::at(manager.job_id(), rank).map_err(|e| failed("meeting the other ranks of this host", &e))?;
    rendezvous
        .introduce()
        .map_err(|e| failed("meeting the other ranks of this host", &e))?;
    let secret = Secret::new();
    if rank == 0 {
        manager.put("secret", &secret.bytes())?;
    }
    let limit = (!options.remote.limit.is_zero()).then(|| options.remote.limit.saturating_mul(TIMES));
    manager.fence(limit).map_err(|error| JobError {
        message: format!(
            "{error}; the ranks wait for each other here, at most for {TIMES} times GASNET_SPAWN_TIMEOUT: perhaps one has ended, or does not call \
             gex_Client_Init"
        ),
    })?;
    let leader = match rendezvous.acceptor.take() {
        Some(acceptor) => Some(Leader::new(acceptor, &mut rendezvous, options)?),
        None => None,
    };
    let place = rendezvous
        .hear()
        .map_err(|e| failed("hearing from the first rank of this host", &e))?;
    manager.put("at", &place)?;
    manager.fence(limit)?;
    if let Some(leader) = leader {
        leader.start_agent(manager, options)?;
    }
    descriptors.iter().for_each(process::restore_descriptor_limit);
    manager.asked_all();
    Handshake::wait(&mut rendezvous, options)?.job(rank, options)
}
