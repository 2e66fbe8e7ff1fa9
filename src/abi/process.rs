//! Polling, `GASNET_BLOCKUNTIL`, exit, and error codes.

use std::ffi::{c_char, c_int};

use super::complain;
use crate::flags::{ERR_BAD_ARG, ERR_BARRIER_MISMATCH, ERR_NOT_INIT, ERR_NOT_READY, ERR_RESOURCE, OK};
use crate::rules;
use crate::runtime;
use crate::trace;
use crate::wait::{self, WaitMode};

/// Receives messages and runs their handlers.
#[no_mangle]
pub extern "C" fn gasnet_AMPoll() -> c_int {
    rules::not_in_handler("gasnet_AMPoll");
    let found = wait::poll_once();
    if trace::wants(trace::TraceCategory::Poll) {
        trace::count_poll(found);
    }
    OK
}

/// One iteration of `GASNET_BLOCKUNTIL`.
///
/// # Safety
/// `state` is the variable of the macro.
#[no_mangle]
pub unsafe extern "C" fn gasneti_blockuntil_step(state: *mut u32) {
    rules::not_in_handler("GASNET_BLOCKUNTIL");
    // SAFETY: the caller's contract.
    wait::step(unsafe { &mut *state });
}

/// The end of a `GASNET_BLOCKUNTIL` that had to wait.
#[no_mangle]
pub extern "C" fn gasneti_blockuntil_done() {
    wait::step_done();
}

/// Sets how this process waits.
#[no_mangle]
pub extern "C" fn gasnet_set_waitmode(mode: c_int) -> c_int {
    match u32::try_from(mode).ok().and_then(wait::mode_from_raw) {
        Some(mode) if mode != WaitMode::Adaptive => {
            wait::set_mode(mode);
            OK
        }
        _ => {
            complain(
                "gasnet_set_waitmode",
                &format!("{mode} is not GASNET_WAIT_SPIN, _BLOCK or _SPINBLOCK"),
            );
            ERR_BAD_ARG
        }
    }
}

/// Ends the job. May be called from any thread, from handlers and from signal handlers.
#[no_mangle]
pub extern "C" fn gasnet_exit(code: c_int) -> ! {
    match runtime::try_get() {
        Some(rt) => rt.job.exit(code),
        None => std::process::exit(code),
    }
}

const NAMES: [(c_int, &std::ffi::CStr, &std::ffi::CStr); 6] = [
    (OK, c"GASNET_OK", c"No error"),
    (ERR_NOT_INIT, c"GASNET_ERR_NOT_INIT", c"GASNet is not initialised"),
    (ERR_RESOURCE, c"GASNET_ERR_RESOURCE", c"A resource is lacking"),
    (ERR_BAD_ARG, c"GASNET_ERR_BAD_ARG", c"An argument is wrong"),
    (ERR_NOT_READY, c"GASNET_ERR_NOT_READY", c"Not complete yet"),
    (
        ERR_BARRIER_MISMATCH,
        c"GASNET_ERR_BARRIER_MISMATCH",
        c"The names or flags of a barrier differ between ranks",
    ),
];

/// The name of an error code.
#[no_mangle]
pub extern "C" fn gasnet_ErrorName(code: c_int) -> *const c_char {
    NAMES
        .iter()
        .find(|e| e.0 == code)
        .map_or(c"*unknown*".as_ptr(), |e| e.1.as_ptr())
}

/// The description of an error code.
#[no_mangle]
pub extern "C" fn gasnet_ErrorDesc(code: c_int) -> *const c_char {
    NAMES
        .iter()
        .find(|e| e.0 == code)
        .map_or(c"no description available".as_ptr(), |e| e.2.as_ptr())
}
