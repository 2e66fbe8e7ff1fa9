//! What the completion of a post means.
#![forbid(unsafe_code)]

use crate::buffers::Bounce;
use crate::transfers::Transfer;
use gasnet_conduit::{Class, Cookie};

/// What is done when a post is complete.
#[derive(Debug)]
pub enum CompletionAction {
    Nothing,
    /// The request of this slot has left the slot, or a buffer.
    Request(usize, Option<Bounce>),
    /// A reply, or the payload of a Long, has left: its buffer, if it is not in the inline memory.
    Reply(Option<Bounce>),
    /// What this process has released is known to the peer.
    Released,
    /// The message in this place of its sender, which waits there, is in a landing: the first part,
    /// or all of it.
    Fetched {
        class: Class,
        index: usize,
        landing: usize,
        is_all: bool,
    },
    /// A put of which only local completion is reported, and which used its source in place.
    Source(Cookie),
    /// A put, from a buffer if its source was copied. Whether its source was still in use.
    Put(Cookie, Option<Bounce>, bool),
    /// A get into the inline memory or a buffer: how many bytes in front are not wanted, where the
    /// others go, and how many.
    Get(Cookie, Option<Bounce>, usize, (usize, usize)),
    /// A get in place.
    Direct(Cookie),
    /// An atomic whose old value is in the inline memory: where it goes, and how many bytes.
    Atomic(Cookie, (usize, usize)),
    /// A part of a longer transfer.
    Part(Box<Transfer>),
    /// Operands that the collective engine has taken.
    Reduction,
}
