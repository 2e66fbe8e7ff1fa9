//! Ranks that a process manager has started: hydra, srun, prterun and their like. They have no agent, so they make one for each host.
//!
//! The ranks of a host find each other at a local socket, whose name follows from the job's: who binds it first leads. All tell the manager's store
//! where their host can be called; two fences, and the manager is not needed any more before the end. The leader forks the agent, which is nobody's
//! child. The agents call each other in a tree that follows from the numbers of the ranks, tell the first one which ranks they have, and hear from it
//! what the job looks like. Then each gives its ranks what forked ones are born with: lifeline, board, memory.

mod discovery;
mod leading;
mod meeting;
mod variables;
mod welcome;

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::pmi::{self, PmiError, ProcessManager};
use super::tree::secret::Secret;
use super::{custom, Job, JobError, StartOptions};
pub(super) use discovery::Discovery;
use leading::Leading;
use meeting::Meeting;
use welcome::Welcome;

/// How long a rank waits for its leader beyond what its hosts may take.
const MARGIN: Duration = Duration::from_secs(30);

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
    if let Some(console) = custom::prepare()? {
        hold(Box::new(console));
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
pub(super) fn meet(kind: Option<pmi::Kind>, options: &mut StartOptions) -> Result<(), JobError> {
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

/// This rank ends in order. May be called when there is no manager, and from any thread.
pub(super) fn take_leave() {
    // Somebody who holds it is on the way out, too.
    if let Some(mut manager) = MANAGER.try_lock().ok().and_then(|mut held| held.take()) {
        manager.finalize();
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
        eprintln!("gasnet: rank {}: {error}", manager.rank());
        manager.abort(1, &error.message);
    }
    joined
}

fn join_with(manager: &mut Manager, options: &StartOptions) -> Result<Job, JobError> {
    let rank = manager.rank();
    let mut meeting = Meeting::at(manager.job_id(), rank).map_err(|e| failed("meeting the other ranks of this host", &e))?;
    meeting
        .introduce()
        .map_err(|e| failed("meeting the other ranks of this host", &e))?;
    let secret = Secret::new();
    if rank == 0 {
        manager.put("secret", &secret.bytes())?;
    }
    manager.fence()?;
    let leading = match meeting.listener.take() {
        Some(listener) => Some(Leading::new(&listener, &mut meeting, options)?),
        None => None,
    };
    let place = meeting
        .hear()
        .map_err(|e| failed("hearing from the first rank of this host", &e))?;
    manager.put("at", &place)?;
    manager.fence()?;
    if let Some(leading) = leading {
        leading.start_agent(manager, options)?;
    }
    manager.asked_all();
    Welcome::wait(&mut meeting, options)?.job(rank, options)
}
