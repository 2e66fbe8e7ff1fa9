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
pub mod attach;
mod control_block;
mod control_socket;
pub mod counters;
mod custom;
mod environment;
mod error;
mod exchange;
mod exit;
mod fresh;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod host;
mod invitation;
mod job;
mod join;
mod launch;
pub mod launcher_record;
mod layout;
mod leave;
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
mod start_method;
mod tree;
pub mod view;
pub mod waits;

use std::sync::atomic::Ordering;

use error::refuse;
pub use error::JobError;
pub use exchange::on_idle_hook;
pub use exit::{set_exit_hooks, ExitHooks};
#[cfg(fuzzing)]
pub use fuzz::TARGETS as FUZZ_TARGETS;
use gasnet_sys::signal::AlternateStack;
use gasnet_sys::{fd, process};
pub use host::COMM_NAME;
use job::JOB;
pub use job::{current, Job};
pub use leave::{check_exit, exiting, Inside};
pub use nbrhd::Nbrhd;
pub use options::{Count, Library, StartOptions, MAX_RANKS};
pub use restart::restart;
pub use shlex::split as shell_words;
pub use signals::set_fault_note;

/// Starts the job that `options` describe. Returns in each rank, and never in the process that
/// becomes the node agent. After an error there is no job: nothing was started, or what was started
/// has ended. Call it once per process; a second call returns the job of the first.
pub fn start(options: &StartOptions) -> Result<&'static Job, JobError> {
    if let Some(job) = current() {
        return Ok(job);
    }
    fd::open_standard_streams();
    // For this thread, and processes that it forks. Never removed.
    let _ = AlternateStack::install();
    let job = JOB.get_or_init({
        let job = launch::launch(options)?;
        || job
    });
    job.status().process.store(process::pid() as u32, Ordering::Relaxed);
    gasnet_tools::freeze::set_hook(|frozen| {
        if let Some(job) = current() {
            job.status().frozen.store(u32::from(frozen), Ordering::Relaxed);
        }
    });
    leave::watch(job);
    process::stay_mapped();
    signals::install(job);
    gasnet_tools::freeze::at_start();
    if job.options().catch_exit {
        exit::catch_exit();
    }
    Ok(job)
}

/// Ends the job and the process ([`Job::exit`]). Before a job has started: a plain `_exit`.
pub fn exit(code: i32) -> ! {
    match current() {
        Some(job) => job.exit(code),
        None => exit::without_job(code),
    }
}

/// Call this before the configuration is read: a worker of a custom spawner gets its environment
/// from the launcher process, and variables that a launcher has set for others are removed.
pub fn prepare() -> Result<(), JobError> {
    if let Some(launcher) = custom::prepare()? {
        pmi::current::set(Box::new(launcher));
    }
    if pmi::current::membership().is_none() && !spawn::Contact::is_there() {
        launcher_record::discard_inside();
    }
    Ok(())
}
