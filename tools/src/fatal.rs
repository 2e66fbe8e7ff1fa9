//! Fatal errors: one paragraph, then a freeze or a backtrace if asked for, then the end.

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use crate::process::{say, Label};
use crate::{backtrace, freeze, os};

/// Where in the source an error was raised.
#[derive(Clone, Copy, Debug)]
pub struct Location<'a> {
    /// Function.
    pub function: &'a str,
    /// Source file.
    pub file: &'a str,
    /// Line in it.
    pub line: i32,
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.function.is_empty() {
            write!(f, "{}:{}", self.file, self.line)
        } else {
            write!(f, "{}() at {}:{}", self.function, self.file, self.line)
        }
    }
}

static HOOK: OnceLock<fn() -> !> = OnceLock::new();

// Thread id of the thread that is reporting; 0 none. Only compared, so relaxed is enough.
static REPORTING: AtomicI32 = AtomicI32::new(0);

static NOTE: OnceLock<fn(fmt::Arguments<'_>)> = OnceLock::new();

/// Sets what else is told the message of a fatal error, before the process ends. The first call wins.
pub fn set_note(note: fn(fmt::Arguments<'_>)) {
    let _ = NOTE.set(note);
}

/// Sets what ends the process after a fatal error was reported (default: abort). The first call wins.
pub fn set_hook(hook: fn() -> !) {
    // A second hook is a second initialisation, which keeps the first one.
    let _ = HOOK.set(hook);
}

/// Reports a fatal error, formatted as by `format!`, and ends the process. See [`fatal()`].
#[macro_export]
macro_rules! fatal {
    ($($arg:tt)*) => { $crate::fatal::fatal(format_args!($($arg)*)) };
}

/// Reports a fatal error and ends the process. Safe to call from a signal handler as far as its cause allows.
pub fn fatal(message: fmt::Arguments<'_>) -> ! {
    fatal_at(message, None)
}

/// As [`fatal`], naming the place in the source.
pub fn fatal_at(message: fmt::Arguments<'_>, location: Option<Location<'_>>) -> ! {
    let me = os::thread_id();
    match REPORTING.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        // An error while reporting one: give up at once.
        Err(reporter) if reporter == me => os::abort(),
        // Another thread is ending the process; its report comes first, but not for ever.
        Err(_) => {
            os::sleep_ns(10_000_000_000);
        }
    }
    match location {
        Some(place) => say(format_args!("*** FATAL ERROR ({Label}): in {place}: {message}")),
        None => say(format_args!("*** FATAL ERROR ({Label}): {message}")),
    }
    if let Some(note) = NOTE.get() {
        note(message);
    }
    freeze::on_error();
    backtrace::print_if_enabled(2);
    match HOOK.get() {
        Some(end) => end(),
        None => os::abort(),
    }
}
