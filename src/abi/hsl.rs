//! `gex_HSL_*` and `gasnet_hsl_*`.

use std::ffi::c_int;

use crate::flags::ERR_NOT_READY;
use crate::hsl::Hsl;
use crate::thread;
use crate::trace::{self, EventKind, TraceCategory, TraceEvent};

const CHECKED: bool = cfg!(feature = "debug-checks");

/// Records what was done with a lock, since `began`.
#[cold]
fn traced(kind: EventKind, began: u64, hsl: &Hsl, done: bool) {
    trace::record(
        &TraceEvent::new(kind, began)
            .until_now()
            .with_fields(format_args!(" lock={hsl:p} done={}", u8::from(done))),
    );
}

macro_rules! hsl {
    ($($init:ident $destroy:ident $lock:ident $unlock:ident $trylock:ident;)*) => {$(
        /// Makes a free lock.
        #[no_mangle]
        pub unsafe extern "C" fn $init(hsl: *mut Hsl) {
            // SAFETY: the client's memory for a lock that nobody uses yet.
            unsafe { hsl.write(Hsl::new()) };
        }

        /// The lock is not used any more. Nothing is to be freed.
        #[no_mangle]
        pub unsafe extern "C" fn $destroy(hsl: *mut Hsl) {
            if CHECKED {
                // SAFETY: an initialised lock.
                unsafe { &*hsl }.checked_destroy();
            }
        }

        /// Takes the lock, waiting for it. Never polls.
        #[no_mangle]
        pub unsafe extern "C" fn $lock(hsl: *const Hsl) {
            // SAFETY: an initialised lock.
            let hsl = unsafe { &*hsl };
            if CHECKED {
                hsl.check_before_lock(&thread::current().locks_held, "gex_HSL_Lock");
            }
            let began = trace::clock(TraceCategory::Lock);
            hsl.lock();
            if began != 0 {
                traced(EventKind::Lock, began, hsl, true);
            }
            if CHECKED {
                hsl.note_locked(&thread::current().locks_held);
            }
        }

        /// Gives the lock back.
        #[no_mangle]
        pub unsafe extern "C" fn $unlock(hsl: *const Hsl) {
            // SAFETY: an initialised lock.
            let hsl = unsafe { &*hsl };
            if CHECKED {
                hsl.check_before_unlock(&thread::current().locks_held);
            }
            let began = trace::clock(TraceCategory::Lock);
            hsl.unlock();
            if began != 0 {
                traced(EventKind::Unlock, began, hsl, true);
            }
        }

        /// Takes the lock if it is free (`GASNET_OK`), else `GASNET_ERR_NOT_READY`.
        #[no_mangle]
        pub unsafe extern "C" fn $trylock(hsl: *const Hsl) -> c_int {
            // SAFETY: an initialised lock.
            let hsl = unsafe { &*hsl };
            if CHECKED {
                hsl.check_before_lock(&thread::current().locks_held, "gex_HSL_Trylock");
            }
            let began = trace::clock(TraceCategory::Lock);
            let taken = hsl.try_lock();
            if began != 0 {
                traced(EventKind::TryLock, began, hsl, taken);
            }
            if !taken {
                return ERR_NOT_READY;
            }
            if CHECKED {
                hsl.note_locked(&thread::current().locks_held);
            }
            0
        }
    )*};
}

hsl! {
    gex_HSL_Init gex_HSL_Destroy gex_HSL_Lock gex_HSL_Unlock gex_HSL_Trylock;
    gasnet_hsl_init gasnet_hsl_destroy gasnet_hsl_lock gasnet_hsl_unlock gasnet_hsl_trylock;
}
