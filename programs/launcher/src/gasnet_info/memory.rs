//! Memory: size, limits, and sources of shared memory.

use super::machine::{bytes, count, fact, flag, Fact, Root};
use super::processors::group_numbers;
use rustix::fs::{memfd_create, statvfs, MemfdFlags};
use rustix::param::page_size;

/// Less memory than this (256 MB) gets advice: useful segments do not fit.
const LITTLE: u64 = 256 << 20;

pub fn facts(root: &Root) -> Vec<Fact> {
    let info = root.read("/proc/meminfo").unwrap_or_default();
    let kib = |name| meminfo(&info, name).map(|kib| kib * 1024);
    let available = kib("MemAvailable");
    let (limit, used) = (group_limit(root), group_use(root));
    let left = limit.zip(used).map(|(limit, used)| limit.saturating_sub(used));
    let memfd = memfd_create("gasnet_info", MemfdFlags::CLOEXEC).is_ok();
    let shm = statvfs(root.0.join("dev/shm")).ok();
    let shm_size = shm.as_ref().map(|shm| shm.f_blocks * shm.f_frsize);
    let shm_free = shm.as_ref().map(|shm| shm.f_bavail * shm.f_frsize);
    let pages = meminfo(&info, "HugePages_Total");
    let transparent = root.read("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = transparent
        .as_deref()
        .and_then(|t| Some(t.split_once('[')?.1.split_once(']')?.0));
    vec![
        bytes("total", kib("MemTotal"), "unknown"),
        bytes("available", available, "unknown").advise(
            available.is_some_and(|bytes| bytes < LITTLE),
            "Little memory is left for segments. End other programs, or use smaller segments (GASNET_MAX_SEGSIZE).",
        ),
        bytes("limit of the control group", limit, "none").advise(
            left.is_some_and(|bytes| bytes < LITTLE),
            "Little of it is left, and the kernel kills a job that exceeds it. Raise memory.max (--memory of a \
             container).",
        ),
        bytes("in use in the control group", used, "unknown"),
        bytes("page size", Some(page_size() as u64), ""),
        flag("memfd_create", memfd).advise(
            !memfd,
            "Without it, shared memory comes from /dev/shm, or from files in GASNET_TMPDIR, which are slow on a disk. \
             Linux 3.17 and later has it.",
        ),
        bytes("/dev/shm", shm_size, "none"),
        bytes("/dev/shm free", shm_free, "none").advise(
            !memfd && shm_free.is_none_or(|bytes| bytes < LITTLE),
            "Without memfd_create, segments and messages of neighbours need this space. Enlarge it: mount -o \
             remount,size=50% /dev/shm (--shm-size of a container).",
        ),
        count("huge pages", pages, "unknown"),
        count("huge pages free", meminfo(&info, "HugePages_Free"), "unknown"),
        bytes("huge page size", kib("Hugepagesize"), "unknown"),
        fact("transparent huge pages", chosen.unwrap_or("unknown")).advise(
            chosen == Some("never") && pages.is_none_or(|n| n == 0),
            "GASNET_USE_HUGEPAGES has no effect without huge pages. Write madvise to \
             /sys/kernel/mm/transparent_hugepage/enabled, or reserve pages (vm.nr_hugepages).",
        ),
        count(
            "overcommit mode",
            root.number("/proc/sys/vm/overcommit_memory"),
            "unknown",
        )
        .advise(
            root.number("/proc/sys/vm/overcommit_memory") == Some(2),
            "Mode 2 counts memory that is only reserved, so large segments can fail although they would fit. Set \
             vm.overcommit_memory=0 (sysctl), or a smaller GASNET_MAX_SEGSIZE.",
        ),
    ]
}

/// A number of `/proc/meminfo`, in the unit of that line.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.split(':').next() == Some(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The smallest limit between this process's control group and the root (version 2), or the limit
/// of version 1.
fn group_limit(root: &Root) -> Option<u64> {
    let second = group_numbers(root, "memory.max").min();
    let first = || root.number("/sys/fs/cgroup/memory/memory.limit_in_bytes");
    second.or_else(first).filter(|&bytes| bytes < 1 << 60)
}

fn group_use(root: &Root) -> Option<u64> {
    let own = group_numbers(root, "memory.current").next();
    own.or_else(|| root.number("/sys/fs/cgroup/memory/memory.usage_in_bytes"))
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::Machine;
    use super::*;

    #[test]
    fn meminfo_rows() {
        let text = "MemTotal:       100 kB\nMemAvailable:    50 kB\nHugePages_Total:       3\n";
        assert_eq!(meminfo(text, "MemAvailable"), Some(50));
        assert_eq!(meminfo(text, "HugePages_Total"), Some(3));
        assert_eq!(meminfo(text, "Mem"), None);
    }

    #[test]
    fn poor_memory_is_noticed() {
        let poor = Machine::new(
            "poor",
            &[
                (
                    "/proc/meminfo",
                    "MemTotal: 400000 kB\nMemAvailable: 10000 kB\nHugePages_Total: 0\n",
                ),
                ("/proc/self/cgroup", "0::/\n"),
                ("/sys/fs/cgroup/memory.max", "300000000\n"),
                ("/sys/fs/cgroup/memory.current", "299000000\n"),
                ("/proc/sys/vm/overcommit_memory", "2\n"),
                (
                    "/sys/kernel/mm/transparent_hugepage/enabled",
                    "always madvise [never]\n",
                ),
            ],
        );
        let list = facts(&poor.0);
        assert_eq!(Machine::find(&list, "available").number, Some(10_240_000));
        assert_eq!(
            Machine::find(&list, "limit of the control group").number,
            Some(300_000_000)
        );
        for name in [
            "available",
            "limit of the control group",
            "overcommit mode",
            "transparent huge pages",
        ] {
            assert!(Machine::find(&list, name).advice.is_some(), "{name}");
        }
        let good = Machine::new(
            "good",
            &[
                (
                    "/proc/meminfo",
                    "MemTotal: 40000000 kB\nMemAvailable: 10000000 kB\nHugePages_Total: 0\n",
                ),
                ("/sys/fs/cgroup/memory.max", "max\n"),
                ("/proc/sys/vm/overcommit_memory", "0\n"),
                (
                    "/sys/kernel/mm/transparent_hugepage/enabled",
                    "always [madvise] never\n",
                ),
            ],
        );
        let list = facts(&good.0);
        assert_eq!(Machine::find(&list, "limit of the control group").text, "none");
        for name in [
            "available",
            "limit of the control group",
            "overcommit mode",
            "transparent huge pages",
        ] {
            assert!(Machine::find(&list, name).advice.is_none(), "{name}");
        }
    }
}
