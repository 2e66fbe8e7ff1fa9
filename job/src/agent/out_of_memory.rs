//! Whether the kernel has killed a process for lack of memory: the counters of the ranks' control
//! groups. SIGKILL itself does not say it.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gasnet_sys::process::Pid;

/// The counters, with the values that were already reported.
#[derive(Debug, Default)]
pub struct OutOfMemory {
    kills: BTreeMap<PathBuf, u64>,
}

impl OutOfMemory {
    /// Watches the control groups of these processes.
    pub fn watch(pids: impl Iterator<Item = Pid>) -> Self {
        let groups = pids.filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok());
        let files = groups.filter_map(|text| counter_file(&text, Path::new("/sys/fs/cgroup")));
        let kills = files.filter_map(|file| kills(&file).map(|count| (file, count)));
        Self { kills: kills.collect() }
    }

    /// If the kernel has killed a process since the last call: a remark on that, behind "was killed
    /// by SIGKILL". Else nothing.
    pub fn remark(&mut self) -> String {
        for (file, known) in &mut self.kills {
            let Some(count) = kills(file).filter(|count| count > known) else {
                continue;
            };
            *known = count;
            let group = file.parent().unwrap_or(file).display();
            return format!(" (out of memory: oom_kill {count} in {group})");
        }
        String::new()
    }
}

/// The file under `root` that counts the kills in the control group of a process, whose
/// `/proc/PID/cgroup` is `text`: that of the unified hierarchy, or of the memory controller.
fn counter_file(text: &str, root: &Path) -> Option<PathBuf> {
    let folder = |line: &str, of: &[&str]| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let is_meant = of.iter().any(|name| controllers.split(',').any(|part| part == *name));
        is_meant.then(|| path.trim_start_matches('/').to_owned())
    };
    let found = |of: &'static [&'static str]| text.lines().find_map(move |line| folder(line, of));
    let unified = found(&[""]);
    let memory = found(&["memory"]);
    let files = [
        unified.as_ref().map(|path| root.join(path).join("memory.events")),
        memory
            .as_ref()
            .map(|path| root.join("memory").join(path).join("memory.oom_control")),
        // In a container the path may be one of the host.
        memory.map(|_| root.join("memory/memory.oom_control")),
    ];
    files.into_iter().flatten().find(|file| kills(file).is_some())
}

fn kills(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_found_in_both_hierarchies_and_reported_once() {
        let root = std::env::temp_dir().join(format!("gasnet-oom-test-{}", std::process::id()));
        for (text, name) in [
            ("3:cpu,cpuacct:/\n0::/a/b\n", "a/b/memory.events"),
            (
                "9:name=systemd:/x\n4:memory:/c\n0::/none\n",
                "memory/c/memory.oom_control",
            ),
            ("4:hugetlb,memory:/not/here\n0::/\n", "memory/memory.oom_control"),
        ] {
            let file = root.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            let write = |count: u32| fs::write(&file, format!("oom 7\noom_kill {count}\noom_group_kill 9\n"));
            write(2).unwrap();
            assert_eq!(counter_file(text, &root).as_ref(), Some(&file), "{text}");
            let mut watch = OutOfMemory {
                kills: BTreeMap::from([(file.clone(), 2)]),
            };
            assert_eq!(watch.remark(), "");
            write(3).unwrap();
            let remark = watch.remark();
            assert!(
                remark.starts_with(" (out of memory: oom_kill 3 in ") && watch.remark().is_empty(),
                "{remark}"
            );
            fs::remove_file(&file).unwrap();
        }
        assert_eq!(counter_file("0::/a/b\n", &root), None);
        assert_eq!(counter_file("nonsense\n", &root), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
