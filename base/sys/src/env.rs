//! Environment variables of this process, as C code reads and changes them.
//!
//! Unlike the standard library's functions, [`get`] takes no lock, so signal handlers may call it.
//! As in C, no other thread may use the environment while one changes it.

use std::ffi::CStr;

/// The value of a variable, valid until the variable is changed. Does not allocate.
pub fn get(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a terminated name.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: not null, so a terminated string of the environment, which the caller does not
    // change.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Sets a variable.
pub fn set(name: &CStr, value: &CStr) {
    // SAFETY: terminated strings, which setenv copies.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// Removes a variable.
pub fn unset(name: &CStr) {
    // SAFETY: a terminated name.
    unsafe { libc::unsetenv(name.as_ptr()) };
}

/// Removes a variable and overwrites its value where the system shows it (`/proc/PID/environ`,
/// `ps e`), also for processes that are forked from here on.
pub fn erase(name: &CStr) {
    // SAFETY: a terminated name.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if !value.is_null() {
        // SAFETY: a terminated string in writable memory of this process, which nobody refers to.
        unsafe { value.write_bytes(0, libc::strlen(value)) };
    }
    unset(name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_come_and_go() {
        let name = c"SYS_UNIT_TEST";
        assert_eq!(get(name), None);
        set(name, c"one");
        set(name, c"two");
        assert_eq!(get(name), Some(c"two"));
        unset(name);
        assert_eq!(get(name), None);
        set(name, c"three");
        erase(name);
        assert_eq!(get(name), None);
    }
}
