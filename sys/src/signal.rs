//! Signals: dispositions, masks, timers, alternate stacks.

use std::mem::MaybeUninit;
use std::ptr;

/// What a signal does.
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

/// What `signal` does now.
pub fn disposition(signal: i32) -> Disposition {
    match saved(signal).map_or(libc::SIG_DFL, |a| a.sa_sigaction) {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignored,
        address => Disposition::Handler(address),
    }
}

/// The whole state of `signal`, for [`restore`]. None for numbers that the system keeps for itself.
pub fn saved(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the structure is writable.
    let result = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid sigaction, and the call has filled it.
    (result == 0).then(|| unsafe { action.assume_init() })
}

/// Puts back what [`saved`] returned.
pub fn restore(signal: i32, action: &libc::sigaction) {
    // SAFETY: the structure came from the system.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

/// Installs a handler. System calls that it interrupts are restarted where that is possible; it runs on the alternate stack if the
/// thread has one, and with `blocked` signals held back.
pub fn handle(signal: i32, handler: Handler, blocked: &[i32]) {
    // SAFETY: zeroed memory is a valid sigaction.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    for &other in blocked {
        // SAFETY: the set is inside a valid structure.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, other) };
    }
    restore(signal, &action);
}

/// Sets the default action. Async-signal-safe.
pub fn set_default(signal: i32) {
    set_simple(signal, libc::SIG_DFL);
}

/// Makes a signal do nothing.
pub fn ignore(signal: i32) {
    set_simple(signal, libc::SIG_IGN);
}

fn set_simple(signal: i32, what: usize) {
    // SAFETY: zeroed memory is a valid sigaction.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = what;
    restore(signal, &action);
}

/// A set of signals that was blocked before.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// Blocks all signals in this thread; returns what was blocked before.
pub fn block_all() -> Mask {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    let mut old = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: both sets are valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr()) };
    // SAFETY: zeroed memory is a valid set, and the call has filled it.
    Mask(unsafe { old.assume_init() })
}

/// Blocks what `mask` says and nothing else.
pub fn set_mask(mask: &Mask) {
    // SAFETY: the set is valid.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask.0, ptr::null_mut()) };
}

/// Lets `signals` through in this thread. Async-signal-safe.
pub fn unblock(signals: &[i32]) {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for &signal in signals {
        // SAFETY: the set is initialised.
        unsafe { libc::sigaddset(set.as_mut_ptr(), signal) };
    }
    // SAFETY: the set is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, set.as_ptr(), ptr::null_mut()) };
}

/// Lets no signal be blocked in this thread.
pub fn unblock_all() {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: the set is writable.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: the set is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, set.as_ptr(), ptr::null_mut()) };
}

/// Sends a signal to this thread. Async-signal-safe.
pub fn raise(signal: i32) {
    // SAFETY: takes a number.
    unsafe { libc::raise(signal) };
}

const ITIMER_REAL: i32 = 0;
const ITIMER_VIRTUAL: i32 = 1;
const ITIMER_PROF: i32 = 2;

/// SIGALRM every `milliseconds`; 0 stops it. Async-signal-safe.
pub fn repeat_alarm(milliseconds: i32) {
    let time = libc::timeval {
        tv_sec: libc::time_t::from(milliseconds / 1000),
        tv_usec: libc::suseconds_t::from(milliseconds % 1000) * 1000,
    };
    set_timer(ITIMER_REAL, time);
}

/// Stops the timers that a client may have set: children do not inherit them, and a supervisor has no use for them.
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

/// Gives this thread an alternate stack of `bytes` at `base`, unless it has one.
///
/// # Safety
/// The memory stays valid for the rest of the thread's life.
pub unsafe fn alternate_stack(base: usize, bytes: usize) {
    let mut old = MaybeUninit::<libc::stack_t>::zeroed();
    // SAFETY: the structure is writable.
    let known = unsafe { libc::sigaltstack(ptr::null(), old.as_mut_ptr()) } == 0;
    // SAFETY: zeroed memory is a valid stack_t.
    let old = unsafe { old.assume_init() };
    if known && old.ss_flags & libc::SS_DISABLE != 0 {
        let stack = libc::stack_t {
            ss_sp: base as *mut libc::c_void,
            ss_flags: 0,
            ss_size: bytes,
        };
        // SAFETY: the memory is the caller's promise.
        unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
    }
}

/// Whether `info` describes a signal that a process sent (as opposed to the kernel: a terminal's Ctrl-C, a fault).
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
