//! The handshake by which ranks of a process manager get from their agent what forked ranks
//! inherit: control socket, control block, memory, and the layout of the job.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

use super::rendezvous::{receive, send, LocalRank, Rendezvous};
use super::MARGIN;
use crate::agent::output::{become_output, pipes, OutputMode};
use crate::agent::{AgentSetup, Child};
use crate::control_block::ControlBlock;
use crate::host::{self, HostState, RankMemory};
use crate::job::Job;
use crate::pmi::daemon::ManagerDaemon;
use crate::spawn::ssh::HostPlan;
use crate::tree::message::Pairs;
use crate::{join, JobError, StartOptions};
use gasnet_sys::{cpus, fd, net};

/// Creates the shared memory of this host, and sends each rank its part.
pub fn give(
    options: &StartOptions,
    HostPlan { layout, host, tree }: HostPlan,
    variables: Pairs,
    local_ranks: BTreeMap<u32, LocalRank>,
) -> Result<AgentSetup<'_>, JobError> {
    let relayed = !tree.is_alone();
    let here = local_ranks.len() as u32;
    let control_memory = host::control_memory(options, layout.size, here)?;
    let control = ControlBlock::on(control_memory.fd(), layout.size, here, relayed)
        .map_err(|e| JobError::io("mapping the job control block", &e))?;
    let mut cpus: Vec<u32> = local_ranks.values().flat_map(|m| m.cpus.iter().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let daemons = ManagerDaemon::watch(local_ranks.values().filter_map(|member| member.daemon).collect());
    // The agent refers to its layout until the process ends.
    let host_state: &HostState = Box::leak(Box::new(HostState {
        control,
        token: tree.secret.token(),
        cpus: cpus::capped(cpus.len() as u32),
        layout,
        host,
        relayed,
    }));
    let layout = &host_state.layout;
    let message = host_state.join_message(variables.clone());
    let (mut children, mut outputs) = (Vec::new(), Vec::new());
    let mode = OutputMode::of(options, tree.is_root());
    let mut shared: Option<(u32, RankMemory)> = None;
    let host_memory = host::host_memory(options)?;
    for (rank, mut member) in local_ranks {
        let nbrhd = layout.nbrhd_of(rank);
        let (_, nbrhd_memory) = match shared.take().filter(|(of, _)| *of == nbrhd) {
            Some(same) => shared.insert(same),
            None => shared.insert((nbrhd, host::nbrhd_memory(options, &host_memory)?)),
        };
        let (ours, theirs) = fd::seqpacket_pair().map_err(|e| JobError::io("a socket", &e))?;
        let (readers, writers) = mode
            .map(|_| pipes())
            .transpose()
            .map_err(|e| JobError::io("a pipe", &e))?
            .unzip();
        let mut descriptors = join::descriptors(&theirs, &control_memory, nbrhd_memory).to_vec();
        descriptors.extend(writers.iter().flatten().map(AsRawFd::as_raw_fd));
        // The death of a rank is noticed elsewhere.
        let _ = send(&mut member.stream, &message, &descriptors);
        outputs.extend(readers.map(|readers| (rank, readers)));
        children.push(Child::new(rank, member.pid, Some(member.process), ours));
    }
    Ok(AgentSetup {
        options,
        layout,
        host,
        variables,
        control,
        children,
        outputs,
        daemons,
        tree,
    })
}

/// Waits for what this rank gets from its agent. Returns the rank's view of the job.
pub fn take(rendezvous: &mut Rendezvous, rank: u32, options: &StartOptions) -> Result<Job, JobError> {
    let gone = |e: &io::Error| {
        JobError::new(format!(
            "the node agent of host {} could not start the job ({e}); see its message above",
            net::host_name()
        ))
    };
    let limit = options.remote.limit.map(|limit| limit + MARGIN);
    rendezvous.leader.set_read_timeout(limit).map_err(|e| gone(&e))?;
    let (message, descriptors) = receive(&mut rendezvous.leader).map_err(|e| gone(&e))?;
    let malformed = || gone(&io::Error::other("its message is malformed"));
    let mut descriptors = descriptors.into_iter();
    let shared = descriptors.by_ref().take(5).collect::<Vec<_>>().try_into();
    // Pipes for output, if it is forwarded.
    if let Ok(writers) = descriptors.collect::<Vec<_>>().try_into() {
        become_output(&writers);
    }
    match shared {
        Ok(shared) => join::enter(message, shared, rank, options)?.ok_or_else(malformed),
        Err(_) => Err(malformed()),
    }
}
