//! The endpoint of a process, its peers, and the operations that the endpoint has no room for.

use crate::ffi::{Endpoint, Errno};
use crate::operations::OwnedOperation;
use crate::peers::Peers;
use crate::put_notify::PutParts;
use crate::wire::{Header, Kind};
use gasnet_conduit::{Busy, JobRank};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_conduit_util::pending_queue::PendingQueue;

/// Most operations that wait for room at the provider, beyond which it is the client that waits.
const STALLED: usize = 256;

/// A put that is complete, and whose target does not know of these parts of it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub peer: JobRank,
    pub put: PutParts,
}

/// An operation that is started by a later poll.
pub enum Stalled {
    /// A message to a peer, with its length.
    Message(OwnedOperation, usize),
    /// The next part of a put or get.
    Rest(OwnedOperation),
    /// The announcement of a put.
    Arrival(Arrival),
}

impl Stalled {
    /// The process at the other end.
    pub fn peer(&self) -> JobRank {
        match self {
            Self::Message(held, _) | Self::Rest(held) => held.peer,
            Self::Arrival(arrival) => arrival.peer,
        }
    }
}

/// Whether an operation was started. If not, it is the caller's still.
pub type Started = Result<(), (OwnedOperation, Errno)>;

/// The endpoint and its peers. Locks are taken one at a time.
pub struct Link {
    pub rank: JobRank,
    pub peers: Peers,
    /// Operations that the provider had no room for after they were accepted.
    pub stalled: PendingQueue<Stalled>,
    /// Authenticates messages.
    pub token: u64,
    pub endpoint: Endpoint,
}

impl Link {
    /// Nothing is under way.
    pub fn new(rank: JobRank, peers: Peers, token: u64, endpoint: Endpoint) -> Self {
        Self {
            rank,
            peers,
            stalled: PendingQueue::default(),
            token,
            endpoint,
        }
    }

    /// The peer of an operation, in the address vector.
    #[inline]
    pub fn target(&self, peer: JobRank) -> Result<u64, Busy> {
        match self.peers.states.state(peer) {
            PeerState::Present => Ok(self.peers.number(peer)),
            _ => Err(Busy),
        }
    }

    /// The header of a message.
    #[inline]
    pub fn header(&self, kind: Kind, credits: u16) -> Header {
        Header {
            token: self.token,
            source: self.rank,
            credits,
            kind,
        }
    }

    /// Whether another operation may wait for room.
    fn may_stall(&self) -> bool {
        self.stalled.len() < STALLED
    }

    /// The outcome of a first try to start an operation. Without room a later poll tries again, if
    /// not too many wait already.
    #[inline]
    pub fn or_stall(&self, started: Started, stalled: impl FnOnce(OwnedOperation) -> Stalled) -> Started {
        match started {
            Err((held, Errno::AGAIN)) if self.may_stall() => {
                self.stalled.push(stalled(held));
                Ok(())
            }
            started => started,
        }
    }

    /// The outcome of a later try: whether the operation was started, or failed. If not, a later
    /// poll tries again.
    pub fn is_over(&self, started: Started, stalled: impl FnOnce(OwnedOperation) -> Stalled) -> bool {
        match started {
            Ok(()) => {}
            Err((held, Errno::AGAIN)) => {
                self.stalled.push(stalled(held));
                return false;
            }
            Err((held, why)) => {
                let _ = self.abandon(held, why);
            }
        }
        true
    }

    /// Releases an operation that was not started.
    #[cold]
    pub fn abandon(&self, held: OwnedOperation, why: Errno) -> Busy {
        let (peer, what) = (held.peer, held.kind.name());
        held.release();
        self.refused(peer, what, why)
    }

    /// A call for a peer failed: what it was to do. Anything but a lack of room loses the peer.
    #[cold]
    pub fn refused(&self, peer: JobRank, what: &str, why: Errno) -> Busy {
        if why != Errno::AGAIN {
            let text = format!("{:?}: {what} failed: {}", self.endpoint.info(), why.text());
            self.peers.states.lose(peer, text);
        }
        Busy
    }

    /// A call failed, and no single peer is the reason.
    #[cold]
    pub fn fail(&self, what: &str, why: Errno) {
        self.fail_text(&format!("{what}: {}", why.text()));
    }

    /// The network of this process has failed.
    #[cold]
    pub fn fail_text(&self, what: &str) {
        let text = format!("{:?}: {what}", self.endpoint.info());
        self.peers.states.fail(&text);
    }
}
