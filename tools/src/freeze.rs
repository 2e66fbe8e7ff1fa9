//! Waiting for a debugger.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use crate::process::{say, Label};
use crate::{env, os, system};

static ON_ERROR: OnceLock<bool> = OnceLock::new();

static HOOK: OnceLock<fn(bool)> = OnceLock::new();

/// Sets what hears of the start (true) and the end of a freeze, also in signal handlers. The first call wins.
pub fn set_hook(hook: fn(bool)) {
    let _ = HOOK.set(hook);
}

fn tell_hook(frozen: bool) {
    if let Some(hook) = HOOK.get() {
        hook(frozen);
    }
}

/// Reads `GASNET_FREEZE_ON_ERROR` while the process is still healthy.
pub fn init() -> bool {
    // Read outside of the cell's initialisation: a bad value is a fatal error, which asks again.
    ON_ERROR.get().copied().unwrap_or_else(|| {
        let wanted = env::bool("GASNET_FREEZE_ON_ERROR", false);
        *ON_ERROR.get_or_init(|| wanted)
    })
}

/// Sets `flag` and waits until a debugger (or another thread) clears it; tells the user how.
pub fn now(flag: &AtomicI32, flag_name: &str) {
    flag.store(1, Ordering::SeqCst);
    tell_hook(true);
    let (pid, host) = (os::pid(), system::hostname());
    say(format_args!(
        "*** FROZEN ({Label}): process {pid} on {host} waits for a debugger. To let it go on: gdb -p {pid}, then \
         'set var {flag_name} = 0' and 'continue'."
    ));
    while flag.load(Ordering::SeqCst) != 0 {
        os::sleep_ns(100_000_000);
    }
    tell_hook(false);
}

/// Freezes on the library's own flag.
pub fn here() {
    now(os::frozen_flag(), "gasnetti_frozen");
}

/// Freezes if `GASNET_FREEZE_ON_ERROR` asks for it.
pub fn on_error() {
    if init() {
        here();
    }
}

/// Freezes if `GASNET_FREEZE` asks for it: for the start of a job.
pub fn at_start() {
    if env::bool("GASNET_FREEZE", false) {
        here();
    }
}
