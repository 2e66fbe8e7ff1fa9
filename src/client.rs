//! `gex_Client_t`.

use crate::flags::Flags;
use std::ffi::CString;
use std::ptr;
use std::sync::atomic::AtomicPtr;

/// A client of the library. One per process.
#[derive(Debug)]
pub struct Client {
    /// As passed to `gex_Client_Init`.
    pub name: CString,
    /// As passed to `gex_Client_Init`.
    pub flags: Flags,
    /// Client data (`cdata`).
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Client {
    /// A client called `name`.
    pub fn new(name: CString, flags: Flags) -> Self {
        Self {
            name,
            flags,
            cdata: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// Whether `name` matches the pattern that the specification recommends, `[A-Z][A-Z0-9_]+`,
/// ignoring case (test clients use lower case).
pub fn is_recommended_name(name: &[u8]) -> bool {
    !name.is_empty() && name[0].is_ascii_alphabetic() && name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_')
}
