//! Properties of the machine and of this process.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libc::c_int;

use crate::{env, os, process};

/// The host's name in lower case.
pub fn hostname() -> &'static str {
    hostname_c().to_str().unwrap_or("unknown")
}

/// As [`hostname`], for C.
pub fn hostname_c() -> &'static CStr {
    static NAME: OnceLock<CString> = OnceLock::new();
    NAME.get_or_init(|| CString::new(os::hostname().to_ascii_lowercase()).unwrap_or_default())
}

/// The running executable's path; empty if unknown.
pub fn exe_name_c() -> &'static CStr {
    static NAME: OnceLock<CString> = OnceLock::new();
    NAME.get_or_init(|| {
        use std::os::unix::ffi::OsStringExt;
        let path = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        CString::new(path.into_os_string().into_vec()).unwrap_or_default()
    })
}

/// Number of processors in use by the system; 0 if unknown.
pub fn cpu_count() -> i32 {
    os::sysconf(libc::_SC_NPROCESSORS_ONLN).map_or(0, |n| n as i32)
}

/// Physical memory in bytes.
pub fn physical_memory() -> Option<u64> {
    let pages = os::sysconf(libc::_SC_PHYS_PAGES)?;
    let page = os::sysconf(libc::_SC_PAGESIZE)?;
    Some(pages as u64 * page as u64)
}

/// Binds the calling thread to processor `rank` modulo the number of processors. False if the system refuses.
pub fn set_affinity(rank: i32) -> bool {
    let Some(count) = os::sysconf(libc::_SC_NPROCESSORS_ONLN) else {
        return false;
    };
    os::bind_to_cpu(i64::from(rank).rem_euclid(count) as usize)
}

/// Raises the soft limit of `resource` to the hard one, unless `GASNET_MAXIMIZE_<description>` says no.
/// True on success, or when told not to.
pub fn maximize_rlimit(resource: c_int, description: &str) -> bool {
    if !env::bool(&format!("GASNET_MAXIMIZE_{description}"), true) {
        return true;
    }
    os::raise_limit(resource)
}

/// Maximizes CPU time and the limits on memory. True if all could be.
pub fn maximize_rlimits() -> bool {
    let all = [
        (libc::RLIMIT_CPU, "RLIMIT_CPU"),
        (libc::RLIMIT_DATA, "RLIMIT_DATA"),
        (libc::RLIMIT_RSS, "RLIMIT_RSS"),
        (libc::RLIMIT_STACK, "RLIMIT_STACK"),
        (libc::RLIMIT_AS, "RLIMIT_AS"),
    ];
    let mut success = true;
    for (resource, description) in all {
        if !maximize_rlimit(resource as c_int, description) {
            process::warn(format_args!("cannot raise the limit {description}"));
            success = false;
        }
    }
    success
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plausible() {
        assert!(!hostname().is_empty());
        assert!(!hostname().bytes().any(|b| b.is_ascii_uppercase()));
        assert!(exe_name_c().to_bytes().starts_with(b"/"));
        assert!(cpu_count() >= 1);
        assert!(physical_memory().unwrap() > 1 << 20);
        assert!(maximize_rlimit(libc::RLIMIT_CORE as c_int, "RLIMIT_CORE"));
    }

    #[test]
    fn headers_state_the_same_release() {
        let Ok(text) = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../include/gasnet_config.h")) else {
            return;
        };
        let (major, minor, patch) = crate::RELEASE;
        for (part, value) in [("MAJOR", major), ("MINOR", minor), ("PATCH", patch)] {
            assert!(
                text.contains(&format!("#define GASNET_RELEASE_VERSION_{part} {value}\n")),
                "{part}"
            );
        }
    }
}
