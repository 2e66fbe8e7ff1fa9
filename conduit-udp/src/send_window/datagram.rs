//! One datagram, until it has come.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::memory::ClientMemory;
use crate::wire::{HEADER_BYTES, TRANSMISSION};

/// Where a datagram is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramState {
    /// Never sent, or lost: to be sent.
    Queued,
    /// Sent at this time.
    Sent(u64),
    /// It has come.
    Acked,
}

/// What a datagram carries.
#[derive(Debug)]
pub enum Body {
    /// A copy, and its hash.
    Copied(Vec<u8>, u64),
    /// Memory of the client. It is read when it is sent; what is sent again is copied first. So a change between the look for the hash and that for the
    /// bytes, which a get's source may see, spoils one datagram and no more.
    Borrowed(ClientMemory),
}

impl Body {
    /// They.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Copied(bytes, _) => bytes,
            Self::Borrowed(memory) => memory.read(),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Copied(bytes, _) => bytes.len(),
            Self::Borrowed(memory) => memory.bytes,
        }
    }

    /// Bytes that are kept here.
    pub fn copied_bytes(&self) -> usize {
        match self {
            Self::Copied(bytes, _) => bytes.len(),
            Self::Borrowed(_) => 0,
        }
    }
}

/// Tries of a datagram without a copy of what is lent.
const UNCOPIED_ATTEMPTS: u32 = 2;

/// A datagram that is kept until it has come.
#[derive(Debug)]
pub struct Datagram {
    /// The encoded header, as it was last sent.
    pub head: [u8; HEADER_BYTES],
    /// What is sent behind it.
    pub body: Body,
    /// The put that it is a part of.
    pub put: Option<usize>,
    /// Whether that is a long one, or it is part of a long answer to a get.
    pub bulk: bool,
    /// Where it is.
    pub state: DatagramState,
    /// Times that it was sent.
    pub transmissions: u32,
    /// And those that this was tried.
    pub attempts: u32,
    /// Whether it has been sent in pieces, as it will be from then on.
    pub fragmented: bool,
    /// Number of its last sending, among all of this class.
    pub transmission: u64,
    /// Whether that only asks whether the peer is there: what comes may be an earlier one.
    pub is_probe: bool,
}

impl Datagram {
    /// One that waits to be sent for the first time.
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
            transmission: 0,
            is_probe: false,
        }
    }

    /// The flags of the next try. The first two, whose payloads may be the client's, which may change, have none of the others'.
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

    /// Whether its payload must be a copy from now on: what is sent again is the same each time.
    pub fn needs_copy(&self) -> bool {
        self.transmissions > 0 || self.attempts >= UNCOPIED_ATTEMPTS
    }

    /// Copies what is lent, and returns how many bytes that are.
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
