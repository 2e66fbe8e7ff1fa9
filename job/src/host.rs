//! The state that the ranks of a host share: they inherit it from the process that forks them, or
//! get it from their node agent.

use super::control_block::ControlBlock;
use super::layout::JobLayout;
use super::tree::message::{AgentMessage, Pairs};
use super::{JobError, StartOptions};
use gasnet_sys::mem::{self, AnonMemory};

/// Name of the memory of the job control block in the system's list of descriptors.
pub const CONTROL_NAME: &str = "gasnet-control";
/// Name of the communication memory in the system's list of mappings.
pub const COMM_NAME: &str = "gasnet-comm";

/// State that is the same in all ranks of a host.
pub(super) struct HostState {
    pub control: ControlBlock,
    pub token: u128,
    /// Cores that the ranks may use.
    pub cpus: u32,
    pub layout: JobLayout,
    /// This host's number, if it has ranks.
    pub host: Option<u32>,
    /// Whether the job has other hosts.
    pub relayed: bool,
}

impl HostState {
    /// The message with which a rank that is not forked gets this state, and these variables of the
    /// first host.
    pub fn join_message(&self, variables: Pairs) -> AgentMessage {
        AgentMessage::Join {
            token: self.token,
            cpus: self.cpus,
            relayed: self.relayed,
            ranges: self.layout.ranges.clone(),
            nbrhd_max: self.layout.nbrhd_max,
            variables,
        }
    }
}

#[derive(Debug)]
pub(super) struct RankMemory {
    pub comm: AnonMemory,
    pub segment: AnonMemory,
    pub host: AnonMemory,
}

/// The memory objects of the ranks of a neighbourhood, on a host that shares `host`.
pub(super) fn nbrhd_memory(options: &StartOptions, host: &AnonMemory) -> Result<RankMemory, JobError> {
    Ok(RankMemory {
        comm: anon_memory(options, COMM_NAME)?,
        segment: anon_memory(options, "gasnet-segment")?,
        host: host.share().map_err(|e| JobError::io("duplicating a descriptor", &e))?,
    })
}

pub(super) fn host_memory(options: &StartOptions) -> Result<AnonMemory, JobError> {
    anon_memory(options, "gasnet-host")
}

/// The memory of the job control block.
pub(super) fn control_memory(options: &StartOptions, ranks: u32, here: u32) -> Result<AnonMemory, JobError> {
    let memory = anon_memory(options, CONTROL_NAME)?;
    memory
        .resize(ControlBlock::bytes(ranks, here))
        .map_err(|e| JobError::io("allocating the job control block", &e))?;
    Ok(memory)
}

/// A memory object without a name.
fn anon_memory(options: &StartOptions, name: &str) -> Result<AnonMemory, JobError> {
    let mut report = |line: &str| {
        if options.verbose {
            eprintln!("gasnet: {line}");
        }
    };
    mem::anon_memory(name, &options.directory, &mut report).map_err(|e| {
        JobError::new(format!(
            "no shared memory for the job: memfd_create, POSIX shared memory and a file in {} all failed, the \
             last one with: {e}. Set GASNET_TMPDIR to a writable directory",
            options.directory.display()
        ))
    })
}
