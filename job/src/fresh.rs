//! Ranks as fresh processes: the program is executed again for each rank, as it was started
//! ([`started`]), with the environment of the started process. A rank gets what forked ranks
//! inherit as descriptors, and a message that waits in its control socket. Used where a fork would
//! lose threads ([`super::stand_in`]).

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use super::control_block::ControlBlock;
use super::invitation::{self, Invitation};
use super::launch::{self, HostState, RankMemory};
use super::layout::JobLayout;
use super::pmi_bootstrap::handshake;
use super::tree::message::AgentMessage;
use super::{refuse, restart, Job, JobError, StartOptions};
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
    /// As in [`AgentMessage::Join`].
    relayed: bool,
}

impl Program {
    /// The program of this process, for ranks of a job with this layout.
    pub fn of_this(options: &StartOptions, layout: &JobLayout, relayed: bool) -> Result<Self, JobError> {
        let words = started::words();
        if words.is_empty() {
            return refuse(
                "the program must be executed once per rank, because it has other threads, but its command line is \
                 lost. Start it with mpiexec, mpirun or srun",
            );
        }
        let control = launch::anon_memory(options, "gasnet-control")?;
        control
            .resize(ControlBlock::bytes(layout.size()))
            .map_err(|e| JobError::io("allocating the job control block", &e))?;
        Ok(Self {
            words,
            control,
            relayed,
        })
    }

    /// The control block, which the ranks map.
    pub fn control_block(&self, size: u32, here: u32) -> Result<ControlBlock, JobError> {
        ControlBlock::on(self.control.fd(), size, here, self.relayed)
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
        let join = AgentMessage::Join {
            token: host_state.token,
            cpus: host_state.cpus,
            relayed: self.relayed,
            ranges: host_state.layout.ranges().to_vec(),
            nbrhd_max: host_state.layout.nbrhd_max(),
            variables: Vec::new(),
        };
        let message = join.encode();
        fd::send(ours.as_raw_fd(), &message).map_err(|e| JobError::io("sending a rank its job", &e))?;
        let RankMemory { comm, segment, host } = memory;
        Ok(Invitation {
            rank,
            length: message.len(),
            descriptors: [
                theirs.as_raw_fd(),
                self.control.fd(),
                comm.fd(),
                segment.fd(),
                host.fd(),
            ],
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

/// Joins the job of an invitation.
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
    handshake::enter(message, descriptors, invitation.rank, options)?
        .ok_or_else(|| lost("a descriptor is not the job's"))
}
