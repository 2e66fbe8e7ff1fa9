//! Credits: a bound on the requests under way to a peer that does not poll.
//!
//! A request costs units of its sender's credit. Its receiver owes them from its delivery on, and
//! returns them with its next message, or, when more than a limit are owed, in a message of their
//! own: [`Credits::note_owed`] and [`Credits::take_owing`] keep the peers for a poll. Replies cost
//! nothing, since each answers a request.
#![forbid(unsafe_code)]

use gasnet_conduit::JobRank;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// The credit of one peer, in both directions.
#[derive(Debug)]
pub struct PeerCredits {
    /// Units that requests to it may still cost.
    available: AtomicU32,
    /// Units of its delivered requests that are not returned yet.
    owed: AtomicU32,
    /// Units of its requests that wait for their delivery in the memory of this process.
    held: AtomicU32,
    /// Whether it is in [`Credits::owing`].
    is_owing: AtomicBool,
}

impl PeerCredits {
    /// A request of the peer is being delivered, or [`PeerCredits::take_owed`] was in vain.
    #[inline]
    pub fn owe(&self, units: u32) {
        self.owed.fetch_add(units, Ordering::Relaxed);
    }

    /// Units that a message to the peer returns: at most `most`, the rest stays owed.
    #[inline]
    pub fn take_owed(&self, most: u32) -> u32 {
        if self.owed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let all = self.owed.swap(0, Ordering::Relaxed);
        let units = all.min(most);
        if units < all {
            self.owe(all - units);
        }
        units
    }

    /// A request that was held is being delivered, or refused.
    pub fn release(&self, units: u32) {
        self.held.fetch_sub(units, Ordering::Relaxed);
    }
}

/// Takes units from a count. False if there are not enough.
#[inline]
pub fn take(count: &AtomicU32, units: u32) -> bool {
    let take = |left: u32| left.checked_sub(units);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
}

/// Bytes of a message for each unit beyond the first, where units stand for bytes.
pub const UNIT: usize = 1024;

/// Units that a message of `bytes` bytes stands for.
#[inline]
pub const fn units(bytes: usize) -> u32 {
    1 + (bytes / UNIT) as u32
}

/// The limits of all peers' credit, and the peers that wait for a return.
#[derive(Debug)]
pub struct Credits {
    /// Units of requests under way to each peer.
    window: u32,
    /// Units that requests to all peers together may still cost, if that is limited.
    total: Option<AtomicU32>,
    /// Units that are owed to a peer until its next message.
    slack: u32,
    /// Peers to which more is owed.
    owing: Mutex<Vec<JobRank>>,
    /// Whether there are any.
    has_owing: AtomicBool,
}

impl Credits {
    /// Credits with a window for each peer, of which `slack` units wait for the next message.
    pub fn new(window: u32, slack: u32) -> Self {
        Self {
            window,
            total: None,
            slack,
            owing: Mutex::default(),
            has_owing: AtomicBool::new(false),
        }
    }

    /// Credits for bytes ([`units`]), with two units at least: half a window that is owed is
    /// returned.
    pub fn for_bytes(window: u32) -> Self {
        Self::new(window, window.div_ceil(2) - 1)
    }

    /// Units that a message of `bytes` bytes costs its sender: half the window at most, because its
    /// receiver may owe almost the other half for ever.
    #[inline]
    pub fn cost(&self, bytes: usize) -> u32 {
        units(bytes).min(self.window / 2)
    }

    /// The same with a limit for all peers together, unless `total` is 0.
    #[must_use]
    pub fn limited_to(self, total: u32) -> Self {
        Self {
            total: (total > 0).then(|| AtomicU32::new(total)),
            ..self
        }
    }

    /// Units of requests under way to each peer.
    #[inline]
    pub fn window(&self) -> u32 {
        self.window
    }

    /// The credit of a peer to which nothing was sent yet.
    pub fn peer(&self) -> PeerCredits {
        PeerCredits {
            available: AtomicU32::new(self.window),
            owed: AtomicU32::new(0),
            held: AtomicU32::new(0),
            is_owing: AtomicBool::new(false),
        }
    }

    /// Takes units for a request. False if there are not enough.
    #[inline]
    pub fn take(&self, peer: &PeerCredits, units: u32) -> bool {
        let Some(total) = &self.total else {
            return take(&peer.available, units);
        };
        if !take(total, units) {
            return false;
        }
        let is_taken = take(&peer.available, units);
        if !is_taken {
            total.fetch_add(units, Ordering::Relaxed);
        }
        is_taken
    }

    /// Adds units that the peer returned, or those of a request that was not sent. An error
    /// describes the defect of the peer: requests to it did not cost as much.
    #[inline]
    pub fn give_back(&self, peer: &PeerCredits, units: u32) -> Result<(), String> {
        if units == 0 {
            return Ok(());
        }
        let before = peer.available.fetch_add(units, Ordering::Relaxed);
        if before.checked_add(units).is_none_or(|all| all > self.window) {
            return Err(revert(peer, units));
        }
        if let Some(total) = &self.total {
            total.fetch_add(units, Ordering::Relaxed);
        }
        Ok(())
    }

    /// A request of the peer is to wait for its delivery, until [`PeerCredits::release`]. False: no
    /// credit can have paid for it.
    pub fn hold(&self, peer: &PeerCredits, units: u32) -> bool {
        let add = |held: u32| held.checked_add(units).filter(|all| *all <= self.window);
        peer.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    /// Notes that a peer waits for a return, if more is owed to it than the slack.
    #[inline]
    pub fn note_owed(&self, rank: JobRank, peer: &PeerCredits) {
        if peer.owed.load(Ordering::Relaxed) > self.slack {
            self.note(rank, peer);
        }
    }

    /// Notes that a peer waits for a message, whatever is owed to it.
    #[cold]
    pub fn note(&self, rank: JobRank, peer: &PeerCredits) {
        if !peer.is_owing.swap(true, Ordering::AcqRel) {
            lock(&self.owing).push(rank);
            self.has_owing.store(true, Ordering::Release);
        }
    }

    /// Whether a poll should call [`Credits::take_owing`]: once for each note.
    #[inline]
    pub fn has_owing(&self) -> bool {
        self.has_owing.load(Ordering::Relaxed) && self.has_owing.swap(false, Ordering::Acquire)
    }

    /// The peers that wait for a return. One that cannot be served now is to be noted again.
    pub fn take_owing<'a>(&self, peer_of: impl Fn(JobRank) -> Option<&'a PeerCredits>) -> Vec<JobRank> {
        let owing = std::mem::take(&mut *lock(&self.owing));
        for peer in owing.iter().filter_map(|rank| peer_of(*rank)) {
            // Before the owed units are read.
            peer.is_owing.swap(false, Ordering::AcqRel);
        }
        owing
    }
}

#[cold]
fn revert(peer: &PeerCredits, units: u32) -> String {
    peer.available.fetch_sub(units, Ordering::Relaxed);
    format!("it returned {units} credits, more than our requests cost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_used_and_comes_back() {
        let credits = Credits::new(5, 2);
        let peer = credits.peer();
        let take = |units| credits.take(&peer, units);
        assert!(take(5) && !take(1));
        assert_eq!(credits.give_back(&peer, 3), Ok(()));
        assert!(take(2) && !take(2));
        assert_eq!(credits.give_back(&peer, 4), Ok(()));
        assert!(take(5) && !take(1));
    }

    #[test]
    fn more_than_was_paid_is_refused_and_not_added() {
        let credits = Credits::new(5, 2);
        let peer = credits.peer();
        assert!(credits.take(&peer, 2));
        assert!(credits.give_back(&peer, 3).is_err() && credits.give_back(&peer, u32::MAX).is_err());
        assert!(credits.take(&peer, 3) && !credits.take(&peer, 1));
        assert_eq!(credits.give_back(&peer, 0), Ok(()));
    }

    #[test]
    fn all_peers_share_a_total() {
        let credits = Credits::new(3, 1).limited_to(4);
        let peers = [credits.peer(), credits.peer()];
        assert!(credits.take(&peers[0], 3) && !credits.take(&peers[0], 1));
        assert!(credits.take(&peers[1], 1) && !credits.take(&peers[1], 1));
        assert!(
            credits.give_back(&peers[0], 4).is_err(),
            "what is refused does not count"
        );
        assert_eq!(credits.give_back(&peers[0], 1), Ok(()));
        assert!(credits.take(&peers[1], 1) && !credits.take(&peers[1], 1));
    }

    #[test]
    fn no_more_is_held_than_the_window() {
        let credits = Credits::new(5, 2);
        let peer = credits.peer();
        assert!(credits.hold(&peer, 3) && credits.hold(&peer, 2) && !credits.hold(&peer, 1));
        peer.release(2);
        assert!(!credits.hold(&peer, 3) && credits.hold(&peer, 2));
    }

    #[test]
    fn a_message_above_the_window_fits_beside_what_is_owed() {
        for window in [2, 3, 8, 9, 64] {
            let credits = Credits::for_bytes(window);
            let (rank, peer) = (JobRank(1), credits.peer());
            let mut owed = 0;
            // As much as the receiver owes without returning it.
            loop {
                peer.owe(1);
                credits.note_owed(rank, &peer);
                if credits.has_owing() {
                    break;
                }
                owed += 1;
            }
            let cost = credits.cost(64 << 10);
            assert!(
                cost > 0 && credits.take(&peer, owed) && credits.take(&peer, cost),
                "a window of {window}"
            );
        }
    }

    #[test]
    fn more_than_the_slack_is_returned_at_once() {
        let credits = Credits::new(8, 2);
        let peer = credits.peer();
        peer.owe(2);
        credits.note_owed(JobRank(1), &peer);
        assert!(!credits.has_owing());
        peer.owe(1);
        credits.note_owed(JobRank(1), &peer);
        credits.note_owed(JobRank(1), &peer);
        assert!(credits.has_owing() && !credits.has_owing());
        assert_eq!(credits.take_owing(|_| Some(&peer)), [JobRank(1)]);
        assert_eq!([peer.take_owed(2), peer.take_owed(2), peer.take_owed(2)], [2, 1, 0]);
        credits.note(JobRank(1), &peer);
        assert!(credits.has_owing());
    }
}
