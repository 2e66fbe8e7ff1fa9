//! Whether yielding or sleeping is the better way to wait, as the ranks of a host find out together.
//!
//! Among waiting ranks a yield takes microseconds for each. It takes long when somebody computes on our core, who then goes on for a time slice
//! with each of our yields, whereas the kernel lets a woken sleeper run at once: then sleeping is better. But a sleep and its wake-up take the
//! processor time of thirty yields, so that a core on which many ranks sleep turns as slowly as one on which somebody computes, and a rank
//! cannot tell one from the other. Hence all ranks of a host sleep at the same time, in episodes; between them all yield, and only what yields
//! take then says whether there is a need for another episode, which is longer the sooner it comes.

use std::sync::atomic::{AtomicU64, Ordering};

/// After an episode, until the last sleepers have got over it.
const SETTLING_NS: u64 = 2_000_000;
/// Two long yields of a rank within this time begin an episode; so does it forget about the last one.
const MEMORY_NS: u64 = 50_000_000;
const SHORTEST_NS: u64 = 4_000_000;
const LONGEST_NS: u64 = 32_000_000;

/// What the ranks of a host share; zero at first. Times are nanoseconds of the monotonic clock, which all processes of a host share.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Episodes {
    /// The end of the last episode.
    until: AtomicU64,
    /// Its length.
    length: AtomicU64,
}

impl Episodes {
    /// No episode yet.
    pub const fn new() -> Self {
        Self {
            until: AtomicU64::new(0),
            length: AtomicU64::new(0),
        }
    }

    /// Whether one is under way.
    #[inline]
    pub fn is_on(&self, now: u64) -> bool {
        now < self.until.load(Ordering::Relaxed)
    }

    /// A yield took long. `previous` is the end of the last such yield of this process.
    pub fn long_yield(&self, (began, ended): (u64, u64), previous: &AtomicU64) {
        let until = self.until.load(Ordering::Relaxed);
        if began < until.saturating_add(SETTLING_NS) {
            return;
        }
        let before = previous.swap(ended, Ordering::Relaxed);
        if before <= until || ended.saturating_sub(before) > MEMORY_NS {
            return;
        }
        let last = self.length.load(Ordering::Relaxed);
        let length = if ended - until < MEMORY_NS {
            (2 * last).clamp(SHORTEST_NS, LONGEST_NS)
        } else {
            SHORTEST_NS
        };
        // Of several that notice at once one prevails.
        let begun = self
            .until
            .compare_exchange(until, ended + length, Ordering::Relaxed, Ordering::Relaxed);
        if begun.is_ok() {
            self.length.store(length, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn episodes_need_two_long_yields_and_grow_while_there_are_more() {
        let (episodes, mine, other) = (Episodes::new(), AtomicU64::new(0), AtomicU64::new(0));
        let long = |from: u64, to: u64, who: &AtomicU64| episodes.long_yield((from * MS, to * MS), who);
        long(1000, 1003, &mine);
        assert!(!episodes.is_on(1003 * MS));
        long(1003, 1004, &other);
        assert!(!episodes.is_on(1004 * MS));
        long(1003, 1006, &mine);
        assert!(episodes.is_on(1006 * MS) && episodes.is_on(1010 * MS - 1) && !episodes.is_on(1010 * MS));
        // The end of the episode itself makes yields long.
        long(1009, 1012, &other);
        long(1011, 1013, &other);
        assert!(!episodes.is_on(1013 * MS));
        // One soon after the last is twice as long, up to a bound.
        let mut now = 1013;
        for length in [8, 16, 32, 32] {
            long(now, now + 3, &mine);
            long(now + 3, now + 6, &mine);
            assert!(episodes.is_on((now + 6 + length) * MS - 1) && !episodes.is_on((now + 6 + length) * MS));
            now += 6 + length + 2;
        }
        // A later one begins anew.
        long(now + 60, now + 63, &mine);
        long(now + 63, now + 66, &mine);
        assert!(episodes.is_on((now + 70) * MS - 1) && !episodes.is_on((now + 70) * MS));
    }
}
