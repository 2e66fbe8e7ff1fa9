//! What signals do in a rank (GASNet-1 spec, "Signal handling").
//!
//! A fault is reported and then takes its default course: a core file, a debugger, and a supervisor that ends the job. A request to end
//! (SIGINT, SIGTERM, SIGHUP, SIGPIPE) becomes SIGQUIT if the client has a handler for that, and else the end of the job. SIGQUIT is what a
//! rank gets that has not called exit when others have.
//!
//! A handler that is there already stays, and a signal that is ignored stays ignored. Of SIGINT and SIGQUIT, which a shell makes its
//! background jobs ignore so that a terminal's keys pass them by, only those that the terminal sends stay ignored: raise and kill mean the
//! job. In a child that the client has forked, everything takes its default course.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use gasnet_tools::{backtrace, fatal, freeze, process as labels};

use super::control_block::Phase;
use super::{exit, Job, JOB};
use gasnet_sys::signal::{self, Disposition};
use gasnet_sys::{fd, mem, process};

const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
];
const REQUESTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE];

/// Room for handlers that must not use the stack that has just overflowed, with a backtrace in mind.
const STACK_BYTES: usize = 128 << 10;

static REPORTED: AtomicBool = AtomicBool::new(false);

/// Gives this thread, and the processes that it forks, a stack for signal handlers.
pub(super) fn prepare_stack() {
    if let Ok(base) = mem::map_private(STACK_BYTES) {
        // SAFETY: the mapping stays for ever.
        unsafe { signal::alternate_stack(base, STACK_BYTES) };
    }
}

/// Installs the handlers of a rank, except for the signals that the options exclude.
pub(super) fn install(job: &Job) {
    labels::set_proc(job.rank(), job.size());
    fatal::set_hook(abort_silently);
    // First, because the user may give one of the signals below to a backtrace or a debugger.
    backtrace::init();
    let wanted = |s: i32| !job.options.no_catch.contains(s) && signal::disposition(s) == Disposition::Default;
    for s in FAULTS.into_iter().filter(|&s| wanted(s)) {
        signal::handle(s, on_fault, &[]);
    }
    for s in REQUESTS.into_iter().filter(|&s| wanted(s)) {
        signal::handle(s, on_request, &[]);
    }
    if wanted(libc::SIGQUIT) {
        signal::handle(libc::SIGQUIT, on_quit, &[]);
    }
    let of_background = |s: i32| !job.options.no_catch.contains(s) && signal::disposition(s) == Disposition::Ignored;
    for s in [libc::SIGINT, libc::SIGQUIT].into_iter().filter(|&s| of_background(s)) {
        signal::handle(s, in_background, &[]);
    }
}

/// The end of a process whose fatal error has been reported.
fn abort_silently() -> ! {
    REPORTED.store(true, Ordering::Release);
    std::process::abort()
}

/// Whether the client has installed a SIGQUIT handler of its own. Async-signal-safe.
pub(super) fn client_has_quit_handler() -> bool {
    let ours = [on_quit as *const () as usize, in_background as *const () as usize];
    matches!(signal::disposition(libc::SIGQUIT), Disposition::Handler(h) if !ours.contains(&h))
}

/// The job, if this process is a rank and not a child of one.
fn own_job() -> Option<&'static Job> {
    JOB.get().filter(|job| job.is_own_process())
}

/// The default action follows when the handler returns.
fn default_course(number: i32) {
    signal::set_default(number);
    signal::raise(number);
}

extern "C" fn on_fault(number: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(job) = own_job() else { return default_course(number) };
    if exit::by_another_thread() {
        // A thread that the end of the process has surprised: the exit code stands.
        process::park();
    }
    if !REPORTED.swap(true, Ordering::AcqRel) {
        report(job, number);
        freeze::on_error();
        backtrace::print_if_enabled(2);
    }
    default_course(number);
}

/// Writes what a higher layer knows about the place of a fault, beginning with a comma, or nothing. Async-signal-safe.
pub type FaultNote = fn(&mut dyn Write);

static FAULT_NOTE: OnceLock<FaultNote> = OnceLock::new();

/// Sets what adds to the report of a fatal signal. The first call wins.
pub fn set_fault_note(note: FaultNote) {
    let _ = FAULT_NOTE.set(note);
}

/// One line on standard error, made without the allocator.
fn report(job: &Job, number: i32) {
    let mut line = [0u8; 400];
    let mut rest = &mut line[..399];
    let name = signal_name(number);
    let _ = write!(
        rest,
        "*** Caught a fatal signal (rank {}/{}): {name}({number})",
        job.rank(),
        job.size()
    );
    if let Some(note) = FAULT_NOTE.get() {
        note(&mut rest);
    }
    let used = 400 - rest.len();
    line[used - 1] = b'\n';
    let _ = fd::write_all(2, &line[..used]);
}

/// The name of a signal, or "signal" for a number without a name. Async-signal-safe.
pub(super) fn signal_name(number: i32) -> &'static str {
    signal::name(number).unwrap_or("signal")
}

extern "C" fn on_request(number: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(job) = own_job() else { return default_course(number) };
    // That a reader has gone asks for nothing more.
    if number != libc::SIGPIPE {
        exit::asked(job, number);
    }
    if exit::begun() {
        return;
    }
    exit::by_signal(number);
    if client_has_quit_handler() {
        signal::raise(libc::SIGQUIT);
    }
    job.exit(128 + number)
}

/// For what a shell made this background job ignore.
extern "C" fn in_background(number: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure.
    if !unsafe { signal::sent_by_process(info) } {
        return;
    }
    match number {
        libc::SIGQUIT => on_quit(number, info, context),
        _ => on_request(number, info, context),
    }
}

extern "C" fn on_quit(number: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(job) = own_job() else { return default_course(number) };
    // An agent sends this signal itself, to those who are late.
    if job.control_socket.is_none() {
        exit::asked(job, number);
    }
    if exit::begun() {
        return;
    }
    let code = if job.control.phase() < Phase::Leave {
        128 + number
    } else {
        job.control.code()
    };
    exit::by_signal(number);
    job.exit(code)
}
