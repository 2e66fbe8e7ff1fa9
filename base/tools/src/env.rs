//! Typed environment variables, and `GASNET_VERBOSEENV`.
//!
//! An invalid value is a fatal error, whose message names the variable and the values that it
//! accepts. A variable that is set but empty counts as unset for every type but text. With
//! `GASNET_VERBOSEENV`, rank 0 prints the first query of each variable on standard error.

use std::collections::BTreeSet;
use std::ffi::{c_char, CStr, CString};
use std::fmt;

use gasnet_sys::atomic::Mutex;

use crate::parse::{self, ParseError};
use crate::{fatal, number, process};

static SHOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// The address of the value for C callers, or null. Bypasses reporting.
pub fn raw(name: &CStr) -> *const c_char {
    gasnet_sys::env::get(name).map_or(std::ptr::null(), CStr::as_ptr)
}

/// The value of a variable, with bytes that are not UTF-8 replaced. Bypasses reporting.
pub fn get(name: &str) -> Option<String> {
    let name = CString::new(name).ok()?;
    Some(gasnet_sys::env::get(&name)?.to_string_lossy().into_owned())
}

/// Whether this process reports its settings: `GASNET_VERBOSEENV` is set, and the rank is 0 or not
/// yet known.
pub fn verbose() -> bool {
    let Some(value) = get("GASNET_VERBOSEENV").filter(|v| !v.trim().is_empty()) else {
        return false;
    };
    let on = parse::boolean(&value).unwrap_or_else(|e| reject("GASNET_VERBOSEENV", &value, YES_OR_NO, e));
    on && process::rank().unwrap_or(0) == 0
}

/// Prints a setting if [`verbose`].
pub fn display(name: &str, value: &dyn fmt::Display, is_default: bool) {
    if verbose() {
        let note = if is_default { " (default)" } else { "" };
        process::print_line(format_args!("ENV parameter: {name} = {value}{note}"));
    }
}

/// Prints a setting the first time it is queried.
fn report(name: &str, value: &dyn fmt::Display, is_default: bool) {
    if !verbose() {
        return;
    }
    let first = gasnet_sys::lock(&SHOWN).insert(name.to_owned());
    if first {
        display(name, value, is_default);
    }
}

/// Marks settings that the table of variables of the runtime has already printed.
pub fn shown_elsewhere<'a>(names: impl IntoIterator<Item = &'a str>) {
    gasnet_sys::lock(&SHOWN).extend(names.into_iter().map(str::to_owned));
}

/// A yes/no setting as reported.
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

/// One typed query: the value that `read` parses, or the default if unset or empty. `show` formats
/// it for the report.
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

/// An integer (`default_unit` 0), or a memory size in bytes, where a number without a unit counts
/// `default_unit` bytes. These are clients' variables: from any other text, as in the reference,
/// the longest number that it starts with is used, with a warning.
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
                    "environment variable {name}='{text}' is {why}; it should be {accepts}; using {value}"
                ));
                value
            });
            Ok(value)
        },
        |v| number::format_int(v, default_unit != 0),
    )
}

/// A floating-point variable: a number or a fraction such as `3/8`.
pub fn double(name: &str, default: f64) -> f64 {
    query(
        name,
        default,
        "a number or a fraction such as 3/8",
        parse::double,
        |v| v,
    )
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
        use gasnet_sys::env::{set as put, unset};
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
