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

static SIGNAL_PIPE: AtomicI32 = AtomicI32::new(-1);

/// The queue.
pub struct Signals {
    reader: OwnedFd,
    /// A signal that asks for the end was received, at any time.
    received: bool,
    /// The last such signal while the job was ending.
    in_shutdown: Option<i32>,
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
        signal::stop_timers();
        reset_client_handlers();
        signal::ignore(libc::SIGPIPE);
        // SIGINT and SIGQUIT that a shell made its background jobs ignore: only those of the
        // terminal are meant, and these are not forwarded.
        let of_shell = |n: i32| matches!(n, libc::SIGINT | libc::SIGQUIT);
        let is_forwarded = |n: &i32| of_shell(*n) || signal::disposition(*n) != signal::Disposition::Ignored;
        for number in FORWARDED.into_iter().filter(is_forwarded) {
            signal::handle(number, on_signal, &[]);
        }
        signal::handle(libc::SIGCHLD, on_signal, &[]);
        // A rank may have ended while signals were blocked and there was no handler.
        on_signal(libc::SIGCHLD, std::ptr::null_mut(), std::ptr::null_mut());
        signal::unblock_all();
        Ok(Self {
            reader,
            received: false,
            in_shutdown: None,
        })
    }

    /// Readable when there are signals.
    pub fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// The next signal, and whether a process sent it.
    pub fn next(&mut self) -> Option<(i32, bool)> {
        let mut item = [0; 2];
        match fd::read(self.fd(), &mut item) {
            Ok(2) => {
                self.record(i32::from(item[0]));
                Some((i32::from(item[0]), item[1] != 0))
            }
            _ => None,
        }
    }

    /// Records a signal received here or by an agent above.
    pub fn record(&mut self, number: i32) {
        self.received |= ENDING.contains(&number);
    }

    /// Whether a signal that asks for the end was received.
    pub fn was_terminated(&self) -> bool {
        self.received
    }

    /// Records a signal received while the job ends.
    pub fn record_in_shutdown(&mut self, number: i32) {
        if ENDING.contains(&number) {
            self.in_shutdown = Some(number);
        }
    }

    /// The last signal that asked for the end while the job was ending.
    pub fn termination(&self) -> Option<i32> {
        self.in_shutdown
    }

    /// Whether a signal has ended the job, which ends with `code`, or has come since. Then slow
    /// readers are not waited for.
    pub fn is_terminating(&self, code: i32) -> bool {
        self.in_shutdown.is_some() || ENDING.contains(&(code - 128))
    }

    /// The same when the main loop no longer takes signals.
    pub fn is_terminating_by_now(&mut self, code: i32) -> bool {
        while let Some((number, _)) = self.next() {
            self.record_in_shutdown(number);
        }
        self.is_terminating(code)
    }
}

/// The client's handlers are for ranks. In the agent, faults take their default action, so that a
/// defect shows; other signals have no effect.
fn reset_client_handlers() {
    for number in 1..=signal::last() {
        if let signal::Disposition::Handler(_) = signal::disposition(number) {
            match number {
                libc::SIGSEGV
                | libc::SIGBUS
                | libc::SIGILL
                | libc::SIGFPE
                | libc::SIGABRT
                | libc::SIGSYS
                | libc::SIGTRAP => {
                    signal::set_default(number);
                }
                libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU | libc::SIGCONT => signal::set_default(number),
                _ => signal::ignore(number),
            }
        }
    }
}

extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure, and `install` a null pointer, which is allowed.
    let by_process = unsafe { signal::sent_by_process(info) };
    // If the pipe is full, the agent has signals enough.
    fd::write_pair(SIGNAL_PIPE.load(Ordering::Acquire), number as u8, by_process);
}
