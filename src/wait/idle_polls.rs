//! Yields of a client's polls. A client that polls in a loop is probably waiting, and other threads
//! of the host may need its core; but it may also work between its polls, or be the one that the
//! other threads of its process wait for. A yield then costs a time slice of each of them.
//!
//! - More ranks than cores: a poll yields after a few empty ones. If threads of the own process
//!   compute during these yields, it yields for a small part of the time only.
//! - A core per rank: it yields after empty polls that follow each other at once, and never if the
//!   process has other threads.
//! - Mode SPIN: never.

use std::cell::Cell;

/// Longest time of an empty poll, on average, of a client that does nothing else.
const POLL_NS: u64 = 4_000;
/// Least time between two long yields, in multiples of the first of them.
const SHARE: u64 = 16;
/// Time for which the number of threads is taken to be the same.
const THREADS_STAY_NS: u64 = 10_000_000;

/// The polls of one thread that found nothing. Times are nanoseconds, 0 while unknown.
#[derive(Debug, Default)]
pub struct IdlePolls {
    /// Polls in a row, since the last that was due.
    empty: Cell<u32>,
    /// The beginning of the first of them, if a poll was due before.
    since: Cell<u64>,
    /// The earliest next yield.
    not_before: Cell<u64>,
    /// Until when the process is taken to have no other thread.
    alone_until: Cell<u64>,
}

impl IdlePolls {
    /// A poll found something.
    #[inline]
    pub fn found(&self) {
        self.empty.set(0);
        self.since.set(0);
    }

    /// A poll found nothing. Whether that is the last of `most` in a row.
    #[inline]
    pub fn empty(&self, most: u32) -> bool {
        let empty = self.empty.get() + 1;
        let is_due = empty >= most;
        self.empty.set(if is_due { 0 } else { empty });
        is_due
    }

    /// Whether a poll that is due may yield on a host with more ranks than cores.
    pub fn may_yield_among_ranks(&self, now: impl FnOnce() -> u64) -> bool {
        self.not_before.get() == 0 || now() >= self.not_before.get()
    }

    /// Whether a poll that is due, the last of `polls` in a row, may yield on a host with a core
    /// for every rank. `has_others`: whether the process has other threads.
    pub fn may_yield_alone(&self, now: u64, polls: u32, has_others: impl FnOnce() -> bool) -> bool {
        let began = self.since.replace(now);
        let is_idle = began != 0 && now.saturating_sub(began) <= u64::from(polls) * POLL_NS;
        if !is_idle || now < self.not_before.get() {
            return false;
        }
        if now >= self.alone_until.get() {
            if has_others() {
                self.not_before.set(now + THREADS_STAY_NS);
                return false;
            }
            self.alone_until.set(now + THREADS_STAY_NS);
        }
        true
    }

    /// A poll has yielded until `ended`.
    pub fn yielded_until(&self, ended: u64) {
        self.since.set(ended);
    }

    /// A poll has yielded among ranks, and a thread of the own process may have computed, if
    /// `to_own`.
    pub fn yielded_among_ranks(&self, (began, ended): (u64, u64), to_own: bool) {
        let took = ended.saturating_sub(began);
        self.not_before.set(if to_own { ended + SHARE * took } else { 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_poll_is_due_after_empty_ones_only() {
        let polls = IdlePolls::default();
        assert_eq!(
            [1, 2, 3, 4, 5, 6].map(|_| polls.empty(3)),
            [false, false, true, false, false, true]
        );
        polls.empty(3);
        polls.empty(3);
        polls.found();
        assert!(!polls.empty(3));
    }

    #[test]
    fn a_rank_with_a_core_yields_when_it_does_nothing_else() {
        let polls = IdlePolls::default();
        let alone = |now: u64| polls.may_yield_alone(now, 8, || false);
        let most = 8 * POLL_NS;
        assert!(!alone(MS) && alone(MS + most) && !alone(MS + 2 * most + 1));
        polls.yielded_until(5 * MS);
        assert!(alone(5 * MS + most));
        polls.found();
        assert!(!alone(5 * MS + 2 * most));
    }

    #[test]
    fn a_rank_with_a_core_and_other_threads_never_yields() {
        let (polls, asked) = (IdlePolls::default(), Cell::new(0));
        let others = || {
            asked.set(asked.get() + 1);
            true
        };
        assert!((0..500).all(|i| !polls.may_yield_alone(MS + i * 8 * POLL_NS, 8, others)));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn among_ranks_only_a_long_yield_to_own_threads_delays_the_next() {
        let polls = IdlePolls::default();
        assert!(polls.may_yield_among_ranks(|| unreachable!()));
        polls.yielded_among_ranks((MS, 3 * MS), true);
        assert!(!polls.may_yield_among_ranks(|| 4 * MS) && polls.may_yield_among_ranks(|| 40 * MS));
        polls.yielded_among_ranks((40 * MS, 40 * MS), false);
        assert!(polls.may_yield_among_ranks(|| unreachable!()));
    }
}
