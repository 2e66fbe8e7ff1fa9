//! `gasnett_run_diagnostics`, as the reference's `testinternal` calls it.

use std::ffi::{c_char, c_int, c_uint, CStr};

use crate::am::table::AmEntry;
use crate::diagnose::{self, Run, RunArgs};
use crate::rules;
use crate::team::TeamHandle;
use crate::types::Rank;

/// The handlers that the diagnosis needs, for the client to register. May be called before
/// initialisation.
///
/// # Safety
/// `table` and `count` are valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gasnett_diagnostic_gethandlers(table: *mut *mut AmEntry, count: *mut c_int) {
    let (entries, number) = diagnose::handlers();
    // SAFETY: the caller's contract.
    unsafe {
        table.write(entries);
        count.write(number as c_int);
    }
}

/// Tests the library and returns the number of failed checks. Collective over the team. All
/// arguments except the segments and the peer are the same everywhere. `sections` has the letters
/// of some sections; null or empty stands for all. Overwrites the segments.
///
/// # Safety
/// `sections` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn gasnett_run_diagnostics(
    iterations: c_int,
    threads: c_int,
    sections: *const c_char,
    tm: TeamHandle,
    own: *mut u8,
    peer: Rank,
    remote: *mut u8,
    seed: c_uint,
) -> c_int {
    rules::not_in_handler("gasnett_run_diagnostics");
    let sections = if sections.is_null() {
        "".into()
    } else {
        // SAFETY: not null, so a C string.
        unsafe { CStr::from_ptr(sections) }.to_string_lossy()
    };
    let run = Run::new(RunArgs {
        iterations: iterations.max(0) as u32,
        threads: threads.max(0) as usize,
        seed: u64::from(seed),
        tm,
        peer,
        own: own as usize,
        remote: remote as usize,
    });
    run.sections(&sections.to_ascii_uppercase()) as c_int
}
