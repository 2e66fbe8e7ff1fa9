//! Requests that wait for company: several in one call of the system take a fraction of the time. The first few of a burst go at once; later ones,
//! while an answer is due, wait until there are enough of them, something comes from the peer, the client polls without having sent anything, or the
//! keeper finds that none was added for a while. Without a keeper nothing waits: a client that computes would forget it.
#![forbid(unsafe_code)]

use super::{lock, Net};
use crate::peer::Peer;
use crate::peer_table::ALIVE;
use gasnet_conduit::JobRank;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;

/// Requests of up to so many bytes wait: several of them still make a train.
const MAX_COALESCED_BYTES: usize = 20 << 10;
/// So many requests between two polls are a burst.
const BURST: u32 = 4;

/// Who has requests that wait. Numbers need not be exact where threads meet: what waits is always sent.
#[derive(Debug, Default)]
pub struct Coalescer {
    ranks: Mutex<Vec<JobRank>>,
    is_pending: AtomicBool,
    /// Requests since the last poll that was not followed by any.
    burst: AtomicU32,
    /// The same at the last poll.
    burst_at_poll: AtomicU32,
    /// Requests that have waited, so far.
    count: AtomicU32,
}

impl Coalescer {
    /// Requests that have waited, so far.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    fn add(&self, rank: JobRank) {
        let mut ranks = lock(&self.ranks);
        ranks.push(rank);
        self.is_pending.store(true, Relaxed);
    }
}

impl Net {
    /// Whether a request that was just kept may wait; then that is noted.
    pub fn try_coalesce(&self, rank: JobRank, peer: &mut Peer, bytes: usize) -> bool {
        let coalescer = &self.coalescer;
        let burst = coalescer.burst.load(Relaxed).wrapping_add(1);
        coalescer.burst.store(burst, Relaxed);
        if burst <= BURST
            || bytes > MAX_COALESCED_BYTES
            || !self.progress.is_running()
            || !peer.has_in_flight()
            || peer.has_full_batch()
        {
            return false;
        }
        coalescer.count.store(coalescer.count().wrapping_add(1), Relaxed);
        if !peer.coalescing {
            peer.coalescing = true;
            coalescer.add(rank);
            self.progress.on_coalesced();
        }
        true
    }

    /// Whether anything waits.
    pub fn has_coalesced(&self) -> bool {
        self.coalescer.is_pending.load(Relaxed)
    }

    /// The client polls. If it has sent nothing since it last did, it waits itself, and nothing waits for it.
    pub fn on_client_poll(&self) {
        let burst = self.coalescer.burst.load(Relaxed);
        if burst == 0 {
            return;
        }
        if self.coalescer.burst_at_poll.swap(burst, Relaxed) == burst {
            self.coalescer.burst.store(0, Relaxed);
            self.coalescer.burst_at_poll.store(0, Relaxed);
            self.flush_coalesced();
        }
    }

    /// Sends what waits.
    pub fn flush_coalesced(&self) {
        if !self.has_coalesced() {
            return;
        }
        let ranks = {
            let mut ranks = lock(&self.coalescer.ranks);
            self.coalescer.is_pending.store(false, Relaxed);
            std::mem::take(&mut *ranks)
        };
        for rank in ranks {
            let connection = self.connection(rank);
            let mut peer = lock(&connection.state);
            peer.coalescing = false;
            if self.peers[rank as usize].status.load(Relaxed) == ALIVE {
                self.transmit_and_track(rank, connection, &mut peer, self.now());
            }
        }
    }
}
