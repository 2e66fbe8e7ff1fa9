//! A mutex in one word, without a guard and without poisoning: its fast paths are one atomic
//! instruction each. Processes may share it. `proofs/models/` checks it.

use crate::atomic::{spin_loop, AtomicU32, Ordering};
use crate::futex;
use std::time::Duration;

/// 0 is free, 1 taken, 2 contended.
#[repr(transparent)]
#[derive(Debug)]
pub struct WordMutex(AtomicU32);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };
/// Longest sleep.
const LIMIT: Duration = Duration::from_millis(100);

impl Default for WordMutex {
    fn default() -> Self {
        Self(AtomicU32::new(FREE))
    }
}

impl WordMutex {
    /// A free one.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self(AtomicU32::new(FREE))
    }

    /// Locks it if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.0
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Locks it; waits if need be, and then calls `woken` after each sleep.
    #[inline]
    pub fn lock_with(&self, woken: impl Fn()) {
        if !self.try_lock() {
            self.lock_contended(&woken);
        }
    }

    /// Locks it; waits if need be.
    #[inline]
    pub fn lock(&self) {
        self.lock_with(|| ());
    }

    #[cold]
    fn lock_contended(&self, woken: &dyn Fn()) {
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
            spin_loop();
        }
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex::wait(&self.0, CONTENDED, LIMIT);
            woken();
        }
    }

    /// Unlocks it. Its holder calls this.
    #[inline]
    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == CONTENDED {
            futex::wake(&self.0, 1);
        }
    }

    /// Locks it without an atomic instruction, where one thread uses it. Returns whether it was
    /// free.
    #[inline]
    pub fn try_lock_alone(&self) -> bool {
        let is_free = self.0.load(Ordering::Relaxed) == FREE;
        self.0.store(TAKEN, Ordering::Relaxed);
        is_free
    }

    /// Unlocks it, where one thread uses it.
    #[inline]
    pub fn unlock_alone(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    /// Whether a thread holds it.
    pub fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// Whether the word is one of a mutex.
    pub fn is_valid(&self) -> bool {
        self.0.load(Ordering::Relaxed) <= CONTENDED
    }
}
