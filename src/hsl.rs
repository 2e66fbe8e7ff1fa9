//! Handler-safe locks. A `gex_HSL_t` is 40 zero bytes; the first word is a [`WordMutex`]. A holder
//! neither polls nor waits, so waits are short.
//!
//! In SEQ and PARSYNC only one thread at a time is inside GASNet. There a held lock is locked all
//! the same, as with the reference, since its holder could not release it.
//!
//! In the debug flavour the second word marks a destroyed lock, and each thread keeps its held
//! locks in order. Locking twice, unlocking out of order and use after destruction are fatal
//! errors.

use std::cell::RefCell;

use crate::sync::Mode;
use gasnet_sys::atomic::{AtomicU32, Ordering};
use gasnet_sys::word_mutex::WordMutex;

/// `gex_HSL_t`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Hsl {
    mutex: WordMutex,
    state: AtomicU32,
    reserved: [u32; 8],
}

const _: () = assert!(cfg!(loom) || size_of::<Hsl>() == 40);

/// Value of `state` for a destroyed lock; 0 is a lock in use.
const DESTROYED: u32 = 0x4853_4c3f;

/// The locks that a thread holds, in locking order. Only in the debug flavour.
#[derive(Debug, Default)]
pub struct HeldLocks(RefCell<Vec<usize>>);

impl HeldLocks {
    /// No locks.
    pub const fn none() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// Number of held locks.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

fn address(hsl: &Hsl) -> usize {
    std::ptr::from_ref(hsl) as usize
}

impl Hsl {
    /// An unlocked lock.
    pub fn new() -> Self {
        Self {
            mutex: WordMutex::default(),
            state: AtomicU32::new(0),
            reserved: [0; 8],
        }
    }

    /// Destroys the lock. A fatal error if it is destroyed already or held.
    pub fn checked_destroy(&self) {
        if self.state.swap(DESTROYED, Ordering::Relaxed) == DESTROYED {
            fatal!("gex_HSL_Destroy: the handler-safe lock at {self:p} was destroyed already.");
        }
        if self.mutex.is_locked() {
            fatal!("gex_HSL_Destroy: the handler-safe lock at {self:p} is held.");
        }
    }

    /// Call before locking. A fatal error if the lock was destroyed or never initialised, or this
    /// thread holds it.
    pub fn check_before_lock(&self, held: &HeldLocks, function: &str) {
        match self.state.load(Ordering::Relaxed) {
            0 if self.mutex.is_valid() => (),
            DESTROYED => fatal!("{function}: the handler-safe lock at {self:p} was destroyed."),
            _ => fatal!("{function}: the handler-safe lock at {self:p} is not initialised."),
        }
        if held.0.borrow().contains(&address(self)) {
            fatal!("{function}: this thread holds the handler-safe lock at {self:p} already.");
        }
    }

    /// Call after locking.
    pub fn note_locked(&self, held: &HeldLocks) {
        held.0.borrow_mut().push(address(self));
    }

    /// Call before unlocking. A fatal error if this is not the lock that this thread locked last.
    pub fn check_before_unlock(&self, held: &HeldLocks) {
        let last = held.0.borrow_mut().pop();
        if last == Some(address(self)) {
            return;
        }
        if held.0.borrow().contains(&address(self)) {
            fatal!(
                "gex_HSL_Unlock: the handler-safe lock at {self:p} is not the last one that this thread locked. Unlock \
                 that one first."
            );
        }
        fatal!("gex_HSL_Unlock: this thread does not hold the handler-safe lock at {self:p}.");
    }

    /// Locks if the lock is free, or if the mode is not PAR.
    pub fn try_lock(&self) -> bool {
        self.mutex.try_lock() || Mode::get() != Mode::Par
    }

    /// Locks; waits if necessary.
    #[inline]
    pub fn lock(&self) {
        if Mode::get() == Mode::Par {
            self.mutex
                .lock_with(|| gasnet_job::check_exit(gasnet_job::Inside::Wait));
        } else {
            self.mutex.try_lock();
        }
    }

    /// Unlocks.
    #[inline]
    pub fn unlock(&self) {
        self.mutex.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_exclude_each_other() {
        let lock = Hsl::new();
        let counter = std::cell::UnsafeCell::new(0u64);
        struct Shared<'a>(&'a std::cell::UnsafeCell<u64>);
        // SAFETY: only touched under the lock.
        unsafe impl Sync for Shared<'_> {}
        let shared = Shared(&counter);
        std::thread::scope(|s| {
            for _ in 0..4 {
                let (lock, shared) = (&lock, &shared);
                s.spawn(move || {
                    for _ in 0..10_000 {
                        lock.lock();
                        // SAFETY: the lock is held.
                        unsafe { *shared.0.get() += 1 };
                        lock.unlock();
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 40_000);
        assert!(lock.try_lock() && !lock.try_lock());
    }
}
