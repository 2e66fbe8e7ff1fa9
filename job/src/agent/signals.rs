//! The signals of a node agent, as a queue. It uses a handler and does not block signals, because
//! other threads of the client may still exist.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use gasnet_sys::{fd, signal};

/// Signals forwarded to all ranks when a process sent them. (Those of a terminal reach the ranks of
/// its host themselves.)
const FORWARDED: [i32; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

/// Signals that ask a job to end.
pub const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Signals that keep their default action in the agent, besides faults.
const STOPS: [i32; 4] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT];

static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

/// The queue, and what it has contained.
pub struct Signals {
    reader: OwnedFd,
    pub in_shutdown: bool,
    /// A signal that asks for the end was received, at any time.
    pub was_terminated: bool,
    /// The last such signal while the job was ending.
    pub termination: Option<i32>,
}

impl Signals {
    /// Installs the handler, and unblocks signals.
    pub fn install() -> std::io::Result<Self> {
        let (reader, writer) = fd::pipe()?;
        fd::set_nonblocking(&reader)?;
        fd::set_nonblocking(&writer)?;
        SIGNAL_PIPE.store(writer.as_raw_fd(), Ordering::Release);
        // The handler needs it for the life of the process.
        std::mem::forget(writer);
        take_over(on_signal);
        signal::ignore(libc::SIGPIPE);
        signal::handle(libc::SIGCHLD, on_signal, &[]);
        // A rank may have ended while signals were blocked and there was no handler.
        on_signal(libc::SIGCHLD, std::ptr::null_mut(), std::ptr::null_mut());
        signal::unblock_all();
        Ok(Self {
            reader,
            in_shutdown: false,
            was_terminated: false,
            termination: None,
        })
    }

    /// Readable when there are signals.
    pub fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// The next signal, and whether a process sent it.
    pub fn next(&mut self) -> Option<(i32, bool)> {
        let mut item = [0; 2];
        let (2, [number, by_process]) = (fd::read(self.fd(), &mut item).ok()?, item) else {
            return None;
        };
        self.record(i32::from(number));
        Some((i32::from(number), by_process != 0))
    }

    /// Records a signal received here or by an agent above.
    pub fn record(&mut self, number: i32) {
        self.was_terminated |= ENDING.contains(&number);
        if self.in_shutdown {
            self.record_in_exit(number);
        }
    }

    /// Records a signal received while the job ends.
    pub fn record_in_exit(&mut self, number: i32) {
        if ENDING.contains(&number) {
            self.termination = Some(number);
        }
    }

    /// Whether a signal has ended the job, which ends with `code`, or has come since. Then slow
    /// readers are not waited for.
    pub fn is_terminating(&self, code: i32) -> bool {
        self.termination.is_some() || ENDING.contains(&(code - 128))
    }

    /// Takes all signals when nothing else is to be done for them. Whether one asks for the end.
    pub fn drain(&mut self) -> bool {
        std::iter::from_fn(|| self.next()).fold(false, |asked, (number, _)| asked | ENDING.contains(&number))
    }
}

/// Takes timers and signals from the client's code, which runs in ranks only. Signals that are
/// forwarded get `handler`.
pub fn take_over(handler: signal::Handler) {
    signal::stop_timers();
    // SIGINT and SIGQUIT that a shell made its background jobs ignore: only those of the terminal
    // are meant, and these are not forwarded.
    let of_shell = |n: i32| matches!(n, libc::SIGINT | libc::SIGQUIT);
    let is_ignored = |n: i32| !of_shell(n) && signal::disposition(n) == signal::Disposition::Ignored;
    for number in FORWARDED.into_iter().filter(|&number| !is_ignored(number)) {
        signal::handle(number, handler, &[]);
    }
    reset_client_handlers();
}

/// The client's handlers are for ranks. In the agent, faults take their default action, so that a
/// defect shows; other signals have no effect, but those that are forwarded.
fn reset_client_handlers() {
    for number in (1..=signal::last()).filter(|number| !FORWARDED.contains(number)) {
        if let signal::Disposition::Handler(_) = signal::disposition(number) {
            if signal::FAULTS.contains(&number) || STOPS.contains(&number) {
                signal::set_default(number);
            } else {
                signal::ignore(number);
            }
        }
    }
}

/// A signal in a message.
pub fn signal_name(number: i32) -> String {
    signal::name(number).map_or_else(|| format!("signal {number}"), str::to_owned)
}

extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure, and `install` a null pointer, which is allowed.
    let by_process = unsafe { signal::sent_by_process(info) };
    // If the pipe is full, the agent has signals enough.
    fd::write_pair(SIGNAL_PIPE.load(Ordering::Acquire), number as u8, by_process);
}
