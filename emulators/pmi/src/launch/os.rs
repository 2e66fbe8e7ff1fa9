//! System calls of the launcher.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::parent_id;
use std::ptr::null_mut;

/// Signals that the launcher passes on to all ranks.
pub const FORWARDED: [i32; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
];

fn check(result: i32) -> io::Result<i32> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// The signals that a process of the launcher waits for. They are blocked otherwise.
#[derive(Clone, Copy)]
pub struct Signals {
    blocked: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks them, and that of the end of children.
    pub fn block() -> Self {
        // SAFETY: all-zero bytes are a valid set.
        let mut set: libc::sigset_t = unsafe { zeroed() };
        let mut before = set;
        // SAFETY: a live set.
        unsafe { libc::sigemptyset(&raw mut set) };
        for number in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
            // SAFETY: a live set.
            unsafe { libc::sigaddset(&raw mut set, number) };
        }
        // SAFETY: live sets.
        unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before) };
        Self { blocked: set, before }
    }

    /// Restores the signals. Async-signal-safe.
    pub fn restore(&self) {
        // SAFETY: a live set.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, null_mut()) };
    }

    /// A descriptor to read them from.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        // SAFETY: a live set.
        let fd = check(unsafe { libc::signalfd(-1, &raw const self.blocked, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
        // SAFETY: a new descriptor.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// The next signal, if one is pending.
pub fn next_signal(descriptor: &OwnedFd) -> Option<i32> {
    // SAFETY: all-zero bytes are valid: it has numbers only.
    let mut info: libc::signalfd_siginfo = unsafe { zeroed() };
    let bytes = size_of::<libc::signalfd_siginfo>();
    // SAFETY: the buffer has room for its length.
    let got = unsafe { libc::read(descriptor.as_raw_fd(), (&raw mut info).cast(), bytes) };
    (got == bytes as isize).then_some(info.ssi_signo as i32)
}

/// Events to wait for before a read of a descriptor.
pub fn readable(descriptor: &impl AsRawFd) -> libc::pollfd {
    libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Waits for descriptors, at most `limit` milliseconds (-1: no limit).
pub fn poll(items: &mut [libc::pollfd], limit: i32) {
    // SAFETY: a live slice. An error only causes one more iteration.
    unsafe { libc::poll(items.as_mut_ptr(), items.len() as libc::nfds_t, limit) };
}

/// A child that has ended, and its status; none has now, or there are none.
pub fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: a live variable.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}

/// Sends a signal to a child that was not reaped.
pub fn kill(pid: i32, number: i32) {
    if pid > 0 {
        // SAFETY: no memory.
        unsafe { libc::kill(pid, number) };
    }
}

/// Processes whose parents end become children of this one.
pub fn inherit_orphans() {
    // SAFETY: no memory.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// This process gets a signal when its parent ends, which was `parent`. Async-signal-safe.
pub fn die_with_parent(parent: u32, number: i32) {
    // SAFETY: no memory.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, number, 0, 0, 0) };
    if parent_id() != parent {
        // SAFETY: no memory.
        unsafe { libc::raise(number) };
    }
}

/// Leaves the session, and so the terminal and the process group.
pub fn new_session() {
    // SAFETY: no memory.
    unsafe { libc::setsid() };
}

/// Forks this process, which has one thread. None: this is the child.
pub fn fork() -> io::Result<Option<i32>> {
    // SAFETY: the process has one thread.
    let pid = check(unsafe { libc::fork() })?;
    Ok((pid > 0).then_some(pid))
}

/// Children of this process, inherited ones too.
pub fn children() -> Vec<i32> {
    let own = std::process::id();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // "pid (name) state parent": the name may have anything in it.
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent.and_then(|text| text.parse().ok()) == Some(own)
    };
    pids.filter(is_child).collect()
}

/// Kills all descendants: a killed child's own children become this process's.
pub fn kill_all() {
    loop {
        let children = children();
        if children.is_empty() {
            return;
        }
        for pid in children {
            kill(pid, libc::SIGKILL);
            // SAFETY: no memory. Waits for a child that ends now.
            unsafe { libc::waitpid(pid, null_mut(), 0) };
        }
    }
}

/// Gives this process a host name of its own, if it may. Async-signal-safe.
pub fn name_host(name: &[u8]) {
    // SAFETY: no memory.
    if unsafe { libc::unshare(libc::CLONE_NEWUTS) } == 0 {
        // SAFETY: the bytes are readable.
        unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) };
    }
}

/// Signals in a rank are as on a compute node, whatever the shell has set for the launcher.
/// Async-signal-safe.
pub fn reset_signals(signals: &Signals) {
    for number in FORWARDED {
        // SAFETY: no memory.
        unsafe { libc::signal(number, libc::SIG_DFL) };
    }
    signals.restore();
}

/// Ends this process with a signal that it does not handle, as a shell expects.
pub fn end_by(number: i32, signals: &Signals) -> ! {
    signals.restore();
    // SAFETY: no memory.
    unsafe { libc::signal(number, libc::SIG_DFL) };
    let core = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a live variable; null for the other.
    unsafe { libc::prlimit(0, libc::RLIMIT_CORE, &raw const core, null_mut()) };
    // SAFETY: no memory.
    unsafe { libc::raise(number) };
    std::process::exit(128 + number)
}
