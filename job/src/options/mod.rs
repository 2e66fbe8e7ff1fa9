//! The options of a job.

mod read;

use std::ffi::{CString, OsString};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::invitation::Invitation;
use super::spawn::Contact;
use super::{refuse, JobError};
use gasnet_conduit::{Bootstrap, SystemLauncher};
use gasnet_sys::net;
pub use read::is_verbose;

/// Most ranks on one host. A larger number is probably a mistake.
pub const MAX_RANKS: u32 = 1024;

pub(crate) const RANKS: &str = "GASNET_PSHM_NODES";

/// Contribution of a library.
#[derive(Clone, Default)]
pub struct Library<'a> {
    /// Its conduits.
    pub names: Vec<&'a str>,
    /// Whether one of them has a network that reaches other hosts.
    pub network: bool,
    /// Whether one of them is for a single host, so that programs may be meant to run alone.
    pub alone: bool,
    /// The program's first argument, if it may be a number of ranks.
    pub count: Option<Count>,
    /// The system of a conduit that has started this process.
    pub bootstrap: Option<&'static dyn Bootstrap>,
    /// The program that starts processes for the system of a conduit, if none has started this one.
    pub launcher: Option<SystemLauncher>,
}

/// A number as the program's first argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// It is among the arguments that the client has passed.
    Passed {
        /// The number; [`u32::MAX`] stands for all greater ones.
        ranks: u32,
        /// The program's name and its other arguments.
        rest: Vec<CString>,
    },
    /// It is only on the process's command line; its meaning to the program is unknown.
    Unpassed(u32),
}

/// How ranks are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartMethod {
    /// This process forks them.
    Fork,
    /// Remote shells start them on several hosts; this host is the first.
    Ssh,
    /// A remote shell has started this process, which forks the ranks of its host.
    SshChild(Contact),
    /// A node agent has executed the program again as a rank.
    Fresh(Invitation),
    /// A command of the user starts them; this is the launcher process.
    Custom,
    /// Such a command has started this process, which has connected to the launcher process.
    CustomWorker,
    /// A process manager has started all ranks, including this process.
    Managed,
}

/// Exit timeouts. `GASNET_EXITTIMEOUT` and related variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitTimeouts {
    /// The exit timeout: until ranks that poll must leave, and from then until ranks are killed.
    pub exit: Duration,
    /// After a success: until ranks that compute must leave.
    pub busy: Duration,
    /// The same after a failure.
    pub failure: Duration,
}

/// How a job starts, and with how many ranks.
pub(crate) struct Start {
    /// How ranks are started.
    pub method: StartMethod,
    /// Their number.
    pub ranks: u32,
    /// See [`StartOptions::restart`].
    pub restart: Option<Vec<CString>>,
}

/// How to start and end a job.
#[allow(clippy::struct_excessive_bools)] // Each is a variable of its own.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// How ranks are started. `GASNET_SPAWNER`, `GASNET_<conduit>_SPAWNER`, `GASNET_SPAWNFN`, or
    /// detected.
    pub start: StartMethod,
    /// If the first argument is the number of ranks: the other arguments, with which to restart the
    /// program ([`super::restart()`]).
    pub restart: Option<Vec<CString>>,
    /// Ranks to start. `GASNET_PSHM_NODES`.
    pub ranks: u32,
    /// Most ranks in a neighbourhood; 0: no limit. `GASNET_SUPERNODE_MAXSIZE`.
    pub nbrhd_max: u32,
    /// Limits for ranks of an ending job.
    pub exit_timeouts: ExitTimeouts,
    /// Whether a rank that returns from `main` or calls `exit` ends the job. `GASNET_CATCH_EXIT`.
    pub catch_exit: bool,
    /// Whether to call sync at the end. `GASNET_FS_SYNC`.
    pub sync_files: bool,
    /// Directory of shared memory files, if nothing better works. `GASNET_TMPDIR`, `TMPDIR`.
    pub directory: PathBuf,
    /// Whether each line of output starts with its rank. `GASNET_LABEL_OUTPUT`, set by the
    /// launcher.
    pub label_output: bool,
    /// If output is routed to the first host: up to how many bytes lines are kept together.
    /// `GASNET_ROUTE_OUTPUT`, `GASNET_CSPAWN_ROUTE_OUTPUT`, `GASNET_LINEBUFFERSZ`.
    pub route_output: Option<usize>,
    /// Whether to report the start, and what failed at first. `GASNET_VERBOSEENV`,
    /// `GASNET_SPAWN_VERBOSE`.
    pub verbose: bool,
    /// How to reach other hosts.
    pub remote: Remote,
    /// The user's command that starts the ranks.
    pub custom: CustomCommand,
    /// The network of the addresses that ranks of different hosts use. `GASNET_WORKERIP`.
    pub workers: Option<IpAddr>,
}

/// Settings for remote shells.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The remote shell. `GASNET_SSH_CMD`.
    pub command: String,
    /// Its options, before the host's name. `GASNET_SSH_OPTIONS`.
    pub options: String,
    /// Most remote shells that one host starts; 0: no limit. `GASNET_SSH_OUT_DEGREE`.
    pub out_degree: u32,
    /// Directory on the other hosts. `GASNET_SSH_REMOTE_PATH`.
    pub folder: Option<OsString>,
    /// The name of `env` on the other hosts. `GASNET_ENV_CMD`.
    pub env: OsString,
    /// Address of the first host for the others. `GASNET_MASTERIP`.
    pub master: Option<String>,
    /// Whether a repeated name counts more than once. `GASNET_SSH_KEEPDUP`.
    pub keep_duplicates: bool,
    /// Most hosts to use; 0: all. `GASNET_SPAWN_HOSTS`.
    pub most_hosts: u32,
    /// Limit for the other hosts to connect. `GASNET_SPAWN_TIMEOUT`.
    pub limit: Option<Duration>,
    /// Variables that replace those of the remote session. `GASNET_SPAWN_ENVIRONMENT`.
    pub wins: Vec<String>,
}

/// The command of `GASNET_CSPAWN_CMD` and its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomCommand {
    /// The command, with placeholders.
    pub command: Option<OsString>,
    /// Hosts for `%M`. `GASNET_CSPAWN_SERVERS`.
    pub servers: Vec<String>,
    /// The name of `env` on the other hosts. `GASNET_ENV_CMD`.
    pub env: Option<OsString>,
    /// The variable that holds a worker's rank, if the launcher process knows its name.
    /// `GASNET_WORKER_RANK`.
    pub rank_in: Option<String>,
}

impl StartOptions {
    /// The address of this host in the network that the user has chosen, if there is one.
    pub(crate) fn worker_address(&self) -> Result<Option<IpAddr>, JobError> {
        let Some(network) = self.workers else { return Ok(None) };
        let all = net::addresses();
        let exact = all.iter().find(|own| own.ip == network);
        if let Some(own) = exact.or_else(|| all.iter().find(|own| own.network_has(network))) {
            return Ok(Some(own.ip));
        }
        let own: Vec<String> = all.iter().map(|a| format!("{}/{}", a.ip, a.prefix)).collect();
        refuse(format!(
            "GASNET_WORKERIP={network}: host {} has no address in that network; it has {}",
            net::host_name(),
            own.join(", ")
        ))
    }
}
