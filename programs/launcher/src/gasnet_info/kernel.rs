//! The kernel: system calls that waiting and copying use, and limits of a process.

use super::machine::{count, fact, flag, rounded, Fact, Root};
use super::processors::group_numbers;
use gasnet_sys::process::{self, Fork};
use gasnet_sys::{membarrier, process_vm};
use rustix::process::{getrlimit, Resource};

/// Features; system calls are tried.
pub fn facts(root: &Root) -> Vec<Fact> {
    let scope = root.number("/proc/sys/kernel/yama/ptrace_scope");
    let copies = can_read_other_process();
    let has_membarrier = membarrier::register();
    let seccomp = root.read("/proc/self/status").and_then(|status| {
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("Seccomp:").map(str::to_owned))?;
        Some(match line.trim() {
            "0" => "none".into(),
            "2" => "active".to_owned(),
            other => format!("mode {other}"),
        })
    });
    let has_descriptors = process::descriptor(process::pid()).is_ok_and(|own| own.is_some());
    vec![
        fact("release", root.read("/proc/sys/kernel/osrelease").unwrap_or("unknown".into())),
        fact("host", root.read("/proc/sys/kernel/hostname").unwrap_or("unknown".into())),
        fact("system call filter", seccomp.unwrap_or("unknown".into())),
        flag("membarrier, global expedited", has_membarrier).advise(
            !has_membarrier,
            "Without it, waiting ranks poll every millisecond instead of being woken. Linux 4.16 and later has it; a \
             container may filter it.",
        ),
        flag("pidfd_open", has_descriptors).advise(
            !has_descriptors,
            "Without it, node agents look for the end of ranks that a process manager has started. Linux 5.3 and later \
             has it; a container may filter it.",
        ),
        flag("process_vm_readv", copies).advise(
            !copies,
            "Without it, memory outside of segments (GASNET_SEGMENT_EVERYTHING and LARGE) is copied through messages, \
             which is slower. The seccomp filter of a container (--cap-add SYS_PTRACE) or kernel.yama.ptrace_scope may \
             forbid it.",
        ),
        count("ptrace scope (Yama)", scope, "no Yama").advise(
            scope.is_some_and(|scope| scope >= 2),
            "Users may neither attach debuggers (GASNET_FREEZE, GASNET_BACKTRACE_TYPE=GDB) nor copy between processes. \
             sysctl kernel.yama.ptrace_scope=1.",
        ),
        fact("core file pattern", root.read("/proc/sys/kernel/core_pattern").unwrap_or("unknown".into())),
    ]
}

/// A limit as text.
fn shown(limit: Option<u64>, is_bytes: bool) -> String {
    match limit {
        None => "unlimited".into(),
        Some(limit) if is_bytes => rounded(limit),
        Some(limit) => limit.to_string(),
    }
}

const RDMA: &str =
    "RDMA networks pin segments and buffers; with less they fail or fall back. `ulimit -l unlimited`, or for all users \
                    /etc/security/limits.d: `* - memlock unlimited` (LimitMEMLOCK= of a service).";
const FILES: &str =
    "A rank needs descriptors for peers outside shared memory. `ulimit -n 65536`, up to the hard limit.";
const PROCESSES: &str =
    "All ranks and their threads count. `ulimit -u`, or pids.max of the control group (--pids-limit of a container).";
const SPACE: &str = "Every rank maps the whole segments of all neighbours. `ulimit -v unlimited`.";
const FILE_SIZE: &str = "Shared memory counts as a file, so this limits segments. `ulimit -f unlimited`.";
const STACK: &str = "AM handlers run on the stack of the thread that polls. `ulimit -s 8192`.";

/// Soft and hard limits of this process, which ranks inherit.
pub fn limits(root: &Root) -> Vec<Fact> {
    let rows = [
        ("locked memory", Resource::Memlock, true, 64 << 20, RDMA),
        ("open files", Resource::Nofile, false, 1024, FILES),
        ("processes", Resource::Nproc, false, 512, PROCESSES),
        ("address space", Resource::As, true, 1 << 40, SPACE),
        ("file size", Resource::Fsize, true, 1 << 40, FILE_SIZE),
        ("stack", Resource::Stack, true, 1 << 20, STACK),
        ("core file", Resource::Core, true, 0, ""),
    ];
    let row = |(name, resource, is_bytes, least, advice): (&str, Resource, bool, u64, &str)| {
        let limit = getrlimit(resource);
        let [soft, hard] = [limit.current, limit.maximum].map(|limit| shown(limit, is_bytes));
        Fact {
            number: limit.current,
            ..fact(name, format!("{soft} (hard limit {hard})"))
        }
        .advise(limit.current.is_some_and(|soft| soft < least), advice)
    };
    let mut facts: Vec<Fact> = rows.into_iter().map(row).collect();
    let tasks = group_numbers(root, "pids.max").min();
    facts.push(
        count("processes and threads of the control group", tasks, "no limit")
            .advise(tasks.is_some_and(|n| n < 512), PROCESSES),
    );
    facts
}

/// Whether a process of this user may read the memory of another one, as ranks do.
fn can_read_other_process() -> bool {
    let word = 0x5eed_u64;
    // SAFETY: this process has one thread, and the child only waits for a signal.
    let child = match unsafe { process::fork() } {
        Ok(Fork::Parent(child)) => child,
        Ok(Fork::Child) => {
            process::die_with_parent();
            process::park()
        }
        Err(_) => return false,
    };
    let mut copy = 0_u64;
    // SAFETY: eight writable bytes. The others are the child's copy of `word`.
    let count = unsafe { process_vm::read(child, (&raw mut copy).cast(), &raw const word as usize, 8) };
    process::kill(child, libc::SIGKILL);
    process::wait(child);
    count.is_ok_and(|count| count == 8) && copy == word
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::Machine;
    use super::*;

    #[test]
    fn limits_are_those_of_this_process() {
        let root = Machine::new("limits", &[("/sys/fs/cgroup/pids.max", "100\n")]);
        let facts = limits(&root.0);
        let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
        let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let soft = soft.and_then(|line| line.split_whitespace().next());
        assert_eq!(
            Machine::find(&facts, "open files").number,
            soft.and_then(|soft| soft.parse().ok())
        );
        let group = Machine::find(&facts, "processes and threads of the control group");
        assert!(group.number == Some(100) && group.advice.is_some());
    }

    #[test]
    fn a_closed_ptrace_scope_is_noticed() {
        for (scope, poor) in [("0", false), ("1", false), ("2", true), ("3", true)] {
            let root = Machine::new(
                &format!("yama{scope}"),
                &[("/proc/sys/kernel/yama/ptrace_scope", scope)],
            );
            let found = Machine::find(&facts(&root.0), "ptrace scope (Yama)");
            assert_eq!(found.advice.is_some(), poor, "{scope}");
        }
    }
}
