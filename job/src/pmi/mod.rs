//! Clients of process managers' interfaces, for ranks that hydra, srun, prterun and their like have started.
//!
//! A process manager offers its processes a place in the job and a store of short texts; nothing more is asked of it, and only at the start and
//! at the end. Three interfaces give that: PMI-1 and PMI-2, whose messages travel over a descriptor that the process inherits ([`wire`]), and
//! PMIx, whose library is opened when it is needed ([`pmix`]). [`detect`] says which one started this process; [`connect`] speaks to it.
//!
//! The manager is outside of the job and what it says is not trusted: lengths are bounded, numbers are checked, and a manager that goes away
//! gives an error and no hang.

mod detect;
mod message;
mod pmix;
mod stream;
#[cfg(test)]
mod tests;
mod text;
mod wire;

use std::fmt;
use std::os::fd::RawFd;
use std::time::Duration;

use super::mpi::{self, Mpi};
use super::spawn::Contact;

pub use detect::{detect, DetectedManager, ManagerAddress, PmiInterface, WireStart, LOOKED_FOR};

/// Most bytes of one value.
pub const VALUE_MAX: usize = 1024;
/// Most characters of a key.
pub const KEY_MAX: usize = 24;

/// What a process manager offers its processes. All calls are made by one thread, and block.
///
/// After an error of any call the job cannot be built; what is left to do is [`ProcessManager::abort`] or [`ProcessManager::finalize`].
pub trait ProcessManager: Send {
    /// What it is, for messages: "PMI-1 (PMI_FD=7)", "PMIx (/usr/lib/libpmix.so.2, version 4.2.2)".
    fn describe(&self) -> String;

    /// This process's place in the job, less than [`ProcessManager::size`].
    fn rank(&self) -> u32;

    /// Processes of the job; at least one.
    fn size(&self) -> u32;

    /// The same in all processes of the job, different in other jobs that run at this time: the name of the key-value space, or the namespace.
    /// Printable ASCII without spaces, at most 256 characters. It is no secret.
    fn job_id(&self) -> &str;

    /// Stores at most [`VALUE_MAX`] bytes, perhaps none, under a key that this process has not used before. Other processes may use the same key
    /// for values of their own. Keys are 1 to [`KEY_MAX`] characters of `[a-z0-9-]`.
    fn put(&mut self, key: &str, bytes: &[u8]) -> Result<(), PmiError>;

    /// Collective: returns when all processes have called it. What any has put before, all can get after. It is an error that not all have after
    /// `limit`, if there is one.
    fn fence(&mut self, limit: Option<Duration>) -> Result<(), PmiError>;

    /// What process `owner` has put under `key` before the last fence.
    fn get(&mut self, owner: u32, key: &str) -> Result<Vec<u8>, PmiError>;

    /// Nothing more is asked: only [`ProcessManager::finalize`] or [`ProcessManager::abort`] follow.
    fn asked_all(&mut self) {}

    /// This process leaves the job in order: the manager does not take its exit for a failure. Nothing may be called afterwards. A manager that
    /// is gone, or that does not answer, is not waited for.
    ///
    /// Not before the others have got what they want of this process: a fence after their gets shows that. A manager may leave values with their
    /// owners until somebody asks (PRRTE 3 does), and let those wait for ever that ask too late.
    ///
    /// `whole`: no other library of this process speaks to the manager any more, either (`gasnet_exit`), whether or not it has said so.
    fn finalize(&mut self, whole: bool);

    /// Asks the manager to end the job, with this exit code if the manager can pass one on (PMIx and hydra do, Slurm's PMI does not). It may end this
    /// process, too, during the call or later, or not at all. Managers that can tell somebody are told `why`.
    fn abort(&mut self, code: i32, why: &str);

    /// Where the agent of the first host finds one above it, if the manager is a console of ours.
    fn launcher_contact(&self) -> Option<Contact> {
        None
    }

    /// The descriptors that lead to the manager, as far as this module knows them. They stay open in this process, and other processes must not use them: a
    /// child that is not to outlive the connection closes its copies.
    fn descriptors(&self) -> Vec<RawFd>;
}

/// Which process manager has started this process, according to its environment and its descriptors. An error says that it is another one than is chosen.
pub fn detect_here(choice: PmiInterface) -> Result<Option<DetectedManager>, String> {
    detect(
        choice,
        |name| std::env::var(name).ok(),
        |descriptor| stream::is_socket(descriptor).is_ok(),
    )
}

/// Speaks to the process manager that [`detect`] has found. Once per process: the first messages of the protocols are sent here.
///
/// A library in the same process that speaks to the manager by itself, as MPI's do, can go on doing so with PMIx, and with hydra if neither
/// interrupts the other; Slurm does not answer a second start of PMI-1 or PMI-2.
pub fn connect(kind: DetectedManager) -> Result<Box<dyn ProcessManager>, PmiError> {
    match kind {
        DetectedManager::Wire(start) => {
            let wire = wire::Wire::connect(&start)?;
            // Hydra names no job.
            let is_of_slurm = start.job.is_some() && std::env::var_os("SLURM_STEP_ID").is_some();
            if wire.rank() == 0 && is_of_slurm && mpi::state() == Mpi::Idle {
                gasnet_tools::process::warn(format_args!(
                    "this program has MPI, too, and Slurm's PMI serves only one of two libraries: an MPI that uses it and is initialised after GASNet \
                     waits for ever. Call MPI_Init first, or use srun --mpi=pmix or mpiexec"
                ));
            }
            Ok(Box::new(wire))
        }
        DetectedManager::Pmix => Ok(Box::new(pmix::Pmix::connect()?)),
    }
}

/// A process manager could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmiError {
    /// Who, what failed, why, and what to try.
    pub message: String,
}

impl PmiError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }
}

impl fmt::Display for PmiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PmiError {}

/// Whether `key` and the length of `bytes` are such that every manager takes them.
fn check_put(key: &str, bytes: &[u8]) -> Result<(), PmiError> {
    check_key(key)?;
    if bytes.len() > VALUE_MAX {
        return Err(PmiError::new(format!(
            "a value of {} bytes for key \"{key}\" is too long: at most {VALUE_MAX}",
            bytes.len()
        )));
    }
    Ok(())
}

fn check_key(key: &str) -> Result<(), PmiError> {
    let known = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    if (1..=KEY_MAX).contains(&key.len()) && key.bytes().all(known) {
        return Ok(());
    }
    Err(PmiError::new(format!(
        "\"{key}\" is no key: 1 to {KEY_MAX} characters of a-z, 0-9 and -"
    )))
}

/// A place in a job, as a manager gives it: the rank is one of the job's.
fn check_place(rank: u32, size: u32) -> Result<(), String> {
    if rank < size {
        return Ok(());
    }
    Err(format!("it says that this process is rank {rank} of {size}, which cannot be"))
}

/// What a manager says, as part of a message of ours: of bounded length, and without control characters.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 200;
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(LONGEST).map(clean).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("\"{short}\"")
}
