//! The start of a job by a system that the network brings along, such as MPI: it has started the
//! processes and tells each its rank.

use crate::ConduitError;

/// The place of a process in the job of its starter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootstrapPlace {
    /// The system, for messages: "MPI (Open MPI 4.1.4)".
    pub system: String,
    /// Less than `size`.
    pub rank: u32,
    /// Processes in the job; at least one.
    pub size: u32,
    /// The node on which the system has placed it, if the system names nodes. Processes of
    /// different nodes do not share memory, also where one machine simulates the nodes.
    pub node: Option<u32>,
}

/// The program that starts processes for such a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemLauncher {
    /// The program to run.
    pub program: &'static str,
    /// Another program of the system. Its presence distinguishes this one from others of the same
    /// name.
    pub companion: Option<&'static str>,
}

/// Such a system. The job layer uses it as it uses a process manager's PMI: to exchange what node
/// agents need to find each other, and at the end. Everything else, the output, the exit and the
/// loss of ranks, is the node agents'. One thread makes all calls.
///
/// A process manager with PMI-1, PMI-2 or PMIx comes first, if one has started the process, unless
/// the system precedes it.
pub trait Bootstrap: Sync {
    /// Whether this system has started the process. Looks at the environment only.
    fn has_started_this(&self) -> bool;

    /// Whether it comes before process managers, which it uses itself, in a library without other
    /// conduits, or if the user has selected this one.
    fn precedes_managers(&self) -> bool {
        false
    }

    /// The program that starts processes for this system, other than srun of Slurm. gasnetrun runs
    /// it if it is on the path.
    fn launcher(&self) -> Option<SystemLauncher> {
        None
    }

    /// Joins the job. Called at most once, before [`crate::Conduit::start`].
    fn join(&self) -> Result<BootstrapPlace, ConduitError>;

    /// All-gather: the bytes of all processes, of equal lengths, in the order of ranks. Blocks
    /// until all have called it.
    fn exchange(&self, bytes: &[u8]) -> Result<Vec<u8>, ConduitError>;

    /// This process ends normally. `whole`: no other library of the process uses the system any
    /// more, even without its own finalisation. Does not block for a system that does not answer.
    fn leave(&self, whole: bool);

    /// Asks the system to end the job, which may end this process.
    fn abort(&self);

    /// Descriptors of the connection to the system. The node agent, a forked child, closes its
    /// copies.
    fn descriptors(&self) -> Vec<i32> {
        Vec::new()
    }
}
