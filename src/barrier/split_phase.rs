//! The split-phase barrier of GASNet-1: notify, then wait or try. A process has at most one at a
//! time.

use gasnet_sys::atomic::Mutex;

use super::{of_job, Name};
use crate::runtime;
use crate::stall::Reason;
use crate::wait;

struct State {
    /// Between notify and the end of its wait.
    notified: bool,
    /// The result of the last barrier.
    last: Name,
}

static STATE: Mutex<State> = Mutex::new(State {
    notified: false,
    last: Name::Anonymous,
});

/// Whether this process is between notify and the end of its wait.
pub fn is_open() -> bool {
    gasnet_sys::lock(&STATE).notified
}

/// Enters the barrier with `name`. A fatal error if the last one is still open.
pub fn notify(name: Name) {
    let mut state = gasnet_sys::lock(&STATE);
    if state.notified {
        fatal!(
            "rank {}: gasnet_barrier_notify was called twice without gasnet_barrier_wait between",
            runtime::get().rank
        );
    }
    state.notified = true;
    of_job().enter(name);
}

/// A fatal error if the barrier was not entered.
pub fn check_notified(function: &str) {
    if !is_open() {
        fatal!(
            "rank {}: {function} was called without gasnet_barrier_notify before it",
            runtime::get().rank
        );
    }
}

/// Polls until all ranks have entered, and leaves the barrier. Returns whether its name matches
/// `name`.
pub fn wait(name: Name) -> bool {
    let mut result = None;
    // For the last rank to enter, the barrier is complete already. Clients rely on some progress
    // here all the same (GASNet-examples).
    wait::poll_once();
    let mut is_complete = || {
        result = of_job().test();
        result.is_some()
    };
    if !wait::spin(&mut is_complete) {
        wait::until(Reason::NamedBarrier, is_complete);
    }
    leave(result.unwrap_or(Name::Mismatch), name)
}

/// Polls once. If all ranks have entered, leaves the barrier as [`wait()`] does.
pub fn test(name: Name) -> Option<bool> {
    wait::poll_once();
    of_job().test().map(|result| leave(result, name))
}

/// Leaves a barrier with this result. Returns whether it matches `name`, which the caller passes
/// now.
fn leave(result: Name, name: Name) -> bool {
    let mut state = gasnet_sys::lock(&STATE);
    state.notified = false;
    state.last = result;
    match (result, name) {
        (Name::Mismatch, _) | (_, Name::Mismatch) => false,
        (Name::Named(a), Name::Named(b)) if a != b => false,
        _ => true,
    }
}

/// The name of the last barrier, if it had one.
pub fn last_name() -> Option<i32> {
    match gasnet_sys::lock(&STATE).last {
        Name::Named(last) => Some(last),
        _ => None,
    }
}
