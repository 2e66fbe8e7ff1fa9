//! The offer of a packet that its receiver reads ([`crate::receive::fetch`]).
#![forbid(unsafe_code)]

use crate::buffers::Buffer;
use crate::ffi::Remote;
use gasnet_conduit::{Class, JobRank};

/// A packet that its sender offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    pub memory: Remote,
    pub bytes: u32,
    /// Names it in the receiver's note.
    pub number: u32,
    pub class: Class,
    /// The path whose HCA has the memory.
    pub path: u8,
}

/// A packet that is read, or was.
#[derive(Debug)]
pub struct Fetched {
    pub source: JobRank,
    pub offer: Offer,
    pub buffer: Buffer,
}

impl Offer {
    /// Length of its encoding, by which a receiver knows it.
    pub const BYTES: usize = 24;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&(self.memory.address as u64).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.memory.rkey.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20] = u8::from(self.class == Class::Reply);
        bytes[21] = self.path;
        bytes
    }

    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            memory: Remote {
                address: (u64::from(word(0)) | u64::from(word(4)) << 32) as usize,
                rkey: word(8),
            },
            bytes: word(12),
            number: word(16),
            class: if bytes[20] == 0 { Class::Request } else { Class::Reply },
            path: bytes[21],
        }
    }
}

impl Fetched {
    /// The work request is not posted: its buffer is free.
    pub fn release(self) {
        self.buffer.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_come_back() {
        for class in [Class::Request, Class::Reply] {
            let offer = Offer {
                memory: Remote {
                    address: 0x7f12_3456_789a_b000,
                    rkey: 0xdead_beef,
                },
                bytes: 65_664,
                number: 0x8000_0001,
                class,
                path: 7,
            };
            assert_eq!(Offer::decode(&offer.encode()), offer);
        }
    }
}
