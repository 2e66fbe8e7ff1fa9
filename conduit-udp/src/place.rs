//! Where a peer is, and what is known of it since the first contact.
#![forbid(unsafe_code)]

use crate::peer::Peer;
use crate::sys::Address;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicU8};
use std::sync::{Mutex, OnceLock};

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
    /// Where it receives.
    pub address: Address,
    /// What is said to it and heard from it.
    pub state: Mutex<Peer>,
    /// Refusals since it was heard, and when the last of them was.
    pub refusals: AtomicU8,
    /// See [`Contact::refusals`].
    pub refused_at: AtomicU64,
    /// When it was heard.
    pub heard: AtomicU64,
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
