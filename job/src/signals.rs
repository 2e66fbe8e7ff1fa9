//! Signals in a rank (GASNet-1 spec, "Signal handling").
//!
//! - A fault is reported and then takes its default action: a core file or a debugger, and a node
//!   agent that ends the job.
//! - A request to end (SIGINT, SIGTERM, SIGHUP, SIGPIPE) becomes SIGQUIT if the client has a
//!   handler for that, else it ends the job.
//! - SIGQUIT is sent to ranks that have not called exit when others have.
//!
//! Existing handlers stay, and ignored signals stay ignored. Shells make background jobs ignore
//! SIGINT and SIGQUIT, so that terminal keys do not reach them. For these two, only signals from
//! the terminal stay ignored: raise and kill end the job. In a child that the client has forked,
//! all signals take their default action.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use gasnet_conduit::config;
use gasnet_tools::{backtrace, fatal, freeze, process as labels};

use super::control_block::Phase;
use super::exit;
use super::job::{self, Job};
use gasnet_sys::signal::{self, Disposition};
use gasnet_sys::{fd, process};

/// Faults of the program.
const FAULTS: [i32; 6] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
    libc::SIGSYS,
];
const REQUESTS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE];

static REPORTED: AtomicBool = AtomicBool::new(false);

/// Installs the handlers of a rank, except for signals that `GASNET_NO_CATCH_SIGNAL` excludes.
pub(super) fn install(job: &Job) {
    labels::set_proc(job.rank(), job.size());
    fatal::set_hook(abort_silently);
    // First, because the user may configure one of the signals below for a backtrace or a debugger.
    backtrace::init();
    let excluded = config::get().get(&config::NO_CATCH_SIGNAL);
    let is = |s: i32, disposition| {
        excluded.as_ref().is_none_or(|excluded| !excluded.contains(s)) && signal::disposition(s) == disposition
    };
    let wanted = |s: i32| is(s, Disposition::Default);
    for s in FAULTS.into_iter().filter(|&s| wanted(s)) {
        signal::handle(s, on_fault, &[]);
    }
    for s in REQUESTS.into_iter().filter(|&s| wanted(s)) {
        signal::handle(s, on_request, &[]);
    }
    if wanted(libc::SIGQUIT) {
        signal::handle(libc::SIGQUIT, on_quit, &[]);
    }
    let of_background = [libc::SIGINT, libc::SIGQUIT].into_iter();
    for s in of_background.filter(|&s| is(s, Disposition::Ignored)) {
        signal::handle(s, in_background, &[]);
    }
}

/// Ends a process whose fatal error was already reported.
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
    job::current().filter(|job| job.is_own_process())
}

/// Takes the default action once the handler returns.
fn default_course(number: i32) {
    signal::set_default(number);
    signal::raise(number);
}

extern "C" fn on_fault(number: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(job) = own_job() else {
        return default_course(number);
    };
    if exit::by_another_thread() {
        // A fault in another thread while the process ends: the exit code stands.
        process::park();
    }
    if !REPORTED.swap(true, Ordering::AcqRel) {
        report(job, number);
        freeze::on_error();
        backtrace::print_if_enabled(2);
    }
    job.report_fault(number);
    default_course(number);
}

/// Writes what a higher layer knows about the faulting address, starting with a comma, or nothing.
/// Async-signal-safe.
pub type FaultNote = fn(&mut dyn Write);

static FAULT_NOTE: OnceLock<FaultNote> = OnceLock::new();

/// Sets the addition to the report of a fatal signal. The first call wins.
pub fn set_fault_note(note: FaultNote) {
    let _ = FAULT_NOTE.set(note);
}

/// Writes one line to standard error, without the allocator.
fn report(job: &Job, number: i32) {
    let mut line = [0u8; 400];
    let mut rest = &mut line[..399];
    let name = signal::name(number).unwrap_or("signal");
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

extern "C" fn on_request(number: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let Some(job) = own_job() else {
        return default_course(number);
    };
    // A closed reader does not ask for the job's end.
    if number != libc::SIGPIPE {
        exit::request_termination(job, number);
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

/// For signals that a shell made this background job ignore.
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
    let Some(job) = own_job() else {
        return default_course(number);
    };
    // The node agent itself sends this signal to late ranks.
    if job.control_socket.is_none() {
        exit::request_termination(job, number);
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
