//! Datagrams that connect queue pairs.
//!
//! Either side asks, with the numbers of its queue pairs. The other connects its own to them and
//! answers with theirs; then the first connects, too, and confirms. So a side that asks may send
//! when it has the answer, and a side that answers when it has the confirmation, or any message
//! that arrived on the connection. If both ask at once, both answer. Every datagram may be lost,
//! doubled, or late: a side repeats what it waits for, and what it receives again changes nothing.
//!
//! With XRC the pairs of a side are those that receive from the other, which it connects when it
//! knows the other's pairs that send.
#![forbid(unsafe_code)]

use crate::ffi::{Address, PeerPair, MOST_DATAGRAM};
use crate::ports::{Path, MOST_PATHS};
use gasnet_conduit::JobRank;
use std::num::NonZeroU16;

/// Bytes of a datagram before its paths, and of each path.
const FRONT: usize = 24;
const PATH: usize = Endpoint::BYTES;

const _: () = assert!(FRONT + MOST_PATHS * PATH <= MOST_DATAGRAM);

/// Type of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// "These are my queue pairs."
    Ask,
    /// "I have connected mine, which are these, to yours."
    Answer,
    /// "I have connected mine, too."
    Confirm,
}

/// A queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Its port.
    pub address: Address,
    /// LID of the port of its alternate path.
    pub alternate: Option<NonZeroU16>,
    /// Its number: that of the pair which the receiver of this sends to.
    pub number: u32,
    /// With XRC, the number of the pair that sends to the receiver of this; else 0.
    pub sender: u32,
    /// `IBV_MTU_*` of its port.
    pub mtu: u8,
    /// Gets and atomics that its HCA executes at a time.
    pub reads: u8,
}

impl Endpoint {
    /// Bytes of one.
    pub const BYTES: usize = 28;

    /// A queue pair of a path of this process, without XRC.
    pub fn new(path: &Path, number: u32) -> Self {
        Self {
            address: path.port.address,
            alternate: path.alternate.and_then(|port| NonZeroU16::new(port.address.lid)),
            number,
            sender: 0,
            mtu: path.mtu,
            reads: path.reads,
        }
    }

    /// The pair that receives, for one that sends to it.
    pub fn pair(&self) -> PeerPair<'_> {
        PeerPair {
            address: &self.address,
            number: self.number,
        }
    }

    /// With XRC, the pair that sends.
    pub fn sending_pair(&self) -> PeerPair<'_> {
        PeerPair {
            address: &self.address,
            number: self.sender,
        }
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        // Numbers of queue pairs have 24 bits.
        bytes[..3].copy_from_slice(&self.number.to_le_bytes()[..3]);
        bytes[3..6].copy_from_slice(&self.sender.to_le_bytes()[..3]);
        bytes[6..8].copy_from_slice(&self.address.lid.to_le_bytes());
        bytes[8..10].copy_from_slice(&[self.mtu, self.reads]);
        bytes[10..26].copy_from_slice(&self.address.gid);
        bytes[26..].copy_from_slice(&self.alternate.map_or(0, NonZeroU16::get).to_le_bytes());
        bytes
    }

    /// Reads [`Endpoint::BYTES`] bytes.
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            number: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]),
            sender: u32::from_le_bytes([bytes[3], bytes[4], bytes[5], 0]),
            address: Address {
                lid: u16::from_le_bytes([bytes[6], bytes[7]]),
                gid: bytes[10..26].try_into().unwrap_or_default(),
            },
            alternate: NonZeroU16::new(u16::from_le_bytes([bytes[26], bytes[27]])),
            mtu: bytes[8],
            reads: bytes[9],
        }
    }
}

/// A datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The job's, which authenticates the sender.
    pub token: u64,
    /// The sender.
    pub source: JobRank,
    /// The receiver.
    pub target: JobRank,
    /// Its type.
    pub step: Step,
    /// The sender's queue pairs, by path.
    pub endpoints: Vec<Endpoint>,
}

impl Datagram {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let step = match self.step {
            Step::Ask => 1_u8,
            Step::Answer => 2,
            Step::Confirm => 3,
        };
        let mut bytes = Vec::with_capacity(FRONT + PATH * self.endpoints.len());
        bytes.extend(self.token.to_le_bytes());
        bytes.extend(self.source.0.to_le_bytes());
        bytes.extend(self.target.0.to_le_bytes());
        bytes.extend([step, self.endpoints.len() as u8]);
        bytes.resize(FRONT, 0);
        for endpoint in &self.endpoints {
            bytes.extend(endpoint.encode());
        }
        bytes
    }

    /// Reads it. None if it is none of ours.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (front, paths) = bytes.split_at_checked(FRONT)?;
        let word = |at: usize| front[at..at + 4].try_into().ok().map(u32::from_le_bytes);
        let step = match front[16] {
            1 => Step::Ask,
            2 => Step::Answer,
            3 => Step::Confirm,
            _ => return None,
        };
        let count = usize::from(front[17]);
        if paths.len() != count * PATH || count > MOST_PATHS {
            return None;
        }
        Some(Self {
            token: u64::from_le_bytes(front[..8].try_into().ok()?),
            source: JobRank(word(8)?),
            target: JobRank(word(12)?),
            step,
            endpoints: paths.chunks_exact(PATH).map(Endpoint::decode).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_comes_back() {
        for count in [0, 1, MOST_PATHS] {
            let endpoints = (0..count as u8).map(|path| Endpoint {
                address: Address {
                    lid: u16::from(path) + 300,
                    gid: [path; 16],
                },
                alternate: NonZeroU16::new(u16::from(path) << 8),
                number: u32::from(path) << 16 | 7,
                sender: 0x00ff_0100 | u32::from(path),
                mtu: 5,
                reads: 16,
            });
            let datagram = Datagram {
                token: 0x1234_5678_9abc_def0,
                source: JobRank(3),
                target: JobRank(70_000),
                step: Step::Answer,
                endpoints: endpoints.collect(),
            };
            let bytes = datagram.encode();
            assert_eq!(Datagram::decode(&bytes), Some(datagram));
            for shorter in 0..bytes.len() {
                assert_eq!(Datagram::decode(&bytes[..shorter]), None);
            }
        }
        assert_eq!(Datagram::decode(&[0xff; 48]), None);
    }
}
