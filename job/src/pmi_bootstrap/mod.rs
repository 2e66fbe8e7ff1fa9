//! PMI bootstrap: ranks started by a process manager (hydra, srun, prterun and others). They have
//! no node agent, so they create one per host.
//!
//! - Rank 0 puts the job's secret into the manager's store.
//! - Rendezvous: the ranks of a host find each other at a local socket, whose name follows from the
//!   secret. The rank that binds it leads.
//! - Every rank puts the endpoint of its host into the manager's store. After two fences each
//!   leader gets that of the agent above, and the first leader all of them: the layout of the job.
//! - The leader forks the agent, which is no child of any rank. The agents connect in a tree that
//!   follows from rank numbers, and get the layout from the root. Then the manager is not needed
//!   until the end.
//! - Handshake: each agent gives its ranks what forked ranks inherit.

mod acceptor;
mod handshake;
pub(super) mod hosts;
mod leader;
mod rendezvous;

use std::thread;
use std::time::Duration;

use super::job::Job;
use super::pmi::current::{self, Manager};
use super::pmi::Membership;
use super::tree::message::AgentMessage;
use super::tree::secret::Secret;
use super::{refuse, JobError, StartOptions, MAX_RANKS};
use gasnet_sys::{fd, process};
use leader::Leader;
use rendezvous::Rendezvous;

/// Time that a rank waits for its leader beyond the limit for hosts.
const MARGIN: Duration = Duration::from_secs(30);
/// Programs may do much before gex_Client_Init, so ranks wait for each other this many times as
/// long as for a host.
const FENCE_FACTOR: u32 = 10;
/// Time for a manager to pass on a message before it ends the process.
const MESSAGE_TIME: Duration = Duration::from_millis(100);

/// Joins the job of the manager that has started this process.
pub(super) fn join(options: &StartOptions) -> Result<Job, JobError> {
    let joined = current::with(|manager| {
        join_with(manager, options).inspect_err(|error| {
            let _ = fd::write_all(
                2,
                format!("gasnet: rank {}: {error}\n", manager.membership().rank).as_bytes(),
            );
            // The manager may end this process before it has passed the message on.
            thread::sleep(MESSAGE_TIME);
            manager.abort();
        })
    });
    joined.unwrap_or_else(|| refuse("defect: no process manager is connected"))
}

fn join_with(manager: &mut Manager, options: &StartOptions) -> Result<Job, JobError> {
    let Membership { rank, size, node, .. } = manager.membership().clone();
    // Until the agent runs, the leader has a connection and a process descriptor for each rank of
    // its host.
    let wanted = process::open_descriptors() + 2 * u64::from(size.min(MAX_RANKS)) + 32;
    let descriptors = process::allow_descriptors(wanted).ok();
    let limit = options.remote.limit.map(|limit| limit.saturating_mul(FENCE_FACTOR));
    let secret = share_secret(manager, rank, limit)?;
    let mut rendezvous = Rendezvous::at(secret, rank, node)
        .map_err(|e| JobError::io("rendezvous with the other ranks of this host", &e))?;
    rendezvous
        .introduce()
        .map_err(|e| JobError::io("rendezvous with the other ranks of this host", &e))?;
    fence(manager, limit)?;
    let leader = match rendezvous.acceptor.take() {
        Some(acceptor) => Some(Leader::new(acceptor, &mut rendezvous, options)?),
        None => None,
    };
    match rendezvous::receive(&mut rendezvous.leader) {
        Ok((AgentMessage::Endpoint { text }, _)) => manager.put("at", &String::from_utf8_lossy(&text))?,
        Ok(_) => return refuse("unexpected message instead of the endpoint of this host"),
        Err(e) => return Err(JobError::io("receiving the endpoint of this host", &e)),
    }
    manager.fence(limit)?;
    if let Some(leader) = leader {
        leader.start_agent(manager, secret, options)?;
    }
    descriptors.iter().for_each(process::restore_descriptor_limit);
    handshake::take(&mut rendezvous, rank, options)
}

/// A fence in which ranks wait for others that may not have called `gex_Client_Init` yet.
fn fence(manager: &mut Manager, limit: Option<Duration>) -> Result<(), JobError> {
    manager.fence(limit).map_err(|error| {
        JobError::new(format!(
            "{error}. Ranks wait here for each other, at most {FENCE_FACTOR} times GASNET_SPAWN_TIMEOUT: a rank may \
             have ended, or not call gex_Client_Init"
        ))
    })
}

/// The job's secret: from the launcher process, or by the manager's store and a fence.
fn share_secret(manager: &mut Manager, rank: u32, limit: Option<Duration>) -> Result<Secret, JobError> {
    if let Some(launcher) = manager.launcher_contact() {
        return Ok(launcher.secret);
    }
    if rank == 0 {
        manager.put("secret", &Secret::new().to_text())?;
    }
    fence(manager, limit)?;
    Secret::from_text(&manager.get(0, "secret")?)
        .ok_or_else(|| JobError::new("the process manager's store returned a malformed secret"))
}
