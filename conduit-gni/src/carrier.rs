//! The ways of a message: a request with its reservation, the first reply to the request that this
//! thread delivers, or a further reply.
#![forbid(unsafe_code)]

use crate::credits::SendReservation;
use gasnet_conduit::JobRank;
use std::cell::Cell;

/// A request that a thread delivers.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    /// Address of the conduit's messages, as a process may have several conduits in tests.
    conduit: usize,
    pub source: JobRank,
    /// Its index at its sender, and its slot there.
    pub index: usize,
    pub slot: usize,
    /// Whether its first reply was sent.
    has_replied: bool,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
}

impl Current {
    /// A request of `source` without a reply yet. `conduit` is any address of the conduit.
    #[inline]
    pub fn new(conduit: usize, source: JobRank, index: usize, slot: usize) -> Self {
        let has_replied = false;
        Self {
            conduit,
            source,
            index,
            slot,
            has_replied,
        }
    }

    /// Delivers the request: `run` may reply to it. Returns whether it did.
    #[inline]
    pub fn deliver(self, run: impl FnOnce()) -> bool {
        let before = CURRENT.replace(Some(self));
        run();
        let after = CURRENT.replace(before);
        after.is_some_and(|current| current.has_replied)
    }

    /// The request that this thread delivers, if a reply to `peer` is its first.
    #[inline]
    pub fn find(conduit: usize, peer: JobRank) -> Option<Self> {
        let current = CURRENT.get()?;
        (current.conduit == conduit && current.source == peer && !current.has_replied).then_some(current)
    }

    /// The first reply to the request is sent.
    #[inline]
    pub fn note_reply(self) {
        CURRENT.set(Some(Self {
            has_replied: true,
            ..self
        }));
    }
}

/// The way of a message.
#[derive(Clone, Copy, Debug)]
pub enum Carrier {
    Request(SendReservation),
    Reply(Current),
    /// A reply to this peer that is not the first to its request.
    Further(JobRank),
}

/// A message that is sent when its payload is complete.
#[derive(Debug)]
pub struct QueuedMessage {
    pub packet: Box<[u8]>,
    pub carrier: Carrier,
}
