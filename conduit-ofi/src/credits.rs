//! Credits of peers. Not every provider bounds what a sender may have in flight to a receiver that
//! does not poll, so [`credits`] do. A request costs units by its length, and half a window that is
//! owed is returned.
//!
//! [`credits`]: gasnet_conduit_util::credits

pub mod returns;

use crate::ffi::Errno;
use crate::link::Link;
use crate::operations;
use crate::peers::Peers;
use crate::versions;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::account::{Account, Reservation};
use gasnet_conduit_util::credits::{units, Credits, UNIT};

/// Most credits in a header; the window has no more units.
const MOST_CREDITS: u32 = u16::MAX as u32;
/// Units of all windows to one receiver together, if its NIC takes a list entry for each message
/// that no receive buffer awaits. An endpoint of cxi has 16384 entries, those of buffers among them
/// (libfabric@v2.6.0:prov/cxi/include/cxip.h).
const ENTRIES: usize = 12 << 10;
/// Units of the smallest window.
const LEAST_WINDOW: usize = 8;

/// Bytes of requests in flight to each of `ranks` peers: the value of the setting, or less where
/// NICs have list entries and the user has not set it.
pub fn window((bytes, is_set): (usize, bool), provider: &str, ranks: usize) -> usize {
    if !versions::is("cxi", provider) || is_set {
        return bytes;
    }
    let share = (ENTRIES / ranks.max(1)).max(LEAST_WINDOW);
    bytes.min((share - 1) * UNIT)
}

/// The limits of credits, by the bytes of requests that may be in flight to each peer.
pub fn limits(window: usize) -> Credits {
    Credits::for_bytes(units(window).min(MOST_CREDITS))
}

/// Credits that a message to a peer has taken, until it is sent or not.
pub struct SendReservation {
    peer: JobRank,
    class: Class,
    /// The peer in the address vector.
    pub number: u64,
    reservation: Reservation,
}

impl SendReservation {
    /// Pays for a message of `message` bytes. `None` if it is to be dropped.
    #[inline]
    pub fn take(link: &Link, peer: JobRank, class: Class, message: usize) -> Result<Option<Self>, Busy> {
        let cost = match class {
            Class::Request => link.peers.limits.cost(message),
            Class::Reply => 0,
        };
        let reservation = link.peers.account(peer).reserve(cost, MOST_CREDITS)?;
        Ok(reservation.map(|reservation| Self {
            peer,
            class,
            number: link.peers.number(peer),
            reservation,
        }))
    }

    /// Credits that the message returns.
    #[inline]
    pub fn credits(&self) -> u16 {
        self.reservation.credits as u16
    }

    /// The message was not sent.
    #[cold]
    pub fn cancel(&self, link: &Link) {
        link.peers.account(self.peer).cancel(&self.reservation);
    }

    /// The message was not sent, because a call failed.
    #[cold]
    pub fn refused(&self, link: &Link, why: Errno) -> Busy {
        self.cancel(link);
        link.refused(self.peer, operations::Kind::Packet(self.class).name(), why)
    }
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

    /// Counts a request of the peer that waits for its delivery or its put, until
    /// its release. False if the peer has sent more than its credits allow.
    pub fn hold(&self, rank: JobRank, units: u32) -> bool {
        self.limits.hold(self.credits(rank), units)
    }

    /// Notes that half the window or more is owed to the peer, after a request of it.
    #[inline]
    pub fn note_owed(&self, rank: JobRank) {
        self.limits.note_owed(rank, self.credits(rank));
    }

    /// Whether a poll should call [`Peers::take_owing`] and report lost peers.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.limits.has_owing()
    }

    /// The peers to which half a window or more is owed. One that cannot be served now is passed to
    /// [`Peers::note_owed`] again.
    pub fn take_owing(&self) -> Vec<JobRank> {
        self.limits.take_owing(|rank| Some(self.credits(rank)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_three(window: usize) -> Peers {
        Peers::new(&[0; 3], limits(window))
    }

    #[test]
    fn credits_come_back() {
        let peers = of_three(8 << 10);
        let (peer, all) = (JobRank(1), units(8 << 10));
        assert!(peers.limits.take(peers.credits(peer), all) && !peers.limits.take(peers.credits(peer), 1));
        assert!(peers.account(peer).give_back(3));
        assert!(peers.limits.take(peers.credits(peer), 2) && !peers.limits.take(peers.credits(peer), 2));
        assert!(peers.account(peer).give_back(all - 1) && !peers.states.has_losses());
        assert!(peers.limits.take(peers.credits(peer), all) && !peers.limits.take(peers.credits(peer), 1));
    }

    #[test]
    fn more_credits_than_were_paid_lose_their_peer() {
        let (peers, peer) = (of_three(8 << 10), JobRank(1));
        assert!(peers.limits.take(peers.credits(peer), 2) && peers.account(peer).give_back(1));
        assert!(!peers.account(peer).give_back(2) && !peers.account(peer).give_back(u32::from(u16::MAX)));
        let why = "it returned 2 credits, more than our requests cost".to_owned();
        assert_eq!(peers.states.take_losses(), [(peer, why)]);
        let all = units(8 << 10);
        assert!(
            peers.limits.take(peers.credits(peer), all - 1) && !peers.limits.take(peers.credits(peer), 1),
            "never more than the window"
        );
    }

    #[test]
    fn no_more_is_deferred_than_credits_allow() {
        let (peers, peer) = (of_three(8 << 10), JobRank(1));
        let all = units(8 << 10);
        assert!((0..all).all(|_| peers.hold(peer, 1)));
        assert!(!peers.hold(peer, 1) && peers.hold(JobRank(0), all));
        peers.credits(peer).release(2);
        assert!(!peers.hold(peer, 3) && peers.hold(peer, 2));
    }

    #[test]
    fn windows_shrink_with_the_ranks() {
        let of = |ranks| units(window((512 << 10, false), "cxi", ranks)) as usize;
        assert_eq!([of(2), of(20)], [513, 513]);
        assert!([100, 1000, 1500].iter().all(|ranks| ranks * of(*ranks) <= ENTRIES));
        assert_eq!([of(10_000), of(100_000)], [LEAST_WINDOW; 2]);
        assert_eq!(window((512 << 10, false), "efa", 1000), 512 << 10);
        assert_eq!(window((4 << 20, true), "cxi", 1000), 4 << 20);
    }

    #[test]
    fn half_a_window_is_returned_at_once() {
        let peers = of_three(8 << 10);
        let peer = JobRank(2);
        peers.credits(peer).owe(4);
        peers.note_owed(peer);
        assert!(!peers.has_work());
        peers.credits(peer).owe(1);
        peers.note_owed(peer);
        peers.note_owed(peer);
        assert!(peers.has_work() && !peers.has_work());
        assert_eq!(peers.take_owing(), [peer]);
        assert_eq!(
            (peers.credits(peer).take_owed(9), peers.credits(peer).take_owed(9)),
            (5, 0)
        );
    }
}
