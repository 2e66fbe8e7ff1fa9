//! Packets that wait for a put. A put carries the rank of its source and a number to its target's
//! queue, once for each part; the packet carries the number and how many parts there are. Whichever
//! comes last delivers the packet.

use crate::receive::Copied;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::collections::HashMap;

/// A packet that waits.
#[derive(Debug)]
struct Waiting {
    message: Copied,
    parts: u32,
}

/// A put of which something has arrived.
#[derive(Debug, Default)]
struct Put {
    arrived: u32,
    packet: Option<Waiting>,
}

/// The puts and packets that have arrived without each other, by source and number.
#[derive(Debug, Default)]
pub struct Notices(Mutex<HashMap<(JobRank, u32), Put>>);

/// What the queue of the target gets.
pub fn data(source: JobRank, number: u32) -> u64 {
    u64::from(source.0) << 32 | u64::from(number)
}

impl Notices {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// A part of a put has arrived, with this data. Returns the packet, if that was the last of
    /// both.
    pub fn put(&self, data: u64) -> Option<Copied> {
        let key = (JobRank((data >> 32) as u32), data as u32);
        let mut table = lock(&self.0);
        let put = table.entry(key).or_default();
        put.arrived += 1;
        if put.packet.as_ref().is_none_or(|packet| put.arrived < packet.parts) {
            return None;
        }
        table.remove(&key)?.packet.map(|packet| packet.message)
    }

    /// A packet has arrived for a put of so many parts. True if they have all arrived. If not, a
    /// copy of the message is kept.
    pub fn packet(&self, source: JobRank, (number, parts): (u32, u32), message: &[u8]) -> bool {
        let key = (source, number);
        let mut table = lock(&self.0);
        let put = table.entry(key).or_default();
        if put.arrived >= parts {
            table.remove(&key);
            return true;
        }
        put.packet = Some(Waiting {
            message: Copied::new(message),
            parts,
        });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_waits_for_all_parts() {
        let (notices, source) = (Notices::new(), JobRank(3));
        let delivered = |parts| {
            for _ in 1..parts {
                assert!(notices.put(data(source, 9)).is_none());
            }
            notices.put(data(source, 9))
        };
        // Puts first.
        assert!(delivered(3).is_none());
        assert!(notices.packet(source, (9, 3), b"abc"));
        // The packet first.
        assert!(!notices.packet(source, (9, 2), b"xyz"));
        assert_eq!(delivered(2).unwrap().bytes(), b"xyz");
        assert!(lock(&notices.0).is_empty());
    }
}
