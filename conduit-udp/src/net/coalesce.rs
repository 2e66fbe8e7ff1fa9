//! Requests that wait for company: several in one call of the system take a fraction of the time. The first few of a burst go at once; later ones,
//! while an answer is due, wait until there are enough of them, something comes from the peer, the client polls without having sent anything, or the
//! keeper finds that none was added for a while. Without a keeper nothing waits: a client that computes would forget it.
#![forbid(unsafe_code)]

use super::{lock, Net};
use crate::peer::Peer;
use crate::peer_table::HERE;
use gasnet_conduit::JobRank;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;

/// Requests of up to so many bytes wait: several of them still make a train.
const SHORT: usize = 20 << 10;
/// So many requests between two polls are a burst.
const BURST: u32 = 4;

/// Who has requests that wait. Numbers need not be exact where threads meet: what waits is always sent.
#[derive(Debug, Default)]
pub struct Held {
    ranks: Mutex<Vec<JobRank>>,
    is_some: AtomicBool,
    /// Requests since the last poll that was not followed by any.
    burst: AtomicU32,
    /// The same at the last poll.
    polled: AtomicU32,
    /// Requests that have waited, so far.
    count: AtomicU32,
}

impl Held {
    /// Requests that have waited, so far.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    fn add(&self, rank: JobRank) {
        let mut ranks = lock(&self.ranks);
        ranks.push(rank);
        self.is_some.store(true, Relaxed);
    }
}

impl Net {
    /// Whether a request that was just kept may wait; then that is noted.
    pub fn may_wait(&self, rank: JobRank, peer: &mut Peer, bytes: usize) -> bool {
        let held = &self.held;
        let burst = held.burst.load(Relaxed).wrapping_add(1);
        held.burst.store(burst, Relaxed);
        if burst <= BURST || bytes > SHORT || !self.keeper.is_here() || !peer.awaits_answer() || peer.has_company() {
            return false;
        }
        held.count.store(held.count().wrapping_add(1), Relaxed);
        if !peer.held {
            peer.held = true;
            held.add(rank);
            self.keeper.note_held();
        }
        true
    }

    /// Whether anything waits.
    pub fn holds(&self) -> bool {
        self.held.is_some.load(Relaxed)
    }

    /// The client polls. If it has sent nothing since it last did, it waits itself, and nothing waits for it.
    pub fn release(&self) {
        let burst = self.held.burst.load(Relaxed);
        if burst == 0 {
            return;
        }
        if self.held.polled.swap(burst, Relaxed) == burst {
            self.held.burst.store(0, Relaxed);
            self.held.polled.store(0, Relaxed);
            self.send_held();
        }
    }

    /// Sends what waits.
    pub fn send_held(&self) {
        if !self.holds() {
            return;
        }
        let ranks = {
            let mut ranks = lock(&self.held.ranks);
            self.held.is_some.store(false, Relaxed);
            std::mem::take(&mut *ranks)
        };
        for rank in ranks {
            let contact = self.contact(rank);
            let mut peer = lock(&contact.state);
            peer.held = false;
            if self.places[rank as usize].fate.load(Relaxed) == HERE {
                self.push_on(rank, contact, &mut peer, self.now());
            }
        }
    }
}
