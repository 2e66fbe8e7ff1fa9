//! The account of a peer: whether it takes messages, and what they cost.
#![forbid(unsafe_code)]

use crate::credits::{Credits, PeerCredits};
use crate::peer_states::{PeerState, PeerStates};
use gasnet_conduit::{Busy, JobRank};

/// A peer, its state and its credit.
#[derive(Clone, Copy, Debug)]
pub struct Account<'a> {
    /// The peer.
    pub peer: JobRank,
    /// The states of all peers.
    pub states: &'a PeerStates,
    /// The limits of all peers.
    pub limits: &'a Credits,
    /// The credit of this one.
    pub credits: &'a PeerCredits,
}

/// Credits that a message to a peer has taken, until it is sent or not.
#[derive(Debug)]
pub struct Reservation {
    cost: u32,
    /// Credits that the message returns.
    pub credits: u32,
}

impl Account<'_> {
    /// Pays `cost` for a message, which returns at most `most` credits. `None` if it is to be
    /// dropped, because the peer has stopped.
    #[inline]
    pub fn reserve(&self, cost: u32, most: u32) -> Result<Option<Reservation>, Busy> {
        match self.states.state(self.peer) {
            PeerState::Present => {}
            PeerState::Stopped => return Ok(None),
            PeerState::Lost => return Err(Busy),
        }
        if !self.limits.take(self.credits, cost) {
            return Err(Busy);
        }
        let credits = self.credits.take_owed(most);
        Ok(Some(Reservation { cost, credits }))
    }

    /// The message was not sent. What it would have returned is owed again: a poll that came in
    /// between may have found nothing to return.
    #[cold]
    pub fn cancel(&self, reservation: &Reservation) -> Busy {
        self.give_back(reservation.cost);
        self.credits.owe(reservation.credits);
        self.limits.note_owed(self.peer, self.credits);
        Busy
    }

    /// Adds credits that the peer returned, or those of a message that was not sent. False: fewer
    /// were paid, and the peer is lost.
    #[inline]
    pub fn give_back(&self, units: u32) -> bool {
        let given = self.limits.give_back(self.credits, units);
        given.map_err(|why| self.states.lose(self.peer, why)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_are_not_sent_cost_and_return_nothing() {
        let (states, limits) = (PeerStates::new(2), Credits::new(4, 1));
        let credits = limits.peer();
        let peer = JobRank(1);
        let account = Account {
            peer,
            states: &states,
            limits: &limits,
            credits: &credits,
        };
        credits.owe(3);
        let reservation = account.reserve(4, 2).unwrap().unwrap();
        assert_eq!(reservation.credits, 2);
        assert!(account.reserve(1, 2).is_err());
        // A poll returns the rest in vain, and forgets the peer.
        assert!(limits.take_owing(|_| Some(&credits)).is_empty());
        account.cancel(&reservation);
        assert_eq!(limits.take_owing(|_| Some(&credits)), [peer]);
        assert_eq!(account.reserve(4, 9).unwrap().unwrap().credits, 3);
        assert!(account.give_back(4) && !account.give_back(1) && states.has_losses());
        assert!(account.reserve(1, 2).is_err());
        let stopped = Account {
            peer: JobRank(0),
            ..account
        };
        states.note_stop(stopped.peer);
        assert!(stopped.reserve(1, 2).unwrap().is_none());
    }
}
