//! One datagram, until it has come.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::memory::Lent;
use crate::wire::{AGAIN, HEADER};

/// Where a datagram is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Never sent, or lost: to be sent.
    Waiting,
    /// Sent at this time.
    Sent(u64),
    /// It has come.
    Come,
}

/// What a datagram carries.
#[derive(Debug)]
pub enum Body {
    /// A copy, and its hash.
    Own(Vec<u8>, u64),
    /// Memory of the client. It is read when it is sent; what is sent again is copied first. So a change between the look for the hash and that for the
    /// bytes, which a get's source may see, spoils one datagram and no more.
    Lent(Lent),
}

impl Body {
    /// They.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes, _) => bytes,
            Self::Lent(lent) => lent.read(),
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Own(bytes, _) => bytes.len(),
            Self::Lent(lent) => lent.bytes,
        }
    }

    /// Bytes that are kept here.
    pub fn kept(&self) -> usize {
        match self {
            Self::Own(bytes, _) => bytes.len(),
            Self::Lent(_) => 0,
        }
    }
}

/// Tries of a datagram without a copy of what is lent.
const UNHELD: u32 = 2;

/// A datagram that is kept until it has come.
#[derive(Debug)]
pub struct Datagram {
    /// The encoded header, as it was last sent.
    pub head: [u8; HEADER],
    /// What is sent behind it.
    pub body: Body,
    /// The put that it is a part of.
    pub put: Option<usize>,
    /// Whether that is a long one, or it is part of a long answer to a get.
    pub long: bool,
    /// Where it is.
    pub state: State,
    /// Times that it was sent.
    pub sendings: u32,
    /// And those that this was tried.
    pub tries: u32,
    /// Whether it has been sent in pieces, as it will be from then on.
    pub cut: bool,
    /// Number of its last sending, among all of this class.
    pub sent_as: u64,
    /// Whether that only asks whether the peer is there: what comes may be an earlier one.
    pub probes: bool,
}

impl Datagram {
    /// One that waits to be sent for the first time.
    pub fn new(head: [u8; HEADER], body: Body, put: Option<usize>) -> Self {
        Self {
            head,
            body,
            put,
            long: false,
            state: State::Waiting,
            sendings: 0,
            tries: 0,
            cut: false,
            sent_as: 0,
            probes: false,
        }
    }

    /// The flags of the next try. The first two, whose payloads may be the client's, which may change, have none of the others'.
    pub fn try_flags(&mut self) -> u8 {
        let again = self
            .tries
            .checked_sub(UNHELD)
            .map_or(self.tries, |tries| UNHELD + tries % (128 - UNHELD));
        self.tries += 1;
        again as u8 * AGAIN
    }

    /// Whether its payload must be a copy from now on: what is sent again is the same each time.
    pub fn is_to_be_held(&self) -> bool {
        self.sendings > 0 || self.tries >= UNHELD
    }

    /// Copies what is lent, and returns how many bytes that are.
    pub fn hold(&mut self, keys: &Keys) -> usize {
        let Body::Lent(lent) = self.body else { return 0 };
        let mut copy = Vec::with_capacity(lent.bytes);
        lent.copy_to(&mut copy);
        let hash = keys.hash(&copy);
        self.body = Body::Own(copy, hash);
        lent.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_try_has_the_flags_of_one_without_a_copy() {
        let mut datagram = Datagram::new([0; HEADER], Body::Own(Vec::new(), 0), None);
        let (mut unheld, mut last) = (Vec::new(), u8::MAX);
        for _ in 0..1000 {
            let held = datagram.is_to_be_held();
            let flags = datagram.try_flags();
            assert!(flags & crate::wire::ACK_NOW == 0 && flags != last && !unheld.contains(&flags));
            if !held {
                unheld.push(flags);
            }
            last = flags;
        }
        assert_eq!(unheld.len(), 2);
    }
}
