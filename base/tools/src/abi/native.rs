//! Rust access to the variables of `native.c`.

use std::ffi::{c_char, CStr};
use std::sync::atomic::AtomicI32;

use libc::c_int;

use super::c_str;

/// `gasnett_backtrace_type_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UserBacktrace {
    name: *const c_char,
    function: Option<extern "C-unwind" fn(c_int) -> c_int>,
    threads: c_int,
}

impl UserBacktrace {
    /// The name of the mechanism.
    pub fn name(&self) -> Option<&'static CStr> {
        c_str(self.name)
    }

    /// Whether it works in a process with several threads.
    pub fn supports_threads(&self) -> bool {
        self.threads != 0
    }

    /// Runs it; true on success.
    pub fn call(&self, fd: c_int) -> bool {
        self.function.is_some_and(|function| function(fd) == 0)
    }
}

extern "C" {
    fn gasnetti_backtrace_user() -> *const UserBacktrace;
    static gasnetti_tick_source: AtomicI32;
    static gasnetti_frozen: AtomicI32;
    static mut gasnett_print_backtrace_ifenabled: Option<extern "C-unwind" fn(c_int) -> c_int>;
}

/// The client's mechanism, if it defined one.
pub fn user_backtrace() -> Option<UserBacktrace> {
    // SAFETY: the C function returns the address of a variable that lives as long as the program.
    let user = unsafe { gasnetti_backtrace_user().as_ref() }?;
    (!user.name.is_null() && user.function.is_some()).then_some(*user)
}

/// Calls the function pointer that clients may replace; true on success.
pub fn print_backtrace_if_enabled(fd: c_int) -> bool {
    // SAFETY: a function of this library or of the client, or null; clients set it before errors
    // happen.
    let function = unsafe { std::ptr::addr_of!(gasnett_print_backtrace_ifenabled).read() };
    function.is_some_and(|function| function(fd) == 0)
}

/// The exported `gasnetti_tick_source`.
pub fn tick_source() -> &'static AtomicI32 {
    // SAFETY: an int of the C part, which C code only reads.
    unsafe { &gasnetti_tick_source }
}

/// The exported `gasnetti_frozen`, which a debugger clears.
pub fn frozen_flag() -> &'static AtomicI32 {
    // SAFETY: an int of the C part, which only this crate and a debugger access.
    unsafe { &gasnetti_frozen }
}
