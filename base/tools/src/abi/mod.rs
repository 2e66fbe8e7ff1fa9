//! The exported C functions, one file per family: each converts pointers into safe values and calls
//! one function of the crate. `native.c` and `twins.c` contain the part that is written in C.

#![warn(clippy::missing_safety_doc)]

mod diagnostic;
mod environment;
mod heap;
mod machine;
pub mod native;
#[cfg(feature = "debug-checks")]
mod sync;
mod timer;

use std::ffi::{c_char, CStr};

/// The C string at `address`; `None` for null.
fn c_str<'a>(address: *const c_char) -> Option<&'a CStr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the C interface takes null or C strings that live for the duration of the call.
    Some(unsafe { CStr::from_ptr(address) })
}

/// The text at `address`; empty for null.
fn text(address: *const c_char) -> String {
    c_str(address).map_or_else(String::new, |s| s.to_string_lossy().into_owned())
}
