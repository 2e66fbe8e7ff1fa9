//! The mutex of builds under `ThreadSanitizer` (`--cfg gasnet_tsan`).
//!
//! The standard library is not instrumented: the sanitizer does not see how its mutex is taken
//! under contention, and reports accesses that the mutex protects as races. It sees this one.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LockResult, TryLockError, TryLockResult};

/// Replaces [`std::sync::Mutex`]; never poisoned.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` gives at most one guard at a time, and only a guard reaches the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex that protects `value`.
    pub const fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks the mutex.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        loop {
            if let Ok(guard) = self.try_lock() {
                return Ok(guard);
            }
            std::thread::yield_now();
        }
    }

    /// Locks the mutex unless it is locked.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        if self.taken.swap(true, Ordering::Acquire) {
            return Err(TryLockError::WouldBlock);
        }
        Ok(MutexGuard(self))
    }
}

/// Access to the value; drop unlocks the mutex.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard set `taken`, so there is no other reference.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
