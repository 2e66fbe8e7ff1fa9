//! One datagram of the send window.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::memory::ClientMemory;
use crate::wire::{HEADER_BYTES, TRANSMISSION};

/// State of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramState {
    /// Never sent, or lost: waits for transmission.
    Queued,
    /// In flight since this time.
    Sent(u64),
    /// Acknowledged.
    Acked,
}

/// The payload of a datagram.
#[derive(Debug)]
pub enum Body {
    /// A copy, and its hash.
    Copied(Vec<u8>, u64),
    /// Client memory. It is read at the first transmission and copied before a retransmission. The
    /// client may change the source of a get between hashing and sending: that spoils one
    /// transmission of one datagram.
    Borrowed(ClientMemory),
}

impl Body {
    /// The payload.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes, _) => bytes,
            Self::Borrowed(memory) => memory.read(),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Copied(bytes, _) => bytes.len(),
            Self::Borrowed(memory) => memory.bytes,
        }
    }

    /// Bytes that are copies.
    pub fn copied_bytes(&self) -> usize {
        match self {
            Self::Copied(bytes, _) => bytes.len(),
            Self::Borrowed(_) => 0,
        }
    }
}

/// Transmission attempts of a borrowed payload before it is copied.
const UNCOPIED_ATTEMPTS: u32 = 2;

/// A datagram in the send window.
#[derive(Debug)]
pub struct Datagram {
    /// The encoded header of the last transmission.
    pub head: [u8; HEADER_BYTES],
    /// The payload.
    pub body: Body,
    /// Key of the put that it belongs to.
    pub put: Option<usize>,
    /// Whether it belongs to a long put or get reply.
    pub bulk: bool,
    /// Its state.
    pub state: DatagramState,
    /// Transmissions that succeeded.
    pub transmissions: u32,
    /// Transmission attempts, including those that failed.
    pub attempts: u32,
    /// Whether it was sent in fragments. From then on it always is.
    pub fragmented: bool,
    /// Sequence number of its last transmission, among all of this class.
    pub last_transmission: u64,
    /// Whether its last transmission was a probe: an ACK may then belong to an earlier one.
    pub is_probe: bool,
}

impl Datagram {
    /// A datagram that waits for its first transmission.
    pub fn new(head: [u8; HEADER_BYTES], body: Body, put: Option<usize>) -> Self {
        Self {
            head,
            body,
            put,
            bulk: false,
            state: DatagramState::Queued,
            transmissions: 0,
            attempts: 0,
            fragmented: false,
            last_transmission: 0,
            is_probe: false,
        }
    }

    /// The transmission number for the header. Those of the first two attempts are not reused:
    /// their payload may be the client's memory, which may change.
    pub fn transmission_flags(&mut self) -> u8 {
        let number = self
            .attempts
            .checked_sub(UNCOPIED_ATTEMPTS)
            .map_or(self.attempts, |attempts| {
                UNCOPIED_ATTEMPTS + attempts % (128 - UNCOPIED_ATTEMPTS)
            });
        self.attempts += 1;
        number as u8 * TRANSMISSION
    }

    /// Whether the payload must be copied before the next attempt: all retransmissions are
    /// identical.
    pub fn needs_copy(&self) -> bool {
        self.transmissions > 0 || self.attempts >= UNCOPIED_ATTEMPTS
    }

    /// Copies a borrowed payload. Returns the bytes copied.
    pub fn copy_payload(&mut self, keys: &Keys) -> usize {
        let Body::Borrowed(memory) = self.body else { return 0 };
        let mut copy = Vec::with_capacity(memory.bytes);
        memory.copy_to(&mut copy);
        let hash = keys.hash(&copy);
        self.body = Body::Copied(copy, hash);
        memory.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transmission_flags_of_borrowed_payloads_are_unique() {
        let mut datagram = Datagram::new([0; HEADER_BYTES], Body::Copied(Vec::new(), 0), None);
        let (mut uncopied, mut last) = (Vec::new(), u8::MAX);
        for _ in 0..1000 {
            let copied = datagram.needs_copy();
            let flags = datagram.transmission_flags();
            assert!(flags & crate::wire::ACK_NOW == 0 && flags != last && !uncopied.contains(&flags));
            if !copied {
                uncopied.push(flags);
            }
            last = flags;
        }
        assert_eq!(uncopied.len(), 2);
    }
}
