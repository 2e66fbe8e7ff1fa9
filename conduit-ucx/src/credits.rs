//! Credits of peers. UCX takes any number of messages for a peer that does not poll, and the peer
//! any number that it does not deliver, so [`credits`] bound them. A request costs units by its
//! length, and half a window that is owed is returned.
//!
//! [`credits`]: gasnet_conduit_util::credits
#![forbid(unsafe_code)]

use crate::peers::Peers;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::credits::{units, Credits};
use gasnet_conduit_util::peer_states::PeerState;

/// Bytes of all windows to one receiver together.
const MOST_BYTES: usize = 128 << 20;
/// Units of the smallest window.
const LEAST_WINDOW: u32 = 8;

/// The limits of credits in a job of `ranks` processes: of the bytes of requests in flight to each
/// peer, or of fewer, so that all windows fit into the memory of one, unless the user has set that.
pub fn limits((bytes, is_set): (usize, bool), ranks: u32) -> Credits {
    let share = MOST_BYTES / ranks.max(1) as usize;
    let window = units(if is_set { bytes } else { bytes.min(share) }).max(LEAST_WINDOW);
    Credits::for_bytes(window)
}

/// A message to a peer that takes it, with its cost, until it is sent or not.
pub struct SendReservation {
    peer: JobRank,
    cost: u32,
    /// Credits that the message returns.
    pub credits: u32,
}

impl SendReservation {
    /// Pays for a message of `bytes` bytes. `None` if it is to be dropped.
    #[inline]
    pub fn take(peers: &Peers, peer: JobRank, class: Class, bytes: usize) -> Result<Option<Self>, Busy> {
        match peers.states.state(peer) {
            PeerState::Present => {}
            PeerState::Stopped => return Ok(None),
            PeerState::Lost => return Err(Busy),
        }
        let cost = match class {
            Class::Request => peers.limits.cost(bytes),
            Class::Reply => 0,
        };
        if !peers.limits.take(peers.credits(peer), cost) {
            return Err(Busy);
        }
        let credits = peers.credits(peer).take_owed(u32::MAX);
        Ok(Some(Self { peer, cost, credits }))
    }

    /// The message was not sent.
    #[cold]
    pub fn cancel(&self, peers: &Peers) -> Busy {
        peers.give_back(self.peer, self.cost);
        let credits = peers.credits(self.peer);
        credits.owe(self.credits);
        peers.limits.note_owed(self.peer, credits);
        Busy
    }
}

impl Peers {
    /// Adds credits that the peer returned, or those of a request that was not sent. False: there
    /// were fewer requests, and the peer is lost.
    #[inline]
    pub fn give_back(&self, rank: JobRank, units: u32) -> bool {
        let given = self.limits.give_back(self.credits(rank), units);
        given.map_err(|why| self.states.lose(rank, why)).is_ok()
    }

    /// Whether a poll should return credits and report lost peers.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.limits.has_owing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit_util::credits::UNIT;

    #[test]
    fn windows_shrink_with_the_ranks() {
        let of = |ranks| limits((512 << 10, false), ranks).window() as usize;
        assert_eq!([of(2), of(256)], [513; 2]);
        for ranks in [257, 1000, 10_000] {
            assert!(of(ranks as u32) * ranks * UNIT <= MOST_BYTES + ranks * UNIT, "{ranks}");
        }
        assert_eq!(of(1 << 20), LEAST_WINDOW as usize);
        assert_eq!(limits((1 << 20, true), 10_000).window(), 1025);
    }

    #[test]
    fn more_credits_than_were_paid_lose_their_peer() {
        let (peers, rank) = (Peers::new(2, limits((8 << 10, true), 2)), JobRank(1));
        assert!(peers.limits.take(peers.credits(rank), 2));
        assert!(peers.give_back(rank, 1) && !peers.give_back(rank, 2));
        let why = "it returned 2 credits, more than our requests cost".to_owned();
        assert_eq!(peers.states.take_losses(), [(rank, why)]);
    }
}
