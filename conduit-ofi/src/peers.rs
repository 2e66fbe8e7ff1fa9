//! What is known of the other processes: addresses, credits, and whether they are there.
//!
//! Credits bound what a sender may have in flight to a receiver that does not poll, since not every
//! provider does. A request costs units by its length. Its receiver returns them when it delivers
//! the request, with its next message, or with one of their own when half the window is owed.
//! Replies need none: each answers a request.

use crate::versions;
use gasnet_conduit::fates::Fates;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Bytes of a message for each unit of credit, beyond the first.
const UNIT: usize = 1024;

/// Units of all windows to one receiver together, if its NIC takes a list entry for each message
/// that no receive buffer awaits. An endpoint of cxi has 16384 entries, those of buffers among them
/// (libfabric@v2.6.0:prov/cxi/include/cxip.h).
const ENTRIES: usize = 12 << 10;
/// Units of the smallest window.
const LEAST_WINDOW: usize = 8;

/// Units of credit that a message of so many bytes costs, at least if the window is that large.
#[inline]
const fn units(message: usize) -> u32 {
    1 + (message / UNIT) as u32
}

/// Bytes of requests in flight to each of so many peers: what the setting says, or less where NICs
/// have list entries and the user has not set it.
pub fn window((bytes, is_set): (usize, bool), provider: &str, ranks: usize) -> usize {
    if !versions::is("cxi", provider) || is_set {
        return bytes;
    }
    let share = (ENTRIES / ranks.max(1)).max(LEAST_WINDOW);
    bytes.min((share - 1) * UNIT)
}

/// A process.
struct Peer {
    /// Its number in the address vector.
    number: u64,
    /// Something was sent to it.
    was_contacted: AtomicBool,
    /// Units that requests to it may still cost.
    credits: AtomicU32,
    /// Units of its requests that are not returned yet.
    owed: AtomicU32,
    /// Units of its requests that are deferred, or wait for their puts.
    deferred: AtomicU32,
    /// Whether it is in [`Peers::owing`].
    is_owing: AtomicBool,
}

/// All processes of the job, this one among them.
pub struct Peers {
    pub fates: Fates,
    all: Box<[Peer]>,
    /// Units of the window of each peer.
    window: u32,
    /// Peers to which credits are to be returned.
    owing: Mutex<Vec<JobRank>>,
    /// Whether there are any.
    has_owing: AtomicBool,
}

impl Peers {
    /// All processes, with their numbers in the address vector and the bytes of requests that may
    /// be in flight to each.
    pub fn new(numbers: &[u64], window: usize) -> Self {
        let window = units(window).min(u32::from(u16::MAX));
        let peer = |number: &u64| Peer {
            number: *number,
            was_contacted: AtomicBool::new(false),
            credits: AtomicU32::new(window),
            owed: AtomicU32::new(0),
            deferred: AtomicU32::new(0),
            is_owing: AtomicBool::new(false),
        };
        Self {
            fates: Fates::new(numbers.len()),
            all: numbers.iter().map(peer).collect(),
            window,
            owing: Mutex::default(),
            has_owing: AtomicBool::new(false),
        }
    }

    /// Units that a message of so many bytes costs its sender: half the window at most, because its
    /// receiver may owe almost the other half for ever.
    #[inline]
    pub fn cost(&self, message: usize) -> u32 {
        units(message).min(self.window / 2)
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    fn of(&self, rank: JobRank) -> &Peer {
        &self.all[rank.index()]
    }

    /// The number in the address vector of a peer that something is sent to.
    #[inline]
    pub fn number(&self, rank: JobRank) -> u64 {
        let peer = self.of(rank);
        if !peer.was_contacted.load(Ordering::Relaxed) {
            peer.was_contacted.store(true, Ordering::Relaxed);
        }
        peer.number
    }

    /// Numbers of the peers that were contacted and are present.
    pub fn contacted(&self) -> impl Iterator<Item = (JobRank, u64)> + '_ {
        let ranks = (0..self.count())
            .map(JobRank)
            .filter(|rank| self.fates.is_present(*rank));
        ranks.filter_map(|rank| {
            let peer = self.of(rank);
            peer.was_contacted
                .load(Ordering::Relaxed)
                .then_some((rank, peer.number))
        })
    }

    /// Pays for a request. False if there is not enough credit.
    #[inline]
    pub fn pay(&self, rank: JobRank, units: u32) -> bool {
        let credits = &self.of(rank).credits;
        credits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(units))
            .is_ok()
    }

    /// Takes credits that the peer returned, or those of a request that was not sent. False: there
    /// were not so many requests, and the peer is lost.
    #[inline]
    pub fn refund(&self, rank: JobRank, units: u32) -> bool {
        if units == 0 {
            return true;
        }
        let credits = &self.of(rank).credits;
        let is_owed = credits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left + units).filter(|all| *all <= self.window)
        });
        if is_owed.is_err() {
            let text = format!("it returned {units} credits, more than our requests cost");
            self.fates.lose(rank, text);
        }
        is_owed.is_ok()
    }

    /// Counts a request of the peer that is deferred, or waits for its put. False if the peer has
    /// sent more than its credits allow.
    pub fn defer(&self, rank: JobRank, units: u32) -> bool {
        let deferred = &self.of(rank).deferred;
        deferred
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |before| {
                before.checked_add(units).filter(|all| *all <= self.window)
            })
            .is_ok()
    }

    /// The request waits no longer.
    pub fn resume(&self, rank: JobRank, units: u32) {
        self.of(rank).deferred.fetch_sub(units, Ordering::Relaxed);
    }

    /// A request of the peer is being delivered.
    #[inline]
    pub fn owe(&self, rank: JobRank, units: u32) {
        self.of(rank).owed.fetch_add(units, Ordering::Relaxed);
    }

    /// What a message to the peer returns.
    #[inline]
    pub fn collect(&self, rank: JobRank) -> u16 {
        let owed = &self.of(rank).owed;
        if owed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let units = owed.swap(0, Ordering::Relaxed);
        // The window has no more units than a header has room for.
        units.min(u32::from(u16::MAX)) as u16
    }

    /// Notes that half the window or more is owed to the peer, after a request of it.
    #[inline]
    pub fn settle(&self, rank: JobRank) {
        let peer = self.of(rank);
        if peer.owed.load(Ordering::Relaxed) >= self.window.div_ceil(2) && !peer.is_owing.swap(true, Ordering::Relaxed)
        {
            lock(&self.owing).push(rank);
            self.has_owing.store(true, Ordering::Release);
        }
    }

    /// Whether a poll should call [`Peers::take_owing`] and [`Fates::take_losses`].
    #[inline]
    pub fn has_work(&self) -> bool {
        self.fates.has_losses()
            || self.has_owing.load(Ordering::Relaxed) && self.has_owing.swap(false, Ordering::Acquire)
    }

    /// The peers to which half a window or more is owed. One that cannot be served now is passed to
    /// [`Peers::settle`] again.
    pub fn take_owing(&self) -> Vec<JobRank> {
        let owing = std::mem::take(&mut *lock(&self.owing));
        for rank in &owing {
            self.of(*rank).is_owing.store(false, Ordering::Relaxed);
        }
        owing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_come_back() {
        let peers = Peers::new(&[0; 2], 8 << 10);
        let (peer, all) = (JobRank(1), units(8 << 10));
        assert!(peers.pay(peer, all) && !peers.pay(peer, 1));
        assert!(peers.refund(peer, 3));
        assert!(peers.pay(peer, 2) && !peers.pay(peer, 2));
        assert!(peers.refund(peer, all - 1) && !peers.fates.has_losses());
        assert!(peers.pay(peer, all) && !peers.pay(peer, 1));
    }

    #[test]
    fn more_credits_than_were_paid_lose_their_peer() {
        let (peers, peer) = (Peers::new(&[0; 2], 8 << 10), JobRank(1));
        assert!(peers.pay(peer, 2) && peers.refund(peer, 1));
        assert!(!peers.refund(peer, 2) && !peers.refund(peer, u32::from(u16::MAX)));
        let why = "it returned 2 credits, more than our requests cost".to_owned();
        assert_eq!(peers.fates.take_losses(), [(peer, why)]);
        let all = units(8 << 10);
        assert!(
            peers.pay(peer, all - 1) && !peers.pay(peer, 1),
            "never more than the window"
        );
    }

    #[test]
    fn no_more_is_deferred_than_credits_allow() {
        let (peers, peer) = (Peers::new(&[0; 2], 8 << 10), JobRank(1));
        let all = units(8 << 10);
        assert!((0..all).all(|_| peers.defer(peer, 1)));
        assert!(!peers.defer(peer, 1) && peers.defer(JobRank(0), all));
        peers.resume(peer, 2);
        assert!(!peers.defer(peer, 3) && peers.defer(peer, 2));
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
    fn a_message_above_the_window_fits_beside_what_is_owed() {
        for window in [LEAST_WINDOW, LEAST_WINDOW + 1, 64] {
            let (peers, peer) = (Peers::new(&[0; 2], (window - 1) * UNIT), JobRank(1));
            let cost = peers.cost(64 << 10);
            let mut owed = 0;
            // As much as the receiver owes without returning it.
            loop {
                peers.owe(peer, 1);
                peers.settle(peer);
                if peers.has_work() {
                    break;
                }
                owed += 1;
            }
            assert!(peers.pay(peer, owed) && peers.pay(peer, cost), "a window of {window}");
        }
    }

    #[test]
    fn half_a_window_is_returned_at_once() {
        let peers = Peers::new(&[0; 3], 8 << 10);
        let peer = JobRank(2);
        peers.owe(peer, 4);
        peers.settle(peer);
        assert!(!peers.has_work());
        peers.owe(peer, 1);
        peers.settle(peer);
        peers.settle(peer);
        assert!(peers.has_work() && !peers.has_work());
        assert_eq!(peers.take_owing(), [peer]);
        assert_eq!((peers.collect(peer), peers.collect(peer)), (5, 0));
    }
}
