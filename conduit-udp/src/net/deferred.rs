//! Packets that arrived when they could not be delivered: requests while only replies were polled,
//! any packet while the client computed.
#![forbid(unsafe_code)]

use crate::packet::Packet;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::pending_queue::PendingQueue;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The deferred packets of one class with their senders, oldest first.
#[derive(Debug, Default)]
pub struct Deferred {
    packets: PendingQueue<(JobRank, Packet)>,
    bytes: AtomicUsize,
}

impl Deferred {
    /// Appends a packet.
    pub fn push(&self, source: JobRank, packet: Packet) {
        self.bytes.fetch_add(packet.footprint(), Relaxed);
        self.packets.push((source, packet));
    }

    /// Removes the oldest packet.
    pub fn pop(&self) -> Option<(JobRank, Packet)> {
        if self.is_empty() {
            return None;
        }
        let (source, packet) = self.packets.pop()?;
        self.bytes.fetch_sub(packet.footprint(), Relaxed);
        Some((source, packet))
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Bytes of memory that the queue takes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}
