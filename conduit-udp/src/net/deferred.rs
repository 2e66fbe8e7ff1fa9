//! Packets that arrived when they could not be delivered: requests while only replies were polled,
//! any packet while the client computed.
#![forbid(unsafe_code)]

use crate::packet::Packet;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A packet that waits for a poll that delivers its class.
#[derive(Debug)]
pub struct DeferredPacket {
    /// Rank of the sender.
    pub source: JobRank,
    /// The packet.
    pub packet: Packet,
}

/// The deferred packets of one class, oldest first.
#[derive(Debug, Default)]
pub struct Deferred {
    packets: Mutex<VecDeque<DeferredPacket>>,
    count: AtomicUsize,
    bytes: AtomicUsize,
}

impl Deferred {
    /// Appends a packet.
    pub fn push(&self, source: JobRank, packet: Packet) {
        let mut packets = lock(&self.packets);
        self.bytes.fetch_add(packet.footprint(), Relaxed);
        packets.push_back(DeferredPacket { source, packet });
        self.count.store(packets.len(), Relaxed);
    }

    /// Removes the oldest packet.
    pub fn pop(&self) -> Option<DeferredPacket> {
        if self.is_empty() {
            return None;
        }
        let mut packets = lock(&self.packets);
        let next = packets.pop_front();
        self.count.store(packets.len(), Relaxed);
        drop(packets);
        if let Some(DeferredPacket { packet, .. }) = &next {
            self.bytes.fetch_sub(packet.footprint(), Relaxed);
        }
        next
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    /// Bytes of memory that the queue takes.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }
}
