//! Clients of process managers' interfaces, for ranks started by hydra, srun, prterun and others.
//!
//! A process manager offers its processes a rank and a store of short texts. It is used only at the
//! start and at the end. Three interfaces exist: PMI-1 and PMI-2, whose messages travel over an
//! inherited descriptor ([`wire`]), and PMIx, whose library is opened when needed ([`pmix`]). A
//! conduit may bring another system along, such as MPI, which is used in the same way
//! ([`by_exchange`]). [`detect()`] finds the interface; [`connect`] opens it;
//! [`current`] keeps the manager.
//!
//! The manager is outside the job and its messages are not trusted: lengths are bounded, numbers
//! are checked, and a manager that ends causes an error and no hang.

pub(crate) mod by_exchange;
pub(crate) mod current;
pub(crate) mod daemon;
mod detect;
mod lonely;
pub(crate) mod message;
mod pmix;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod wire;

use std::os::fd::RawFd;
use std::time::Duration;

use super::mpi::{self, Mpi};
use super::spawn::Contact;
use super::JobError;

pub use detect::{detect, prefer, DetectedManager, ManagerAddress, WireStart, LOOKED_FOR};
pub use lonely::lonely_process;

/// Most characters of a value. Every known manager accepts 1,000 characters for a whole message.
pub const VALUE_MAX: usize = 600;
/// Most characters of a key, with the rank that PMI-1 and PMI-2 need in it.
const KEY_MAX: usize = 32;

/// The place of a process in the job of its manager.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// The manager, for messages: "PMI-1 (PMI_FD=7)", "PMIx (/usr/lib/libpmix.so.2, OpenPMIx
    /// 4.2.2)".
    pub manager: String,
    /// Less than `size`.
    pub rank: u32,
    /// Number of processes in the job; at least one.
    pub size: u32,
    /// The node, for managers that simulate several on a machine. Ranks of different nodes are on
    /// different hosts.
    pub node: Option<u32>,
}

impl Membership {
    /// An error of the manager.
    fn error(&self, why: &str) -> JobError {
        JobError::new(format!("the process manager at {}: {why}", self.manager))
    }

    /// Checks the rank that a manager assigns.
    fn check(&self) -> Result<(), JobError> {
        if self.rank < self.size {
            return Ok(());
        }
        let (rank, size) = (self.rank, self.size);
        Err(self.error(&format!(
            "it assigns an impossible rank to this process: rank {rank} of {size}"
        )))
    }
}

/// The services of a process manager. One thread makes all calls; they block.
///
/// After an error of any call the job cannot be started. Only [`ProcessManager::abort`] and
/// [`ProcessManager::finalize`] may follow.
pub trait ProcessManager: Send {
    /// This process's place in the job.
    fn membership(&self) -> &Membership;

    /// Stores a value under a key that this process has not used before. Other processes may use
    /// the same key for their own values. Managers differ in what they keep unchanged: a value is 1
    /// to [`VALUE_MAX`] characters of `[A-Za-z0-9._:,-]`, a key a short word of the same.
    fn put(&mut self, key: &str, value: &str) -> Result<(), JobError>;

    /// Collective: returns when all processes have called it. Values put before can be read by all
    /// afterwards. An error if `limit` passes first.
    fn fence(&mut self, limit: Option<Duration>) -> Result<(), JobError>;

    /// The value that process `owner` has put under `key` before the last fence.
    fn get(&mut self, owner: u32, key: &str) -> Result<String, JobError>;

    /// This process leaves the job normally, so the manager does not take its exit for a failure.
    /// No calls may follow. Does not wait for a manager that has ended or does not answer.
    ///
    /// Call it only after the others have got this process's values; a fence after their gets
    /// ensures that. A manager may keep values with their owners until they are requested (PRRTE 3
    /// does), and block late requests for ever.
    ///
    /// `whole`: no other library of this process uses the manager any more (`gasnet_exit`), even
    /// without its own finalize.
    fn finalize(&mut self, whole: bool);

    /// Asks the manager to end the job, with exit code 1 if it supports that (PMIx and hydra do,
    /// Slurm's PMI does not). It may end this process, too, during the call, later, or not at all.
    fn abort(&mut self);

    /// How the agent of the first host connects to the launcher process, if that is the manager.
    fn launcher_contact(&self) -> Option<Contact> {
        None
    }

    /// Known descriptors of the connection to the manager. They stay open in this process. A child
    /// that must not use them closes its copies.
    fn descriptors(&self) -> Vec<RawFd>;
}

/// Connects to the process manager that [`detect()`] has found. Once per process, because it starts
/// the protocol.
///
/// Another library of the process that uses the manager itself, such as an MPI, may continue with
/// PMIx, and with hydra if their messages do not interleave. Slurm does not answer a second start
/// of PMI-1 or PMI-2.
pub fn connect(kind: DetectedManager) -> Result<Box<dyn ProcessManager>, JobError> {
    match kind {
        DetectedManager::Wire(start) => {
            let wire = wire::Wire::connect(&start)?;
            // Hydra does not set PMI_JOBID.
            let is_of_slurm = start.job.is_some() && std::env::var_os("SLURM_STEP_ID").is_some();
            if wire.membership().rank == 0 && is_of_slurm && mpi::state() == Mpi::Idle {
                gasnet_tools::process::warn(format_args!(
                    "this program also uses MPI, and Slurm's PMI serves only one library: MPI_Init hangs if it \
                     is called after GASNet and uses that PMI. Call MPI_Init first, or use srun --mpi=pmix or \
                     mpiexec"
                ));
            }
            Ok(Box::new(wire))
        }
        DetectedManager::Pmix => Ok(Box::new(pmix::Pmix::connect()?)),
    }
}

/// Checks a manager's name for the job, which is also a value in messages.
pub(crate) fn check_job_name(name: Option<&str>) -> Result<String, String> {
    let is_plain = |c: u8| c.is_ascii_graphic() && c != b';';
    match name {
        Some(name) if (1..=256).contains(&name.len()) && name.bytes().all(is_plain) => Ok(name.into()),
        Some(name) => Err(format!("its job name is invalid: {}", quoted(name))),
        None => Err("it sends no job name".into()),
    }
}

/// Text of a manager, for a message: of bounded length, without control characters.
fn quoted(text: &str) -> String {
    const LONGEST: usize = 200;
    let clean = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(LONGEST).map(clean).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("\"{short}\"")
}
