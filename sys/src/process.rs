//! Processes: fork, wait, limits, identity.

use std::ffi::{c_void, CStr, CString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use std::{fmt, io};

use super::{check, retry};

/// A process id.
pub type Pid = libc::pid_t;

/// This process. Async-signal-safe.
pub fn pid() -> Pid {
    // SAFETY: no preconditions.
    unsafe { libc::getpid() }
}

/// The parent, or 1 (or a reaper) when it is gone.
pub fn parent() -> Pid {
    // SAFETY: no preconditions.
    unsafe { libc::getppid() }
}

/// The user whose rights this process has.
pub fn user() -> libc::uid_t {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

/// Takes a variable out of this process's environment, and overwrites its value where the system shows it (`/proc/PID/environ`, `ps e`), also of
/// processes that are forked from here on. No other thread may use the environment meanwhile, as for every change of it.
pub fn erase_variable(name: &CStr) {
    // SAFETY: a terminated name, and no other thread changes the environment.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if !value.is_null() {
        // SAFETY: the value is a terminated text in memory of this process that it may write, and of which nobody holds a reference.
        unsafe { value.write_bytes(0, libc::strlen(value)) };
    }
    if let Ok(name) = name.to_str() {
        std::env::remove_var(name);
    }
}

/// Runs `program` in this process, with the arguments `words` (the first is its name) and the environment as it is. Returns only if that fails.
pub fn replace(program: &CStr, words: &[CString]) -> io::Error {
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: terminated strings, and a list of such that ends with null.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// What `fork` returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// In the new process.
    Child,
    /// In the old one.
    Parent(Pid),
}

/// Duplicates the process.
///
/// # Safety
/// If the process has other threads, the child has none of them, and what they had locked stays locked.
pub unsafe fn fork() -> io::Result<Fork> {
    // SAFETY: the caller's promise.
    match check(unsafe { libc::fork() })? {
        0 => Ok(Fork::Child),
        pid => Ok(Fork::Parent(pid)),
    }
}

/// This process gets SIGKILL when the thread that forked it ends, in whatever way. It must not have ended yet.
pub fn die_with_parent() {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
}

/// What `command` starts gets SIGTERM when the thread that starts it ends, in whatever way.
pub fn die_with_spawner(command: &mut Command) {
    // SAFETY: between fork and exec, only a system call that takes numbers.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM as libc::c_ulong);
            Ok(())
        });
    }
}

/// From now on processes that descend from this one become its children when their parents end. Gives the children that there are.
pub fn adopt_descendants() -> Vec<Pid> {
    // SAFETY: takes numbers. Where it is refused they become those of the system, as without it.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1 as libc::c_ulong) };
    children(&[])
}

/// The children of this process that have not been waited for, but for some.
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

/// Waits for all children but `others`, for `limit`; then asks them to end, and after another `patience` makes them.
pub fn end_children(others: &[Pid], limit: Duration, patience: Duration) {
    let start = Instant::now();
    let mut step = Duration::from_millis(1);
    let mut asked = Vec::new();
    loop {
        let rest: Vec<Pid> = children(others).into_iter().filter(|&child| reap(child).is_none()).collect();
        let waited = start.elapsed();
        for &child in &rest {
            if waited >= limit + patience {
                kill(child, libc::SIGKILL);
            } else if waited >= limit && !asked.contains(&child) {
                kill(child, libc::SIGTERM);
                asked.push(child);
            }
        }
        // Those of a child that has just ended are found at the next look.
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
    /// By `_exit` with this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
    /// Somebody else waited for it.
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

/// Collects child `pid` if it has ended.
pub fn reap(pid: Pid) -> Option<Ended> {
    let mut status = 0;
    // SAFETY: the status is writable.
    match retry(|| unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } as isize) {
        Ok(0) => None,
        Ok(_) if libc::WIFSIGNALED(status) => Some(Ended::Killed(libc::WTERMSIG(status))),
        Ok(_) => Some(Ended::Exited(libc::WEXITSTATUS(status))),
        Err(_) => Some(Ended::Unknown),
    }
}

/// Sends a signal to a child that has not been reaped, so that its number cannot have been given to another process.
pub fn kill(pid: Pid, signal: i32) {
    // SAFETY: takes numbers. It fails only for a process that has ended already.
    unsafe { libc::kill(pid, signal) };
}

/// A process that is nobody's child here, held by a descriptor: its number may be given to another, this cannot.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    /// Of a process that exists.
    pub fn open(pid: Pid) -> io::Result<Self> {
        // SAFETY: takes numbers.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = check(fd as i32)?;
        // SAFETY: just returned, and nobody else knows it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// From a descriptor that the process itself has sent.
    pub fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Readable when the process has ended.
    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Whether the process has ended.
    pub fn has_ended(&self) -> bool {
        let mut item = [libc::pollfd {
            fd: self.fd(),
            events: libc::POLLIN,
            revents: 0,
        }];
        super::fd::poll(&mut item, Some(std::time::Duration::ZERO)).is_ok_and(|ready| ready == 1)
    }

    /// Sends it a signal.
    pub fn signal(&self, number: i32) {
        let nothing = std::ptr::null_mut::<libc::siginfo_t>();
        // SAFETY: takes numbers and a null pointer. It fails only for a process that has ended already.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.fd(), number, nothing, 0) };
    }
}

/// Whether a process is stopped, by a signal or a debugger. A thread of it other than the first is not looked at.
pub fn is_stopped(pid: Pid) -> bool {
    stat(pid).first().is_some_and(|state| matches!(state.as_str(), "T" | "t"))
}

/// The parent of a process; none if it cannot be seen.
pub fn parent_of(pid: Pid) -> Option<Pid> {
    stat(pid).get(1)?.parse().ok()
}

/// What the system says of a process, from its state on.
fn stat(pid: Pid) -> Vec<String> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    // The name in parentheses may hold anything, parentheses included.
    let rest = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
    rest.split_whitespace().map(str::to_owned).collect()
}

/// Ends the process at once: no handlers, no buffers. Async-signal-safe.
pub fn end(status: i32) -> ! {
    // SAFETY: no preconditions.
    unsafe { libc::_exit(status) }
}

extern "C" {
    static stdout: *mut libc::FILE;
    static stderr: *mut libc::FILE;
    fn on_exit(function: extern "C" fn(i32, *mut libc::c_void), argument: *mut libc::c_void) -> i32;
}

/// Writes what C's output streams hold back: the standard ones first, because to flush all means to wait for the lock of each, also of
/// standard input, where another thread may be reading. The error is standard output's; of an earlier one nobody knows why.
/// Not async-signal-safe, but without the allocator.
pub fn flush_streams() -> Result<(), Option<io::Error>> {
    // SAFETY: the C library owns the variable; clients may point it elsewhere, before.
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
    for stream in [errors, std::ptr::null_mut()] {
        // SAFETY: a stream of the C library, or null for all streams.
        unsafe { libc::fflush(stream) };
    }
    result
}

/// Asks the system to write all files to their devices.
pub fn sync_files() {
    // SAFETY: no preconditions.
    unsafe { libc::sync() };
}

static OWN_THREADS: AtomicU32 = AtomicU32::new(0);

/// A thread of the library's own has started, which runs as long as the process.
pub fn count_own_thread() {
    OWN_THREADS.fetch_add(1, Ordering::Relaxed);
}

/// Threads of this process that are not the library's own; 0 where the system does not say.
pub fn client_threads() -> u32 {
    // A folder has a link for itself, one from its parent, and one for each folder in it: a thread.
    let links = std::fs::metadata("/proc/self/task").map_or(0, |folder| folder.nlink());
    (links.saturating_sub(2) as u32).saturating_sub(OWN_THREADS.load(Ordering::Relaxed))
}

/// Keeps the shared object that holds this code mapped until the process ends. A plugin that links the static library may be closed with
/// `dlclose`; its threads, signal handlers and exit handlers remain.
pub fn stay_mapped() {
    let code = stay_mapped as *const c_void;
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is writable; zero bytes are a valid value if the call fails.
    let (found, info) = unsafe { (libc::dladdr(code, info.as_mut_ptr()), info.assume_init()) };
    // SAFETY: no preconditions.
    let program = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let is_program = program.wrapping_sub(info.dli_fbase as usize) < 4096;
    if found != 0 && !is_program && !info.dli_fname.is_null() {
        // SAFETY: a NUL-terminated name from the loader. The handle is kept for ever.
        unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
    }
}

/// Calls `function` with the exit status when the process returns from `main` or calls `exit`, before the functions that were registered
/// earlier. There is one such function; later ones are ignored.
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

/// Number of this thread in the system. Async-signal-safe.
pub fn thread() -> i32 {
    // SAFETY: no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Stops this thread for good, but for signal handlers. Async-signal-safe.
pub fn park() -> ! {
    loop {
        // SAFETY: no preconditions.
        unsafe { libc::pause() };
    }
}

/// Waits for child `pid`, whatever its state.
pub fn wait(pid: Pid) {
    // SAFETY: a null status is allowed.
    let _ = retry(|| unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) } as isize);
}

/// Raises the number of descriptors that this process may open to at least `wanted`, within what the administrator allows. Returns
/// the earlier limit, to be restored in children with [`restore_descriptor_limit`].
pub fn allow_descriptors(wanted: u64) -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is writable.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    if limit.rlim_cur < wanted {
        let more = libc::rlimit {
            rlim_cur: wanted.min(limit.rlim_max),
            ..limit
        };
        // SAFETY: the structure is readable.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) })?;
    }
    Ok(limit)
}

/// Puts the descriptor limit back.
pub fn restore_descriptor_limit(limit: &libc::rlimit) {
    // SAFETY: the structure is readable.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
}

/// Whether the program was linked statically: then it has no dynamic loader, and opening a shared library crashes.
pub fn is_static() -> bool {
    // SAFETY: reads what the kernel said at the program's start.
    let (headers, count) = unsafe { (libc::getauxval(libc::AT_PHDR), libc::getauxval(libc::AT_PHNUM)) };
    let headers = headers as *const libc::Elf64_Phdr;
    // SAFETY: the program's own headers, which stay mapped; there are `count`.
    !headers.is_null() && !(0..count as usize).any(|i| unsafe { (*headers.add(i)).p_type } == libc::PT_INTERP)
}

/// Descriptors that are open now, or an estimate.
pub fn open_descriptors() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count() as u64)
}
