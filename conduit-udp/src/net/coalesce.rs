//! Coalescing of short requests: a batch in one system call takes a fraction of the time. The first
//! few requests of a burst are sent at once. Later ones, while an acknowledgement is outstanding,
//! are held until one of these happens:
//! - the batch is full;
//! - a datagram arrives from the peer;
//! - the client polls and has sent nothing since its last poll;
//! - the progress thread finds that none was added since its last iteration.
//!
//! Without a progress thread nothing is held: a client that computes would not flush it.
#![forbid(unsafe_code)]

use super::Net;
use crate::peer::Peer;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::lock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Bytes of the largest request that is held: several of them still fit into one super-packet.
const MAX_COALESCED_BYTES: usize = 20 << 10;
/// Requests at the start of a burst that are not held.
const BURST: u32 = 4;

/// The peers with held requests. The counters may be inexact when threads race; held requests are
/// sent all the same.
#[derive(Debug, Default)]
pub struct Coalescer {
    ranks: PendingQueue<JobRank>,
    /// Requests since the last poll that found no new ones.
    burst: AtomicU32,
    /// Value of `burst` at the last poll.
    burst_at_poll: AtomicU32,
    /// Requests held so far, in total; wraps.
    count: AtomicU32,
}

impl Coalescer {
    /// Requests held so far, in total; wraps.
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }
}

impl Net {
    /// Decides whether a request that was just queued is held. If so, arranges that it is flushed.
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
            coalescer.ranks.push(rank);
            self.progress.on_coalesced();
        }
        true
    }

    /// Whether requests are held.
    pub fn has_coalesced(&self) -> bool {
        !self.coalescer.ranks.is_empty()
    }

    /// Called by every client poll. A client that polls and has sent nothing since its last poll is
    /// waiting, so held requests are flushed.
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

    /// Sends all held requests.
    pub fn flush_coalesced(&self) {
        if !self.has_coalesced() {
            return;
        }
        for rank in self.coalescer.ranks.take_all() {
            let connection = self.connection(rank);
            let mut peer = lock(&connection.state);
            peer.coalescing = false;
            if self.states.is_present(rank) {
                self.transmit_and_track(rank, connection, &mut peer, self.now());
            }
        }
    }
}
