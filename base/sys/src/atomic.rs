//! Atomics and mutexes.
//!
//! `proofs/models/` compiles the lock-free structures a second time, with a module of this name
//! that exports loom's primitives instead. All mutexes come from here, because `ThreadSanitizer`
//! needs another one.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{
    compiler_fence as light_fence, fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
#[cfg(not(gasnet_tsan))]
pub use std::sync::{Mutex, MutexGuard};
pub use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::thread::yield_now;

#[cfg(gasnet_tsan)]
pub use crate::tsan::{Mutex, MutexGuard};

/// A sequentially consistent fence directly after an atomic exchange. On x86 the exchange is a
/// fence.
#[inline]
pub fn fence_after_exchange() {
    if cfg!(target_arch = "x86_64") {
        light_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// Locks `mutex`. A panic aborts the process, so poisoning says nothing and is ignored.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `lock` for reading. As in [`lock`], poisoning is ignored.
pub fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Locks `lock` for writing. As in [`lock`], poisoning is ignored.
pub fn write_lock<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A `static`. In a model each execution starts with a new one.
#[macro_export]
macro_rules! global {
    ($(static $name:ident: $type:ty = $value:expr;)*) => {
        $(static $name: $type = $value;)*
    };
}
pub use crate::global;
