//! Requests of peers: delivered, or kept until a poll may deliver them.
#![forbid(unsafe_code)]

use crate::peers::Peers;
use gasnet_conduit::{Class, JobRank, Upcalls};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::pending_queue::PendingQueue;

/// Requests that could not run when they arrived, and their sources.
#[derive(Default)]
pub struct Deferred(PendingQueue<(JobRank, AlignedCopy)>);

/// Delivers a request.
#[inline]
pub fn deliver(peers: &Peers, source: JobRank, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
    let Some(connection) = peers.connection(source) else {
        return;
    };
    // Before the upcall: its reply returns the credit.
    connection.credits.owe(1);
    upcalls.packet(source, Class::Request, packet);
    peers.credits.note_owed(source, &connection.credits);
}

/// Delivers a request that was kept ([`Peers::hold`]).
#[cold]
pub fn deliver_kept(peers: &Peers, source: JobRank, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
    if let Some(connection) = peers.connection(source) {
        connection.credits.release(1);
        deliver(peers, source, packet, upcalls);
    }
}

impl Deferred {
    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keeps a request for a later poll.
    #[cold]
    pub fn keep(&self, peers: &Peers, source: JobRank, packet: &[u8]) {
        if peers.connection(source).is_some_and(|it| peers.hold(it)) {
            self.0.push((source, AlignedCopy::new(packet)));
        }
    }

    /// Delivers some of them. Returns how many.
    #[cold]
    pub fn deliver(&self, peers: &Peers, upcalls: &mut dyn Upcalls) -> usize {
        /// Most that a poll delivers.
        const MOST: usize = 32;
        for count in 0..MOST {
            let Some((source, mut packet)) = self.0.pop() else {
                return count;
            };
            deliver_kept(peers, source, packet.bytes(), upcalls);
        }
        MOST
    }
}
