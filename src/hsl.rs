//! Handler-safe locks: `gex_HSL_t` is 40 zero bytes, of which the first word is a futex mutex (0 free, 1 taken, 2 taken and
//! waited for). A holder neither polls nor waits, so waits are short. In SEQ and PARSYNC, where one thread at a time is inside GASNet, a lock
//! that is held is taken all the same, as with the reference: its holder could not give it back.
//!
//! In the debug flavour the second word marks a destroyed lock, and each thread remembers the locks it holds, in order: taking one
//! twice, giving back another than the last one taken, and use after destruction end the job with a sentence.

use std::cell::RefCell;
use std::time::Duration;

use crate::sync::Mode;
use gasnet_sys::atomic::{spin_loop, AtomicU32, Ordering};
use gasnet_sys::futex;

/// `gex_HSL_t`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Hsl {
    word: AtomicU32,
    state: AtomicU32,
    reserved: [u32; 8],
}

const _: () = assert!(cfg!(loom) || size_of::<Hsl>() == 40);

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// `state` of a lock that was destroyed; any other value is a lock in use.
const DESTROYED: u32 = 0x4853_4c3f;

/// The locks that a thread holds, the last one taken at the end. Kept in the debug flavour only.
#[derive(Debug, Default)]
pub struct HeldLocks(RefCell<Vec<usize>>);

impl HeldLocks {
    /// No locks.
    pub const fn none() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.borrow().len()
    }
}

fn address(hsl: &Hsl) -> usize {
    std::ptr::from_ref(hsl) as usize
}

impl Hsl {
    /// A free lock.
    pub fn new() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            state: AtomicU32::new(0),
            reserved: [0; 8],
        }
    }

    /// The end of a lock; the job ends if it has ended already or is held.
    pub fn checked_destroy(&self) {
        if self.state.swap(DESTROYED, Ordering::Relaxed) == DESTROYED {
            fatal!("gex_HSL_Destroy: the handler-safe lock at {self:p} was destroyed already.");
        }
        if self.word.load(Ordering::Relaxed) != FREE {
            fatal!("gex_HSL_Destroy: the handler-safe lock at {self:p} is held.");
        }
    }

    /// To be called before taking the lock: the job ends if it was destroyed or the thread holds it already.
    pub fn check_before_lock(&self, held: &HeldLocks, function: &str) {
        if self.state.load(Ordering::Relaxed) == DESTROYED {
            fatal!("{function}: the handler-safe lock at {self:p} was destroyed.");
        }
        if held.0.borrow().contains(&address(self)) {
            fatal!("{function}: this thread holds the handler-safe lock at {self:p} already.");
        }
    }

    /// To be called when the lock was taken.
    pub fn note_locked(&self, held: &HeldLocks) {
        held.0.borrow_mut().push(address(self));
    }

    /// To be called before giving the lock back: the job ends if it is not the last one that this thread took.
    pub fn check_before_unlock(&self, held: &HeldLocks) {
        let last = held.0.borrow_mut().pop();
        if last == Some(address(self)) {
            return;
        }
        if held.0.borrow().contains(&address(self)) {
            fatal!(
                "gex_HSL_Unlock: the handler-safe lock at {self:p} is not the last one that this thread took. Release the last one first."
            );
        }
        fatal!("gex_HSL_Unlock: this thread does not hold the handler-safe lock at {self:p}.");
    }

    /// Takes the lock if it is free, or unless the mode is PAR.
    pub fn try_lock(&self) -> bool {
        self.word
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            || Mode::get() != Mode::Par
    }

    /// Takes the lock, waiting for it.
    #[inline]
    pub fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[cold]
    fn lock_contended(&self) {
        for _ in 0..SPINS {
            if self.word.load(Ordering::Relaxed) == FREE && self.try_lock() {
                return;
            }
            spin_loop();
        }
        while self.word.swap(CONTENDED, Ordering::Acquire) != FREE {
            futex::wait(&self.word, CONTENDED, Duration::from_millis(100));
            gasnet_job::heed_exit(gasnet_job::Inside::Wait);
        }
    }

    /// Gives the lock back.
    #[inline]
    pub fn unlock(&self) {
        if self.word.swap(FREE, Ordering::Release) == CONTENDED {
            futex::wake(&self.word, 1);
        }
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
