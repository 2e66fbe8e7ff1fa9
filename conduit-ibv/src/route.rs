//! The way to a peer: a send queue, and what each work request on it needs to know of the peer.

use crate::send::queue::SendQueue;
use crate::xrc::peer::XrcPeer;
use gasnet_conduit::JobRank;

/// A send queue that leads to a peer, maybe among others.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    pub queue: &'a SendQueue,
    pub xrc_peer: &'a XrcPeer,
}

impl<'a> Route<'a> {
    /// The way over a queue to a peer.
    #[inline(always)]
    pub fn new(queue: &'a SendQueue, xrc_peer: &'a XrcPeer) -> Self {
        Self { queue, xrc_peer }
    }

    /// The peer.
    pub fn peer(&self) -> JobRank {
        self.xrc_peer.peer
    }
}

impl std::ops::Deref for Route<'_> {
    type Target = SendQueue;
    #[inline(always)]
    fn deref(&self) -> &SendQueue {
        self.queue
    }
}
