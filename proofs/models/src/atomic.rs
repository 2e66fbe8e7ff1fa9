//! `gasnet_sys::atomic` over loom's primitives.

pub use loom::hint::spin_loop;
/// In the library, the sender has only a compiler fence, and the sleeper issues a memory barrier in
/// all processes. loom cannot model that, so here both sides fence.
pub use loom::sync::atomic::fence as light_fence;
pub use loom::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub use loom::sync::{Mutex, MutexGuard};
pub use loom::thread::yield_now;

pub fn fence_after_exchange() {
    fence(Ordering::SeqCst);
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

macro_rules! global {
    ($(static $name:ident: $type:ty = $value:expr;)*) => {
        $(loom::lazy_static! { static ref $name: $type = $value; })*
    };
}
pub(crate) use global;
