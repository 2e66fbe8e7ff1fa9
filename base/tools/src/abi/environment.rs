//! README-tools, "Environment utilities".

use std::ffi::{c_char, CString};

use libc::c_int;

use super::{c_str, text};
use crate::{env, number};

/// Writes a number as text into `buf`, cut to `bufsz`, and returns `buf`.
///
/// # Safety
/// `buf` is writable for `bufsz` bytes.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_number(
    val: i64,
    buf: *mut c_char,
    bufsz: usize,
    is_mem_size: c_int,
) -> *mut c_char {
    if buf.is_null() || bufsz == 0 {
        return buf;
    }
    let digits = number::format_int(val, is_mem_size != 0);
    let length = digits.len().min(bufsz - 1);
    // SAFETY: the caller gives `bufsz` writable bytes, and `length` is smaller.
    unsafe { std::ptr::copy_nonoverlapping(digits.as_ptr().cast(), buf, length) };
    // SAFETY: as above.
    unsafe { *buf.add(length) = 0 };
    buf
}

/// The number that `str` starts with.
#[no_mangle]
pub extern "C" fn gasnett_parse_int(str: *const c_char, mem_size_multiplier: u64) -> i64 {
    number::parse_int_prefix(&text(str), mem_size_multiplier)
}

/// Sets a variable of this process.
#[no_mangle]
pub extern "C" fn gasnett_setenv(key: *const c_char, value: *const c_char) {
    if let (Some(key), Some(value)) = (c_str(key), c_str(value)) {
        gasnet_sys::env::set(key, value);
    }
}

/// Removes a variable of this process.
#[no_mangle]
pub extern "C" fn gasnett_unsetenv(key: *const c_char) {
    if let Some(key) = c_str(key) {
        gasnet_sys::env::unset(key);
    }
}

/// The value of a variable, unreported; null if unset.
#[no_mangle]
pub extern "C" fn gasnett_getenv(keyname: *const c_char) -> *mut c_char {
    c_str(keyname).map_or(std::ptr::null_mut(), |key| env::raw(key).cast_mut())
}

/// The value of a variable, or the default given (which may be null).
#[no_mangle]
pub extern "C" fn gasnett_getenv_withdefault(keyname: *const c_char, defaultval: *const c_char) -> *mut c_char {
    let value = gasnett_getenv(keyname);
    let result = if value.is_null() { defaultval.cast_mut() } else { value };
    let shown = c_str(result).map(|s| s.to_string_lossy().into_owned());
    env::report_text(&text(keyname), shown.as_deref(), value.is_null());
    result
}

/// A yes/no variable.
#[no_mangle]
pub extern "C" fn gasnett_getenv_yesno_withdefault(keyname: *const c_char, defaultval: c_int) -> c_int {
    c_int::from(env::bool(&text(keyname), defaultval != 0))
}

/// An integer or memory size.
#[no_mangle]
pub extern "C" fn gasnett_getenv_int_withdefault(
    keyname: *const c_char,
    defaultval: i64,
    mem_size_multiplier: u64,
) -> i64 {
    env::int(&text(keyname), defaultval, mem_size_multiplier)
}

/// A floating-point variable.
#[no_mangle]
pub extern "C" fn gasnett_getenv_dbl_withdefault(keyname: *const c_char, defaultval: f64) -> f64 {
    env::double(&text(keyname), defaultval)
}

/// Whether this process reports its settings.
#[no_mangle]
pub extern "C" fn gasnett_verboseenv() -> c_int {
    c_int::from(env::verbose())
}

/// Prints an integer setting if reporting is on.
#[no_mangle]
pub extern "C" fn gasnett_envint_display(key: *const c_char, val: i64, is_dflt: c_int, is_mem_size: c_int) {
    env::display(&text(key), &number::format_int(val, is_mem_size != 0), is_dflt != 0);
}

/// Prints a text setting if reporting is on.
#[no_mangle]
pub extern "C" fn gasnett_envstr_display(key: *const c_char, val: *const c_char, is_dflt: c_int) {
    let value = c_str(val).map_or_else(|| "*not set*".to_owned(), |v| v.to_string_lossy().into_owned());
    env::display(&text(key), &value, is_dflt != 0);
}

/// Prints a floating-point setting if reporting is on.
#[no_mangle]
pub extern "C" fn gasnett_envdbl_display(key: *const c_char, val: f64, is_dflt: c_int) {
    env::display(&text(key), &val, is_dflt != 0);
}

/// The place of the caller in the source, as a string from malloc; `gasnett_current_loc` expands to
/// this.
#[no_mangle]
pub extern "C" fn gasnett_current_loc_str(function: *const c_char, file: *const c_char, line: c_int) -> *mut c_char {
    let place = crate::fatal::Location {
        function: &text(function),
        file: &text(file),
        line,
    }
    .to_string();
    let place = CString::new(place).unwrap_or_default();
    // SAFETY: strdup copies a C string; null (no memory) is passed on.
    unsafe { libc::strdup(place.as_ptr()) }
}
