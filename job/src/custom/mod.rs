//! The custom spawner: a command of the user starts the ranks in its own way (udp-conduit README,
//! `GASNET_SPAWNFN=C`).
//!
//! The launcher process runs the command once. Each process that this starts, a worker, connects to
//! the launcher process, which takes the part of a process manager: it assigns ranks, sends its
//! environment, and completes fences. The PMI bootstrap follows ([`super::pmi_bootstrap`]), but all
//! agents connect to the launcher process. It is the root of the tree of agents, without ranks: it
//! decides how the job ends, and ends with the job's exit code.
//!
//! The job's secret is in the environment of the command, not on its command line.

mod client;
mod command;
mod server;

use std::process::Child as Process;
use std::time::Duration;

use super::agent::{self, AgentSetup};
use super::control_block::ControlBlock;
use super::spawn::ssh::listen;
use super::tree::message::Host;
use super::tree::secret::Secret;
use super::tree::{Branch, Tree};
use super::{refuse, JobError, StartOptions};
pub(super) use client::prepare;
use gasnet_sys::{process, signal};

/// Interval of checks whether the command has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Limits for the command to end: after the job, and after the request to end.
const COMMAND_END: Duration = Duration::from_secs(10);
const COMMAND_KILL: Duration = Duration::from_secs(5);

/// Becomes the launcher process. Returns only with an error.
pub(super) fn run(options: &StartOptions) -> Result<std::convert::Infallible, JobError> {
    let secret = Secret::new();
    let master = options.remote.master.as_deref();
    let (mut listener, contact) = listen(master, secret)?;
    let _ = process::flush_streams();
    // Children that a command of several words leaves behind when its shell ends.
    let others = process::adopt_descendants();
    // A connection for each worker, three for each agent, unauthenticated peers, and some spare.
    let _ = process::allow_descriptors(process::open_descriptors() + 6 * u64::from(options.ranks) + 1024);
    let mut command = options.custom.start(options, &contact)?;
    let runs = |missing| still_there(&mut command, missing);
    let served = server::LauncherServer::serve(options, secret, &mut listener, runs);
    let (layout, hosts) = served.or_else(|why| {
        // Workers that have connected report themselves why they end.
        process::end_children(&others, Duration::from_secs(1), COMMAND_KILL);
        refuse(why)
    })?;
    let branch = |host: Host| {
        let ranks = layout.ranks_on(layout.host_of(host.number)).len() as u32;
        Branch::new(host, Vec::new(), ranks)
    };
    let mut tree = Tree::new(secret, None, options.route_output.is_some());
    tree.expect(listener, hosts.into_iter().map(branch).collect(), options.remote.limit);
    let control =
        ControlBlock::create(layout.size, 0, true).map_err(|e| JobError::io("mapping the job control block", &e))?;
    signal::block_all();
    signal::set_default(libc::SIGCHLD);
    let setup = AgentSetup {
        options,
        layout: &layout,
        host: None,
        // It has sent its environment to all workers.
        variables: Vec::new(),
        control,
        children: Vec::new(),
        outputs: Vec::new(),
        daemons: Vec::new(),
        tree,
    };
    let code = agent::run(setup);
    // The command should end with its processes. The wait is limited.
    process::end_children(&others, COMMAND_END, COMMAND_KILL);
    process::end(code);
}

/// Whether the command runs. It may have ended successfully: some commands only queue what they
/// start.
fn still_there(command: &mut Process, missing: u32) -> Result<bool, String> {
    match command.try_wait() {
        Ok(Some(status)) if !status.success() => Err(format!(
            "the command of GASNET_CSPAWN_CMD ended ({status}) before {missing} of its processes had connected"
        )),
        Ok(status) => Ok(status.is_none()),
        Err(_) => Ok(true),
    }
}
