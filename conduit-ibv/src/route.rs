//! The way to a peer: a send queue, and what each work request on it needs to know of the peer.

use crate::rail::room::CompletionRoom;
use crate::send::queue::{QueueGuard, SendQueue};
use crate::xrc::peer::XrcPeer;
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

    /// The right to post a work request, which may find no room for its completion. None if there
    /// is no room for it.
    #[inline]
    pub fn turn(self, room: &'a CompletionRoom) -> Option<QueueGuard<'a>> {
        self.queue.turn(self.ends, room, 1)
    }

    /// The right to post two work requests. None if there is no room for both and their
    /// completions.
    pub fn turn_of_two(self, room: &'a CompletionRoom) -> Option<QueueGuard<'a>> {
        let mut turn = self.queue.turn(self.ends, room, 2)?;
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
