//! The invitation of a fresh rank ([`super::fresh`]): a variable of its environment.
#![forbid(unsafe_code)]

use std::env;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use gasnet_sys::process;

/// The invitation. Not in the table of variables, because users do not set it.
const VARIABLE: &str = "_GASNET_RANK";

/// Set in processes that a fresh rank has started before it joined the job.
static OF_A_RANK: AtomicBool = AtomicBool::new(false);

/// The invitation of a fresh rank, from its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub rank: u32,
    /// Bytes of the waiting message.
    pub length: usize,
    /// Control socket, control block, and memory, in the order of `join::enter`.
    pub descriptors: [RawFd; 5],
}

impl Invitation {
    /// Takes the invitation out of this process's environment, if it is this process's.
    pub fn take() -> Option<Self> {
        let text = env::var(VARIABLE).ok()?;
        env::remove_var(VARIABLE);
        let found = Self::parse(&text, process::pid());
        OF_A_RANK.store(found.is_none(), Ordering::Relaxed);
        found
    }

    fn parse(text: &str, own: process::Pid) -> Option<Self> {
        let mut words = text.split(',');
        let pid: process::Pid = words.next()?.parse().ok()?;
        let (rank, length) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let descriptors: Vec<RawFd> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let descriptors = descriptors.try_into().ok()?;
        (pid == own).then_some(Self {
            rank,
            length,
            descriptors,
        })
    }

    /// Puts it into the environment, which the program that this process executes inherits.
    pub fn put(&self) {
        env::set_var(VARIABLE, self.text());
    }

    fn text(&self) -> String {
        let descriptors = self.descriptors.map(|fd| fd.to_string()).join(",");
        format!("{},{},{},{descriptors}", process::pid(), self.rank, self.length)
    }
}

/// Whether this process was started by a fresh rank that had not joined the job.
pub fn was_for_a_parent() -> bool {
    OF_A_RANK.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_for_one_process() {
        let invitation = Invitation {
            rank: 3,
            length: 100,
            descriptors: [5, 6, 7, 8, 9],
        };
        let (text, own) = (invitation.text(), process::pid());
        assert_eq!(Invitation::parse(&text, own), Some(invitation));
        assert_eq!(Invitation::parse(&text, own + 1), None);
        assert_eq!(Invitation::parse(&format!("{text},1"), own), None);
        assert_eq!(Invitation::parse(&format!("{own},3"), own), None);
    }
}
