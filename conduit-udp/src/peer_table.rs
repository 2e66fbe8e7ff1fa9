//! Where a peer is, and what is known of it since the first contact.
#![forbid(unsafe_code)]

use crate::peer::Peer;
use crate::sys::{Address, Socket};
use gasnet_conduit::JobRank;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// [`Place::fate`]: present.
pub const HERE: u8 = 0;
/// Gone in order.
pub const LEFT: u8 = 1;
/// Gone.
pub const LOST: u8 = 2;

/// Bytes of an address in the table that all exchange.
pub const ENTRY: usize = 19;

/// A peer's.
#[derive(Debug)]
pub struct Place {
    /// Where it receives.
    pub address: SocketAddr,
    /// Since the first contact.
    pub peer: OnceLock<Box<Contact>>,
    /// [`HERE`], or how it went.
    pub fate: AtomicU8,
}

/// What is known of a peer since the first contact.
#[derive(Debug)]
pub struct Contact {
    /// Whose it is.
    pub rank: JobRank,
    /// Where it receives.
    pub address: Address,
    /// What sends there and nowhere else, if it is on this host.
    pub line: Option<Socket>,
    /// Payload of the largest datagram on the path there, and whether the peer's state is yet to hear of it.
    pub path: AtomicUsize,
    /// See [`Contact::path`].
    pub is_changed: AtomicBool,
    /// Errors of sending, if the last attempts had any.
    pub trouble: Mutex<Option<Trouble>>,
    /// Whether there are some.
    pub has_trouble: AtomicBool,
    /// What is said to it and heard from it.
    pub state: Mutex<Peer>,
    /// Refusals since it was heard, and when the last of them was.
    pub refusals: AtomicU8,
    /// See [`Contact::refusals`].
    pub refused_at: AtomicU64,
    /// When it was heard; if it never was, when it was first spoken to.
    pub heard: AtomicU64,
    /// Whether it ever was.
    pub has_spoken: AtomicBool,
}

/// Datagrams that could not be sent.
#[derive(Clone, Copy, Debug)]
pub struct Trouble {
    /// When that began, and the last time.
    pub since: u64,
    /// See [`Trouble::since`].
    pub last: u64,
    /// It is this host that refuses, so that a datagram that goes ends it. Otherwise only word from the peer does.
    pub is_here: bool,
}

/// Errors that are further apart have nothing to do with each other. A host that is switched off is told of every three seconds, when the system has given
/// up asking for it; and what makes it ask again is a probe.
const TROUBLED_AGAIN: u64 = 8_000_000_000;

impl Trouble {
    /// What there is with one more at `now`.
    pub fn after(last: Option<Self>, now: u64, is_here: bool) -> Self {
        let since = last
            .filter(|last| now < last.last + TROUBLED_AGAIN)
            .map_or(now, |last| last.since);
        Self {
            since,
            last: now,
            is_here,
        }
    }
}

impl Contact {
    /// A datagram went, or one came.
    pub fn ease(&self, went: bool) {
        if !self.has_trouble.load(Relaxed) {
            return;
        }
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if trouble.is_some_and(|trouble| trouble.is_here == went) {
            *trouble = None;
            self.has_trouble.store(false, Relaxed);
        }
    }
}

/// An address for the table that all exchange: 16 bytes, port, family.
pub fn encode(address: SocketAddr) -> [u8; ENTRY] {
    let mut out = [0; ENTRY];
    match address.ip() {
        IpAddr::V4(ip) => {
            out[..4].copy_from_slice(&ip.octets());
            out[18] = 4;
        }
        IpAddr::V6(ip) => {
            out[..16].copy_from_slice(&ip.octets());
            out[18] = 6;
        }
    }
    out[16..18].copy_from_slice(&address.port().to_be_bytes());
    out
}

/// The same back.
pub fn decode(bytes: &[u8]) -> SocketAddr {
    let port = u16::from_be_bytes([bytes[16], bytes[17]]);
    let ip: IpAddr = if bytes[18] == 4 {
        [bytes[0], bytes[1], bytes[2], bytes[3]].into()
    } else {
        std::array::from_fn::<u8, 16, _>(|i| bytes[i]).into()
    };
    SocketAddr::new(ip, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_come_every_three_seconds_are_one_trouble() {
        let second = |n: u64| n * 1_000_000_000;
        let mut trouble = None;
        for n in [5, 8, 11, 14] {
            trouble = Some(Trouble::after(trouble, second(n), false));
            assert_eq!(trouble.unwrap().since, second(5));
        }
        assert_eq!(Trouble::after(trouble, second(30), false).since, second(30));
    }
}
