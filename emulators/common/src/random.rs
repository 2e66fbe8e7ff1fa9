//! Random numbers for the faults of a process. The same seed, slot and order of calls give the same
//! faults.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub struct Random(AtomicU64);

impl Random {
    pub fn new(seed: u64, slot: u32) -> Random {
        Random(AtomicU64::new(
            seed.wrapping_add(u64::from(slot).wrapping_mul(0x9e37_79b9)),
        ))
    }

    /// splitmix64.
    pub fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Relaxed);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// True in `percent` of a hundred calls.
    pub fn hits(&self, percent: u32) -> bool {
        percent != 0 && self.next() % 100 < u64::from(percent)
    }

    /// A number below `limit`, or 0.
    pub fn below(&self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}
