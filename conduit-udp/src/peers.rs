//! The peer table: address and connection of each rank.
#![forbid(unsafe_code)]

use crate::peer::Peer;
use crate::sys::{Address, Socket};
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

/// Bytes of an encoded address in the exchange at start.
pub const ADDRESS_BYTES: usize = 19;

/// The table entry of one peer.
#[derive(Debug)]
pub struct PeerEntry {
    /// Address of its main socket.
    pub address: SocketAddr,
    /// Created at first contact.
    pub connection: OnceLock<Box<Connection>>,
}

/// The state of a peer since first contact.
#[derive(Debug)]
pub struct Connection {
    /// Rank of the peer.
    pub rank: JobRank,
    /// Address of its main socket, as the kernel takes it.
    pub address: Address,
    /// The connected socket that sends to it, if it is among the first on this host.
    pub connected: Option<Socket>,
    /// Bytes of the largest payload on the path, and whether [`Connection::state`] must be updated
    /// with it.
    pub payload: AtomicUsize,
    /// See [`Connection::payload`].
    pub pmtu_changed: AtomicBool,
    /// Send errors, if the last attempts had any.
    pub send_errors: Mutex<Option<SendErrors>>,
    /// Whether there are send errors; avoids the lock.
    pub has_send_errors: AtomicBool,
    /// Protocol state.
    pub state: Mutex<Peer>,
    /// ICMP port-unreachable errors since the last datagram from the peer, and the time of the last
    /// one.
    pub refusals: AtomicU8,
    /// See [`Connection::refusals`].
    pub refused_at: AtomicU64,
    /// Time of the last datagram from the peer, or of the first contact if there is none.
    pub last_received: AtomicU64,
    /// Whether anything was ever received from the peer.
    pub has_received: AtomicBool,
}

/// A series of send errors.
#[derive(Clone, Copy, Debug)]
pub struct SendErrors {
    /// Times of the first and the last error.
    pub since: u64,
    /// See [`SendErrors::since`].
    pub last: u64,
    /// Whether this host refuses to send. Then a successful send ends the series, otherwise only a
    /// datagram from the peer does.
    pub is_local: bool,
}

/// Nanoseconds after which an error starts a new series. For a host that is switched off, the
/// kernel reports an error every three seconds: when address resolution has failed, which each
/// probe restarts.
const ERROR_GAP: u64 = 8_000_000_000;

impl SendErrors {
    /// The series with one more error at `now`.
    pub fn after(last: Option<Self>, now: u64, is_local: bool) -> Self {
        let since = last
            .filter(|last| now < last.last + ERROR_GAP)
            .map_or(now, |last| last.since);
        Self {
            since,
            last: now,
            is_local,
        }
    }
}

impl Connection {
    /// Ends the series after a successful send (`went`), or a datagram from the peer, whichever
    /// applies.
    pub fn clear_send_errors(&self, went: bool) {
        if !self.has_send_errors.load(Relaxed) {
            return;
        }
        let mut errors = lock(&self.send_errors);
        if errors.is_some_and(|errors| errors.is_local == went) {
            *errors = None;
            self.has_send_errors.store(false, Relaxed);
        }
    }
}

/// Encodes an address for the exchange: 16 bytes of IP, port, family.
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

/// Decodes an address.
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
