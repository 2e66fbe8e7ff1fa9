//! How many processor cores this process may use.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// Cores that this process may use at once: those of its affinity mask, less what a control group's quota takes away. At least 1.
pub fn usable() -> u32 {
    capped(affinity())
}

/// Of `cores` cores, those that a control group's quota leaves. At least 1.
pub fn capped(cores: u32) -> u32 {
    quota().map_or(cores, |q| q.min(cores)).max(1)
}

/// Cores in the affinity mask of this thread.
fn affinity() -> u32 {
    if let Some(set) = mask() {
        // SAFETY: the set is whole.
        return unsafe { libc::CPU_COUNT(&set) } as u32;
    }
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as u32
}

/// Numbers of the cores in the affinity mask of this thread; none where they cannot be told.
pub fn numbers() -> Vec<usize> {
    let Some(set) = mask() else { return Vec::new() };
    // SAFETY: all numbers are below the size of the set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// None with more than 1024 processors: the fixed set is too small for the kernel.
fn mask() -> Option<libc::cpu_set_t> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the set is writable and of the size given.
    let result = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    // SAFETY: the call has filled the set.
    (result == 0).then(|| unsafe { set.assume_init() })
}

/// The smallest quota of the control groups that hold this process, in whole cores (rounded up).
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

/// Looks at a group and all groups around it. Inside a container the path may not exist below the mount; the mount itself is then
/// the container's group.
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

/// `quota period`, where a quota that is not a positive number means none.
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
