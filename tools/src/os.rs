//! System calls and other unsafe primitives, each wrapped in a safe function.

use std::ffi::{c_char, c_void, CStr, CString};
use std::path::Path;
use std::sync::atomic::AtomicI32;

use libc::c_int;

use crate::{backtrace, freeze};

/// Process id.
pub fn pid() -> i32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() }
}

/// The kernel's id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: gettid has no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as i32 }
}

/// Number of threads of this process.
pub fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count)
}

/// Ends the process with SIGABRT.
pub fn abort() -> ! {
    // SAFETY: abort has no preconditions.
    unsafe { libc::abort() }
}

/// Ends the process at once, all threads included, without exit handlers.
pub fn exit_now(code: c_int) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(code) }
}

/// Lets other threads run.
pub fn yield_now() {
    // SAFETY: sched_yield has no preconditions.
    unsafe { libc::sched_yield() };
}

/// Writes everything, giving up at the first error: used for diagnostics only.
pub fn write_all(fd: c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and length describe `bytes`.
        let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) if written > 0 => bytes = &bytes[written.min(bytes.len())..],
            _ if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

// ---- environment ----

/// The address of a variable's value, or null.
pub fn getenv(name: &CStr) -> *const c_char {
    // SAFETY: `name` is a C string.
    unsafe { libc::getenv(name.as_ptr()) }
}

/// Sets a variable.
pub fn setenv(name: &CStr, value: &CStr) {
    // SAFETY: both are C strings, which setenv copies. That no other thread reads the environment meanwhile is the
    // caller's duty, as for the C function.
    unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// Removes a variable.
pub fn unsetenv(name: &CStr) {
    // SAFETY: as for setenv.
    unsafe { libc::unsetenv(name.as_ptr()) };
}

/// A copy of the C string at `address`; `None` for null.
pub fn text_at(address: *const c_char) -> Option<String> {
    if address.is_null() {
        return None;
    }
    // SAFETY: all callers pass null or a C string of the environment or of a C caller.
    let text = unsafe { CStr::from_ptr(address) };
    Some(text.to_string_lossy().into_owned())
}

/// The value of a variable that is text, without a copy and without allocation. Good until the variable is changed.
pub fn env_str(name: &CStr) -> Option<&'static str> {
    let value = getenv(name);
    if value.is_null() {
        return None;
    }
    // SAFETY: a C string of the environment; changing it meanwhile is the caller's duty not to do, as for getenv.
    unsafe { CStr::from_ptr(value) }.to_str().ok()
}

/// Runs `function` when the process ends by `exit` or by returning from `main`.
pub fn at_exit(function: extern "C" fn()) {
    // SAFETY: the function is part of the library, which is never unloaded.
    let failed = unsafe { libc::atexit(function) };
    if failed != 0 {
        crate::process::warn(format_args!("no room for another exit handler"));
    }
}

// ---- time ----

/// The monotonic clock in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps; false with `errno` EINTR if a signal ended the sleep early.
pub fn sleep_ns(ns: u64) -> bool {
    if ns == 0 {
        return true;
    }
    let time = libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as _,
    };
    // SAFETY: `time` is a valid interval; the remaining time is not asked for.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) == 0 }
}

/// The time-stamp counter; only called where [`tsc_is_invariant`].
#[cfg(target_arch = "x86_64")]
pub fn tsc() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The time-stamp counter; only called where [`tsc_is_invariant`].
#[cfg(not(target_arch = "x86_64"))]
pub fn tsc() -> u64 {
    monotonic_ns()
}

/// Whether the time-stamp counter runs at one rate in all power states.
#[cfg(target_arch = "x86_64")]
pub fn tsc_is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    // Every x86-64 processor has cpuid, and leaf 0x80000000 tells the highest extended leaf.
    #[allow(unused_unsafe)]
    // SAFETY: see above.
    let has_leaf = unsafe { __cpuid(0x8000_0000) }.eax >= POWER_LEAF;
    #[allow(unused_unsafe)]
    // SAFETY: see above.
    let power = unsafe { __cpuid(POWER_LEAF) };
    has_leaf && power.edx & INVARIANT_TSC != 0
}

/// Whether the time-stamp counter runs at one rate in all power states.
#[cfg(not(target_arch = "x86_64"))]
pub fn tsc_is_invariant() -> bool {
    false
}

// ---- machine ----

/// A system property; `None` if unknown.
pub fn sysconf(name: c_int) -> Option<i64> {
    // SAFETY: sysconf accepts any number.
    let value = unsafe { libc::sysconf(name) };
    (value > 0).then_some(value)
}

/// The host's name as the system reports it.
pub fn hostname() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the length leaves room for a terminating zero.
    let rc = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let end = name.iter().position(|b| *b == 0).unwrap_or(0);
    if rc == 0 && end > 0 {
        String::from_utf8_lossy(&name[..end]).into_owned()
    } else {
        "unknown".to_owned()
    }
}

/// Binds the calling thread to one processor.
pub fn bind_to_cpu(cpu: usize) -> bool {
    if cpu >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: a cpu_set_t is a bit mask, for which all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is valid and of the stated size; 0 means the calling thread.
    unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) == 0 }
}

/// Raises the soft limit of a resource to the hard one.
pub fn raise_limit(resource: c_int) -> bool {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for the result; an unknown resource is an error.
    if unsafe { libc::getrlimit(resource as _, &mut limit) } != 0 {
        return false;
    }
    if limit.rlim_cur == limit.rlim_max {
        return true;
    }
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` holds values that the kernel gave.
    unsafe { libc::setrlimit(resource as _, &limit) == 0 }
}

/// Fresh zeroed memory, or null.
pub fn map_anonymous(bytes: usize) -> *mut c_void {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the kernel chooses touches no existing memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        std::ptr::null_mut()
    } else {
        address
    }
}

/// Whether `file` exists and may be executed.
pub fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

// ---- signals ----

/// What a watched signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Waits for a debugger.
    Freeze,
    /// Prints a backtrace and goes on.
    Backtrace,
}

extern "C" fn on_freeze_signal(_: c_int) {
    preserving_errno(freeze::here);
}

extern "C" fn on_backtrace_signal(_: c_int) {
    preserving_errno(|| {
        backtrace::print(2);
    });
}

/// Runs a signal handler's body without its changes to `errno` becoming visible to the code it interrupted.
fn preserving_errno(body: impl FnOnce()) {
    // SAFETY: the address of the calling thread's errno is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    let saved = unsafe { *errno };
    body();
    // SAFETY: see above.
    unsafe { *errno = saved };
}

/// Installs the reaction to a signal; false if the signal cannot be caught.
pub fn react(signal: c_int, reaction: Reaction) -> bool {
    let handler: extern "C" fn(c_int) = match reaction {
        Reaction::Freeze => on_freeze_signal,
        Reaction::Backtrace => on_backtrace_signal,
    };
    set_handler(signal, handler as libc::sighandler_t) != libc::SIG_ERR
}

/// Installs a handler and returns the previous one, or `SIG_ERR`.
pub fn set_handler(signal: c_int, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: all zeros is a valid sigaction: no flags, an empty mask, SIG_DFL.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structures are valid; the handler is SIG_DFL, SIG_IGN or a function of the caller's.
    if unsafe { libc::sigaction(signal, &new, &mut old) } == 0 {
        old.sa_sigaction
    } else {
        libc::SIG_ERR
    }
}

// ---- backtraces ----

/// Loads what `backtrace` needs now, because loading allocates.
pub fn prepare_execinfo() {
    let mut frames = [std::ptr::null_mut::<c_void>(); 2];
    // SAFETY: the array has room for the two frames asked for.
    unsafe { libc::backtrace(frames.as_mut_ptr(), 2) };
}

/// Writes the calling thread's frames to `fd`; false if there are none.
pub fn print_execinfo(fd: c_int) -> bool {
    let mut frames = [std::ptr::null_mut::<c_void>(); 128];
    // SAFETY: the array has room for the 128 frames asked for.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), 128) };
    // SAFETY: `count` frames were written; the function does not allocate.
    unsafe { libc::backtrace_symbols_fd(frames.as_ptr(), count, fd) };
    count > 0
}

/// `gasnett_backtrace_type_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UserBacktrace {
    name: *const c_char,
    function: Option<extern "C-unwind" fn(c_int) -> c_int>,
    threads: c_int,
}

impl UserBacktrace {
    /// The mechanism's name.
    pub fn name(&self) -> Option<String> {
        text_at(self.name)
    }

    /// Whether it works with several threads.
    pub fn supports_threads(&self) -> bool {
        self.threads != 0
    }

    /// Runs it; true on success.
    pub fn call(&self, fd: c_int) -> bool {
        self.function.is_some_and(|function| function(fd) == 0)
    }
}

extern "C" {
    fn gasnetti_backtrace_user() -> *const UserBacktrace;
    static gasnetti_tick_source: AtomicI32;
    static gasnetti_frozen: AtomicI32;
    static mut gasnett_print_backtrace_ifenabled: Option<extern "C-unwind" fn(c_int) -> c_int>;
}

/// The client's mechanism, if it defined one.
pub fn user_backtrace() -> Option<UserBacktrace> {
    // SAFETY: the C function returns the address of a variable that lives as long as the program.
    let user = unsafe { gasnetti_backtrace_user().as_ref() }?;
    (!user.name.is_null() && user.function.is_some()).then_some(*user)
}

/// Calls the pointer that clients may replace; true on success.
pub fn print_ifenabled(fd: c_int) -> bool {
    // SAFETY: the variable holds a function of ours or the client's, or null; clients set it before errors happen.
    let function = unsafe { std::ptr::addr_of!(gasnett_print_backtrace_ifenabled).read() };
    function.is_some_and(|function| function(fd) == 0)
}

/// The exported `gasnetti_tick_source`.
pub fn tick_source() -> &'static AtomicI32 {
    // SAFETY: an int of the C part, which C code only reads.
    unsafe { &gasnetti_tick_source }
}

/// The exported `gasnetti_frozen`, which a debugger clears.
pub fn frozen_flag() -> &'static AtomicI32 {
    // SAFETY: an int of the C part, which only this crate and a debugger access.
    unsafe { &gasnetti_frozen }
}

/// Output of a child process, in nameless memory: the child may write while this process is stopped.
#[derive(Debug)]
pub struct Captured {
    fd: c_int,
}

impl Captured {
    /// Empty.
    pub fn new() -> Option<Self> {
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::memfd_create(c"gasnet-backtrace".as_ptr(), libc::MFD_CLOEXEC) };
        (fd >= 0).then_some(Self { fd })
    }

    /// Where to write.
    pub fn fd(&self) -> c_int {
        self.fd
    }

    /// Calls `each` with successive pieces; `overlap` bytes of each piece are repeated at the start of the next.
    fn pieces(&self, overlap: usize, mut each: impl FnMut(&[u8]) -> bool) -> bool {
        let mut piece = [0_u8; 4096];
        let mut offset = 0;
        loop {
            // SAFETY: the buffer is valid for its length.
            let count = unsafe { libc::pread(self.fd, piece.as_mut_ptr().cast(), piece.len(), offset) };
            let count = usize::try_from(count).unwrap_or(0);
            if count == 0 || (offset > 0 && count <= overlap) {
                return false;
            }
            if each(&piece[..count]) {
                return true;
            }
            offset += (count - overlap.min(count - 1)) as libc::off_t;
        }
    }

    /// Whether the output contains `text`.
    pub fn contains(&self, text: &[u8]) -> bool {
        self.pieces(text.len() - 1, |piece| piece.windows(text.len()).any(|w| w == text))
    }

    /// Writes the output to `fd`.
    pub fn copy_to(&self, fd: c_int) {
        self.pieces(0, |piece| {
            write_all(fd, piece);
            false
        });
    }

    /// Calls `each` with every line of the output. A very long one comes in parts.
    pub fn each_line(&self, each: impl Fn(&[u8])) {
        let mut line = [0_u8; 1000];
        let mut used = 0;
        self.pieces(0, |piece| {
            for &byte in piece {
                if byte == b'\n' || used == line.len() {
                    each(&line[..used]);
                    used = 0;
                }
                if byte != b'\n' {
                    line[used] = byte;
                    used += 1;
                }
            }
            false
        });
        if used > 0 {
            each(&line[..used]);
        }
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and open.
        unsafe { libc::close(self.fd) };
    }
}

const MAX_ARGUMENTS: usize = 15;

/// Runs a command (with one more argument) that may trace this process and returns its output; `None` if it could not be started, failed or took
/// longer than `limit_ms`. Uses only what a signal handler may.
pub fn run_captured(command: &[CString], last: Option<&CStr>, limit_ms: u64) -> Option<Captured> {
    if command.len() >= MAX_ARGUMENTS {
        return None;
    }
    let mut arguments = [std::ptr::null::<c_char>(); MAX_ARGUMENTS + 1];
    let all = command.iter().map(CString::as_c_str).chain(last);
    for (slot, argument) in arguments.iter_mut().zip(all) {
        *slot = argument.as_ptr();
    }
    let output = Captured::new()?;
    // SAFETY: plain integers; lets a child attach where the kernel would only let a parent.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    // SAFETY: the child calls async-signal-safe functions only, until it becomes another program.
    let child = unsafe { libc::fork() };
    if child == 0 {
        become_command(&arguments, output.fd());
    }
    if child < 0 {
        return None;
    }
    wait_for(child, limit_ms).then_some(output)
}

/// In the child: replaces the process by the command, with its output in `fd`.
fn become_command(arguments: &[*const c_char; MAX_ARGUMENTS + 1], fd: c_int) -> ! {
    // SAFETY: the path is a C string.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
    for (from, to) in [(null, 0), (fd, 1), (null, 2)] {
        // SAFETY: a bad descriptor is an error that changes nothing.
        unsafe { libc::dup2(from, to) };
    }
    // SAFETY: the array ends with a null pointer, and its strings outlive the call.
    unsafe { libc::execv(arguments[0], arguments.as_ptr()) };
    exit_now(127)
}

/// Waits for a child; true if it ended with status 0 in time. A child that is late is killed.
fn wait_for(child: libc::pid_t, limit_ms: u64) -> bool {
    const STEP_MS: u64 = 10;
    let mut status = 0;
    let mut waited = 0;
    loop {
        // SAFETY: `status` is a valid place for the result.
        let rc = unsafe { libc::waitpid(child, &mut status, if waited < limit_ms { libc::WNOHANG } else { 0 }) };
        if rc == child {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        let interrupted = rc < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted;
        if rc < 0 && !interrupted {
            return false;
        }
        sleep_ns(STEP_MS * 1_000_000);
        waited += STEP_MS;
        if waited >= limit_ms {
            // SAFETY: `child` is our child and not yet waited for, so the number is still its.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_frozen_process_goes_on_when_the_flag_is_cleared() {
        let helper = std::thread::spawn(|| {
            while frozen_flag().load(Ordering::SeqCst) == 0 {
                yield_now();
            }
            frozen_flag().store(0, Ordering::SeqCst);
        });
        freeze::here();
        helper.join().unwrap();
    }

    #[test]
    fn captured_output() {
        let command: Vec<CString> = ["/bin/sh", "-c", "echo one two"]
            .iter()
            .map(|s| CString::new(*s).unwrap())
            .collect();
        let output = run_captured(&command, None, 20_000).unwrap();
        assert!(output.contains(b"one two"));
        let failing: Vec<CString> = ["/bin/false"].iter().map(|s| CString::new(*s).unwrap()).collect();
        assert!(run_captured(&failing, None, 20_000).is_none());
        let slow: Vec<CString> = ["/bin/sleep"].iter().map(|s| CString::new(*s).unwrap()).collect();
        assert!(run_captured(&slow, Some(c"100"), 100).is_none());
    }
}
