//! System calls as small functions with Rust types, and the atomics that loom replaces. Knows
//! nothing of GASNet.
//!
//! No policy: a failure returns the error of the operating system, and the caller decides what it
//! means.
//!
//! Calls go through `rustix` on its libc back end, which does not allocate for calls on descriptors
//! and numbers. `libc` remains where rustix has no function, needs `unsafe` too, or looks for the C
//! library's function with `dlsym` (`memfd_create`, `getrandom`, `gettid`): that is not
//! async-signal-safe, and a statically linked program cannot rely on it.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!("libgasnet needs Linux on a machine of 64 bits (docs/install.md, \"Other systems\")");

pub mod atomic;
pub mod backtrace;
pub mod cancel;
pub mod clock;
pub mod cpus;
pub mod env;
pub mod eventfd;
pub mod fd;
pub mod float;
pub mod futex;
pub mod host_memory;
pub mod maybe_locked;
pub mod mem;
pub mod membarrier;
pub mod net;
pub mod padded;
pub mod process;
pub mod process_vm;
pub mod progress;
pub mod signal;
pub mod started;
pub mod subprocess;
pub mod threads;
#[cfg(gasnet_tsan)]
mod tsan;
pub mod word_mutex;

pub use atomic::{lock, read_lock, write_lock};

use std::io;

/// The result of a system call that returns -1 on failure.
pub(crate) fn check(result: i32) -> io::Result<i32> {
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// As [`check`], for calls that a signal may interrupt: those are repeated.
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
