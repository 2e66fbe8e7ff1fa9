//! Waiting in an emulator: for another process, and between polls of the program.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

const YIELDS: u32 = 200;
const SLEEP: Duration = Duration::from_micros(50);

/// Yields the core at first, then sleeps.
#[derive(Default)]
pub struct Backoff(u32);

impl Backoff {
    pub fn pause(&mut self) {
        self.0 = self.0.wrapping_add(1);
        if self.0 < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
    }
}

/// Waits, for a second at most: a process that should end the wait may be dead.
pub fn until(mut is_over: impl FnMut() -> bool) {
    let (end, mut backoff) = (Instant::now() + Duration::from_secs(1), Backoff::default());
    while !is_over() && Instant::now() < end {
        backoff.pause();
    }
}

/// A use of an object, whose owner waits for its end in `drain`, or does not destroy the object.
pub struct Using<'a>(&'a AtomicU32);

impl<'a> Using<'a> {
    /// Counts it. Whether the object is still valid is known only afterwards.
    #[inline(always)]
    pub fn of(users: &'a AtomicU32) -> Self {
        users.fetch_add(1, SeqCst);
        Self(users)
    }
}

impl Drop for Using<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Waits until no operation uses an object any more. A process that died in one stays counted.
pub fn drain(users: &AtomicU32) {
    until(|| users.load(SeqCst) == 0);
}

/// Counts polls that found nothing, for option `yield`.
#[derive(Default)]
pub struct Misses(AtomicU32);

impl Misses {
    /// Counts a poll that found nothing. `every`: 0: never yields.
    #[inline(always)]
    pub fn count(&self, every: u32) {
        if every == 0 {
            return;
        }
        // A count that another thread loses does no harm.
        let misses = self.0.load(Relaxed) + 1;
        if misses < every {
            self.0.store(misses, Relaxed);
        } else {
            self.0.store(0, Relaxed);
            std::thread::yield_now();
        }
    }

    /// A poll has found something.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}
