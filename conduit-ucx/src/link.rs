//! The worker of this process, and its peers.

use crate::boot_record::Names;
use crate::ffi::{Endpoint, Events, Message, Retention, Status, Turn, Worker};
use crate::operations::{OwnedOperation, Reaped};
use crate::peers::Peers;
use crate::receive::Arrivals;
use crate::wire::Header;
use gasnet_conduit::{Busy, JobRank};
use gasnet_conduit_util::peer_states::PeerState;
use std::sync::Arc;

/// The worker and its peers, in a place that does not change: UCX has its address.
pub struct Link {
    // First: it reports to what is below until it is gone.
    pub worker: Worker,
    pub rank: JobRank,
    pub peers: Peers,
    /// Authenticates messages.
    pub token: u64,
    pub names: Names,
    pub arrivals: Arrivals,
    pub reaped: Arc<Reaped>,
}

impl Link {
    /// Whether a poll has something for the client.
    #[inline]
    pub fn has_upcalls(&self) -> bool {
        !self.arrivals.is_empty() || !self.reaped.is_empty()
    }

    /// The endpoint of a peer, made at the first contact. Busy until it is connected: UCX would
    /// keep what is started until a poll of this process, which may compute first.
    #[inline]
    pub fn endpoint(&self, turn: &Turn<'_>, peer: JobRank) -> Result<Endpoint, Busy> {
        let endpoint = match self.peers.endpoint(peer) {
            Some(endpoint) => endpoint,
            None => self.connect(turn, peer)?,
        };
        if self.peers.is_ready(peer) {
            Ok(endpoint)
        } else {
            Err(Busy)
        }
    }

    #[cold]
    fn connect(&self, turn: &Turn<'_>, peer: JobRank) -> Result<Endpoint, Busy> {
        // SAFETY: the address of a worker, and this lives longer than its own.
        let made = unsafe { turn.connect::<Self>(self.names.address(peer), self.names.reports_errors, self) };
        match made {
            Ok(endpoint) => {
                self.peers.contact(peer, endpoint);
                Ok(endpoint)
            }
            Err(why) => Err(self.refused(peer, "connecting (ucp_ep_create)", why)),
        }
    }

    /// Whether operations on the memory of a peer may start.
    #[inline]
    pub fn is_present(&self, peer: JobRank) -> Result<(), Busy> {
        match self.peers.states.state(peer) {
            PeerState::Present => Ok(()),
            _ => Err(Busy),
        }
    }

    /// The header of a message.
    pub fn header(&self, credits: u32) -> Header {
        Header {
            token: self.token,
            source: self.rank.0,
            credits,
        }
    }

    /// An operation was not started, or it failed: loses the peer.
    #[cold]
    pub fn failed(&self, held: OwnedOperation, why: Status) -> Busy {
        let (peer, what) = (held.peer, held.kind.name());
        held.release();
        self.refused(peer, what, why)
    }

    /// A call for a peer failed: what it was to do.
    #[cold]
    pub fn refused(&self, peer: JobRank, what: &str, why: Status) -> Busy {
        let text = format!("UCX: {what} failed: {}", why.text());
        self.peers.states.lose(peer, text);
        Busy
    }
}

impl Events for Link {
    fn message(&self, message: Message<'_>) -> Retention {
        match Header::read(message.header, self.token, self.peers.count()) {
            Some(header) => self.arrivals.take(&self.peers, header, message),
            None => Retention::Released,
        }
    }

    fn failed(&self, endpoint: Endpoint, why: Status) {
        if let Some(peer) = self.peers.owner(endpoint) {
            self.peers
                .states
                .lose(peer, format!("UCX: its connection failed: {}", why.text()));
        }
    }
}
