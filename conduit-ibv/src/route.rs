//! The way to a peer: a send queue, and what each work request on it needs to know of the peer.

use crate::rail::Rail;
use crate::send::queue::{QueueGuard, SendQueue};
use crate::xrc::XrcPeer;
use gasnet_conduit::JobRank;

/// A send queue that leads to a peer, maybe among others.
#[derive(Clone, Copy)]
pub struct Route<'a> {
    queue: &'a SendQueue,
    ends: &'a XrcPeer,
}

impl<'a> Route<'a> {
    /// The way over a queue to the peer with these ends.
    #[inline(always)]
    pub fn new(queue: &'a SendQueue, ends: &'a XrcPeer) -> Self {
        Self { queue, ends }
    }

    /// The peer.
    pub fn peer(&self) -> JobRank {
        self.ends.peer
    }

    /// Notes a work request to the peer, and returns the number of its receive queue. For XRC only.
    #[inline]
    pub fn use_receive_queue(&self) -> u32 {
        self.ends.use_receive_queue(self.queue.path)
    }

    /// The right to post a work request, which may find no room for its completion. None if there
    /// is no room for it.
    #[inline]
    pub fn turn(self, rail: &'a Rail) -> Option<QueueGuard<'a>> {
        self.queue.turn(self, rail, 1)
    }

    /// The right to post two work requests. None if there is no room for both and their
    /// completions.
    pub fn turn_of_two(self, rail: &'a Rail) -> Option<QueueGuard<'a>> {
        let mut turn = self.queue.turn(self, rail, 2)?;
        turn.take_room_for(2).then_some(turn)
    }
}

impl std::ops::Deref for Route<'_> {
    type Target = SendQueue;
    #[inline(always)]
    fn deref(&self) -> &SendQueue {
        self.queue
    }
}
