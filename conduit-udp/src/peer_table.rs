//! Where a peer is, and what is known of it since the first contact.
#![forbid(unsafe_code)]

use crate::peer::Peer;
use crate::sys::{Address, Socket};
use gasnet_conduit::JobRank;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// [`PeerEntry::fate`]: present.
pub const ALIVE: u8 = 0;
/// Gone in order.
pub const CLOSED: u8 = 1;
/// Gone.
pub const LOST: u8 = 2;

/// Bytes of an address in the table that all exchange.
pub const ADDRESS_BYTES: usize = 19;

/// A peer's.
#[derive(Debug)]
pub struct PeerEntry {
    /// Where it receives.
    pub address: SocketAddr,
    /// Since the first contact.
    pub connection: OnceLock<Box<Connection>>,
    /// [`ALIVE`], or how it went.
    pub status: AtomicU8,
}

/// What is known of a peer since the first contact.
#[derive(Debug)]
pub struct Connection {
    /// Whose it is.
    pub rank: JobRank,
    /// Where it receives.
    pub address: Address,
    /// What sends there and nowhere else, if it is on this host.
    pub connected: Option<Socket>,
    /// Payload of the largest datagram on the path there, and whether the peer's state is yet to hear of it.
    pub payload: AtomicUsize,
    /// See [`Connection::path`].
    pub pmtu_changed: AtomicBool,
    /// Errors of sending, if the last attempts had any.
    pub send_errors: Mutex<Option<SendErrors>>,
    /// Whether there are some.
    pub has_send_errors: AtomicBool,
    /// What is said to it and heard from it.
    pub state: Mutex<Peer>,
    /// Refusals since it was heard, and when the last of them was.
    pub refusals: AtomicU8,
    /// See [`Connection::refusals`].
    pub refused_at: AtomicU64,
    /// When it was heard; if it never was, when it was first spoken to.
    pub last_heard: AtomicU64,
    /// Whether it ever was.
    pub was_heard: AtomicBool,
}

/// Datagrams that could not be sent.
#[derive(Clone, Copy, Debug)]
pub struct SendErrors {
    /// When that began, and the last time.
    pub since: u64,
    /// See [`SendErrors::since`].
    pub last: u64,
    /// It is this host that refuses, so that a datagram that goes ends it. Otherwise only word from the peer does.
    pub is_local: bool,
}

/// Errors that are further apart have nothing to do with each other. A host that is switched off is told of every three seconds, when the system has given
/// up asking for it; and what makes it ask again is a probe.
const ERROR_GAP: u64 = 8_000_000_000;

impl SendErrors {
    /// What there is with one more at `now`.
    pub fn after(last: Option<Self>, now: u64, is_local: bool) -> Self {
        let since = last.filter(|last| now < last.last + ERROR_GAP).map_or(now, |last| last.since);
        Self {
            since,
            last: now,
            is_local,
        }
    }
}

impl Connection {
    /// A datagram went, or one came.
    pub fn clear_send_errors(&self, went: bool) {
        if !self.has_send_errors.load(Relaxed) {
            return;
        }
        let mut errors = self.send_errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.is_some_and(|errors| errors.is_local == went) {
            *errors = None;
            self.has_send_errors.store(false, Relaxed);
        }
    }
}

/// An address for the table that all exchange: 16 bytes, port, family.
pub fn encode_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let mut out = [0; ADDRESS_BYTES];
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
pub fn decode_address(bytes: &[u8]) -> SocketAddr {
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
    fn errors_three_seconds_apart_are_one_outage() {
        let second = |n: u64| n * 1_000_000_000;
        let mut errors = None;
        for n in [5, 8, 11, 14] {
            errors = Some(SendErrors::after(errors, second(n), false));
            assert_eq!(errors.unwrap().since, second(5));
        }
        assert_eq!(SendErrors::after(errors, second(30), false).since, second(30));
    }
}
