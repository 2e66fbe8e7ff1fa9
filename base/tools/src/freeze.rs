//! Waiting for a debugger.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use gasnet_sys::{clock, process};

use crate::abi::native;
use crate::process::{print_line, Label};
use crate::{env, system};

static ON_ERROR: OnceLock<bool> = OnceLock::new();

static HOOK: OnceLock<fn(bool)> = OnceLock::new();

/// Sets a function that is called at the start (true) and at the end of a freeze, also in signal
/// handlers. Only the first call has an effect.
pub fn set_hook(hook: fn(bool)) {
    let _ = HOOK.set(hook);
}

fn call_hook(frozen: bool) {
    if let Some(hook) = HOOK.get() {
        hook(frozen);
    }
}

/// Reads `GASNET_FREEZE_ON_ERROR` while the process is still healthy.
pub fn init() -> bool {
    // Read outside the initialisation of the cell: an invalid value is a fatal error, which reads
    // again.
    ON_ERROR.get().copied().unwrap_or_else(|| {
        let wanted = env::bool("GASNET_FREEZE_ON_ERROR", false);
        *ON_ERROR.get_or_init(|| wanted)
    })
}

/// Sets `flag` and waits until a debugger (or another thread) clears it; prints instructions.
pub fn now(flag: &AtomicI32, flag_name: &str) {
    flag.store(1, Ordering::SeqCst);
    call_hook(true);
    let (pid, host) = (process::pid(), system::hostname());
    print_line(format_args!(
        "*** FROZEN ({Label}): process {pid} on {host} waits for a debugger. To resume it: gdb -p {pid}, then \
         'set var {flag_name} = 0' and 'continue'."
    ));
    while flag.load(Ordering::SeqCst) != 0 {
        clock::sleep_ns(100_000_000);
    }
    call_hook(false);
}

/// Freezes on the flag of the library.
pub fn here() {
    // With its type: a library without debug information has none.
    now(native::frozen_flag(), "*(int *)&gasnetti_frozen");
}

/// Freezes if `GASNET_FREEZE_ON_ERROR` is set.
pub fn on_error() {
    if init() {
        here();
    }
}

/// Freezes if `GASNET_FREEZE` is set. Called at the start of a job.
pub fn at_start() {
    if env::bool("GASNET_FREEZE", false) {
        here();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_process_resumes_when_the_flag_is_cleared() {
        let helper = std::thread::spawn(|| {
            while native::frozen_flag().load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            native::frozen_flag().store(0, Ordering::SeqCst);
        });
        here();
        helper.join().unwrap();
    }
}
