//! README-tools, "Backtracing and debugger attach", fatal errors and signals.

use std::ffi::{c_char, CStr};
use std::ptr;
use std::sync::atomic::AtomicI32;

use libc::c_int;

use gasnet_sys::{process, signal};

use super::{c_str, text};
use crate::{backtrace, fatal, freeze};

/// The common tail of the variadic functions in `native.c`: reports `message` and ends the process.
/// `file` may be null.
#[no_mangle]
pub extern "C" fn gasnetti_fatal(
    message: *const c_char,
    function: *const c_char,
    file: *const c_char,
    line: c_int,
) -> ! {
    let message = c_str(message).map_or("", |m| m.to_str().unwrap_or("(message is not UTF-8)"));
    let part = |address| c_str(address).and_then(|s: &CStr| s.to_str().ok()).unwrap_or("");
    let location = fatal::Location {
        function: part(function),
        file: part(file),
        line,
    };
    fatal::fatal_at(format_args!("{message}"), (!file.is_null()).then_some(location))
}

/// Ends the process at once, all threads included, without exit handlers.
#[no_mangle]
pub extern "C" fn gasnett_killmyprocess(exitcode: c_int) -> ! {
    process::end(exitcode)
}

/// Sets `*flag` and waits until a debugger or another thread clears it.
///
/// # Safety
/// `flag` is null or points to an int that lives until the call returns.
#[no_mangle]
pub unsafe extern "C" fn gasnett_freezeForDebuggerNow(flag: *mut c_int, flagsymname: *const c_char) {
    if flag.is_null() {
        freeze::here();
        return;
    }
    // SAFETY: the caller's flag is an aligned int, which is cleared with one store.
    let flag = unsafe { AtomicI32::from_ptr(flag) };
    freeze::now(flag, &text(flagsymname));
}

/// Waits for a debugger if `GASNET_FREEZE_ON_ERROR` is set.
#[no_mangle]
pub extern "C" fn gasnett_freezeForDebuggerErr() {
    freeze::on_error();
}

/// Reads the settings of backtraces. The executable's name may be null.
#[no_mangle]
pub extern "C" fn gasnett_backtrace_init(exename: *const c_char) {
    backtrace::init_with(c_str(exename));
}

/// Prints a backtrace; 0 on success.
#[no_mangle]
pub extern "C" fn gasnett_print_backtrace(fd: c_int) -> c_int {
    c_int::from(!backtrace::print(fd))
}

/// The initial value of `gasnett_print_backtrace_ifenabled`.
#[no_mangle]
pub extern "C" fn gasnetti_print_backtrace_default(fd: c_int) -> c_int {
    c_int::from(!backtrace::print_if_allowed(fd))
}

/// Installs a signal handler and returns the previous one, or `SIG_ERR`.
#[no_mangle]
pub extern "C" fn gasnett_reghandler(sigtocatch: c_int, fp: libc::sighandler_t) -> libc::sighandler_t {
    signal::set_handler(sigtocatch, fp)
}

/// The name of a signal such as `SIGINT`; null for other numbers.
#[no_mangle]
pub extern "C" fn gasnett_signame_fromval(signum: c_int) -> *const c_char {
    signal::c_name(signum).map_or(ptr::null(), CStr::as_ptr)
}
