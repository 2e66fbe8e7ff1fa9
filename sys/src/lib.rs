//! System calls as small functions with Rust types, and the atomics that loom replaces. Knows nothing of GASNet.
//!
//! No policy: every failure returns the operating system's error, and the caller decides what it means.

pub mod atomic;
pub mod cpus;
pub mod fd;
pub mod futex;
pub mod host_memory;
pub mod mem;
pub mod membarrier;
pub mod net;
pub mod process;
pub mod process_vm;
pub mod signal;
#[cfg(gasnet_tsan)]
mod tsan;

pub use atomic::lock;

use std::io;

/// The result of a system call that says `-1` for failure.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The same, for calls that a signal may interrupt.
pub(crate) fn retry(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        let result = call();
        if result >= 0 {
            return Ok(result as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
