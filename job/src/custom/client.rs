//! A worker's connection to the launcher process of a custom spawner, which takes the part of the
//! process manager.
#![forbid(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use super::command::RANK_IN;
use super::server::identity;
use crate::pmi::{Membership, ProcessManager};
use crate::spawn::Contact;
use crate::tree::link::{Link, WORKER_ID};
use crate::tree::message::{unmask_pairs, AgentMessage};
use crate::{refuse, JobError};
use gasnet_sys::{net, process};

/// Limit for an answer of the launcher process, which waits for the slowest worker.
const ANSWER: Duration = Duration::from_secs(300);

/// In effect none.
const NO_LIMIT: Duration = Duration::from_secs(u32::MAX as u64);

/// The launcher process as a process manager.
#[derive(Debug)]
pub struct LauncherClient {
    link: Link,
    contact: Contact,
    membership: Membership,
}

/// Connects to the launcher process, if its command has started this process, and takes over its
/// environment. Before the configuration is read.
pub fn prepare() -> Result<Option<LauncherClient>, JobError> {
    let Some(contact) = Contact::take(true) else {
        return Ok(None);
    };
    let contact = contact?;
    let here = net::host_name();
    let addresses = contact.resolve(None);
    let mut link = Link::call(&addresses, contact.secret, WORKER_ID, ANSWER).map_err(|why| {
        JobError::new(format!(
            "host {here} cannot connect to the launcher process ({why}). Set GASNET_MASTERIP to an address of \
             its host that can be reached from here"
        ))
    })?;
    link.send(&AgentMessage::Register {
        requested_rank: requested_rank()?,
        host: identity().into_bytes(),
    });
    let (rank, size, environment) = match link.wait(ANSWER) {
        Ok(AgentMessage::Assign {
            rank,
            size,
            environment,
        }) => (rank, size, environment),
        Ok(_) => return refuse(format!("host {here} received an unexpected message instead of a rank")),
        Err(why) => return refuse(format!("host {here} received no rank in the job: {why}")),
    };
    let Some(environment) = unmask_pairs(environment, contact.secret) else {
        return refuse(format!("host {here} received a malformed environment"));
    };
    for (name, value) in environment {
        let name = OsString::from_vec(name);
        if is_taken(&name, env::var_os(&name).as_deref(), process::is_privileged()) {
            env::set_var(&name, OsString::from_vec(value));
        }
    }
    Ok(Some(LauncherClient {
        link,
        contact,
        membership: Membership {
            manager: "the command of GASNET_CSPAWN_CMD".into(),
            rank,
            size,
            node: None,
        },
    }))
}

/// Whether this process takes a variable of the launcher process, of which it has the value `own`.
/// Values that the command has set are kept, except empty GASNet variables, which count as unset. A
/// privileged process takes GASNet variables only: its caller chooses the launcher process.
fn is_taken(name: &OsStr, own: Option<&OsStr>, is_privileged: bool) -> bool {
    let of_gasnet = name.as_bytes().starts_with(b"GASNET_");
    let is_name = !name.is_empty() && !name.as_bytes().contains(&b'=');
    is_name && own.is_none_or(|own| of_gasnet && own.is_empty()) && (of_gasnet || !is_privileged)
}

/// The rank that this process requests: `GASNET_WORKER_RANK`, or the variable that it names, set
/// here or in the launcher process.
fn requested_rank() -> Result<Option<u32>, JobError> {
    let settings = ["GASNET_WORKER_RANK", RANK_IN].map(|name| env::var(name).ok().filter(|t| !t.trim().is_empty()));
    env::remove_var(RANK_IN);
    let Some(text) = settings.into_iter().flatten().next() else {
        return Ok(None);
    };
    if let Ok(number) = text.trim().parse() {
        return Ok(Some(number));
    }
    match env::var(text.trim()).ok().and_then(|value| value.trim().parse().ok()) {
        Some(number) => Ok(Some(number)),
        None => refuse(format!(
            "GASNET_WORKER_RANK={text}: expected a whole number, or the name of a variable with one"
        )),
    }
}

impl ProcessManager for LauncherClient {
    fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Nothing: the launcher process has sent the secret, and agents connect to it alone.
    fn put(&mut self, _key: &str, _value: &str) -> Result<(), JobError> {
        Ok(())
    }

    fn fence(&mut self, limit: Option<Duration>) -> Result<(), JobError> {
        let failed = |why: &str| JobError::new(format!("the launcher process could not complete a fence: {why}"));
        self.link.send(&AgentMessage::Fence {});
        match self.link.wait(limit.unwrap_or(NO_LIMIT)) {
            Ok(AgentMessage::Fence {}) => Ok(()),
            Ok(_) => Err(failed("unexpected answer")),
            Err(why) => Err(failed(&why)),
        }
    }

    fn get(&mut self, _owner: u32, _key: &str) -> Result<String, JobError> {
        refuse("defect: the launcher process stores no values")
    }

    /// Nothing: the node agent reports for its ranks.
    fn finalize(&mut self, _whole: bool) {}

    /// Nothing: the launcher process sees the connection end.
    fn abort(&mut self) {}

    fn launcher_contact(&self) -> Option<Contact> {
        Some(self.contact.clone())
    }

    fn descriptors(&self) -> Vec<RawFd> {
        vec![self.link.poll_item().fd]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_taken_where_the_command_has_set_none() {
        for (name, own, plain, privileged) in [
            ("GASNET_X", None, true, true),
            ("GASNET_X", Some(""), true, true),
            ("GASNET_X", Some("own"), false, false),
            ("PATH_OF_X", None, true, false),
            ("PATH_OF_X", Some(""), false, false),
            ("", None, false, false),
            ("GASNET_X=Y", None, false, false),
        ] {
            let is = |is_privileged| is_taken(name.as_ref(), own.map(OsStr::new), is_privileged);
            assert_eq!((is(false), is(true)), (plain, privileged), "{name} {own:?}");
        }
    }
}
