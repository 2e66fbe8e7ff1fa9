//! A rank that is not forked by its node agent joins the job: it gets a message and five
//! descriptors.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use super::control_block::ControlBlock;
use super::host::{HostState, RankMemory};
use super::job::Job;
use super::layout::JobLayout;
use super::tree::message::AgentMessage;
use super::{control_socket, environment, JobError, StartOptions};
use gasnet_sys::mem::AnonMemory;

/// The descriptors for a rank, in the order of [`enter`].
pub fn descriptors(control_socket: &OwnedFd, control: &AnonMemory, memory: &RankMemory) -> [RawFd; 5] {
    let RankMemory { comm, segment, host } = memory;
    [
        control_socket.as_raw_fd(),
        control.fd(),
        comm.fd(),
        segment.fd(),
        host.fd(),
    ]
}

/// The rank's view of the job. None if the message is malformed.
pub fn enter(
    message: AgentMessage,
    descriptors: [OwnedFd; 5],
    rank: u32,
    options: &StartOptions,
) -> Result<Option<Job>, JobError> {
    let AgentMessage::Join {
        token,
        cpus,
        relayed,
        ranges,
        nbrhd_max,
        variables,
    } = message
    else {
        return Ok(None);
    };
    let Some(layout) = JobLayout::new(ranges, nbrhd_max).filter(|layout| rank < layout.size) else {
        return Ok(None);
    };
    let [own_end, control, comm, segment, host_memory] = descriptors;
    let mut options = options.clone();
    environment::take_over(variables, &mut options)?;
    let host = layout.host_of(rank);
    let here = layout.ranks_on(host).len() as u32;
    let control = ControlBlock::on(control.as_raw_fd(), layout.size, here, relayed)
        .map_err(|e| JobError::io("mapping the job control block", &e))?;
    control_socket::attach(own_end.as_fd());
    control_socket::check(own_end.as_raw_fd());
    let host_state = HostState {
        control,
        token,
        cpus,
        layout,
        host: Some(host),
        relayed,
    };
    let [comm, segment, host] = [comm, segment, host_memory].map(AnonMemory::from_fd);
    let memory = RankMemory { comm, segment, host };
    Ok(Some(Job::new(&options, &host_state, rank, memory, Some(own_end))))
}
