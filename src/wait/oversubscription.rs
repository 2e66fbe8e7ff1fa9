//! Oversubscribed cores: the ranks of a host decide together whether to yield or to sleep.
//!
//! A yield among waiting ranks takes a few microseconds per rank. It takes long when another
//! process computes on the core, since each yield gives that process a time slice. A woken sleeper,
//! in contrast, runs at once: then sleeping is better. But a sleep and its wake-up cost as much
//! processor time as thirty yields. A core on which many ranks sleep therefore looks the same as
//! one on which a process computes, and a single rank cannot tell them apart.
//!
//! So all ranks of a host sleep at the same time, in episodes. Between episodes all yield, and only
//! the length of those yields decides whether another episode is needed. The sooner it is needed,
//! the longer it is.
//!
//! One long yield proves nothing, since a virtual machine loses its processor, too; beside a
//! process that computes, every yield is long. Reading the clock costs a good part of a yield, so a
//! thread times one yield of [`SAMPLE`] until it suspects a computation.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time after an episode in which yields do not count, while the last sleepers wake up.
const SETTLING_NS: u64 = 2_000_000;
/// An episode that begins within this time after the last one is longer.
const SOON_NS: u64 = 50_000_000;
/// One of this many yields is timed.
const SAMPLE: u8 = 4;
/// A yield that takes less switched to no other thread: back and forth takes two context switches.
const LONE_YIELD_NS: u64 = 1_000;
/// Spinning iterations after a lone yield: initially, and at most.
const SPINS: (u8, u8) = (8, 200);
const SHORTEST_NS: u64 = 4_000_000;
const LONGEST_NS: u64 = 32_000_000;

/// Shared by the ranks of a host. Times are nanoseconds of the monotonic clock, which all processes
/// of the host share.
#[derive(Clone, Copy, Debug)]
pub struct SleepEpisodes {
    /// The end of the last episode; 0 if that is long ago.
    until: &'static AtomicU64,
    /// Its length.
    length: &'static AtomicU64,
}

/// Statistics of a thread's last timed yields.
#[derive(Debug, Default)]
pub struct YieldStats {
    suspicion: Cell<u8>,
    /// Yields, modulo 256.
    yields: Cell<u8>,
    /// See [`YieldStats::spins`].
    spins: Cell<Option<u8>>,
}

impl YieldStats {
    /// Added by a long yield; a short one subtracts 1.
    const LONG: u8 = 4;
    const ENOUGH: u8 = 2 * Self::LONG;

    /// Iterations that a wait may spin before it yields: 0 while other threads run during this
    /// thread's yields, doubling while none do. None before the first timed yield.
    #[inline]
    pub fn spins(&self) -> Option<u32> {
        self.spins.get().map(u32::from)
    }

    fn learn(&self, took: u64) {
        let more = self.spins.get().unwrap_or(0).saturating_mul(2).clamp(SPINS.0, SPINS.1);
        self.spins.set(Some(if took < LONE_YIELD_NS { more } else { 0 }));
    }

    /// Counts one timed yield. Returns whether yields are long now.
    fn add(&self, is_long: bool) -> bool {
        let known = self.suspicion.get();
        let now = if is_long {
            known + Self::LONG
        } else {
            known.saturating_sub(1)
        };
        let enough = now >= Self::ENOUGH;
        self.suspicion.set(if enough { 0 } else { now });
        enough
    }
}

/// The yields of a thread's polls, while no other thread of its process polls. A long one gives the
/// core to threads that spin for something that only this thread does, or that compute: after
/// several in a row the polls keep the core for longer than a time slice.
#[derive(Debug, Default)]
pub struct PollYields {
    /// Long ones in a row.
    long: Cell<u32>,
    /// Those left out since the last one.
    left_out: Cell<u32>,
}

impl PollYields {
    /// Eight times as many are left out for each long one, up to this.
    const MOST: u32 = 4;

    /// Whether the next one is not left out.
    pub fn is_due(&self) -> bool {
        let left_out = self.left_out.get() + 1;
        let is_due = left_out >= 1 << (3 * self.long.get());
        self.left_out.set(if is_due { 0 } else { left_out });
        is_due
    }

    /// Counts a timed one.
    pub fn took(&self, is_long: bool) {
        self.long.set(if is_long {
            (self.long.get() + 1).min(Self::MOST)
        } else {
            0
        });
    }
}

impl SleepEpisodes {
    /// Over two words shared by the ranks of the host, zero initially.
    pub fn new([until, length]: &'static [AtomicU64; 2]) -> Self {
        Self { until, length }
    }

    /// Whether an episode is active. Calls `time` only if there was one recently.
    #[inline]
    pub fn is_on(&self, time: impl FnOnce() -> u64) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let now = time();
        if now > until.saturating_add(SOON_NS) {
            let _ = self
                .until
                .compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        now < until
    }

    /// Whether the next yield of the thread with `stats` is to be timed.
    #[inline]
    pub fn wants_time(&self, stats: &YieldStats) -> bool {
        let yields = stats.yields.get().wrapping_add(1);
        stats.yields.set(yields);
        yields % SAMPLE == 0 || stats.suspicion.get() > 0 || self.until.load(Ordering::Relaxed) != 0
    }

    /// Counts a timed yield of the thread with `stats`; it was long if it took more than `long`.
    pub fn yielded(&self, began: u64, ended: u64, long: u64, stats: &YieldStats) {
        let took = ended.saturating_sub(began);
        stats.learn(took);
        let is_long = took > long;
        let until = self.until.load(Ordering::Relaxed);
        if is_long && began < until.saturating_add(SETTLING_NS) {
            return;
        }
        if !stats.add(is_long) {
            return;
        }
        let length = if ended - until < SOON_NS {
            (2 * self.length.load(Ordering::Relaxed)).clamp(SHORTEST_NS, LONGEST_NS)
        } else {
            SHORTEST_NS
        };
        // If several threads start an episode at once, one wins.
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
    fn episodes_need_only_long_yields_and_grow() {
        let (episodes, mine, other) = (
            SleepEpisodes::new(Box::leak(Box::default())),
            YieldStats::default(),
            YieldStats::default(),
        );
        let yields = |from: u64, to: u64, who: &YieldStats| episodes.yielded(from * MS, to * MS, MS / 2, who);
        yields(1000, 1003, &mine);
        yields(1003, 1004, &other);
        yields(1004, 1004, &mine);
        yields(1004, 1006, &mine);
        let is_on = |now: u64| episodes.is_on(|| now);
        assert!(!is_on(1006 * MS));
        yields(1006, 1007, &mine);
        assert!(is_on(1007 * MS) && is_on(1011 * MS - 1) && !is_on(1011 * MS));
        // The end of an episode makes yields long.
        yields(1010, 1013, &other);
        yields(1012, 1014, &other);
        assert!(!is_on(1014 * MS));
        // An episode soon after the last one is twice as long, up to the maximum.
        let mut now = 1014;
        for length in [8, 16, 32, 32] {
            yields(now, now + 3, &mine);
            yields(now + 3, now + 6, &mine);
            assert!(is_on((now + 6 + length) * MS - 1) && !is_on((now + 6 + length) * MS));
            now += 6 + length + 2;
        }
        // A later one is short again.
        yields(now + 60, now + 63, &mine);
        yields(now + 63, now + 66, &mine);
        assert!(is_on((now + 70) * MS - 1) && !is_on((now + 70) * MS));
    }
    #[test]
    fn polls_leave_out_yields_that_are_long() {
        let yields = PollYields::default();
        let left_out = || (1..=1 << 16).find(|_| yields.is_due()).unwrap();
        assert_eq!([left_out(), left_out()], [1, 1]);
        for expected in [8, 64, 512, 4096, 4096] {
            yields.took(true);
            assert_eq!(left_out(), expected);
        }
        yields.took(false);
        assert_eq!(left_out(), 1);
    }

    #[test]
    fn yields_are_sampled_and_all_timed_on_suspicion() {
        let (episodes, mine) = (SleepEpisodes::new(Box::leak(Box::default())), YieldStats::default());
        let timed = |count: usize| (0..count).filter(|_| episodes.wants_time(&mine)).count();
        assert_eq!(timed(400), 100);
        episodes.yielded(1000 * MS, 1003 * MS, MS / 2, &mine);
        assert_eq!(timed(400), 400);
        (0..8).for_each(|_| episodes.yielded(1003 * MS, 1003 * MS, MS / 2, &mine));
        assert_eq!(timed(400), 100);
        episodes.yielded(1000 * MS, 1003 * MS, MS / 2, &mine);
        episodes.yielded(1003 * MS, 1006 * MS, MS / 2, &mine);
        assert_eq!(timed(400), 400);
        // Until a thread finds that the episode is long over.
        assert!(episodes.is_on(|| 1007 * MS) && !episodes.is_on(|| 1050 * MS));
        assert_eq!(timed(400), 400);
        assert!(!episodes.is_on(|| 1100 * MS) && !episodes.is_on(|| unreachable!()));
        assert_eq!(timed(400), 100);
    }
    #[test]
    fn lone_yields_allow_spinning_until_another_thread_runs() {
        let (episodes, mine) = (SleepEpisodes::new(Box::leak(Box::default())), YieldStats::default());
        let spins_after = |took: u64| {
            episodes.yielded(1000 * MS, 1000 * MS + took, MS / 2, &mine);
            mine.spins()
        };
        assert_eq!(mine.spins(), None);
        assert_eq!(
            [(); 7].map(|()| spins_after(300).unwrap()),
            [8, 16, 32, 64, 128, 200, 200]
        );
        assert_eq!([3000, 300, MS].map(|took| spins_after(took).unwrap()), [0, 8, 0]);
    }
}
