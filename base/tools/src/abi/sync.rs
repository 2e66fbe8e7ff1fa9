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

/// Initialises a mutex.
#[no_mangle]
pub extern "C" fn gasnett_mutex_init(lock: *mut pthread_mutex_t) {
    // SAFETY: the caller gives memory for a mutex that is not in use.
    must(
        unsafe { libc::pthread_mutex_init(lock, std::ptr::null()) },
        "initialisation",
        lock as usize,
    );
}

/// Destroys a mutex that nobody holds.
#[no_mangle]
pub extern "C" fn gasnett_mutex_destroy(lock: *mut pthread_mutex_t) {
    must_be_free(lock as usize, "gasnett_mutex_destroy");
    // SAFETY: the caller gives an initialised mutex.
    must(
        unsafe { libc::pthread_mutex_destroy(lock) },
        "destruction",
        lock as usize,
    );
}

/// Destroys a mutex and returns the system's error.
#[no_mangle]
pub extern "C" fn gasnett_mutex_destroy_ignoreerr(lock: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller gives an initialised mutex.
    unsafe { libc::pthread_mutex_destroy(lock) }
}

/// Acquires a mutex.
#[no_mangle]
pub extern "C" fn gasnett_mutex_lock(lock: *mut pthread_mutex_t) {
    must_be_free(lock as usize, "gasnett_mutex_lock");
    // SAFETY: the caller gives an initialised mutex.
    let rc = unsafe { libc::pthread_mutex_lock(lock) };
    must(note(rc, lock as usize, HoldMode::Mutex), "locking", lock as usize);
}

/// Releases a mutex.
#[no_mangle]
pub extern "C" fn gasnett_mutex_unlock(lock: *mut pthread_mutex_t) {
    must_hold(lock as usize, &[HoldMode::Mutex], "gasnett_mutex_unlock");
    held::released(lock as usize);
    // SAFETY: the calling thread holds the mutex.
    must(unsafe { libc::pthread_mutex_unlock(lock) }, "unlocking", lock as usize);
}

/// Acquires a mutex if it is free: 0, else EBUSY.
#[no_mangle]
pub extern "C" fn gasnett_mutex_trylock(lock: *mut pthread_mutex_t) -> c_int {
    must_be_free(lock as usize, "gasnett_mutex_trylock");
    // SAFETY: the caller gives an initialised mutex.
    note(
        unsafe { libc::pthread_mutex_trylock(lock) },
        lock as usize,
        HoldMode::Mutex,
    )
}

/// Asserts that the calling thread holds a mutex.
#[no_mangle]
pub extern "C" fn gasnett_mutex_assertlocked(lock: *mut pthread_mutex_t) {
    must_hold(lock as usize, &[HoldMode::Mutex], "gasnett_mutex_assertlocked");
}

/// Asserts that the calling thread does not hold a mutex.
#[no_mangle]
pub extern "C" fn gasnett_mutex_assertunlocked(lock: *mut pthread_mutex_t) {
    must_be_free(lock as usize, "gasnett_mutex_assertunlocked");
}

/// Initialises a condition variable.
#[no_mangle]
pub extern "C" fn gasnett_cond_init(cond: *mut pthread_cond_t) {
    // SAFETY: the caller gives memory for a condition variable that is not in use.
    must(
        unsafe { libc::pthread_cond_init(cond, std::ptr::null()) },
        "initialisation",
        cond as usize,
    );
}

/// Destroys a condition variable.
#[no_mangle]
pub extern "C" fn gasnett_cond_destroy(cond: *mut pthread_cond_t) {
    // SAFETY: the caller gives an initialised condition variable without waiters.
    must(
        unsafe { libc::pthread_cond_destroy(cond) },
        "destruction",
        cond as usize,
    );
}

/// Wakes one waiter.
#[no_mangle]
pub extern "C" fn gasnett_cond_signal(cond: *mut pthread_cond_t) {
    // SAFETY: the caller gives an initialised condition variable.
    must(unsafe { libc::pthread_cond_signal(cond) }, "signalling", cond as usize);
}

/// Wakes all waiters.
#[no_mangle]
pub extern "C" fn gasnett_cond_broadcast(cond: *mut pthread_cond_t) {
    // SAFETY: the caller gives an initialised condition variable.
    must(
        unsafe { libc::pthread_cond_broadcast(cond) },
        "broadcasting",
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

/// Initialises a reader/writer lock.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_init(lock: *mut pthread_rwlock_t) {
    // SAFETY: the caller gives memory for a lock that is not in use.
    must(
        unsafe { libc::pthread_rwlock_init(lock, std::ptr::null()) },
        "initialisation",
        lock as usize,
    );
}

/// Destroys a reader/writer lock that nobody holds.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_destroy(lock: *mut pthread_rwlock_t) {
    must_be_free(lock as usize, "gasnett_rwlock_destroy");
    // SAFETY: the caller gives an initialised lock.
    must(
        unsafe { libc::pthread_rwlock_destroy(lock) },
        "destruction",
        lock as usize,
    );
}

/// Acquires a lock for reading; a limit on the number of readers is a reason to wait.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_rdlock(lock: *mut pthread_rwlock_t) {
    must_be_free(lock as usize, "gasnett_rwlock_rdlock");
    loop {
        // SAFETY: the caller gives an initialised lock.
        let rc = unsafe { libc::pthread_rwlock_rdlock(lock) };
        if rc != libc::EAGAIN {
            must(note(rc, lock as usize, HoldMode::Read), "locking", lock as usize);
            return;
        }
        std::thread::yield_now();
    }
}

/// Acquires a lock for writing.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_wrlock(lock: *mut pthread_rwlock_t) {
    must_be_free(lock as usize, "gasnett_rwlock_wrlock");
    // SAFETY: the caller gives an initialised lock.
    let rc = unsafe { libc::pthread_rwlock_wrlock(lock) };
    must(note(rc, lock as usize, HoldMode::Write), "locking", lock as usize);
}

/// Releases a lock held in either way.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_unlock(lock: *mut pthread_rwlock_t) {
    must_hold(
        lock as usize,
        &[HoldMode::Read, HoldMode::Write],
        "gasnett_rwlock_unlock",
    );
    held::released(lock as usize);
    // SAFETY: the calling thread holds the lock.
    must(unsafe { libc::pthread_rwlock_unlock(lock) }, "unlocking", lock as usize);
}

/// Acquires a lock for reading if that is possible now: 0, else EBUSY or EAGAIN.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_tryrdlock(lock: *mut pthread_rwlock_t) -> c_int {
    must_be_free(lock as usize, "gasnett_rwlock_tryrdlock");
    // SAFETY: the caller gives an initialised lock.
    note(
        unsafe { libc::pthread_rwlock_tryrdlock(lock) },
        lock as usize,
        HoldMode::Read,
    )
}

/// Acquires a lock for writing if it is free: 0, else EBUSY.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_trywrlock(lock: *mut pthread_rwlock_t) -> c_int {
    must_be_free(lock as usize, "gasnett_rwlock_trywrlock");
    // SAFETY: the caller gives an initialised lock.
    note(
        unsafe { libc::pthread_rwlock_trywrlock(lock) },
        lock as usize,
        HoldMode::Write,
    )
}

/// Asserts that the calling thread holds a lock for reading.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_assertrdlocked(lock: *mut pthread_rwlock_t) {
    must_hold(lock as usize, &[HoldMode::Read], "gasnett_rwlock_assertrdlocked");
}

/// Asserts that the calling thread holds a lock for writing.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_assertwrlocked(lock: *mut pthread_rwlock_t) {
    must_hold(lock as usize, &[HoldMode::Write], "gasnett_rwlock_assertwrlocked");
}

/// Asserts that the calling thread holds a lock.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_assertlocked(lock: *mut pthread_rwlock_t) {
    must_hold(
        lock as usize,
        &[HoldMode::Read, HoldMode::Write],
        "gasnett_rwlock_assertlocked",
    );
}

/// Asserts that the calling thread does not hold a lock.
#[no_mangle]
pub extern "C" fn gasnett_rwlock_assertunlocked(lock: *mut pthread_rwlock_t) {
    must_be_free(lock as usize, "gasnett_rwlock_assertunlocked");
}
