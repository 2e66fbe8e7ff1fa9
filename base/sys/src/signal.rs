//! Signals: names, dispositions, masks, timers, alternate stacks.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;

use crate::mem;

/// Names of constants of the C library, with their values.
macro_rules! names {
    ($($name:ident)*) => {
        &[$((
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name has no NUL"),
            },
            libc::$name,
        )),*]
    };
}

/// The signals that have names; of several names for one number, the usual one comes first.
const NAMES: &[(&CStr, i32)] = names! {
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGIOT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE
    SIGALRM SIGTERM SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF
    SIGWINCH SIGIO SIGPOLL SIGSYS SIGSTKFLT SIGPWR
};

/// The name of a signal, such as `SIGINT`; none for a number without a name. Async-signal-safe.
pub fn name(signal: i32) -> Option<&'static str> {
    c_name(signal)?.to_str().ok()
}

/// As [`name`], for C.
pub fn c_name(signal: i32) -> Option<&'static CStr> {
    NAMES
        .iter()
        .find(|(_, number)| *number == signal)
        .map(|(name, _)| *name)
}

/// The number of the signal `name`, with or without `SIG`, in upper or lower case.
pub fn number(name: &str) -> Option<i32> {
    let matches = |full: &&CStr| {
        let full = full.to_bytes();
        full.eq_ignore_ascii_case(name.as_bytes()) || full[3..].eq_ignore_ascii_case(name.as_bytes())
    };
    NAMES.iter().find(|(full, _)| matches(full)).map(|(_, number)| *number)
}

/// Effect of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The default action.
    Default,
    /// Nothing.
    Ignored,
    /// Calls the function at this address.
    Handler(usize),
}

/// A handler with the extended signature.
pub type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// The present disposition of `signal`.
pub fn disposition(signal: i32) -> Disposition {
    match saved(signal).map_or(libc::SIG_DFL, |a| a.sa_sigaction) {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignored,
        address => Disposition::Handler(address),
    }
}

/// The action of `signal`, for [`restore`]. None for numbers that the C library reserves.
pub fn saved(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the structure is writable.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid sigaction, and the call has filled it.
    (result == 0).then(|| unsafe { action.assume_init() })
}

/// Restores an action that [`saved`] returned.
pub fn restore(signal: i32, action: &libc::sigaction) {
    // SAFETY: the structure came from the system.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

/// Installs a handler, which runs on the alternate stack if the thread has one, with the signals in
/// `blocked` blocked. System calls that it interrupts restart where that is possible.
pub fn handle(signal: i32, handler: Handler, blocked: &[i32]) {
    // SAFETY: zeroed memory is a valid sigaction.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    action.sa_mask = set_of(blocked);
    restore(signal, &action);
}

/// Installs a handler of any form, `SIG_DFL` or `SIG_IGN`, as `signal(3)` does; returns the
/// previous one, or `SIG_ERR`.
pub fn set_handler(signal: i32, handler: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: zeroed memory is a valid sigaction: no flags, an empty mask, SIG_DFL.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: both structures are valid; the caller vouches for its handler.
    if unsafe { libc::sigaction(signal, &raw const new, &raw mut old) } == 0 {
        old.sa_sigaction
    } else {
        libc::SIG_ERR
    }
}

/// Runs the body of a signal handler without changing the `errno` of the interrupted code.
/// Async-signal-safe.
pub fn preserving_errno(body: impl FnOnce()) {
    // SAFETY: the address of this thread's errno is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    body();
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Sets the default action. Async-signal-safe.
pub fn set_default(signal: i32) {
    set_simple(signal, libc::SIG_DFL);
}

/// Makes a signal have no effect.
pub fn ignore(signal: i32) {
    set_simple(signal, libc::SIG_IGN);
}

fn set_simple(signal: i32, what: usize) {
    // SAFETY: zeroed memory is a valid sigaction.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = what;
    restore(signal, &action);
}

/// The signal mask of a thread.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// Signals of a thread's own faults. While one is blocked, a fault kills the process whatever
/// handler it has.
pub const FAULTS: [i32; 7] = [
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGTRAP,
];

/// These signals. Async-signal-safe.
fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for &signal in signals {
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: zeroed memory is a valid set.
    unsafe { set.assume_init() }
}

/// Blocks all signals but those of faults in this thread; returns its previous mask.
pub fn block_all() -> Mask {
    let before = mask();
    let mut all = set_of(&[]);
    // SAFETY: the set is writable.
    unsafe { libc::sigfillset(&raw mut all) };
    for fault in FAULTS {
        // SAFETY: the set is initialised.
        unsafe { libc::sigdelset(&raw mut all, fault) };
    }
    set_mask(&Mask(all));
    before
}

/// The signal mask of this thread.
pub fn mask() -> Mask {
    let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable, and initialised afterwards.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, ptr::null(), mask.as_mut_ptr());
        Mask(mask.assume_init())
    }
}

/// Sets the mask of this thread.
pub fn set_mask(mask: &Mask) {
    // SAFETY: the set is valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, ptr::null_mut()) };
}

/// Unblocks `signals` in this thread. Async-signal-safe.
pub fn unblock(signals: &[i32]) {
    // SAFETY: the set is valid.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set_of(signals), ptr::null_mut()) };
}

/// Unblocks all signals in this thread.
pub fn unblock_all() {
    set_mask(&Mask(set_of(&[])));
}

/// Sends a signal to this thread. Async-signal-safe.
pub fn raise(signal: i32) {
    // SAFETY: takes a number.
    unsafe { libc::raise(signal) };
}

const ITIMER_REAL: i32 = 0;
const ITIMER_VIRTUAL: i32 = 1;
const ITIMER_PROF: i32 = 2;

/// Raises SIGALRM every `milliseconds`; 0 stops that. Async-signal-safe.
pub fn repeat_alarm(milliseconds: i32) {
    let time = libc::timeval {
        tv_sec: libc::time_t::from(milliseconds / 1000),
        tv_usec: libc::suseconds_t::from(milliseconds % 1000) * 1000,
    };
    set_timer(ITIMER_REAL, time);
}

/// Stops the interval timers of this process.
pub fn stop_timers() {
    for which in [ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF] {
        set_timer(which, libc::timeval { tv_sec: 0, tv_usec: 0 });
    }
}

fn set_timer(which: i32, time: libc::timeval) {
    let value = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the structure is readable.
    unsafe { libc::setitimer(which as _, &raw const value, ptr::null_mut()) };
}

/// An action in the kernel's form on x86-64, AArch64 and POWER.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

/// Sets the handler of a signal that the C library keeps for itself. The handler must not return.
pub fn handle_reserved(signal: i32, handler: Handler) {
    /// The kernel of x86-64 takes no action without it.
    const SA_RESTORER: libc::c_ulong = 0x0400_0000;
    let action = KernelAction {
        handler: handler as usize,
        flags: libc::SA_SIGINFO as libc::c_ulong | SA_RESTORER,
        // The address to which a handler returns.
        restorer: handler as usize,
        mask: 0,
    };
    let none = ptr::null_mut::<KernelAction>();
    // SAFETY: the structure is that of the kernel, which the C library does not see.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const action,
            none,
            size_of::<u64>(),
        )
    };
}

/// Bytes of an alternate signal stack: enough for a backtrace.
const STACK_BYTES: usize = 128 << 10;
/// Bytes below it that are not accessible. A multiple of any page size.
const GUARD_BYTES: usize = 64 << 10;

/// An alternate signal stack, on which a thread whose own stack has overflowed runs its handlers.
#[derive(Debug)]
pub struct AlternateStack(usize);

impl AlternateStack {
    /// Gives this thread one, unless it has one or there is no memory.
    pub fn install() -> Option<Self> {
        if current_stack()?.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let below = mem::map_private(GUARD_BYTES + STACK_BYTES).ok()?;
        let _ = mem::forbid(below, GUARD_BYTES);
        let base = below + GUARD_BYTES;
        let stack = libc::stack_t {
            ss_sp: base as *mut libc::c_void,
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        // SAFETY: the mapping lasts until `remove`, which takes the stack away first.
        unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
        Some(Self(base))
    }

    /// Frees it. Called on its own thread; has no effect in a handler that runs on it.
    pub fn remove(self) {
        let is_own = |stack: &libc::stack_t| stack.ss_sp as usize == self.0;
        if current_stack().as_ref().is_some_and(is_own) {
            let none = libc::stack_t {
                ss_sp: ptr::null_mut(),
                ss_flags: libc::SS_DISABLE,
                ss_size: 0,
            };
            // SAFETY: the structure is valid.
            if unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) } != 0 {
                return;
            }
        }
        // SAFETY: its own mapping, which no thread uses as a stack any more.
        unsafe { mem::unmap(self.0 - GUARD_BYTES, GUARD_BYTES + STACK_BYTES) };
    }
}

/// The alternate signal stack of this thread.
fn current_stack() -> Option<libc::stack_t> {
    let mut stack = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: the structure is writable.
    let result = unsafe { libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid stack_t.
    (result == 0).then(|| unsafe { stack.assume_init() })
}

/// Whether a process sent the signal that `info` describes. If not, the kernel did: a terminal's
/// Ctrl-C, a fault.
///
/// # Safety
/// `info` came from the system.
pub unsafe fn sent_by_process(info: *const libc::siginfo_t) -> bool {
    // SAFETY: the caller's promise.
    !info.is_null() && unsafe { (*info).si_code } <= 0
}

/// The largest signal number.
pub fn last() -> i32 {
    libc::SIGRTMAX()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_alternate_stack() {
        let present = || current_stack().unwrap().ss_sp as usize;
        let run = move || {
            // Rust gives its threads one where it handles overflows itself.
            if let Some(earlier) = current_stack().filter(|stack| stack.ss_flags & libc::SS_DISABLE == 0) {
                assert!(AlternateStack::install().is_none());
                assert_eq!(present(), earlier.ss_sp as usize);
                let none = libc::stack_t {
                    ss_sp: ptr::null_mut(),
                    ss_flags: libc::SS_DISABLE,
                    ss_size: 0,
                };
                // SAFETY: the structure is valid.
                unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
            }
            let own = AlternateStack::install().unwrap();
            assert_eq!(present(), own.0);
            assert!(AlternateStack::install().is_none());
            own.remove();
            assert_ne!(current_stack().unwrap().ss_flags & libc::SS_DISABLE, 0);
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(name(libc::SIGINT), Some("SIGINT"));
        assert_eq!(c_name(libc::SIGIO), Some(c"SIGIO"));
        assert_eq!((name(0), name(63)), (None, None));
        for text in ["SIGSEGV", "SEGV", "sigsegv", "Segv"] {
            assert_eq!(number(text), Some(libc::SIGSEGV), "{text}");
        }
        for text in ["", "SIG", "SIGSIGINT", "SIGNOPE"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
