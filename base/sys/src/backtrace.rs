//! The frames of the calling thread, from the C library's `backtrace`.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::ptr;

/// Most frames printed.
const MAX_FRAMES: usize = 128;

fn frames(room: &mut [*mut c_void]) -> c_int {
    // SAFETY: the slice has room for as many frames as requested.
    unsafe { libc::backtrace(room.as_mut_ptr(), room.len() as c_int) }
}

/// Loads the unwinder now, so that [`print()`] does not allocate later.
pub fn prepare() {
    frames(&mut [ptr::null_mut(); 2]);
}

/// Writes the frames of the calling thread to `fd`; false if there are none. Async-signal-safe
/// after [`prepare`].
pub fn print(fd: RawFd) -> bool {
    let mut room = [ptr::null_mut(); MAX_FRAMES];
    let count = frames(&mut room);
    // SAFETY: `count` frames were written.
    unsafe { libc::backtrace_symbols_fd(room.as_ptr(), count, fd) };
    count > 0
}
