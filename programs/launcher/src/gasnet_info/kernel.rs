//! The kernel: system calls that waiting and copying use, and limits of a process.

use super::machine::{count, fact, flag, rounded, Fact, Root};

/// Features; system calls are tried.
pub fn facts(root: &Root) -> Vec<Fact> {
    let scope = root.number("/proc/sys/kernel/yama/ptrace_scope");
    let copies = can_read_other_process();
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
    vec![
        fact("release", root.read("/proc/sys/kernel/osrelease").unwrap_or("unknown".into())),
        fact("host", root.read("/proc/sys/kernel/hostname").unwrap_or("unknown".into())),
        fact("system call filter", seccomp.unwrap_or("unknown".into())),
        flag("membarrier, global expedited", has_membarrier()).advise(
            !has_membarrier(),
            "Without it, waiting ranks poll every millisecond instead of being woken. Linux 4.16 and later has it; a \
             container may filter it.",
        ),
        flag("pidfd_open", has_pidfd()),
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
fn shown(limit: libc::rlim_t, is_bytes: bool) -> String {
    match (limit, is_bytes) {
        (libc::RLIM_INFINITY, _) => "unlimited".into(),
        (limit, true) => rounded(limit),
        (limit, false) => limit.to_string(),
    }
}

type Resource = libc::__rlimit_resource_t;

fn limit(resource: Resource) -> Option<(u64, u64)> {
    let mut pair = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is writable for the duration of the call.
    let failed = unsafe { libc::getrlimit(resource, &raw mut pair) } != 0;
    (!failed).then_some((pair.rlim_cur, pair.rlim_max))
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
    let rows: [(&str, Resource, bool, u64, &str); 7] = [
        ("locked memory", libc::RLIMIT_MEMLOCK, true, 64 << 20, RDMA),
        ("open files", libc::RLIMIT_NOFILE, false, 1024, FILES),
        ("processes", libc::RLIMIT_NPROC, false, 512, PROCESSES),
        ("address space", libc::RLIMIT_AS, true, 1 << 40, SPACE),
        ("file size", libc::RLIMIT_FSIZE, true, 1 << 40, FILE_SIZE),
        ("stack", libc::RLIMIT_STACK, true, 1 << 20, STACK),
        ("core file", libc::RLIMIT_CORE, true, 0, ""),
    ];
    let mut facts: Vec<Fact> = rows
        .into_iter()
        .map(|(name, resource, is_bytes, least, advice)| match limit(resource) {
            Some((soft, hard)) => Fact {
                number: (soft != libc::RLIM_INFINITY).then_some(soft),
                ..fact(
                    name,
                    format!("{} (hard limit {})", shown(soft, is_bytes), shown(hard, is_bytes)),
                )
            }
            .advise(soft < least, advice),
            None => fact(name, "unknown"),
        })
        .collect();
    let tasks = super::processors::control_groups(root)
        .into_iter()
        .filter_map(|folder| root.number(&format!("{folder}/pids.max")))
        .min();
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
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: no preconditions. The parent kills this process, or its death does.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::pause();
            }
        }
    }
    if child < 0 {
        return false;
    }
    let mut copy = 0_u64;
    let local = libc::iovec {
        iov_base: (&raw mut copy).cast(),
        iov_len: 8,
    };
    let remote = libc::iovec {
        iov_base: (&raw const word).cast_mut().cast(),
        iov_len: 8,
    };
    // SAFETY: one local range of eight writable bytes; the remote one is the child's copy of
    // `word`.
    let count = unsafe { libc::process_vm_readv(child, &raw const local, 1, &raw const remote, 1, 0) };
    // SAFETY: the child is ours and not yet waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    count == 8 && copy == word
}

fn has_membarrier() -> bool {
    const QUERY: libc::c_int = 0;
    const GLOBAL_EXPEDITED: i64 = 1 << 1;
    // SAFETY: the query takes integers and returns a bit set.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, QUERY, 0, 0) };
    commands > 0 && commands & GLOBAL_EXPEDITED != 0
}

fn has_pidfd() -> bool {
    // SAFETY: takes numbers; makes a descriptor.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::getpid(), 0) };
    if fd < 0 {
        return false;
    }
    // SAFETY: the descriptor that was just made.
    unsafe { libc::close(fd as libc::c_int) };
    true
}

#[cfg(test)]
mod tests {
    use super::super::machine::tests::Machine;
    use super::*;

    #[test]
    fn limits_are_those_of_this_process() {
        let root = Machine::new("limits", &[("/sys/fs/cgroup/pids.max", "100\n")]);
        let facts = limits(&root.0);
        let (soft, _) = limit(libc::RLIMIT_NOFILE).unwrap();
        assert_eq!(
            Machine::find(&facts, "open files").number,
            (soft != libc::RLIM_INFINITY).then_some(soft)
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
