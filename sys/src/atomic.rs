//! The primitives of the structures that `models/` checks. That package compiles the sources of those structures a second time, with a
//! module of this name that hands out loom's primitives; so they take theirs from here. Mutexes everywhere come from
//! here, because `ThreadSanitizer` needs others.

pub use std::hint::spin_loop;
pub use std::sync::atomic::{compiler_fence as light_fence, fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(gasnet_tsan))]
pub use std::sync::{Mutex, MutexGuard};
pub use std::thread::yield_now;

#[cfg(gasnet_tsan)]
pub use crate::tsan::{Mutex, MutexGuard};

/// A sequentially consistent fence that directly follows an atomic exchange: on x86 the exchange is one.
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

/// A `static`; in a model it begins anew with each execution.
#[macro_export]
macro_rules! global {
    ($(static $name:ident: $type:ty = $value:expr;)*) => {
        $(static $name: $type = $value;)*
    };
}
pub use crate::global;
