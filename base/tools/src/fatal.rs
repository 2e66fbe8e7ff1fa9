//! Fatal errors: a message, then a freeze or a backtrace if requested, then the end of the process.

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use gasnet_sys::{clock, process};

use crate::process::{print_line, Label};
use crate::{backtrace, freeze};

/// The place in the source where an error was raised.
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

// Thread id of the thread that is reporting; 0 if none. Only compared, so relaxed is enough.
static REPORTING: AtomicI32 = AtomicI32::new(0);

static NOTE: OnceLock<fn(fmt::Arguments<'_>)> = OnceLock::new();

/// Sets a function that gets the message of a fatal error before the process ends. Only the first
/// call has an effect.
pub fn set_note(note: fn(fmt::Arguments<'_>)) {
    let _ = NOTE.set(note);
}

/// Sets the function that ends the process after a fatal error (default: abort). Only the first
/// call has an effect.
pub fn set_hook(hook: fn() -> !) {
    let _ = HOOK.set(hook);
}

/// Reports a fatal error, formatted as by `format!`, and ends the process. See [`fatal()`].
#[macro_export]
macro_rules! fatal {
    ($($arg:tt)*) => { $crate::fatal::fatal(format_args!($($arg)*)) };
}

/// Reports a fatal error and ends the process. A signal handler may call it, as
/// far as the interrupted code allows.
pub fn fatal(message: fmt::Arguments<'_>) -> ! {
    fatal_at(message, None)
}

/// As [`fatal`], with the place in the source.
pub fn fatal_at(message: fmt::Arguments<'_>, location: Option<Location<'_>>) -> ! {
    let me = process::thread();
    match REPORTING.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => {}
        // An error while reporting one.
        Err(reporter) if reporter == me => std::process::abort(),
        // Another thread reports an error and ends the process; if it hangs, this thread takes
        // over.
        Err(_) => {
            clock::sleep_ns(10_000_000_000);
        }
    }
    match location {
        Some(place) => print_line(format_args!("*** FATAL ERROR ({Label}): in {place}: {message}")),
        None => print_line(format_args!("*** FATAL ERROR ({Label}): {message}")),
    }
    if let Some(note) = NOTE.get() {
        note(message);
    }
    freeze::on_error();
    backtrace::print_if_enabled(2);
    match HOOK.get() {
        Some(end) => end(),
        None => std::process::abort(),
    }
}
