//! Processes: identity, fork, wait, limits, exit.

use std::cell::Cell;
use std::ffi::{c_int, c_void, CStr, CString, OsString};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::io::{retry_on_intr, Errno};
use rustix::process::{PidfdFlags, Signal, WaitOptions, WaitStatus};

use super::check;

/// A process id.
pub type Pid = libc::pid_t;

/// This process. Async-signal-safe.
pub fn pid() -> Pid {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The parent; 1 (or a subreaper) after it ended; 0 if it is not visible in this pid namespace.
pub fn parent() -> Pid {
    rustix::process::Pid::as_raw(rustix::process::getppid())
}

/// The effective user of this process.
pub fn user() -> libc::uid_t {
    rustix::process::geteuid().as_raw()
}

/// Replaces this process by `program`, with the arguments `words` (the first is its name) and this
/// environment. Returns only on failure.
pub fn replace(program: &CStr, words: &[CString]) -> io::Error {
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: terminated strings, and a list of such that ends with a null pointer.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// The result of [`fork`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// In the new process.
    Child,
    /// In the original one.
    Parent(Pid),
}

/// Duplicates the process.
///
/// # Safety
/// The child has only the calling thread; locks that other threads held stay locked in it.
pub unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: the caller's promise.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// Makes the kernel send this process SIGKILL when the thread that forked it ends, however that
/// happens. Has no effect if that thread has already ended.
pub fn die_with_parent() {
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
}

/// Makes the kernel send the process of `command` SIGTERM when the thread that spawns it ends,
/// however that happens.
pub fn die_with_spawner(command: &mut Command) {
    let request = || {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
        Ok(())
    };
    // SAFETY: between fork and exec, only one system call that takes numbers.
    unsafe { command.pre_exec(request) };
}

/// Makes this process the parent of descendants whose parents end; returns the children that it has
/// now.
pub fn adopt_descendants() -> Vec<Pid> {
    // If the kernel refuses, such descendants become children of init.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::Pid::INIT));
    children(&[])
}

/// The children of this process that have not been waited for, except `others`.
fn children(others: &[Pid]) -> Vec<Pid> {
    let own = pid();
    let parent = |stat: &str| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<Pid>().ok();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<Pid>().ok());
    numbers
        .filter(|number| {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat"));
            stat.is_ok_and(|stat| parent(&stat) == Some(own)) && !others.contains(number)
        })
        .collect()
}

/// Waits for all children except `others`. After `limit` it sends them SIGTERM, and after another
/// `grace` SIGKILL.
pub fn end_children(others: &[Pid], limit: Duration, grace: Duration) {
    let start = Instant::now();
    let mut step = Duration::from_millis(1);
    let mut terminated = Vec::new();
    loop {
        let rest: Vec<Pid> = children(others)
            .into_iter()
            .filter(|&child| reap(child).is_none())
            .collect();
        let waited = start.elapsed();
        for &child in &rest {
            if waited >= limit + grace {
                kill(child, libc::SIGKILL);
            } else if waited >= limit && !terminated.contains(&child) {
                kill(child, libc::SIGTERM);
                terminated.push(child);
            }
        }
        // The second list has children of a child that has just ended.
        if rest.is_empty() && children(others).is_empty() {
            return;
        }
        std::thread::sleep(step);
        step = (step * 2).min(Duration::from_millis(20));
    }
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// Something else waited for it.
    Unknown,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "ended with status {status}"),
            Self::Killed(signal) => write!(f, "was killed by signal {signal}"),
            Self::Unknown => write!(f, "ended"),
        }
    }
}

/// Reaps child `pid` if it has ended. Async-signal-safe.
pub fn reap(pid: Pid) -> Option<Ended> {
    ended(wait_for(pid, WaitOptions::NOHANG))
}

/// Waits for child `pid` until it ends. Async-signal-safe.
pub fn wait(pid: Pid) -> Ended {
    ended(wait_for(pid, WaitOptions::empty())).unwrap_or(Ended::Unknown)
}

fn ended(status: rustix::io::Result<Option<WaitStatus>>) -> Option<Ended> {
    match status {
        Ok(None) => None,
        Ok(Some(status)) => Some(match status.terminating_signal() {
            Some(signal) => Ended::Killed(signal),
            None => Ended::Exited(status.exit_status().unwrap_or(0)),
        }),
        Err(_) => Some(Ended::Unknown),
    }
}

fn wait_for(pid: Pid, options: WaitOptions) -> rustix::io::Result<Option<WaitStatus>> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::CHILD)?;
    let ended = retry_on_intr(|| rustix::process::waitpid(Some(pid), options))?;
    Ok(ended.map(|(_, status)| status))
}

/// Sends a signal to a child. The child must not have been reaped, because the system may then
/// reuse its number. Async-signal-safe.
pub fn kill(pid: Pid, signal: i32) {
    // SAFETY: takes numbers. It fails only if the process has already ended.
    unsafe { libc::kill(pid, signal) };
}

/// A process that need not be a child: by a descriptor, which never refers to another process.
/// Before Linux 5.3, and where a container forbids that, by its number and the time of its start.
#[derive(Debug)]
pub struct Watched(By);

#[derive(Debug)]
enum By {
    Descriptor(OwnedFd),
    Number(Pid, Start),
}

/// The time of a process's start, as the kernel writes it.
type Start = Option<String>;

/// A descriptor of a process. None if the kernel has no such descriptors.
pub fn descriptor(pid: Pid) -> io::Result<Option<OwnedFd>> {
    let raw = rustix::process::Pid::from_raw(pid).ok_or(Errno::INVAL)?;
    match rustix::process::pidfd_open(raw, PidfdFlags::empty()) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Watched {
    /// An existing process.
    pub fn open(pid: Pid) -> io::Result<Self> {
        Ok(Self::from(pid, descriptor(pid)?))
    }

    /// A process that exists, and the descriptor that it has sent, if it has one.
    pub fn from(pid: Pid, fd: Option<OwnedFd>) -> Self {
        Self(match fd {
            Some(fd) => By::Descriptor(fd),
            None => By::Number(pid, start(pid)),
        })
    }

    /// The descriptor, which is readable once the process has ended. Without one,
    /// [`Watched::has_ended`] has to be called now and then.
    pub fn fd(&self) -> Option<RawFd> {
        match &self.0 {
            By::Descriptor(fd) => Some(fd.as_raw_fd()),
            By::Number(..) => None,
        }
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            By::Descriptor(fd) => super::fd::poll(
                &mut [super::fd::readable(fd.as_raw_fd())],
                Some(std::time::Duration::ZERO),
            )
            .is_ok_and(|ready| ready == 1),
            By::Number(pid, began) => is_gone(*pid) || start(*pid) != *began,
        }
    }

    /// Sends the process a signal.
    pub fn signal(&self, number: i32) {
        match &self.0 {
            By::Descriptor(fd) => {
                let nothing = std::ptr::null_mut::<libc::siginfo_t>();
                // Not rustix, which does not take every signal number.
                // SAFETY: takes numbers and a null pointer. It fails only if the process has
                // already ended.
                unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), number, nothing, 0) };
            }
            By::Number(pid, _) if !self.has_ended() => kill(*pid, number),
            By::Number(..) => {}
        }
    }
}

fn start(pid: Pid) -> Start {
    /// Among the fields from the state on.
    const FIELD: usize = 19;
    stat(pid).into_iter().nth(FIELD)
}

/// Whether the main thread of a process is stopped, by a signal or a debugger.
pub fn is_stopped(pid: Pid) -> bool {
    stat(pid)
        .first()
        .is_some_and(|state| matches!(state.as_str(), "T" | "t"))
}

/// Whether a process, of any parent, has ended.
pub fn is_gone(pid: Pid) -> bool {
    stat(pid)
        .first()
        .is_none_or(|state| matches!(state.as_str(), "Z" | "X"))
}

/// The parent of a process; none if the process is not visible.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    stat(pid).get(1)?.parse().ok()
}

/// The fields of `/proc/PID/stat`, from the state on.
pub(super) fn stat(pid: Pid) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // The name in parentheses may contain anything, parentheses included.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}

/// Ends the process at once, all threads included: no exit handlers, no flushing.
/// Async-signal-safe.
pub fn end(status: i32) -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::_exit(status) }
}

extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
    fn on_exit(function: extern "C" fn(i32, *mut libc::c_void), argument: *mut libc::c_void) -> i32;
}

/// Flushes C's output streams, the standard ones first: flushing all takes the lock of each stream,
/// also of standard input, where another thread may block in a read. The error is that of standard
/// output; none inside means that an earlier write failed, whose reason is lost. Does not allocate,
/// but is not async-signal-safe.
pub fn flush_streams() -> Result<(), Option<io::Error>> {
    let result = flush_output();
    // SAFETY: null for all streams.
    unsafe { libc::fflush(std::ptr::null_mut()) };
    result
}

/// Flushes standard output and the stream for errors; otherwise as [`flush_streams`].
pub fn flush_output() -> Result<(), Option<io::Error>> {
    // SAFETY: a variable of the C library, which programs may have assigned.
    let output = unsafe { stdout };
    // SAFETY: as above.
    let errors = unsafe { stderr };
    // SAFETY: a stream of the C library, or null for all streams.
    let result = match unsafe { libc::fflush(output) } {
        // SAFETY: a stream of the C library.
        0 if output.is_null() || unsafe { libc::ferror(output) } == 0 => Ok(()),
        0 => Err(None),
        _ => Err(Some(io::Error::last_os_error())),
    };
    // SAFETY: a stream of the C library, or null for all streams.
    unsafe { libc::fflush(errors) };
    result
}

/// Makes the system write all modified files to their devices.
pub fn sync_files() {
    rustix::fs::sync();
}

static OWN_THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether [`spawn_own_thread`] started the calling thread. Async-signal-safe.
pub fn is_own_thread() -> bool {
    IS_OWN.get()
}

/// Starts a thread of this library, which runs until the process ends. Signals are delivered to the
/// client's threads only, except those of the thread's own faults: the client's handler may open a
/// page that it has protected, and a crash is reported as one of a client's thread.
pub fn spawn_own_thread(
    name: &str,
    stack_bytes: usize,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    let mask = crate::signal::block_all();
    let started = std::thread::Builder::new()
        .name(name.into())
        .stack_size(stack_bytes)
        .spawn(move || {
            IS_OWN.set(true);
            let _held = crate::float::hold();
            body();
        });
    crate::signal::set_mask(&mask);
    if started.is_ok() {
        OWN_THREADS.fetch_add(1, Ordering::Release);
    }
    started
}

/// The calling thread, which the client has started, is one of this library from now on.
pub fn count_own_thread() {
    OWN_THREADS.fetch_add(1, Ordering::Release);
}

/// Threads of this process; 0 if `/proc` is not readable. Does not allocate.
pub fn threads() -> u32 {
    // A directory has a link for itself, one from its parent, and one per subdirectory: a thread.
    let links = std::fs::metadata("/proc/self/task").map_or(0, |directory| directory.nlink());
    links.saturating_sub(2) as u32
}

/// Threads of this process that are not this library's; 0 if `/proc` is not readable. One of the
/// library that starts meanwhile may be among them; none of the client's is left out.
pub fn client_threads() -> u32 {
    // Read first: the kernel counts each of them from now on.
    let own = OWN_THREADS.load(Ordering::Acquire);
    threads().saturating_sub(own)
}

/// Keeps the shared object that contains this code mapped until the process ends. The object may be
/// a plugin that is closed with `dlclose`, while its threads, signal handlers and exit handlers
/// remain.
pub fn stay_mapped() {
    let code = stay_mapped as *const c_void;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable; zero bytes are a valid value if the call fails.
    let (found, info) = unsafe { (libc::dladdr(code, info.as_mut_ptr()), info.assume_init()) };
    // SAFETY: no preconditions.
    let program = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let is_program = program.wrapping_sub(info.dli_fbase as usize) < 4096;
    if found != 0 && !is_program && !info.dli_fname.is_null() {
        // SAFETY: a terminated name from the loader. The handle is never closed.
        unsafe {
            libc::dlopen(
                info.dli_fname,
                libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
            )
        };
    }
}

/// Whether the program file gives this process privileges that its caller lacks: set-user-ID,
/// set-group-ID, or file capabilities. Its environment is then the choice of a weaker user.
pub fn is_privileged() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// `PATH`; for a privileged process the system's own folders.
pub fn search_path() -> Option<OsString> {
    if is_privileged() {
        return Some("/usr/local/bin:/usr/bin:/bin".into());
    }
    std::env::var_os("PATH")
}

/// Makes the end of the process, by `exit` or a return from `main`, call `function` with the exit
/// status, before the functions that were registered earlier. Only the first call has an effect.
/// The code must stay mapped ([`stay_mapped`]).
pub fn at_exit(function: fn(i32)) {
    static FUNCTION: OnceLock<fn(i32)> = OnceLock::new();
    extern "C" fn call(status: i32, _argument: *mut libc::c_void) {
        if let Some(function) = FUNCTION.get() {
            function(status);
        }
    }
    if FUNCTION.set(function).is_ok() {
        // SAFETY: the function outlives the process.
        unsafe { on_exit(call, std::ptr::null_mut()) };
    }
}

/// Makes the end of the process, or the unloading of the shared object that contains this code,
/// call `function`. False if the system has no room for another exit handler.
pub fn at_exit_or_unload(function: extern "C" fn()) -> bool {
    // SAFETY: the C library drops the registration before it unmaps the function.
    unsafe { libc::atexit(function) == 0 }
}

/// The kernel's number of this thread. Async-signal-safe.
pub fn thread() -> i32 {
    // Not rustix, which looks for the C library's function with dlsym.
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Blocks this thread for ever, except for signal handlers. Async-signal-safe.
pub fn park() -> ! {
    loop {
        // SAFETY: no preconditions.
        unsafe { libc::pause() };
    }
}

/// Raises the soft limit of `resource` (`RLIMIT_*`) to at least `wanted`, but not above the hard
/// limit. Returns the earlier limit.
pub fn raise_limit(resource: c_int, wanted: libc::rlim_t) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is writable; an unknown resource is an error.
    check(unsafe { libc::getrlimit(resource as _, &raw mut limit) })?;
    let rlim_cur = wanted.min(limit.rlim_max);
    if limit.rlim_cur < rlim_cur {
        let more = libc::rlimit { rlim_cur, ..limit };
        // SAFETY: the structure is readable.
        check(unsafe { libc::setrlimit(resource as _, &raw const more) })?;
    }
    Ok(limit)
}

/// Raises the limit on open descriptors to at least `wanted`, but not above the hard limit. Returns
/// the earlier limit, for [`restore_descriptor_limit`] in children.
pub fn allow_descriptors(wanted: u64) -> io::Result<libc::rlimit> {
    raise_limit(libc::RLIMIT_NOFILE as c_int, wanted)
}

/// Restores the limit on open descriptors.
pub fn restore_descriptor_limit(limit: &libc::rlimit) {
    // SAFETY: the structure is readable.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
}

/// Whether the program is statically linked. Such a program has no dynamic loader, and opening a
/// shared library crashes it.
pub fn is_static() -> bool {
    // SAFETY: reads values that the kernel passed at the start of the program.
    let (headers, count) = unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    let headers = headers as *const libc::Elf64_Phdr;
    // SAFETY: the program's `count` headers, which stay mapped.
    !headers.is_null() && !(0..count as usize).any(|i| unsafe { (*headers.add(i)).p_type } == libc::PT_INTERP)
}

/// Number of open descriptors; 64 if `/proc` is not readable.
pub fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_watched_by_descriptor_or_by_number() {
        for by_number in [false, true] {
            let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
            let pid = child.id() as Pid;
            let watched = if by_number {
                Watched::from(pid, None)
            } else {
                Watched::open(pid).unwrap()
            };
            assert!(watched.fd().is_none() == by_number && !watched.has_ended());
            watched.signal(libc::SIGKILL);
            while !watched.has_ended() {
                std::thread::yield_now();
            }
            child.wait().unwrap();
            assert!(watched.has_ended());
        }
        // The number of a process that has ended may be another one's: it takes no signal.
        let earlier = Watched(By::Number(pid(), Some("1".into())));
        assert!(earlier.has_ended());
        earlier.signal(libc::SIGKILL);
    }
}
