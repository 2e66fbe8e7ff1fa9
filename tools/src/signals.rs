//! Names of signals for C.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libc::c_int;

use crate::parse;

/// The name of a signal, such as `SIGINT`.
pub fn name_c(signal: c_int) -> Option<&'static CStr> {
    static NAMES: OnceLock<BTreeMap<c_int, CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let named = (1..=64).filter_map(|number| Some((number, CString::new(parse::signal_name(number)?).ok()?)));
        named.collect()
    });
    names.get(&signal).map(CString::as_c_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(name_c(libc::SIGINT), Some(c"SIGINT"));
        assert_eq!(name_c(libc::SIGIO), Some(c"SIGIO"));
        assert_eq!(name_c(0), None);
        assert_eq!(name_c(63), None);
    }
}
