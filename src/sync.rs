//! Small synchronisation types that never allocate: a try-lock, the thread mode.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use gasnet_sys::atomic::{AtomicBool, Ordering};

/// The thread mode (`GASNET_SEQ`, `GASNET_PARSYNC`, `GASNET_PAR`), as passed by the marker object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One thread.
    Seq,
    /// Many threads, but only one at a time inside GASNet.
    Parsync,
    /// Many threads at once.
    Par,
}

static MODE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(2);

impl Mode {
    /// From the marker's number.
    pub fn from_raw(raw: i32) -> Option<Self> {
        match raw {
            0 => Some(Self::Seq),
            1 => Some(Self::Parsync),
            2 => Some(Self::Par),
            _ => None,
        }
    }

    /// Sets the mode of this process.
    pub fn set(self) {
        MODE.store(self as u32, Ordering::Relaxed);
    }

    /// The mode of this process.
    pub fn get() -> Self {
        match MODE.load(Ordering::Relaxed) {
            0 => Self::Seq,
            1 => Self::Parsync,
            _ => Self::Par,
        }
    }
}

/// A lock for use with [`TryLock::try_lock`]: a thread that does not get it does something else.
#[derive(Debug)]
pub struct TryLock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `taken` gives at most one `TryLockGuard` at a time, and only `TryLockGuard` reaches the
// value.
unsafe impl<T: Send> Sync for TryLock<T> {}

impl<T> TryLock<T> {
    /// An unlocked lock around `value`.
    pub fn new(value: T) -> Self {
        Self {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks, unless another thread holds the lock.
    pub fn try_lock(&self) -> Option<TryLockGuard<'_, T>> {
        let free = !self.taken.load(Ordering::Relaxed);
        let got = free
            && self
                .taken
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        got.then(|| TryLockGuard(self))
    }
}

impl<T> TryLock<T> {
    /// Locks, spinning and yielding. Only for values that every holder keeps for a few
    /// instructions.
    pub fn lock(&self) -> TryLockGuard<'_, T> {
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            // The holder may have lost its core.
            gasnet_sys::atomic::yield_now();
        }
    }
}

/// Access to the value of a [`TryLock`]; unlocks on drop.
#[derive(Debug)]
pub struct TryLockGuard<'a, T>(&'a TryLock<T>);

impl<T> Deref for TryLockGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: `taken` was set by us, so no other thread holds a reference.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryLockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TryLockGuard<'_, T> {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}
