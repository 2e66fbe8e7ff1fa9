//! Reservations of requests under way. No MPI controls the flow: a receiver that does not poll
//! keeps each message in 0.9 to 4.9 kB (reference/mpi.md), so a request costs a credit.
#![forbid(unsafe_code)]

use crate::peers::Peers;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::peer_states::PeerState;

/// A message to a peer that takes it, with its cost, until it is sent or not.
pub struct SendReservation {
    peer: JobRank,
    cost: u32,
    /// Credits that the message returns.
    pub credits: u32,
}

impl SendReservation {
    /// Pays for a message. `None` if it is to be dropped.
    #[inline]
    pub fn take<H: Copy>(peers: &Peers<H>, peer: JobRank, class: Class) -> Result<Option<Self>, Busy> {
        match peers.states.state(peer) {
            PeerState::Present => {}
            PeerState::Stopped => return Ok(None),
            PeerState::Lost => return Err(Busy),
        }
        let cost = u32::from(class == Class::Request);
        if !peers.limits.take(peers.credits(peer), cost) {
            return Err(Busy);
        }
        let credits = peers.credits(peer).take_owed(u32::MAX);
        Ok(Some(Self { peer, cost, credits }))
    }

    /// The message was not sent.
    #[cold]
    pub fn cancel<H: Copy>(&self, peers: &Peers<H>) -> Busy {
        peers.give_back(self.peer, self.cost);
        let credits = peers.credits(self.peer);
        credits.owe(self.credits);
        peers.limits.note_owed(self.peer, credits);
        Busy
    }
}
