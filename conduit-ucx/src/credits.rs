//! Credits of peers. UCX takes any number of messages for a peer that does not poll, and the peer
//! any number that it does not deliver, so [`credits`] bound them. A request costs units by its
//! length, and half a window that is owed is returned.
//!
//! [`credits`]: gasnet_conduit_util::credits
#![forbid(unsafe_code)]

use crate::peers::Peers;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::account::{Account, Reservation};
use gasnet_conduit_util::credits::{units, Credits};

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

impl Peers {
    /// The account of a peer.
    #[inline]
    pub fn account(&self, peer: JobRank) -> Account<'_> {
        Account {
            peer,
            states: &self.states,
            limits: &self.limits,
            credits: self.credits(peer),
        }
    }

    /// Pays for a message of `bytes` bytes. `None` if it is to be dropped.
    #[inline]
    pub fn reserve(&self, peer: JobRank, class: Class, bytes: usize) -> Result<Option<Reservation>, Busy> {
        let cost = match class {
            Class::Request => self.limits.cost(bytes),
            Class::Reply => 0,
        };
        self.account(peer).reserve(cost, u32::MAX)
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
        let account = peers.account(rank);
        assert!(account.give_back(1) && !account.give_back(2));
        let why = "it returned 2 credits, more than our requests cost".to_owned();
        assert_eq!(peers.states.take_losses(), [(rank, why)]);
    }
}
