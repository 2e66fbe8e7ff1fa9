//! Typed environment variables, and `GASNET_VERBOSEENV`.
//!
//! A value that cannot be read ends the process with one sentence that names the variable and what it accepts. A variable
//! that is set but empty counts as unset for every type but text. Under `GASNET_VERBOSEENV` the first query of each
//! variable is shown on standard error, by rank 0 only.

use std::collections::BTreeSet;
use std::ffi::{c_char, CStr, CString};
use std::fmt;

use gasnet_sys::atomic::Mutex;

use crate::parse::{self, ParseError};
use crate::{fatal, number, os, process};

static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The value's address for C callers, or null. Bypasses reporting.
pub fn raw(name: &CStr) -> *const c_char {
    os::getenv(name)
}

/// The value of a variable, with bytes that are not UTF-8 replaced. Bypasses reporting.
pub fn get(name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    os::text_at(raw(&name))
}

/// Sets a variable in this process.
pub fn set(name: &CStr, value: &CStr) {
    os::setenv(name, value);
}

/// Removes a variable from this process.
pub fn unset(name: &CStr) {
    os::unsetenv(name);
}

/// Whether `GASNET_VERBOSEENV` asks this process to report: on rank 0 only. The answer may change when the rank becomes known.
pub fn verbose() -> bool {
    let Some(value) = get("GASNET_VERBOSEENV").filter(|v| !v.trim().is_empty()) else {
        return false;
    };
    let on = parse::boolean(&value).unwrap_or_else(|e| reject("GASNET_VERBOSEENV", &value, YES_OR_NO, e));
    on && process::rank().unwrap_or(0) == 0
}

/// Shows a setting if [`verbose`].
pub fn display(name: &str, value: &dyn fmt::Display, is_default: bool) {
    if verbose() {
        let note = if is_default { " (default)" } else { "" };
        process::say(format_args!("ENV parameter: {name} = {value}{note}"));
    }
}

/// Shows a setting the first time it is queried.
fn report(name: &str, value: &dyn fmt::Display, is_default: bool) {
    if !verbose() {
        return;
    }
    let first = gasnet_sys::lock(&SHOWN).insert(name.to_owned());
    if first {
        display(name, value, is_default);
    }
}

/// Says that these settings were shown already, by the runtime's table of variables.
pub fn shown_elsewhere<'a>(names: impl IntoIterator<Item = &'a str>) {
    gasnet_sys::lock(&SHOWN).extend(names.into_iter().map(str::to_owned));
}

/// How an integer setting is shown.
pub fn show_int(value: i64, is_memory_size: bool) -> String {
    number::format_int(value, is_memory_size)
}

/// How a yes/no setting is shown.
pub fn show_bool(value: bool) -> &'static str {
    if value {
        "YES"
    } else {
        "NO"
    }
}

const YES_OR_NO: &str = "yes (1, y or yes) or no (0, n or no)";

fn reject(name: &str, value: &str, accepts: &str, why: ParseError) -> ! {
    fatal::fatal(format_args!(
        "environment variable {name}='{value}' is {why}; it must be {accepts}"
    ))
}

/// One typed query: the value read by `read`, or the default when unset or empty; reported as `show` prints it.
fn query<T: Copy, S: fmt::Display>(
    name: &str,
    default: T,
    accepts: &str,
    read: impl Fn(&str) -> Result<T, ParseError>,
    show: impl Fn(T) -> S,
) -> T {
    let text = get(name).filter(|v| !v.trim().is_empty());
    let value = text
        .as_deref()
        .map_or(default, |t| read(t).unwrap_or_else(|e| reject(name, t, accepts, e)));
    report(name, &show(value), text.is_none());
    value
}

/// A yes/no variable: `1 y yes` or `0 n no`, in any case.
pub fn bool(name: &str, default: bool) -> bool {
    query(name, default, YES_OR_NO, parse::boolean, show_bool)
}

/// An integer (`default_unit` 0), or a memory size in bytes whose unit, where none is given, is `default_unit` bytes. These are clients' variables: of a
/// text that is none the longest number counts that it begins with, as in the reference, with a warning.
pub fn int(name: &str, default: i64, default_unit: u64) -> i64 {
    let accepts = if default_unit == 0 {
        "an integer, decimal or hexadecimal with 0x"
    } else {
        "a memory size such as 512KB, 1.5GB or a plain number"
    };
    query(
        name,
        default,
        accepts,
        |text| {
            let value = number::parse_int(text, default_unit).unwrap_or_else(|why| {
                let value = number::parse_int_prefix(text, default_unit);
                process::warn(format_args!(
                    "environment variable {name}='{text}' is {why}; it should be {accepts}; {value} is taken"
                ));
                value
            });
            Ok(value)
        },
        |v| show_int(v, default_unit != 0),
    )
}

/// A floating-point variable: a number or a fraction such as `3/8`.
pub fn double(name: &str, default: f64) -> f64 {
    query(name, default, "a number or a fraction such as 3/8", parse::double, |v| v)
}

/// A text variable; an empty value is a value.
pub fn text(name: &str, default: Option<&str>) -> Option<String> {
    let value = get(name);
    report_text(name, value.as_deref().or(default), value.is_none());
    value.or_else(|| default.map(str::to_owned))
}

/// Reports a text setting on its first query.
pub(crate) fn report_text(name: &str, value: Option<&str>, is_default: bool) {
    report(name, &value.unwrap_or("*not set*"), is_default);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_queries() {
        let put = |k: &CStr, v: &CStr| set(k, v);
        put(c"GASNET_UT_INT", c"0x20");
        put(c"GASNET_UT_SIZE", c"1.5K");
        put(c"GASNET_UT_BOOL", c"n");
        put(c"GASNET_UT_EMPTY", c"");
        put(c"GASNET_UT_DBL", c"3/8");
        assert_eq!(int("GASNET_UT_INT", 1, 0), 32);
        assert_eq!(int("GASNET_UT_SIZE", 1, 1024), 1536);
        assert!(!bool("GASNET_UT_BOOL", true));
        assert!(bool("GASNET_UT_EMPTY", true));
        assert_eq!(int("GASNET_UT_EMPTY", 9, 0), 9);
        assert_eq!(text("GASNET_UT_EMPTY", Some("x")).as_deref(), Some(""));
        assert_eq!(text("GASNET_UT_NONE", Some("x")).as_deref(), Some("x"));
        assert_eq!(text("GASNET_UT_NONE", None), None);
        assert!((double("GASNET_UT_DBL", 1.0) - 0.375).abs() < 1e-12);
        unset(c"GASNET_UT_INT");
        assert_eq!(int("GASNET_UT_INT", 1, 0), 1);
    }
}
