//! The memory of this host, or of the control group of this process.
#![forbid(unsafe_code)]

use std::fs;

/// Memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// Physical memory, or the limit of the control group if that is lower.
    pub physical: u64,
    /// Bytes that new allocations can use without swapping, by the kernel's estimate.
    pub available: u64,
}

/// Reads `/proc/meminfo` and the limits of the control group.
pub fn query() -> HostMemory {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let physical = field(&meminfo, "MemTotal:").unwrap_or(1 << 30);
    let available = field(&meminfo, "MemAvailable:").unwrap_or(physical);
    match group_limit() {
        Some((limit, used)) => HostMemory {
            physical: physical.min(limit),
            available: available.min(limit.saturating_sub(used)),
        },
        None => HostMemory { physical, available },
    }
}

/// Physical memory in bytes, whatever the control groups; none if unknown.
pub fn physical() -> Option<u64> {
    let info = rustix::system::sysinfo();
    (info.totalram as u64)
        .checked_mul(info.mem_unit.into())
        .filter(|&bytes| bytes > 0)
}

/// A line of `/proc/meminfo`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find(|l| l.starts_with(name))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The tightest memory limit of this control group and its parents, and the usage against it (v2,
/// then v1).
fn group_limit() -> Option<(u64, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let unified = groups.lines().find_map(|l| l.strip_prefix("0::"));
    let v2 = unified.and_then(|path| tightest("/sys/fs/cgroup", path, "memory.max", "memory.current"));
    let legacy = groups
        .lines()
        .find_map(|l| l.split_once(":memory:").map(|(_, path)| path));
    let v1 = legacy.and_then(|path| {
        tightest(
            "/sys/fs/cgroup/memory",
            path,
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        )
    });
    v2.into_iter()
        .chain(v1)
        .min_by_key(|(limit, used)| limit.saturating_sub(*used))
}

fn tightest(root: &str, path: &str, limit: &str, used: &str) -> Option<(u64, u64)> {
    let mut best: Option<(u64, u64)> = None;
    let mut path = path.trim_end_matches('/');
    loop {
        let read = |name: &str| {
            fs::read_to_string(format!("{root}{path}/{name}"))
                .ok()?
                .trim()
                .parse::<u64>()
                .ok()
        };
        if let Some(limit) = read(limit) {
            let used = read(used).unwrap_or(0);
            if best.is_none_or(|(l, u)| limit.saturating_sub(used) < l.saturating_sub(u)) {
                best = Some((limit, used));
            }
        }
        match path.rfind('/') {
            Some(cut) => path = &path[..cut],
            None => return best,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_lines_are_kibibytes() {
        assert_eq!(
            field("MemTotal:  24 kB\nMemAvailable: 3 kB\n", "MemAvailable:"),
            Some(3072)
        );
        assert_eq!(field("", "MemTotal:"), None);
    }

    #[test]
    fn this_host_has_memory() {
        let memory = query();
        assert!(memory.available > 0 && memory.available <= memory.physical);
        assert!(physical().unwrap() >= memory.physical);
    }
}
