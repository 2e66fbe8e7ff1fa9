//! Sleeping threads of one process: the leader/followers pattern on an eventcount.
//!
//! At most one thread, the *leader*, sleeps where neighbours and the network wake this process. The others, the *followers*, sleep on an
//! eventcount of this process. A poll that finds something notifies them; a leader that is woken, or stops waiting, promotes one of them.
//! A message therefore wakes two threads rather than all, and only the leader issues the memory barrier that such a sleep needs.
//!
//! The library does not know which condition a client waits for, so a notification wakes every follower. More than [`FEW`] followers are
//! notified at a limited rate, so that their wake-ups do not take the cores from the threads that do the work.
//!
//! SYNC POINT eventcount: [`Followers::notify`] increments the count before it reads the number of sleepers; [`Followers::sleep`] registers
//! a sleeper before the kernel compares the count with the one that the thread read before it checked its condition. Either the notifier
//! sees the sleeper, or the sleeper does not sleep.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use gasnet_tools::timer::monotonic_ns;

use crate::sync::Padded;
use gasnet_sys::futex;

/// Up to this many followers are woken by every notification.
const FEW: u32 = 8;
/// Nanoseconds per follower between two notifications of more than that: several times what a wake-up costs.
const INTERVAL_NS: u64 = 30_000;
/// The sleep limit doubles with this many followers, since each expiry is a wake-up, too.
const LIMIT_DOUBLES: u32 = 32;

/// See the module documentation.
#[derive(Debug)]
pub struct Followers {
    /// The eventcount.
    count: Padded<AtomicU32>,
    /// Followers that sleep, or are about to.
    asleep: AtomicU32,
    has_leader: AtomicBool,
    /// A notification was held back until `next_ns`.
    is_pending: AtomicBool,
    next_ns: AtomicU64,
}

impl Followers {
    /// No thread sleeps.
    pub const fn new() -> Self {
        Self {
            count: Padded(AtomicU32::new(0)),
            asleep: AtomicU32::new(0),
            has_leader: AtomicBool::new(false),
            is_pending: AtomicBool::new(false),
            next_ns: AtomicU64::new(0),
        }
    }

    /// The eventcount, to be read before a thread checks its condition and passed to [`sleep`](Self::sleep) if that does not hold.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// A condition that threads of this process wait for may hold now.
    pub fn notify(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let asleep = self.asleep.load(Ordering::SeqCst);
        if asleep > 0 {
            self.wake(asleep);
        }
    }

    #[cold]
    fn wake(&self, asleep: u32) {
        if asleep > FEW {
            let now = monotonic_ns();
            if now < self.next_ns.load(Ordering::Relaxed) {
                self.is_pending.store(true, Ordering::Relaxed);
                return;
            }
            self.next_ns.store(now + u64::from(asleep) * INTERVAL_NS, Ordering::Relaxed);
        }
        self.is_pending.store(false, Ordering::Relaxed);
        futex::wake_all(&self.count);
    }

    /// Sleeps as a follower until the count is no longer `known`, for about `limit` at most. If there is no leader, calls `lead` with the time
    /// to sleep instead, and returns its result: whether somebody woke it. May return early.
    pub fn sleep(&self, known: u32, limit: Duration, lead: impl FnOnce(Duration) -> bool) -> bool {
        if self.has_leader.swap(true, Ordering::Acquire) {
            let before = self.asleep.fetch_add(1, Ordering::SeqCst);
            futex::wait(&self.count, known, limit * (1 + before / LIMIT_DOUBLES));
            self.asleep.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let was_woken = lead(self.until_pending(limit));
        self.has_leader.store(false, Ordering::SeqCst);
        if was_woken {
            self.promote();
        }
        if self.is_pending.load(Ordering::Relaxed) {
            self.wake(self.asleep.load(Ordering::SeqCst));
        }
        was_woken
    }

    /// The calling thread has slept and waits no longer.
    pub fn leave(&self) {
        if !self.has_leader.load(Ordering::SeqCst) {
            self.promote();
        }
    }

    /// Wakes one follower, which leads if it still has to wait. The count stops threads that are about to follow the previous leader.
    fn promote(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.count, 1);
        }
    }

    /// The leader sends what was held back. A notification that is held back while it sleeps waits for the end of that sleep.
    fn until_pending(&self, limit: Duration) -> Duration {
        if !self.is_pending.load(Ordering::Relaxed) {
            return limit;
        }
        let left = self.next_ns.load(Ordering::Relaxed).saturating_sub(monotonic_ns());
        limit.min(Duration::from_nanos(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(30);
    /// As in `wait`: bounds how long a notification can be held back.
    const LEADER_LIMIT: Duration = Duration::from_millis(4);

    /// Waits for `ready`; a leader sleeps on `bell`.
    fn wait(followers: &Followers, bell: &AtomicU32, ready: impl Fn() -> bool) {
        loop {
            let known = followers.count();
            let rung = bell.load(Ordering::SeqCst);
            if ready() {
                followers.leave();
                return;
            }
            let was_woken = followers.sleep(known, LONG, |limit| {
                futex::wait(bell, rung, limit.min(LEADER_LIMIT));
                bell.load(Ordering::SeqCst) != rung
            });
            if was_woken {
                followers.notify();
            }
        }
    }

    #[test]
    fn a_notification_reaches_every_follower() {
        for threads in [1, 2, 3, 20] {
            let (followers, bell, turn, done) = (Followers::new(), AtomicU32::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let began = Instant::now();
            std::thread::scope(|s| {
                for _ in 0..threads {
                    s.spawn(|| {
                        for round in 1..=50 {
                            wait(&followers, &bell, || turn.load(Ordering::SeqCst) >= round);
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                for round in 1..=50 {
                    turn.store(round, Ordering::SeqCst);
                    bell.fetch_add(1, Ordering::SeqCst);
                    futex::wake_all(&bell);
                    while done.load(Ordering::SeqCst) < round * threads {
                        std::thread::yield_now();
                    }
                }
            });
            assert!(began.elapsed() < LONG, "{threads} threads: a notification was lost");
        }
    }

    #[test]
    fn a_leader_that_leaves_promotes_a_follower() {
        let (followers, bell, left) = (Followers::new(), AtomicU32::new(0), AtomicUsize::new(4));
        let began = Instant::now();
        std::thread::scope(|s| {
            for me in 1..=4 {
                let (followers, bell, left) = (&followers, &bell, &left);
                s.spawn(move || {
                    wait(followers, bell, || left.load(Ordering::SeqCst) == me);
                    left.fetch_sub(1, Ordering::SeqCst);
                    // Only the bell announces the next turn.
                    bell.fetch_add(1, Ordering::SeqCst);
                    futex::wake_all(bell);
                });
            }
        });
        assert!(began.elapsed() < LONG);
        assert_eq!(left.load(Ordering::SeqCst), 0);
    }
}
