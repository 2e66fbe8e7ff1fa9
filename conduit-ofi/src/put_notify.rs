//! Packets that wait for a put. A put carries the rank of its source and a number to its target's
//! queue, once for each part; the packet carries the number and how many parts there are. Whichever
//! comes last delivers the packet. Where the provider takes no data with a put, a message follows
//! the put ([`crate::put_notify::long_put`]).
//!
//! A put of no bytes needs no key, so anybody can send what the queue gets. It is masked by the
//! job's token: what others send names no put that is under way.

pub mod long_put;

use gasnet_conduit::JobRank;
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::collections::HashMap;

/// Parts of a put with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutParts {
    pub number: u32,
    pub parts: u32,
}

/// Data of a part of a put for the queue of its target.
#[inline]
pub fn data(token: u64, source: JobRank, number: u32) -> u64 {
    (u64::from(source.0) << 32 | u64::from(number)) ^ token
}

/// The lot of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its put has arrived.
    Delivered,
    /// A copy waits for the put.
    Kept,
    /// Another packet waits for the same put.
    Repeated,
}

/// A put of which something has arrived.
#[derive(Debug, Default)]
struct Put {
    arrived: u32,
    /// The packet that waits for it, and the number of parts.
    packet: Option<(AlignedCopy, u32)>,
}

/// The puts and packets that have arrived without each other, by source and number.
#[derive(Debug)]
pub struct PendingPuts {
    table: Mutex<HashMap<(JobRank, u32), Put>>,
    /// The job's token.
    mask: u64,
    /// Number of processes of the job.
    ranks: u32,
}

impl PendingPuts {
    /// None yet, in a job of `ranks` processes with this token.
    pub fn new(token: u64, ranks: u32) -> Self {
        Self {
            table: Mutex::default(),
            mask: token,
            ranks,
        }
    }

    /// A part of a put has arrived, with this data. Returns the packet, if that was the last of
    /// both.
    pub fn put(&self, data: u64) -> Option<AlignedCopy> {
        let data = data ^ self.mask;
        let source = JobRank((data >> 32) as u32);
        if source.0 >= self.ranks {
            return None;
        }
        let number = data as u32;
        self.arrived(source, PutParts { number, parts: 1 })
    }

    /// Parts of a put have arrived. Returns the packet, if those were the last of both.
    pub fn arrived(&self, source: JobRank, PutParts { number, parts }: PutParts) -> Option<AlignedCopy> {
        let key = (source, number);
        let mut table = lock(&self.table);
        let put = table.entry(key).or_default();
        put.arrived = put.arrived.saturating_add(parts);
        if put.packet.as_ref().is_none_or(|(_, parts)| put.arrived < *parts) {
            return None;
        }
        table.remove(&key)?.packet.map(|(message, _)| message)
    }

    /// A packet has arrived for a put of `parts` parts.
    pub fn packet(&self, source: JobRank, PutParts { number, parts }: PutParts, message: &[u8]) -> Outcome {
        let key = (source, number);
        let mut table = lock(&self.table);
        let put = table.entry(key).or_default();
        if put.packet.is_some() {
            return Outcome::Repeated;
        }
        if put.arrived >= parts {
            table.remove(&key);
            return Outcome::Delivered;
        }
        put.packet = Some((AlignedCopy::new(message), parts));
        Outcome::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: u64 = 0x0123_4567_89ab_cdef;

    fn nine(parts: u32) -> PutParts {
        PutParts { number: 9, parts }
    }

    #[test]
    fn a_packet_waits_for_all_parts() {
        let (pending_puts, source) = (PendingPuts::new(TOKEN, 4), JobRank(3));
        let delivered = |parts| {
            for _ in 1..parts {
                assert!(pending_puts.put(data(TOKEN, source, 9)).is_none());
            }
            pending_puts.put(data(TOKEN, source, 9))
        };
        // Puts first.
        assert!(delivered(3).is_none());
        assert_eq!(pending_puts.packet(source, nine(3), b"abc"), Outcome::Delivered);
        // The packet first.
        assert_eq!(pending_puts.packet(source, nine(2), b"xyz"), Outcome::Kept);
        assert_eq!(pending_puts.packet(source, nine(2), b"abc"), Outcome::Repeated);
        assert_eq!(delivered(2).unwrap().bytes(), b"xyz");
        // The packet between two parts.
        assert!(delivered(1).is_none());
        assert_eq!(pending_puts.packet(source, nine(2), b"mid"), Outcome::Kept);
        assert_eq!(delivered(1).unwrap().bytes(), b"mid");
        // One part with data, the others by a message.
        assert_eq!(pending_puts.packet(source, nine(3), b"uvw"), Outcome::Kept);
        assert!(pending_puts.put(data(TOKEN, source, 9)).is_none());
        assert_eq!(pending_puts.arrived(source, nine(2)).unwrap().bytes(), b"uvw");
        assert!(lock(&pending_puts.table).is_empty());
    }

    #[test]
    fn what_others_send_is_dropped() {
        let pending_puts = PendingPuts::new(TOKEN, 4);
        for source in 0..4 {
            assert_eq!(pending_puts.packet(JobRank(source), nine(1), b"abc"), Outcome::Kept);
        }
        for rank in 0..8 {
            assert!(pending_puts.put(rank << 32 | 9).is_none());
        }
        assert_eq!(lock(&pending_puts.table).len(), 4);
    }
}
