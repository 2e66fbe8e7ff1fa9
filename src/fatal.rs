//! Fatal errors of the runtime: one paragraph that says what failed, on which rank, why and what to try; then the job ends. And warnings.

use std::fmt;

/// Ends the job with a message. See `gasnet_tools::fatal`.
#[macro_export]
macro_rules! fatal {
    ($($arg:tt)*) => { $crate::fatal::fatal(format_args!($($arg)*)) };
}

/// Writes `message` as a warning, with this rank's name, in one line to standard error.
#[cold]
pub fn warn(message: fmt::Arguments<'_>) {
    gasnet_tools::process::warn(message);
}

/// Ends the job with `message`.
#[cold]
pub fn fatal(message: fmt::Arguments<'_>) -> ! {
    gasnet_tools::fatal::fatal(message)
}
