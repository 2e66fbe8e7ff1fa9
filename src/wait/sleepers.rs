//! Threads of one process that sleep at the same time.
//!
//! One of them *listens*: it sleeps where neighbours and the network wake this process. The others sleep on a word of this process until a
//! poll of any thread has found something, or until it is their turn to listen: because the listener has something to do, or waits no more.
//! So a message wakes two threads and not all of them, and one thread pays for the barrier that goes before such a sleep. What a client
//! waits for is not known here; so news wakes all that sleep, but many of them not more often than they can all have run in between.
//!
//! SYNC POINT news: who has news counts them before it looks who sleeps ([`Sleepers::tell`]); a sleeper is counted before the kernel
//! compares the number of news with the one that the thread had read before it looked at what it waits for ([`Sleepers::sleep`]). So
//! either the sleeper is seen, or it does not sleep.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use gasnet_tools::timer::monotonic_ns;

use crate::os::futex;
use crate::sync::Padded;

/// So many sleepers are woken whenever there is news.
const FEW: u32 = 8;
/// More of them are left alone for this time each after all have been woken.
const REST_NS: u64 = 30_000;
/// So many sleepers sleep twice as long as one.
const CROWD: u32 = 32;

/// See the module documentation.
#[derive(Debug)]
pub struct Sleepers {
    /// How much news there was, and how often another thread was to listen.
    news: Padded<AtomicU32>,
    /// Threads that sleep and do not listen.
    asleep: AtomicU32,
    is_heard: AtomicBool,
    /// Whether news came while they were to be left alone, and until when they are.
    owes: AtomicBool,
    rest: AtomicU64,
}

impl Sleepers {
    /// Nobody sleeps.
    pub const fn new() -> Self {
        Self {
            news: Padded(AtomicU32::new(0)),
            asleep: AtomicU32::new(0),
            is_heard: AtomicBool::new(false),
            owes: AtomicBool::new(false),
            rest: AtomicU64::new(0),
        }
    }

    /// To be read before a thread looks at what it waits for, and given to [`sleep`](Self::sleep) if that is not there.
    pub fn news(&self) -> u32 {
        self.news.load(Ordering::SeqCst)
    }

    /// Something has changed for which threads of this process may wait.
    pub fn tell(&self) {
        self.news.fetch_add(1, Ordering::SeqCst);
        let asleep = self.asleep.load(Ordering::SeqCst);
        if asleep > 0 {
            self.wake(asleep);
        }
    }

    #[cold]
    fn wake(&self, asleep: u32) {
        if asleep > FEW {
            let now = monotonic_ns();
            if now < self.rest.load(Ordering::Relaxed) {
                self.owes.store(true, Ordering::Relaxed);
                return;
            }
            self.rest.store(now + u64::from(asleep) * REST_NS, Ordering::Relaxed);
        }
        self.owes.store(false, Ordering::Relaxed);
        futex::wake_all(&self.news);
    }

    /// Sleeps until there is news after the first `known`, at most for about `limit`; or calls `listen` with a limit to sleep for, if nobody
    /// else of this process listens, and returns what that returns. May return early.
    pub fn sleep(&self, known: u32, limit: Duration, listen: impl FnOnce(Duration) -> bool) -> bool {
        let others_listen = self.is_heard.swap(true, Ordering::Acquire);
        if others_listen {
            let before = self.asleep.fetch_add(1, Ordering::SeqCst);
            futex::wait(&self.news, known, limit * (1 + before / CROWD));
            self.asleep.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let heard = listen(self.until_rest_ends(limit));
        self.is_heard.store(false, Ordering::SeqCst);
        if heard {
            self.hand_over();
        }
        if self.owes.load(Ordering::Relaxed) {
            self.wake(self.asleep.load(Ordering::SeqCst));
        }
        heard
    }

    /// A thread that has slept waits no more: if nobody listens another one is to.
    pub fn leave(&self) {
        if !self.is_heard.load(Ordering::SeqCst) {
            self.hand_over();
        }
    }

    /// Who is about to sleep, and took this thread for the listener, sees the news.
    fn hand_over(&self) {
        self.news.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            futex::wake(&self.news, 1);
        }
    }

    /// A listener wakes the others when they have rested, if there was news; if it comes while the listener sleeps, then afterwards.
    fn until_rest_ends(&self, limit: Duration) -> Duration {
        if !self.owes.load(Ordering::Relaxed) {
            return limit;
        }
        let left = self.rest.load(Ordering::Relaxed).saturating_sub(monotonic_ns());
        limit.min(Duration::from_nanos(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Instant;

    const LONG: Duration = Duration::from_secs(100);
    /// What the library's own waits allow a listener, who has to look what it owes the others.
    const LISTENING: Duration = Duration::from_millis(4);

    /// Waits for `ready` among `sleepers`; a listener sleeps on `bell`, which others ring.
    fn wait(sleepers: &Sleepers, bell: &AtomicU32, ready: impl Fn() -> bool) {
        loop {
            let known = sleepers.news();
            let rung = bell.load(Ordering::SeqCst);
            if ready() {
                sleepers.leave();
                return;
            }
            let heard = sleepers.sleep(known, LONG, |limit| {
                futex::wait(bell, rung, limit.min(LISTENING));
                bell.load(Ordering::SeqCst) != rung
            });
            if heard {
                sleepers.tell();
            }
        }
    }

    #[test]
    fn news_reaches_all() {
        for threads in [1, 2, 3, 20] {
            let (sleepers, bell, turn, done) = (Sleepers::new(), AtomicU32::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let began = Instant::now();
            std::thread::scope(|s| {
                for _ in 0..threads {
                    s.spawn(|| {
                        for round in 1..=50 {
                            wait(&sleepers, &bell, || turn.load(Ordering::SeqCst) >= round);
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
            assert!(
                began.elapsed() < LONG,
                "{threads} threads: somebody slept for the whole limit"
            );
        }
    }

    #[test]
    fn a_listener_that_goes_leaves_another_one() {
        let (sleepers, bell, left) = (Sleepers::new(), AtomicU32::new(0), AtomicUsize::new(4));
        let began = Instant::now();
        std::thread::scope(|s| {
            for me in 1..=4 {
                let (sleepers, bell, left) = (&sleepers, &bell, &left);
                s.spawn(move || {
                    wait(sleepers, bell, || left.load(Ordering::SeqCst) == me);
                    left.fetch_sub(1, Ordering::SeqCst);
                    // Nobody is told but by the bell.
                    bell.fetch_add(1, Ordering::SeqCst);
                    futex::wake_all(bell);
                });
            }
        });
        assert!(began.elapsed() < LONG);
        assert_eq!(left.load(Ordering::SeqCst), 0);
    }
}
