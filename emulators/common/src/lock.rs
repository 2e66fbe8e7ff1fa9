//! A mutex in shared memory that survives the death of its holder: the kernel releases it, and the
//! next holder goes on with what it finds. It guards counters and rings, so the worst that
//! a killed holder leaves is a message that is half delivered.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex of this process, also after a panic.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A robust mutex that processes share. All zero is not valid: `init` comes first.
#[repr(C)]
pub struct Lock(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the mutex itself is what orders accesses.
unsafe impl Sync for Lock {}

/// Unlocks when dropped.
pub struct Guard<'a>(&'a Lock);

impl Lock {
    /// Makes an unlocked mutex. Nobody else may use it yet.
    pub fn init(&self) {
        // SAFETY: the attributes live through the calls, and the caller owns the mutex.
        unsafe {
            let mut attributes = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(self.0.get(), &attributes);
            libc::pthread_mutexattr_destroy(&mut attributes);
        }
    }

    pub fn lock(&self) -> Guard<'_> {
        // SAFETY: `init` ran before the object that holds the lock was published.
        let result = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        if result == libc::EOWNERDEAD {
            // SAFETY: this thread holds the mutex.
            unsafe { libc::pthread_mutex_consistent(self.0.get()) };
        } else {
            assert_eq!(result, 0, "emulator: a lock in shared memory is broken");
        }
        Guard(self)
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread locked it.
        unsafe { libc::pthread_mutex_unlock(self.0 .0.get()) };
    }
}
