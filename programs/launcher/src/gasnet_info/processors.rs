//! Processor cores of the host, and those that a job may use.

use super::machine::{count, fact, Fact, Root};

pub fn facts(root: &Root) -> Vec<Fact> {
    let online = root
        .read("/sys/devices/system/cpu/online")
        .map(|list| count_list(&list));
    let status = root.read("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim);
    let allowed = list.map(count_list);
    let quota = quota(root);
    let info = root.read("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name"));
    let model = model.map_or("unknown", |l| l.trim_start_matches([' ', '\t', ':']));
    let usable = quota.into_iter().chain(allowed).min();
    vec![
        fact("model", model),
        count("cores online", online, "unknown"),
        fact("affinity mask", list.unwrap_or("unknown")),
        count("cores in the affinity mask", allowed, "unknown").advise(
            allowed.is_some() && allowed < online,
            "This shell is bound to some of the cores, and ranks inherit its mask. `taskset -pc $$` shows and changes \
             the mask.",
        ),
        count("cores in the control group's quota", quota, "no quota").advise(
            quota.is_some_and(|quota| allowed.or(online).is_some_and(|cores| quota < cores)),
            "The kernel throttles more ranks than these. Start fewer, or raise cpu.max of the control group (--cpus of \
             a container).",
        ),
        count("ranks that can run at once", usable, "unknown"),
    ]
}

/// The number of members of a list such as `0-3,8`.
fn count_list(list: &str) -> u64 {
    let width = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(last.trim().parse::<u64>().ok()? - first.trim().parse::<u64>().ok()? + 1),
        None => part.trim().parse::<u64>().ok().map(|_| 1),
    };
    list.split(',').filter_map(width).sum()
}

/// Folders of this process's control group and its parents, innermost first (version 2).
fn control_groups(root: &Root) -> Vec<String> {
    let own = root.read("/proc/self/cgroup").unwrap_or_default();
    let mut path = own
        .lines()
        .find_map(|l| l.strip_prefix("0::"))
        .unwrap_or("/")
        .trim_end_matches('/')
        .to_owned();
    let mut folders = Vec::new();
    loop {
        folders.push(format!("/sys/fs/cgroup{path}"));
        match path.rfind('/') {
            Some(at) => path.truncate(at),
            None => return folders,
        }
    }
}

/// The numbers in a file of these folders, innermost first.
pub fn group_numbers<'a>(root: &'a Root, file: &'a str) -> impl Iterator<Item = u64> + 'a {
    let folders = control_groups(root).into_iter();
    folders.filter_map(move |folder| root.number(&format!("{folder}/{file}")))
}

/// The smallest quota, rounded up to whole cores: version 2, or else version 1.
fn quota(root: &Root) -> Option<u64> {
    let cores = |quota: &str, period: &str| {
        let (quota, period) = (quota.parse::<u64>().ok()?, period.parse::<u64>().ok()?);
        (period > 0).then(|| quota.div_ceil(period).max(1))
    };
    let second = control_groups(root).into_iter().filter_map(|folder| {
        let text = root.read(&format!("{folder}/cpu.max"))?;
        let (quota, period) = text.split_once(' ')?;
        cores(quota, period)
    });
    let first = || {
        let read = |file: &str| root.read(&format!("/sys/fs/cgroup/cpu/{file}"));
        cores(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?)
    };
    second.min().or_else(first)
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::Machine;
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(count_list("0-3,8"), 5);
        assert_eq!(count_list("0"), 1);
        assert_eq!(count_list(""), 0);
    }

    #[test]
    fn quotas_and_masks() {
        let machine = Machine::new(
            "cpus",
            &[
                ("/sys/devices/system/cpu/online", "0-7\n"),
                ("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-5\n"),
                ("/proc/self/cgroup", "0::/a/b\n"),
                ("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
                ("/sys/fs/cgroup/a/cpu.max", "250000 100000\n"),
            ],
        );
        let facts = facts(&machine.0);
        let number = |name| Machine::find(&facts, name).number;
        assert_eq!(number("cores online"), Some(8));
        assert_eq!(number("cores in the affinity mask"), Some(6));
        assert_eq!(number("cores in the control group's quota"), Some(3));
        assert_eq!(number("ranks that can run at once"), Some(3));
        assert!(Machine::find(&facts, "cores in the affinity mask").advice.is_some());
        assert!(Machine::find(&facts, "cores in the control group's quota")
            .advice
            .is_some());
    }

    #[test]
    fn unknown_values_get_no_advice() {
        let machine = Machine::new(
            "no-proc",
            &[
                ("/sys/devices/system/cpu/online", "0-7\n"),
                ("/sys/fs/cgroup/cpu.max", "100000 100000\n"),
            ],
        );
        let facts = facts(&machine.0);
        assert_eq!(Machine::find(&facts, "affinity mask").text, "unknown");
        assert!(Machine::find(&facts, "cores in the affinity mask").advice.is_none());
        assert!(Machine::find(&facts, "cores in the control group's quota")
            .advice
            .is_some());
    }
}
