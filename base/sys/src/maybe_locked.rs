//! A lock that processes with one thread leave out.

use crate::word_mutex::WordMutex;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Whether several threads use a value.
#[derive(Clone, Copy, Debug)]
pub struct Sharing {
    are_several: bool,
}

impl Sharing {
    /// Several threads do.
    pub const SEVERAL: Self = Self { are_several: true };

    /// One thread does, or, if `are_several`, several.
    ///
    /// # Safety
    /// Unless `are_several`, calls of [`MaybeLocked::lock`] and [`MaybeLocked::try_lock`] of the
    /// values that are made with this, and the use of what they return, do not happen at the same
    /// time in different threads.
    pub const unsafe fn new(are_several: bool) -> Self {
        Self { are_several }
    }
}

/// A value that several threads use one at a time, or that one thread uses.
#[derive(Debug)]
pub struct MaybeLocked<T> {
    are_several: bool,
    mutex: WordMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the mutex, or the contract of [`Sharing::new`], gives at most one guard at a time, and
// only a guard reaches the value.
unsafe impl<T: Send> Sync for MaybeLocked<T> {}

impl<T> MaybeLocked<T> {
    /// A value for one thread, or for several.
    pub const fn new(value: T, sharing: Sharing) -> Self {
        Self {
            are_several: sharing.are_several,
            mutex: WordMutex::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks it.
    ///
    /// # Panics
    /// If the one thread has locked it: it would wait for itself.
    #[inline]
    pub fn lock(&self) -> MaybeLockedGuard<'_, T> {
        if self.are_several {
            self.mutex.lock();
        } else {
            assert!(self.mutex.try_lock_alone(), "defect: a thread waits for itself");
        }
        MaybeLockedGuard(self, PhantomData)
    }

    /// Locks it unless it is locked.
    #[inline]
    pub fn try_lock(&self) -> Option<MaybeLockedGuard<'_, T>> {
        let is_locked = if self.are_several {
            self.mutex.try_lock()
        } else {
            self.mutex.try_lock_alone()
        };
        is_locked.then(|| MaybeLockedGuard(self, PhantomData))
    }
}

/// Access to the value, for the thread that locked it; drop unlocks it.
#[derive(Debug)]
pub struct MaybeLockedGuard<'a, T>(&'a MaybeLocked<T>, PhantomData<*mut T>);

impl<T> Deref for MaybeLockedGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: there is one guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MaybeLockedGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: there is one guard, borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for MaybeLockedGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.0.are_several {
            self.0.mutex.unlock();
        } else {
            self.0.mutex.unlock_alone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_guard() {
        for are_several in [false, true] {
            // SAFETY: one thread uses it.
            let value = MaybeLocked::new(1, unsafe { Sharing::new(are_several) });
            let mut guard = value.lock();
            *guard += 1;
            assert!(value.try_lock().is_none());
            drop(guard);
            assert_eq!(*value.try_lock().unwrap(), 2);
            assert_eq!(*value.lock(), 2);
        }
    }

    #[test]
    #[should_panic(expected = "waits for itself")]
    fn one_thread_does_not_wait_for_itself() {
        // SAFETY: one thread uses it.
        let value = MaybeLocked::new((), unsafe { Sharing::new(false) });
        let _guard = value.lock();
        let _again = value.lock();
    }

    #[test]
    fn several_threads_take_turns() {
        let value = MaybeLocked::new(0_u32, Sharing::SEVERAL);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        *value.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*value.lock(), 400);
    }
}
