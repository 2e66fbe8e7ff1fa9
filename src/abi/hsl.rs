//! `gex_HSL_*` and `gasnet_hsl_*`: handler-safe locks.

use std::ffi::c_int;

use crate::flags::{ERR_NOT_READY, OK};
use crate::hsl::Hsl;
use crate::rules::CHECKED;
use crate::thread;
use crate::trace::{self, EventKind, TraceCategory, TraceEvent};

/// Records a call on a lock that began at `began`.
#[cold]
fn record(kind: EventKind, began: u64, hsl: &Hsl, done: bool) {
    trace::record(
        &TraceEvent::new(kind, began)
            .until_now()
            .with_fields(format_args!(" lock={hsl:p} done={}", u8::from(done))),
    );
}

macro_rules! hsl {
    ($($init:ident $destroy:ident $lock:ident $unlock:ident $trylock:ident;)*) => {$(
        /// Initialises a lock, free.
        ///
        /// # Safety
        /// `hsl` is valid for a write, and nobody uses the lock yet.
        #[no_mangle]
        pub unsafe extern "C" fn $init(hsl: *mut Hsl) {
            // SAFETY: the caller's contract.
            unsafe { hsl.write(Hsl::new()) };
        }

        /// Ends the use of a lock. There is nothing to free.
        ///
        /// # Safety
        /// `hsl` is an initialised lock.
        #[no_mangle]
        pub unsafe extern "C" fn $destroy(hsl: *mut Hsl) {
            if CHECKED {
                // SAFETY: the caller's contract.
                unsafe { &*hsl }.checked_destroy();
            }
        }

        /// Acquires the lock, waiting for it. Never polls.
        ///
        /// # Safety
        /// `hsl` is an initialised lock.
        #[no_mangle]
        pub unsafe extern "C" fn $lock(hsl: *const Hsl) {
            // SAFETY: the caller's contract.
            let hsl = unsafe { &*hsl };
            if CHECKED {
                hsl.check_before_lock(&thread::current().locks_held, "gex_HSL_Lock");
            }
            traced!(TraceCategory::Lock, hsl.lock(), |began, ()| record(EventKind::Lock, began, hsl, true));
            if CHECKED {
                hsl.note_locked(&thread::current().locks_held);
            }
        }

        /// Releases the lock.
        ///
        /// # Safety
        /// `hsl` is an initialised lock.
        #[no_mangle]
        pub unsafe extern "C" fn $unlock(hsl: *const Hsl) {
            // SAFETY: the caller's contract.
            let hsl = unsafe { &*hsl };
            if CHECKED {
                hsl.check_before_unlock(&thread::current().locks_held);
            }
            traced!(TraceCategory::Lock, hsl.unlock(), |began, ()| record(EventKind::Unlock, began, hsl, true));
        }

        /// Acquires the lock if it is free. Returns `GASNET_OK` or `GASNET_ERR_NOT_READY`.
        ///
        /// # Safety
        /// `hsl` is an initialised lock.
        #[no_mangle]
        pub unsafe extern "C" fn $trylock(hsl: *const Hsl) -> c_int {
            // SAFETY: the caller's contract.
            let hsl = unsafe { &*hsl };
            if CHECKED {
                hsl.check_before_lock(&thread::current().locks_held, "gex_HSL_Trylock");
            }
            let taken = traced!(TraceCategory::Lock, hsl.try_lock(), |began, taken| {
                record(EventKind::TryLock, began, hsl, taken)
            });
            if !taken {
                return ERR_NOT_READY;
            }
            if CHECKED {
                hsl.note_locked(&thread::current().locks_held);
            }
            OK
        }
    )*};
}

hsl! {
    gex_HSL_Init gex_HSL_Destroy gex_HSL_Lock gex_HSL_Unlock gex_HSL_Trylock;
    gasnet_hsl_init gasnet_hsl_destroy gasnet_hsl_lock gasnet_hsl_unlock gasnet_hsl_trylock;
}
