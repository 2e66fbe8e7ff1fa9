//! As `gasnet_sys::atomic`, with loom's primitives.

pub use loom::hint::spin_loop;
/// The side that sends has a compiler's fence only, because the side that sleeps fences all processes; loom knows no such thing, so
/// here both sides fence.
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
