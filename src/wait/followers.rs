//! Sleeping threads of one process: the leader/followers pattern on an eventcount.
//!
//! At most one thread, the *leader*, sleeps where neighbours and the network wake this process. The
//! others, the *followers*, sleep on an eventcount of this process. A poll that finds something
//! notifies them. A leader that is woken, or stops waiting, promotes one of them. A message
//! therefore wakes two threads rather than all, and only the leader issues the memory barrier that
//! such a sleep needs.
//!
//! The library cannot evaluate a client's condition, so a notification wakes every follower. More
//! than [`FEW`] followers are notified at a limited rate, so that their wake-ups do not take the
//! cores from threads that compute.
//!
//! SYNC POINT eventcount: [`Followers::notify`] increments the count (release), and a fence comes
//! before the load of the number of sleepers. [`Followers::sleep`] registers a sleeper, and a fence
//! comes before the kernel compares the count with the value that the thread read (acquire) before
//! it checked its condition. Either the notifier sees the sleeper, or the sleeper does not sleep.

use std::time::Duration;

use crate::shm::comm::Slept;
use gasnet_sys::atomic::{fence_after_exchange, AtomicBool, AtomicU32, AtomicU64, Ordering};
use gasnet_sys::futex;
use gasnet_sys::padded::Padded;
use gasnet_tools::timer::monotonic_ns;

/// Up to this many followers are woken by every notification.
const FEW: u32 = 8;
/// Nanoseconds per follower between two notifications of more than that: several times the cost of
/// a wake-up.
const INTERVAL_NS: u64 = 30_000;
/// The sleep limit doubles with this many followers, since each expiry is a wake-up as well.
const LIMIT_DOUBLES: u32 = 32;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Followers {
    /// The eventcount.
    count: Padded<AtomicU32>,
    /// Followers that sleep or are about to.
    asleep: AtomicU32,
    has_leader: AtomicBool,
    /// A notification is deferred until `next_ns`.
    is_pending: AtomicBool,
    next_ns: AtomicU64,
}

impl Followers {
    /// No thread sleeps.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            count: Padded(AtomicU32::new(0)),
            asleep: AtomicU32::new(0),
            has_leader: AtomicBool::new(false),
            is_pending: AtomicBool::new(false),
            next_ns: AtomicU64::new(0),
        }
    }

    /// The eventcount. A thread reads it before it checks its condition, and passes it to
    /// [`sleep`](Self::sleep) if that does not hold.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// Wakes followers: a condition that threads of this process wait for may hold now.
    pub fn notify(&self) {
        let asleep = self.next_count();
        if asleep > 0 {
            self.wake(asleep);
        }
    }

    /// Increments the count. Returns the number of followers that may sleep for the old one.
    fn next_count(&self) -> u32 {
        self.count.fetch_add(1, Ordering::Release);
        fence_after_exchange();
        self.asleep.load(Ordering::Relaxed)
    }

    #[cold]
    fn wake(&self, asleep: u32) {
        if asleep > FEW {
            let now = monotonic_ns();
            if now < self.next_ns.load(Ordering::Relaxed) {
                self.is_pending.store(true, Ordering::Relaxed);
                return;
            }
            self.next_ns
                .store(now + u64::from(asleep) * INTERVAL_NS, Ordering::Relaxed);
        }
        self.is_pending.store(false, Ordering::Relaxed);
        futex::wake_all(&self.count);
    }

    /// Sleeps as a follower until the count differs from `known`, for about `limit` at most. If
    /// there is no leader, calls `lead` with the time to sleep and returns its result. May return
    /// early.
    pub fn sleep(&self, known: u32, limit: Duration, lead: impl FnOnce(Duration) -> Slept) -> Slept {
        if self.has_leader.swap(true, Ordering::Acquire) {
            let before = self.asleep.fetch_add(1, Ordering::Relaxed);
            fence_after_exchange();
            let blocked = futex::wait(&self.count, known, limit * (1 + before / LIMIT_DOUBLES));
            self.asleep.fetch_sub(1, Ordering::Relaxed);
            return if blocked { Slept::Ended } else { Slept::Refused };
        }
        let slept = lead(self.until_pending(limit));
        // An exchange, since loom lets a store come between the halves of the followers' exchanges.
        self.has_leader.swap(false, Ordering::Release);
        if slept == Slept::Woken {
            self.promote();
        }
        if self.is_pending.load(Ordering::Relaxed) {
            self.wake(self.asleep.load(Ordering::Relaxed));
        }
        slept
    }

    /// The calling thread has slept and does not wait any more. Followers may have waited for the
    /// same, which nobody may have announced, so one is woken also if there is a leader; it wakes
    /// the next.
    pub fn leave(&self) {
        self.promote();
    }

    /// Wakes one follower, which becomes the leader if it still has to wait and there is none. The
    /// new count stops threads that are about to follow the previous leader.
    fn promote(&self) {
        if self.next_count() > 0 {
            futex::wake(&self.count, 1);
        }
    }

    /// The time that a leader may sleep: it sends a deferred notification when that is due. One
    /// deferred during its sleep is sent after the sleep.
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
    /// As in `wait`: bounds the delay of a deferred notification. Short, so that leaders often find
    /// for themselves what nobody has announced.
    const LEADER_LIMIT: Duration = Duration::from_micros(50);

    /// Waits for `ready`; a leader sleeps on `wakeups`.
    fn wait(followers: &Followers, wakeups: &AtomicU32, ready: impl Fn() -> bool) {
        loop {
            let known = followers.count();
            let before = wakeups.load(Ordering::SeqCst);
            if ready() {
                followers.leave();
                return;
            }
            let slept = followers.sleep(known, LONG, |limit| {
                futex::wait(wakeups, before, limit.min(LEADER_LIMIT));
                if wakeups.load(Ordering::SeqCst) == before {
                    Slept::Ended
                } else {
                    Slept::Woken
                }
            });
            if slept == Slept::Woken {
                followers.notify();
            }
        }
    }

    #[test]
    fn a_notification_reaches_every_follower() {
        for threads in [1, 2, 3, 20] {
            let (followers, wakeups, number, done) = (
                Followers::new(),
                AtomicU32::new(0),
                AtomicUsize::new(0),
                AtomicUsize::new(0),
            );
            let began = Instant::now();
            std::thread::scope(|s| {
                for _ in 0..threads {
                    s.spawn(|| {
                        for round in 1..=50 {
                            wait(&followers, &wakeups, || number.load(Ordering::SeqCst) >= round);
                            done.fetch_add(1, Ordering::SeqCst);
                        }
                    });
                }
                for round in 1..=50 {
                    number.store(round, Ordering::SeqCst);
                    wakeups.fetch_add(1, Ordering::SeqCst);
                    futex::wake_all(&wakeups);
                    while done.load(Ordering::SeqCst) < round * threads {
                        std::thread::yield_now();
                    }
                }
            });
            assert!(began.elapsed() < LONG, "{threads} threads: a notification was lost");
        }
    }

    #[test]
    fn a_follower_with_an_old_count_does_not_sleep() {
        let followers = Followers::new();
        let known = followers.count();
        let inner = || {
            followers.notify();
            assert_eq!(followers.sleep(known, LONG, |_| unreachable!()), Slept::Refused);
            Slept::Refused
        };
        assert_eq!(followers.sleep(known, LONG, |_| inner()), Slept::Refused);
    }

    #[test]
    fn a_leader_that_leaves_promotes_a_follower() {
        let (followers, wakeups, left) = (Followers::new(), AtomicU32::new(0), AtomicUsize::new(4));
        let began = Instant::now();
        std::thread::scope(|s| {
            for me in 1..=4 {
                let (followers, wakeups, left) = (&followers, &wakeups, &left);
                s.spawn(move || {
                    wait(followers, wakeups, || left.load(Ordering::SeqCst) == me);
                    left.fetch_sub(1, Ordering::SeqCst);
                    // Only `wakeups` announces the next number.
                    wakeups.fetch_add(1, Ordering::SeqCst);
                    futex::wake_all(wakeups);
                });
            }
        });
        assert!(began.elapsed() < LONG);
        assert_eq!(left.load(Ordering::SeqCst), 0);
    }
}
