//! README-tools, "Error-checking System Mutexes and Condition Variables" and "Reader/Writer locks":
//! the checked forms of the debug build. The release build has the headers' inline bodies instead
//! (`twins.c`).

use libc::{c_int, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t};

use crate::fatal::fatal;
use crate::held::{self, HoldMode};

/// Ends the process if a system call failed.
fn must(rc: c_int, what: &str, lock: usize) {
    if rc != 0 {
        fatal(format_args!(
            "{what} of {lock:#x} failed: {}",
            std::io::Error::from_raw_os_error(rc)
        ));
    }
}

/// The calling thread must not hold the lock: these locks are not recursive.
fn must_be_free(lock: usize, what: &str) {
    if let Ok(Some(mode)) = held::mode(lock) {
        fatal(format_args!(
            "{what}: this thread already holds the lock at {lock:#x} ({mode:?})"
        ));
    }
}

/// The calling thread must hold the lock in one of `modes`.
fn must_hold(lock: usize, modes: &[HoldMode], what: &str) {
    match held::mode(lock) {
        Err(()) => {}
        Ok(Some(mode)) if modes.contains(&mode) => {}
        Ok(Some(mode)) => fatal(format_args!(
            "{what}: this thread holds the lock at {lock:#x} as {mode:?}"
        )),
        Ok(None) => fatal(format_args!("{what}: this thread does not hold the lock at {lock:#x}")),
    }
}

/// Records an acquisition unless it failed; returns its result.
fn note(rc: c_int, lock: usize, mode: HoldMode) -> c_int {
    if rc == 0 {
        held::acquired(lock, mode);
    }
    rc
}

/// Functions that do the same: their names, the types of their objects, and the system's functions.
macro_rules! functions {
    (initialise $($name:ident $type:ty, $system:ident;)*) => {$(
        /// Initialises an object.
        #[no_mangle]
        pub extern "C" fn $name(object: *mut $type) {
            // SAFETY: the caller gives memory for an object that is not in use.
            must(unsafe { libc::$system(object, std::ptr::null()) }, "initialisation", object as usize);
        }
    )*};
    (destroy $($name:ident $type:ty, $system:ident;)*) => {$(
        /// Destroys a lock that nobody holds.
        #[no_mangle]
        pub extern "C" fn $name(object: *mut $type) {
            must_be_free(object as usize, stringify!($name));
            // SAFETY: the caller gives an initialised object.
            must(unsafe { libc::$system(object) }, "destruction", object as usize);
        }
    )*};
    (acquire $($name:ident $type:ty, $system:ident $mode:ident;)*) => {$(
        /// Acquires a lock.
        #[no_mangle]
        pub extern "C" fn $name(lock: *mut $type) {
            must_be_free(lock as usize, stringify!($name));
            // SAFETY: the caller gives an initialised lock.
            let rc = unsafe { libc::$system(lock) };
            must(note(rc, lock as usize, HoldMode::$mode), "locking", lock as usize);
        }
    )*};
    (try_acquire $($name:ident $type:ty, $system:ident $mode:ident;)*) => {$(
        /// Acquires a lock if that is possible now: 0, else EBUSY, or EAGAIN for a reader too many.
        #[no_mangle]
        pub extern "C" fn $name(lock: *mut $type) -> c_int {
            must_be_free(lock as usize, stringify!($name));
            // SAFETY: the caller gives an initialised lock.
            note(unsafe { libc::$system(lock) }, lock as usize, HoldMode::$mode)
        }
    )*};
    (release $($name:ident $type:ty, $system:ident $($mode:ident)*;)*) => {$(
        /// Releases a lock.
        #[no_mangle]
        pub extern "C" fn $name(lock: *mut $type) {
            must_hold(lock as usize, &[$(HoldMode::$mode),*], stringify!($name));
            held::released(lock as usize);
            // SAFETY: the calling thread holds the lock.
            must(unsafe { libc::$system(lock) }, "unlocking", lock as usize);
        }
    )*};
    (wake $($name:ident, $system:ident $what:literal;)*) => {$(
        /// Wakes one waiter, or all.
        #[no_mangle]
        pub extern "C" fn $name(cond: *mut pthread_cond_t) {
            // SAFETY: the caller gives an initialised condition variable.
            must(unsafe { libc::$system(cond) }, $what, cond as usize);
        }
    )*};
    (assert_held $($name:ident $type:ty, $($mode:ident)*;)*) => {$(
        /// Asserts that the calling thread holds a lock in one of the ways that the name allows.
        #[no_mangle]
        pub extern "C" fn $name(lock: *mut $type) {
            must_hold(lock as usize, &[$(HoldMode::$mode),*], stringify!($name));
        }
    )*};
    (assert_free $($name:ident $type:ty;)*) => {$(
        /// Asserts that the calling thread does not hold a lock.
        #[no_mangle]
        pub extern "C" fn $name(lock: *mut $type) {
            must_be_free(lock as usize, stringify!($name));
        }
    )*};
}

functions! { initialise
    gasnett_mutex_init pthread_mutex_t, pthread_mutex_init;
    gasnett_cond_init pthread_cond_t, pthread_cond_init;
    gasnett_rwlock_init pthread_rwlock_t, pthread_rwlock_init;
}

functions! { destroy
    gasnett_mutex_destroy pthread_mutex_t, pthread_mutex_destroy;
    gasnett_rwlock_destroy pthread_rwlock_t, pthread_rwlock_destroy;
}

functions! { acquire
    gasnett_mutex_lock pthread_mutex_t, pthread_mutex_lock Mutex;
    gasnett_rwlock_wrlock pthread_rwlock_t, pthread_rwlock_wrlock Write;
}

functions! { try_acquire
    gasnett_mutex_trylock pthread_mutex_t, pthread_mutex_trylock Mutex;
    gasnett_rwlock_tryrdlock pthread_rwlock_t, pthread_rwlock_tryrdlock Read;
    gasnett_rwlock_trywrlock pthread_rwlock_t, pthread_rwlock_trywrlock Write;
}

functions! { release
    gasnett_mutex_unlock pthread_mutex_t, pthread_mutex_unlock Mutex;
    gasnett_rwlock_unlock pthread_rwlock_t, pthread_rwlock_unlock Read Write;
}

functions! { wake
    gasnett_cond_signal, pthread_cond_signal "signalling";
    gasnett_cond_broadcast, pthread_cond_broadcast "broadcasting";
}

functions! { assert_held
    gasnett_mutex_assertlocked pthread_mutex_t, Mutex;
    gasnett_rwlock_assertrdlocked pthread_rwlock_t, Read;
    gasnett_rwlock_assertwrlocked pthread_rwlock_t, Write;
    gasnett_rwlock_assertlocked pthread_rwlock_t, Read Write;
}

functions! { assert_free
    gasnett_mutex_assertunlocked pthread_mutex_t;
    gasnett_rwlock_assertunlocked pthread_rwlock_t;
}

/// Destroys a mutex and returns the system's error.
#[no_mangle]
pub extern "C" fn gasnett_mutex_destroy_ignoreerr(lock: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller gives an initialised mutex.
    unsafe { libc::pthread_mutex_destroy(lock) }
}

/// Acquires a lock for reading; a limit on the number of readers (EAGAIN) is a reason to wait.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_rdlock(lock: *mut pthread_rwlock_t) {
    must_be_free(lock as usize, "gasnett_rwlock_rdlock");
    loop {
        // SAFETY: the caller gives an initialised lock.
        let rc = unsafe { libc::pthread_rwlock_rdlock(lock) };
        if rc != libc::EAGAIN {
            return must(note(rc, lock as usize, HoldMode::Read), "locking", lock as usize);
        }
        std::thread::yield_now();
    }
}

/// Destroys a condition variable without waiters. A lock may have been at its address.
#[no_mangle]
pub extern "C" fn gasnett_cond_destroy(cond: *mut pthread_cond_t) {
    // SAFETY: the caller gives an initialised condition variable without waiters.
    must(
        unsafe { libc::pthread_cond_destroy(cond) },
        "destruction",
        cond as usize,
    );
}

/// Releases the mutex, waits, and acquires it again.
#[no_mangle]
pub extern "C" fn gasnett_cond_wait(cond: *mut pthread_cond_t, lock: *mut pthread_mutex_t) {
    must_hold(lock as usize, &[HoldMode::Mutex], "gasnett_cond_wait");
    // SAFETY: the caller gives an initialised condition variable, and the calling thread holds the
    // mutex.
    must(unsafe { libc::pthread_cond_wait(cond, lock) }, "waiting", cond as usize);
}
