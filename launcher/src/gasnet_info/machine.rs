//! What this machine offers: cores, memory and the system calls on which neighbourhoods rest.

use super::Facts;
use gasnet::config::report::display_size;
use gasnet::config::Config;
use gasnet::mk::library;
use std::ffi::CStr;
use std::fs::read_to_string;
use std::os::fd::{FromRawFd, OwnedFd};

/// Everything, in order of display.
pub fn facts() -> Facts {
    let memory = read_to_string("/proc/meminfo").unwrap_or_default();
    let huge = format!(
        "{} of {}",
        meminfo(&memory, "HugePages_Total").unwrap_or(0),
        kib(&memory, "Hugepagesize")
    );
    let mut facts = vec![
        ("host", host()),
        ("cores in the affinity mask", affinity()),
        (
            "cores after the cgroup's quota",
            std::thread::available_parallelism().map_or("unknown".into(), |n| n.to_string()),
        ),
        ("memory", kib(&memory, "MemTotal")),
        ("memory available", kib(&memory, "MemAvailable")),
        ("cgroup memory limit", cgroup_memory()),
        ("page size", display_size(page_bytes())),
        ("huge pages", huge),
        ("/dev/shm free", shm_free()),
        ("memfd_create", yes(has_memfd())),
        ("membarrier, global expedited", yes(has_membarrier())),
    ];
    facts.extend(resource_limits());
    facts.extend(library::found(&Config::load(&[]).unwrap_or_else(|_| Config::defaults(&[]))));
    facts
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.into()
}

fn host() -> String {
    read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "unknown".into(), |name| name.trim().to_owned())
}

/// A number of `/proc/meminfo`, in its own unit.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn kib(text: &str, name: &str) -> String {
    meminfo(text, name).map_or("unknown".into(), |kib| rounded(kib * 1024))
}

/// Whole mebibytes for what is larger than a few of them.
fn rounded(bytes: u64) -> String {
    if bytes >= 8 << 20 {
        format!("{} MB", bytes >> 20)
    } else {
        display_size(bytes)
    }
}

fn affinity() -> String {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim);
    list.map_or("unknown".into(), |list| format!("{} ({list})", count_list(list)))
}

/// Members of a list such as `0-3,8`.
fn count_list(list: &str) -> u64 {
    let width = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(last.parse::<u64>().ok()? - first.parse::<u64>().ok()? + 1),
        None => part.parse::<u64>().ok().map(|_| 1),
    };
    list.split(',').filter_map(width).sum()
}

/// The smallest limit on the path from this process's cgroup to the root (version 2), or version 1's limit.
fn cgroup_memory() -> String {
    let own = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|l| l.strip_prefix("0::")).unwrap_or("/");
    let mut folder = std::path::PathBuf::from(format!("/sys/fs/cgroup{path}"));
    let mut least: Option<u64> = None;
    while folder.starts_with("/sys/fs/cgroup") {
        let limit = read_to_string(folder.join("memory.max"))
            .ok()
            .and_then(|t| t.trim().parse().ok());
        least = least.into_iter().chain(limit).min();
        folder.pop();
    }
    let version1 = || {
        read_to_string("/sys/fs/cgroup/memory/memory.limit_in_bytes")
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    match least.or_else(version1) {
        Some(bytes) if bytes < 1 << 60 => rounded(bytes),
        _ => "none".into(),
    }
}

/// Rows of `/proc/self/limits` that matter to a job.
fn resource_limits() -> Facts {
    let text = read_to_string("/proc/self/limits").unwrap_or_default();
    let value = |row: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(row))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    [
        ("limit of open files", "Max open files"),
        ("limit of processes", "Max processes"),
        ("limit of locked memory, bytes", "Max locked memory"),
        ("limit of address space, bytes", "Max address space"),
    ]
    .into_iter()
    .map(|(name, row)| (name, value(row).unwrap_or_else(|| "unknown".into())))
    .collect()
}

fn page_bytes() -> u64 {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

fn shm_free() -> String {
    const PATH: &CStr = c"/dev/shm";
    // SAFETY: all-zero bytes are a valid `statvfs`: it has integers only.
    let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: PATH ends with NUL, and `about` is writable for the duration of the call.
    let failed = unsafe { libc::statvfs(PATH.as_ptr(), &raw mut about) } != 0;
    if failed {
        "none".into()
    } else {
        rounded(about.f_bavail * about.f_frsize)
    }
}

fn has_memfd() -> bool {
    const NAME: &CStr = c"gasnet_info";
    // SAFETY: NAME ends with NUL; the call makes a descriptor and touches no memory of ours.
    let fd = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return false;
    }
    // SAFETY: `fd` was made by the call above and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}

fn has_membarrier() -> bool {
    const QUERY: libc::c_int = 0;
    const GLOBAL_EXPEDITED: i64 = 1 << 1;
    // SAFETY: the query takes integers and returns a bit set.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
    commands > 0 && commands & GLOBAL_EXPEDITED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(count_list("0-3,8"), 5);
        assert_eq!(count_list("0"), 1);
        assert_eq!(count_list(""), 0);
    }

    #[test]
    fn meminfo_rows() {
        let text = "MemTotal:       100 kB\nMemAvailable:    50 kB\nHugePages_Total:       3\n";
        assert_eq!(meminfo(text, "MemAvailable"), Some(50));
        assert_eq!(meminfo(text, "HugePages_Total"), Some(3));
        assert_eq!(meminfo(text, "Mem"), None);
        assert_eq!(kib(text, "MemTotal"), "100 KB");
    }
}
