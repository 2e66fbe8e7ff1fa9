//! Cancellation of threads (`pthread_cancel`).
//!
//! A cancelled thread ends at its next cancellation point: a system call that may block. Inside the
//! library that would leave locks taken and messages half sent, so those calls are made with
//! cancellation disabled. The thread then ends at the next cancellation point of the client.

use std::ffi::c_int;
use std::ptr;

extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLE: c_int = 1;

/// Restores the cancellability of its thread when dropped.
#[derive(Debug)]
#[must_use]
pub struct Disabled(c_int);

/// Makes this thread not cancellable until the result is dropped. No system call; nests.
#[inline]
pub fn disable() -> Disabled {
    let mut old = 0;
    // SAFETY: `old` is writable.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    Disabled(old)
}

impl Drop for Disabled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a state that the function itself has returned.
        unsafe { pthread_setcancelstate(self.0, ptr::null_mut()) };
    }
}
