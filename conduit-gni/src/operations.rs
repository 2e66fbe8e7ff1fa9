//! Actions for the completion of posts.
#![forbid(unsafe_code)]

use crate::buffers::Bounce;
use crate::credits::arrivals::Fetch;
use crate::transfers::Transfer;
use gasnet_conduit::Cookie;

/// Action of a post that is complete.
#[derive(Debug, Default)]
pub enum CompletionAction {
    #[default]
    Nothing,
    /// The request of this slot has left the slot, or a buffer.
    Request(usize, Option<Bounce>),
    /// A reply, or the payload of a Long, has left: its buffer, if it is not in the inline memory.
    Reply(Option<Bounce>),
    /// Credits were returned to the peer.
    CreditsReturned,
    /// A message that waits in its sender is in a buffer: the first part, or all of it.
    Fetched { fetch: Fetch, is_all: bool },
    /// A put of which only local completion is reported, and which used its source in place.
    Source(Cookie),
    /// A put, from a buffer if its source was copied.
    Put {
        cookie: Cookie,
        bounce: Option<Bounce>,
        /// Whether its source is still in use.
        is_in_use: bool,
    },
    /// A get into the inline memory or a buffer.
    Get {
        cookie: Cookie,
        bounce: Option<Bounce>,
        /// Bytes in front that are not wanted.
        skip: usize,
        /// Destination of the others, and their number.
        to: usize,
        bytes: usize,
    },
    /// A get in place.
    Direct(Cookie),
    /// An atomic whose old value is in the inline memory.
    Atomic {
        cookie: Cookie,
        /// Destination of the old value, and its size.
        to: usize,
        bytes: usize,
    },
    /// A part of a longer transfer.
    Part(Box<Transfer>),
    /// Operands that the collective engine has taken.
    Reduction,
}

impl CompletionAction {
    /// Whether the post carries an Active Message.
    pub fn is_message(&self) -> bool {
        matches!(self, Self::Request(..) | Self::Reply(_))
    }

    /// The buffer of a put or a get, or of a payload.
    pub fn into_bounce(self) -> Option<Bounce> {
        match self {
            Self::Put { bounce, .. } | Self::Get { bounce, .. } | Self::Reply(bounce) => bounce,
            _ => None,
        }
    }
}
