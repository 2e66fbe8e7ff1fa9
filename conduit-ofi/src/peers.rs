//! What is known of the other processes: addresses, credits, and whether they are there.
//!
//! Credits bound what a sender may have in flight to a receiver that does not poll, since not every
//! provider does. A request costs units by its length. Its receiver returns them when it delivers
//! the request, with its next message, or with one of their own when half the window is owed.
//! Replies need none: each answers a request.

use crate::fabric::{Endpoint, Errno};
use gasnet_conduit::fates::Fates;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// The number in the address vector of a peer that was never contacted.
const UNKNOWN: u64 = u64::MAX;

/// Bytes of a message for each unit of credit, beyond the first.
const UNIT: usize = 1024;

/// Units of credit that a message of so many bytes costs.
#[inline]
pub fn units(message: usize) -> u32 {
    1 + (message / UNIT) as u32
}

/// A process.
struct Peer {
    /// Its number in the address vector.
    number: AtomicU64,
    /// Units that requests to it may still cost.
    credits: AtomicU32,
    /// Units of its requests that are not returned yet.
    owed: AtomicU32,
    /// Whether it is in [`Peers::owing`].
    is_owing: AtomicBool,
    /// See [`Peers::was_reached`].
    was_reached: AtomicBool,
}

/// All processes of the job, this one among them.
pub struct Peers {
    pub fates: Fates,
    all: Box<[Peer]>,
    /// Addresses of equal length, by rank.
    names: Vec<u8>,
    /// Units of the window of each peer.
    window: u32,
    inserting: Mutex<()>,
    /// Peers to which credits are to be returned.
    owing: Mutex<Vec<JobRank>>,
    /// Whether there are any.
    has_owing: AtomicBool,
}

impl Peers {
    /// All processes, with the addresses of all and the bytes of requests that may be in flight to
    /// each.
    pub fn new(ranks: usize, names: Vec<u8>, window: usize) -> Self {
        let window = units(window).min(u32::from(u16::MAX));
        let peer = || Peer {
            number: AtomicU64::new(UNKNOWN),
            credits: AtomicU32::new(window),
            owed: AtomicU32::new(0),
            is_owing: AtomicBool::new(false),
            was_reached: AtomicBool::new(false),
        };
        Self {
            fates: Fates::new(ranks),
            all: std::iter::repeat_with(peer).take(ranks).collect(),
            names,
            window,
            inserting: Mutex::default(),
            owing: Mutex::default(),
            has_owing: AtomicBool::new(false),
        }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    fn of(&self, rank: JobRank) -> &Peer {
        &self.all[rank.index()]
    }

    /// The number in the address vector, in which a peer is inserted at first contact.
    #[inline]
    pub fn number(&self, endpoint: &Endpoint, rank: JobRank) -> Result<u64, Errno> {
        match self.of(rank).number.load(Ordering::Acquire) {
            UNKNOWN => self.insert(endpoint, rank),
            number => Ok(number),
        }
    }

    #[cold]
    fn insert(&self, endpoint: &Endpoint, rank: JobRank) -> Result<u64, Errno> {
        let _inserting = lock(&self.inserting);
        let slot = &self.of(rank).number;
        let number = slot.load(Ordering::Acquire);
        if number != UNKNOWN {
            return Ok(number);
        }
        let length = self.names.len() / self.all.len();
        let number = endpoint.insert(&self.names[rank.index() * length..][..length])?;
        slot.store(number, Ordering::Release);
        Ok(number)
    }

    /// Numbers of the peers that were contacted and are present.
    pub fn contacted(&self) -> impl Iterator<Item = (JobRank, u64)> + '_ {
        let ranks = (0..self.count())
            .map(JobRank)
            .filter(|rank| self.fates.is_present(*rank));
        ranks.filter_map(|rank| {
            let number = self.of(rank).number.load(Ordering::Acquire);
            (number != UNKNOWN).then_some((rank, number))
        })
    }

    /// A message has come from the peer, or it has taken one that waited for room.
    #[inline]
    pub fn note_reached(&self, rank: JobRank) {
        let was_reached = &self.of(rank).was_reached;
        if !was_reached.load(Ordering::Relaxed) {
            was_reached.store(true, Ordering::Relaxed);
        }
    }

    /// Whether that was so once: then the provider is connected to the peer.
    pub fn was_reached(&self, rank: JobRank) -> bool {
        self.of(rank).was_reached.load(Ordering::Relaxed)
    }

    /// Pays for a request. False if there is not enough credit.
    #[inline]
    pub fn pay(&self, rank: JobRank, units: u32) -> bool {
        let credits = &self.of(rank).credits;
        credits
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(units))
            .is_ok()
    }

    /// Takes credits that the peer returned, or those of a request that was not sent.
    #[inline]
    pub fn refund(&self, rank: JobRank, units: u32) {
        if units == 0 {
            return;
        }
        // A peer that returns more than it got would let us send without bound.
        let credits = &self.of(rank).credits;
        let _ = credits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some((left + units).min(self.window))
        });
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
        let peers = Peers::new(2, vec![0; 32], 8 << 10);
        let (peer, all) = (JobRank(1), units(8 << 10));
        assert!(peers.pay(peer, all) && !peers.pay(peer, 1));
        peers.refund(peer, 3);
        assert!(peers.pay(peer, 2) && !peers.pay(peer, 2));
        peers.refund(peer, u32::from(u16::MAX));
        assert!(
            peers.pay(peer, all) && !peers.pay(peer, 1),
            "never more than the window"
        );
    }

    #[test]
    fn half_a_window_is_returned_at_once() {
        let peers = Peers::new(3, vec![0; 48], 8 << 10);
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
