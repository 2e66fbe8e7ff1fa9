//! Properties of the machine and of this process.

use std::ffi::{CStr, CString};
use std::sync::OnceLock;

use libc::c_int;

use gasnet_sys::{cpus, host_memory, net};

use crate::{env, process};

/// The host's name in lower case.
pub fn hostname() -> &'static str {
    hostname_c().to_str().unwrap_or("unknown")
}

/// As [`hostname`], for C.
pub fn hostname_c() -> &'static CStr {
    static NAME: OnceLock<CString> = OnceLock::new();
    NAME.get_or_init(|| CString::new(net::host_name().to_ascii_lowercase()).unwrap_or_default())
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

/// Number of online processors; 0 if unknown.
pub fn cpu_count() -> i32 {
    cpus::online().map_or(0, |n| n as i32)
}

/// Physical memory in bytes.
pub fn physical_memory() -> Option<u64> {
    host_memory::physical()
}

/// Binds the calling thread to processor `rank` modulo the number of processors. False if the
/// kernel refuses.
pub fn set_affinity(rank: i32) -> bool {
    cpus::online().is_some_and(|count| cpus::bind(i64::from(rank).rem_euclid(count.into()) as usize))
}

/// Raises the soft limit of `resource` to the hard limit, unless `GASNET_MAXIMIZE_<description>` is
/// no. True on success, or if there is nothing to do.
pub fn maximize_rlimit(resource: c_int, description: &str) -> bool {
    if !env::bool(&format!("GASNET_MAXIMIZE_{description}"), true) {
        return true;
    }
    gasnet_sys::process::raise_limit(resource, libc::RLIM_INFINITY).is_ok()
}

/// Raises the limits on CPU time and memory. True if all succeeded.
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
        let Ok(text) = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/gasnet_config.h"))
        else {
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
