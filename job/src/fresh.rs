//! Ranks as fresh processes: the program is executed again for each rank, as it was started
//! ([`started`]), with the environment of the started process. A rank gets what forked ranks
//! inherit as descriptors, and a message that waits in its control socket. Used where a fork would
//! lose threads ([`super::stand_in`]).

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use super::control_block::ControlBlock;
use super::host::{self, HostState, RankMemory};
use super::invitation::{self, Invitation};
use super::job::Job;
use super::tree::message::AgentMessage;
use super::{join, refuse, restart, JobError, StartOptions};
use gasnet_sys::mem::AnonMemory;
use gasnet_sys::{fd, process, started, threads};

/// Whether the ranks of this host must be fresh processes.
pub fn are_needed() -> Result<bool, JobError> {
    if threads::fork_loses_any() && invitation::was_for_a_parent() {
        return refuse(
            "this program starts threads and then forks the process that initialises GASNet, so it cannot be executed \
             once per rank. Start it with mpiexec, mpirun or srun",
        );
    }
    Ok(threads::fork_loses_any())
}

/// The program that is executed again.
pub struct Program {
    words: Vec<CString>,
    control: AnonMemory,
}

impl Program {
    pub fn of_this(options: &StartOptions, ranks: u32, here: u32) -> Result<Self, JobError> {
        let words = started::words();
        if words.is_empty() {
            return refuse(
                "the program must be executed once per rank, because it has other threads, but its command line is \
                 lost. Start it with mpiexec, mpirun or srun",
            );
        }
        let control = host::control_memory(options, ranks, here)?;
        Ok(Self { words, control })
    }

    /// The control block, which the ranks map.
    pub fn control_block(&self, ranks: u32, here: u32, relayed: bool) -> Result<ControlBlock, JobError> {
        ControlBlock::on(self.control.fd(), ranks, here, relayed)
            .map_err(|e| JobError::io("mapping the job control block", &e))
    }

    /// Puts the message for `rank` into its control socket, before it exists.
    pub fn invite(
        &self,
        host_state: &HostState,
        rank: u32,
        memory: &RankMemory,
        [ours, theirs]: [&OwnedFd; 2],
    ) -> Result<Invitation, JobError> {
        let message = host_state.join_message(Vec::new()).encode();
        fd::send(ours.as_raw_fd(), &message).map_err(|e| JobError::io("sending a rank its job", &e))?;
        Ok(Invitation {
            rank,
            length: message.len(),
            descriptors: join::descriptors(theirs, &self.control, memory),
        })
    }

    /// Executes the program in the process of a rank.
    pub fn execute(&self, invitation: &Invitation) -> ! {
        invitation.descriptors.into_iter().for_each(fd::keep_over_exec);
        invitation.put();
        started::restore();
        let why = restart::again(&self.words);
        eprintln!(
            "gasnet: rank {}: cannot execute the program again: {why}",
            invitation.rank
        );
        process::end(1)
    }
}

pub fn join(invitation: &Invitation, options: &StartOptions) -> Result<Job, JobError> {
    let lost = |why: &str| {
        JobError::new(format!(
            "rank {} cannot join its job: {why}. Keep the descriptors that a process inherits open until \
             gex_Client_Init",
            invitation.rank
        ))
    };
    let taken = invitation.descriptors.map(|number| {
        let copy = fd::duplicate(number).ok()?;
        fd::close_copy(number);
        Some(copy)
    });
    let taken: Option<Vec<OwnedFd>> = taken.into_iter().collect();
    let taken: Option<[OwnedFd; 5]> = taken.and_then(|taken| taken.try_into().ok());
    let descriptors = taken.ok_or_else(|| lost("a descriptor is closed"))?;
    let mut message = vec![0; invitation.length];
    let count = fd::receive(descriptors[0].as_raw_fd(), &mut message).map_err(|e| lost(&e.to_string()))?;
    let message = AgentMessage::decode(&message[..count]).ok_or_else(|| lost("a descriptor is not the job's"))?;
    join::enter(message, descriptors, invitation.rank, options)?.ok_or_else(|| lost("a descriptor is not the job's"))
}
