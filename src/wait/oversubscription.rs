//! Whether yielding or sleeping is the better way to wait, as the ranks of a host find out together.
//!
//! Among waiting ranks a yield takes microseconds for each. It takes long when somebody computes on our core, who then goes on for a time slice
//! with each of our yields, whereas the kernel lets a woken sleeper run at once: then sleeping is better. But a sleep and its wake-up take the
//! processor time of thirty yields, so that a core on which many ranks sleep turns as slowly as one on which somebody computes, and a rank
//! cannot tell one from the other. Hence all ranks of a host sleep at the same time, in episodes; between them all yield, and only what yields
//! take then says whether there is a need for another episode, which is longer the sooner it comes.
//!
//! One long yield says nothing: a virtual machine loses its processor, too. Beside somebody who computes every yield is long. To look at the clock
//! takes as long as a part of the yield, so that a thread does so at one yield of [`SAMPLE`] as long as there is no suspicion.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// After an episode, until the last sleepers have got over it.
const SETTLING_NS: u64 = 2_000_000;
/// An episode that begins within this time after the last one is longer.
const SOON_NS: u64 = 50_000_000;
/// Yields of which one is timed.
const SAMPLE: u8 = 4;
/// A yield that takes less gave the core to nobody: there and back are two switches.
const LONE_YIELD_NS: u64 = 1_000;
/// Turns of spinning that lonely yields allow, at first and at most.
const SPINS: (u8, u8) = (8, 200);
const SHORTEST_NS: u64 = 4_000_000;
const LONGEST_NS: u64 = 32_000_000;

/// What the ranks of a host share. Times are nanoseconds of the monotonic clock, which all processes of a host share.
#[derive(Clone, Copy, Debug)]
pub struct SleepEpisodes {
    /// The end of the last episode; 0 when that is long ago.
    until: &'static AtomicU64,
    /// Its length.
    length: &'static AtomicU64,
}

/// What a thread's last timed yields say.
#[derive(Debug, Default)]
pub struct YieldStats {
    suspicion: Cell<u8>,
    /// Yields, modulo 256.
    yields: Cell<u8>,
    /// [`YieldStats::spins`], and whether it is known.
    spins: Cell<Option<u8>>,
}

impl YieldStats {
    /// What a long yield adds; a short one takes one away.
    const LONG: u8 = 4;
    const ENOUGH: u8 = 2 * Self::LONG;

    /// Turns that a wait may spin before it yields: none while others run when this thread yields, more and more while they do not. None before a
    /// yield was timed.
    #[inline]
    pub fn spins(&self) -> Option<u32> {
        self.spins.get().map(u32::from)
    }

    fn learn(&self, took: u64) {
        let more = self.spins.get().unwrap_or(0).saturating_mul(2).clamp(SPINS.0, SPINS.1);
        self.spins.set(Some(if took < LONE_YIELD_NS { more } else { 0 }));
    }

    /// After one more timed yield: whether yields are long now.
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

impl SleepEpisodes {
    /// Over two words that the ranks of the host share, zero at first.
    pub fn new([until, length]: &'static [AtomicU64; 2]) -> Self {
        Self { until, length }
    }

    /// Whether one is under way. Asks for the time only if there was one lately.
    #[inline]
    pub fn is_on(&self, time: impl FnOnce() -> u64) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let now = time();
        if now > until.saturating_add(SOON_NS) {
            let _ = self.until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        now < until
    }

    /// Before a thread with `stats` yields: whether that is to be timed.
    #[inline]
    pub fn wants_time(&self, stats: &YieldStats) -> bool {
        let yields = stats.yields.get().wrapping_add(1);
        stats.yields.set(yields);
        yields % SAMPLE == 0 || stats.suspicion.get() > 0 || self.until.load(Ordering::Relaxed) != 0
    }

    /// A thread with `stats` has yielded, timed, and that was long if it took more than `long`.
    pub fn yielded(&self, (began, ended): (u64, u64), long: u64, stats: &YieldStats) {
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
    fn episodes_need_long_yields_only_and_grow_while_there_are_more() {
        let (episodes, mine, other) = (
            SleepEpisodes::new(Box::leak(Box::default())),
            YieldStats::default(),
            YieldStats::default(),
        );
        let yields = |from: u64, to: u64, who: &YieldStats| episodes.yielded((from * MS, to * MS), MS / 2, who);
        yields(1000, 1003, &mine);
        yields(1003, 1004, &other);
        yields(1004, 1004, &mine);
        yields(1004, 1006, &mine);
        let is_on = |now: u64| episodes.is_on(|| now);
        assert!(!is_on(1006 * MS));
        yields(1006, 1007, &mine);
        assert!(is_on(1007 * MS) && is_on(1011 * MS - 1) && !is_on(1011 * MS));
        // The end of the episode itself makes yields long.
        yields(1010, 1013, &other);
        yields(1012, 1014, &other);
        assert!(!is_on(1014 * MS));
        // One soon after the last is twice as long, up to a bound.
        let mut now = 1014;
        for length in [8, 16, 32, 32] {
            yields(now, now + 3, &mine);
            yields(now + 3, now + 6, &mine);
            assert!(is_on((now + 6 + length) * MS - 1) && !is_on((now + 6 + length) * MS));
            now += 6 + length + 2;
        }
        // A later one begins anew.
        yields(now + 60, now + 63, &mine);
        yields(now + 63, now + 66, &mine);
        assert!(is_on((now + 70) * MS - 1) && !is_on((now + 70) * MS));
    }
    #[test]
    fn one_yield_of_some_is_timed_and_all_while_there_is_suspicion() {
        let (episodes, mine) = (SleepEpisodes::new(Box::leak(Box::default())), YieldStats::default());
        let timed = |count: usize| (0..count).filter(|_| episodes.wants_time(&mine)).count();
        assert_eq!(timed(400), 100);
        episodes.yielded((1000 * MS, 1003 * MS), MS / 2, &mine);
        assert_eq!(timed(400), 400);
        (0..8).for_each(|_| episodes.yielded((1003 * MS, 1003 * MS), MS / 2, &mine));
        assert_eq!(timed(400), 100);
        episodes.yielded((1000 * MS, 1003 * MS), MS / 2, &mine);
        episodes.yielded((1003 * MS, 1006 * MS), MS / 2, &mine);
        assert_eq!(timed(400), 400);
        // Until somebody finds that the episode is long over.
        assert!(episodes.is_on(|| 1007 * MS) && !episodes.is_on(|| 1050 * MS));
        assert_eq!(timed(400), 400);
        assert!(!episodes.is_on(|| 1100 * MS) && !episodes.is_on(|| unreachable!()));
        assert_eq!(timed(400), 100);
    }
    #[test]
    fn lonely_yields_allow_to_spin_until_somebody_else_runs() {
        let (episodes, mine) = (SleepEpisodes::new(Box::leak(Box::default())), YieldStats::default());
        let spins_after = |took: u64| {
            episodes.yielded((1000 * MS, 1000 * MS + took), MS / 2, &mine);
            mine.spins()
        };
        assert_eq!(mine.spins(), None);
        assert_eq!([(); 7].map(|()| spins_after(300).unwrap()), [8, 16, 32, 64, 128, 200, 200]);
        assert_eq!([3000, 300, MS].map(|took| spins_after(took).unwrap()), [0, 8, 0]);
    }
}
