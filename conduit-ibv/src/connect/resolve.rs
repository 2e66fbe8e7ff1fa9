//! Addresses of peers that the kernel does not resolve at once. On RoCE it looks a GID up like an
//! IP address, when a queue pair is connected or an address handle made. For some seconds these
//! calls may fail: no answer from the neighbour yet, or no route while a host starts.
//!
//! At start a process tries again in place. Later connections treat a failure as a lost datagram,
//! so the timers of handshakes try again, and polls go on meanwhile. As such a call may block for
//! seconds, the connection thread alone does handshakes then, if there is one.
#![forbid(unsafe_code)]

use crate::fabric::Fabric;
use crate::ffi::{Address, Errno};
use crate::memory::advice::advised;
use gasnet_conduit::JobRank;
use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

/// A call that failed while a connection was made.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub why: Errno,
    path: usize,
    /// Address of the peer, if the call had it.
    to: Option<Address>,
}

impl Failure {
    /// A call that had the address of a peer.
    pub fn of(path: usize, to: Address, why: Errno) -> Self {
        let to = Some(to);
        Self { why, path, to }
    }

    /// Any other call.
    pub fn local(why: Errno) -> Self {
        Self { why, path: 0, to: None }
    }
}

/// Tries until the address of the peer is resolved, or for some seconds.
pub fn in_time(mut connect: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    const TRIES: u32 = 34;
    const PAUSE: Duration = Duration::from_millis(100);
    for _ in 1..TRIES {
        match connect() {
            Err(failure) if failure.why.is_unresolved() => thread::sleep(PAUSE),
            result => return result,
        }
    }
    connect()
}

/// Peers whose address was not resolved when it was last needed.
#[derive(Default)]
pub struct Unresolved(Vec<Entry>);

struct Entry {
    peer: JobRank,
    first: Instant,
    last: Instant,
    failures: u32,
}

impl Unresolved {
    /// Notes a failure. Whether it was the last try.
    pub fn is_given_up(&mut self, peer: JobRank) -> bool {
        self.note(peer, Instant::now())
    }

    fn note(&mut self, peer: JobRank, now: Instant) -> bool {
        /// Failures in a row for so long are final, if they are as many.
        const LIMIT: Duration = Duration::from_secs(10);
        const LEAST: u32 = 4;
        /// Longest time between failures in a row.
        const GAP: Duration = Duration::from_secs(5);
        let found = self.0.iter().position(|entry| entry.peer == peer);
        let index = found.unwrap_or_else(|| {
            self.0.push(Entry {
                peer,
                first: now,
                last: now,
                failures: 0,
            });
            self.0.len() - 1
        });
        let entry = &mut self.0[index];
        if now.duration_since(entry.last) > GAP {
            (entry.first, entry.failures) = (now, 0);
        }
        (entry.last, entry.failures) = (now, entry.failures + 1);
        entry.failures >= LEAST && now.duration_since(entry.first) > LIMIT
    }

    /// The address was resolved. Whether any other was not.
    pub fn forget(&mut self, peer: JobRank) -> bool {
        self.0.retain(|entry| entry.peer != peer);
        !self.0.is_empty()
    }
}

impl Fabric {
    /// Why a connection could not be made, and what to do about it.
    pub fn why_no_pair(&self, why: Errno) -> String {
        let rail = &self.rails[0];
        if rail.has_xrc() && !why.is_unresolved() {
            return format!("{}. GASNET_USE_XRC=0 does without XRC", advised(why));
        }
        if why != Errno::NO_MEMORY {
            return why.to_string();
        }
        format!(
            "{}. It has {} queue pairs for all processes of its host: GASNET_CONNECT_STATIC=0 makes only those that \
             are used, and GASNET_USE_XRC=1 one for each host",
            advised(why),
            rail.context.attributes.max_qp
        )
    }

    /// A failure in messages: the port, the reason, and both GIDs if packets have them.
    pub fn describe(&self, failure: &Failure) -> String {
        let gid = |address: &Address| Ipv6Addr::from(address.gid);
        let port = &self.paths[failure.path].port;
        let gids = failure.to.filter(|_| port.is_global).map(|to| {
            let (own, theirs) = (gid(&port.address), gid(&to));
            format!(" (GID {own}, the peer's {theirs})")
        });
        let (name, why) = (self.name(failure.path), self.why_no_pair(failure.why));
        format!("{name}: {why}{}", gids.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_in_a_row_are_final_after_a_while() {
        let (mut all, begun, peer) = (Unresolved::default(), Instant::now(), JobRank(3));
        let mut note = |seconds| all.note(peer, begun + Duration::from_secs(seconds));
        assert_eq!([0, 4, 8, 10, 12].map(&mut note), [false, false, false, false, true]);
        // After a pause they are counted anew.
        assert_eq!([20, 25, 30, 31].map(note), [false, false, false, true]);
        assert!(!all.forget(peer));
        assert!(!all.note(peer, begun + Duration::from_secs(32)));
    }

    #[test]
    fn only_unresolved_addresses_are_tried_again() {
        let mut calls = 0;
        let result = in_time(|| {
            calls += 1;
            let why = Errno(if calls < 3 { libc::ETIMEDOUT } else { libc::EINVAL });
            Err(Failure::local(why))
        });
        assert_eq!((result.unwrap_err().why, calls), (Errno(libc::EINVAL), 3));
    }
}
