//! The library's side of `GASNETT_TRACE_*` and `GASNETT_STATS_*` (README-tools, "Trace/Stats
//! support"). The macros in `gasnet_tools.h` call these functions. The variadic ones are in the
//! marker object, which formats the text and calls `gasnetti_trace_note`.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, CStr, CString};

use crate::trace::kinds::{format_mask, parse_mask};
use crate::trace::source::{self, Source};
use crate::trace::{self, Output};
use gasnet_sys::atomic::Mutex;

/// The trace for 0, the statistics for any other value.
fn output(which: c_int) -> Output {
    if which == 0 {
        Output::Trace
    } else {
        Output::Stats
    }
}

/// Whether a message of the client would be written.
#[no_mangle]
pub extern "C" fn gasnetti_trace_takes_notes(which: c_int, forced: c_int) -> c_int {
    c_int::from(output(which).accepts_notes(forced != 0))
}

/// Writes a message of the client.
///
/// # Safety
/// `text` is a C string.
#[no_mangle]
pub unsafe extern "C" fn gasnetti_trace_note(which: c_int, forced: c_int, text: *const c_char) {
    // SAFETY: the caller's contract.
    let text = unsafe { CStr::from_ptr(text) };
    output(which).note(text.to_bytes(), forced != 0);
}

/// The categories in force, as letters. The text is never freed.
#[no_mangle]
pub extern "C" fn gasnetti_trace_mask(which: c_int) -> *const c_char {
    /// A text for every mask that was queried; at most 2^15.
    static TEXTS: Mutex<BTreeMap<u32, CString>> = Mutex::new(BTreeMap::new());
    let mask = output(which).mask();
    let mut texts = gasnet_sys::lock(&TEXTS);
    let text = texts
        .entry(mask)
        .or_insert_with(|| CString::new(format_mask(mask)).unwrap_or_default());
    // The buffer of a CString does not move when the CString does.
    text.as_ptr()
}

/// Sets the categories. Ignores letters that name none.
///
/// # Safety
/// `mask` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn gasnetti_trace_set_mask(which: c_int, mask: *const c_char) {
    if mask.is_null() {
        return;
    }
    // SAFETY: not null, so a C string.
    let mask = unsafe { CStr::from_ptr(mask) };
    output(which).set_mask(parse_mask(&mask.to_string_lossy()));
}

/// Whether puts and gets of a rank to itself are traced.
#[no_mangle]
pub extern "C" fn gasnetti_trace_local() -> c_int {
    c_int::from(trace::traces_local())
}

/// Sets whether puts and gets of a rank to itself are traced.
#[no_mangle]
pub extern "C" fn gasnetti_trace_set_local(on: c_int) {
    trace::set_traces_local(on != 0);
}

/// Sets the source line of the calling thread. The library keeps the pointer to the name.
#[no_mangle]
pub extern "C" fn gasnetti_trace_set_source(file: *const c_char, line: u32) {
    source::set(Source { file, line });
}

/// The source line of the calling thread; null and 0 if it was not set.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gasnetti_trace_source(file: *mut *const c_char, line: *mut u32) {
    let here = source::here();
    // SAFETY: the caller's contract.
    unsafe { super::system::store(file, here.file) };
    // SAFETY: as above.
    unsafe { super::system::store(line, here.line) };
}

/// Freezes the source line of the calling thread, or unfreezes it if `on` is 0.
#[no_mangle]
pub extern "C" fn gasnetti_trace_freeze_source(on: c_int) {
    if on != 0 {
        source::freeze();
    } else {
        source::unfreeze();
    }
}

/// Writes the statistics so far, and clears them if `reset` is not 0.
#[no_mangle]
pub extern "C" fn gasnetti_trace_dump(reset: c_int) {
    trace::dump(reset != 0);
}
