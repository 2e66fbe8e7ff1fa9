//! The processors that this process may use.

use std::path::{Path, PathBuf};

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

/// Processors that this process may use at once: its affinity mask, capped by the CPU quotas of its
/// control groups. At least 1.
pub fn usable() -> u32 {
    let allowed = sched_getaffinity(None).map_or_else(|_| online().unwrap_or(1), |mask| mask.count());
    capped(allowed)
}

/// `count` processors, capped by the CPU quotas of this process's control groups. At least 1.
pub fn capped(count: u32) -> u32 {
    quota().map_or(count, |q| q.min(count)).max(1)
}

/// Processors that are online in the system, whether this process may use them or not.
pub fn online() -> Option<u32> {
    // SAFETY: takes a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(count).ok().filter(|&count| count > 0)
}

/// Numbers of the processors in the affinity mask of this thread. Empty if the kernel knows more
/// than 1024 processors, for which the mask is too small.
pub fn numbers() -> Vec<usize> {
    let mask = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect()
}

/// Binds this thread to processor `cpu`. False if that is impossible.
pub fn bind(cpu: usize) -> bool {
    let mut mask = CpuSet::new();
    if cpu < CpuSet::MAX_CPU {
        mask.set(cpu);
    }
    // The kernel refuses an empty mask.
    sched_setaffinity(None, &mask).is_ok()
}

/// The smallest quota of the control groups around this process, in whole processors (rounded up).
fn quota() -> Option<u32> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut least: Option<u32> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        if controllers.is_empty() {
            walk(Path::new("/sys/fs/cgroup"), path, version_2, &mut least);
        } else if controllers.split(',').any(|c| c == "cpu") {
            walk(Path::new("/sys/fs/cgroup/cpu"), path, version_1, &mut least);
        }
    }
    least
}

/// Reads the quota of a group and of all groups around it. Inside a container the path may not
/// exist below the mount; the mount itself is then the container's group.
fn walk(mount: &Path, path: &str, read: fn(&Path) -> Option<u32>, least: &mut Option<u32>) {
    let mut group = PathBuf::from(path.trim_start_matches('/'));
    loop {
        if let Some(cores) = read(&mount.join(&group)) {
            *least = Some(least.map_or(cores, |l| l.min(cores)));
        }
        if !group.pop() {
            return;
        }
    }
}

fn version_2(group: &Path) -> Option<u32> {
    quota_of_text(&std::fs::read_to_string(group.join("cpu.max")).ok()?)
}

fn version_1(group: &Path) -> Option<u32> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    quota_of_text(&format!(
        "{} {}",
        read("cpu.cfs_quota_us")?.trim(),
        read("cpu.cfs_period_us")?.trim()
    ))
}

/// Parses `QUOTA PERIOD`. A quota that is not a positive number means none.
fn quota_of_text(text: &str) -> Option<u32> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota: u64 = quota.parse().ok().filter(|&q| q > 0)?;
    let period: u64 = period.parse().ok().filter(|&p| p > 0)?;
    Some(quota.div_ceil(period).clamp(1, u64::from(u32::MAX)) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas() {
        assert_eq!(quota_of_text("max 100000\n"), None);
        assert_eq!(quota_of_text("-1 100000"), None);
        assert_eq!(quota_of_text("150000 100000"), Some(2));
        assert_eq!(quota_of_text("50000 100000\n"), Some(1));
        assert_eq!(quota_of_text("1600000 100000"), Some(16));
        assert_eq!(quota_of_text("1 0"), None);
        assert_eq!(quota_of_text(""), None);
        assert!(usable() >= 1);
    }
}
