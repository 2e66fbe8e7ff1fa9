//! One datagram, until it has come.
#![forbid(unsafe_code)]

use crate::memory::Lent;
use crate::tag::Keys;
use crate::wire::HEADER;

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
    /// Whether it has been sent in pieces, as it will be from then on.
    pub cut: bool,
    /// Number of its last sending, among all of this class.
    pub sent_as: u64,
}

impl Datagram {
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
