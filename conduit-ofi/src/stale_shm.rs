//! The file of the shm provider in /dev/shm, which only fi_close(3) removes. A process ends without
//! that call, because other threads of it may be inside libfabric.

use std::ffi::CString;

/// Prefix of the name of the file in an address of the provider.
const SCHEME: &[u8] = b"fi_shm://";

/// The path of the file, if there is one.
#[derive(Debug)]
pub struct StaleShm(Option<CString>);

impl StaleShm {
    /// The file that an endpoint with this address leaves.
    pub fn new(address: &[u8]) -> Self {
        let name = address.strip_prefix(SCHEME);
        let name = name.and_then(|name| name.split(|byte| *byte == 0).next());
        let is_name = |name: &&[u8]| !name.is_empty() && name.iter().all(|byte| byte.is_ascii_digit() || *byte == b':');
        let path = name.filter(is_name).map(|name| [b"/dev/shm/", name].concat());
        Self(path.and_then(|path| CString::new(path).ok()))
    }

    /// Removes it. Async-signal-safe.
    pub fn remove(&self) {
        if let Some(path) = &self.0 {
            // SAFETY: unlink(2) of a path.
            unsafe { libc::unlink(path.as_ptr()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_shm() {
        let path = |address: &[u8]| StaleShm::new(address).0.map(|path| path.into_string().unwrap());
        assert_eq!(path(b"fi_shm://123:0:4\0").as_deref(), Some("/dev/shm/123:0:4"));
        assert_eq!(path(b"fi_shm://../x\0"), None);
        assert_eq!(path(b"fi_shm://"), None);
        assert_eq!(path(&[2, 0, 1, 1, 127, 0, 0, 1]), None);
    }
}
