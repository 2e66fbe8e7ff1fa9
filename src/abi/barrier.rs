//! The GASNet-1 barrier: one at a time, split into notify and wait, with names.

use gasnet_sys::atomic::Mutex;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::barrier::{self, Name};
use crate::coll;
use crate::flags::{
    Flags, BARRIERFLAG_ANONYMOUS, BARRIERFLAG_MISMATCH, BARRIERFLAG_UNNAMED, ERR_BARRIER_MISMATCH, ERR_NOT_READY, OK,
};
use crate::rules::{self, not_in_handler};
use crate::stall::Reason;
use crate::trace::{self, EventKind, TraceCategory, TraceEvent};
use crate::{runtime, wait};

/// Flags of the three calls.
const FLAGS: c_int = BARRIERFLAG_ANONYMOUS | BARRIERFLAG_MISMATCH | BARRIERFLAG_UNNAMED;

struct State {
    notified: bool,
    last: Name,
}

static STATE: Mutex<State> = Mutex::new(State {
    notified: false,
    last: Name::Anonymous,
});

/// When the barrier was entered, if that is recorded.
static ENTERED: AtomicU64 = AtomicU64::new(0);

fn state() -> gasnet_sys::atomic::MutexGuard<'static, State> {
    gasnet_sys::lock(&STATE)
}

fn name(id: c_int, flags: c_int) -> Name {
    if flags & BARRIERFLAG_MISMATCH != 0 {
        Name::Mismatch
    } else if flags & BARRIERFLAG_ANONYMOUS != 0 {
        Name::Anonymous
    } else {
        Name::Named(id)
    }
}

/// Records a call that began at `began`: how long it took, and when the barrier was entered.
#[cold]
fn traced(kind: EventKind, began: u64, (id, flags): (c_int, c_int), done: bool) {
    let entered = ENTERED.load(Ordering::Relaxed);
    let since = if entered == 0 { 0 } else { began.saturating_sub(entered) };
    let event = TraceEvent::new(kind, began).until_now();
    trace::record(&event.with_fields(format_args!(" id={id} flags={flags} done={} since={since}", u8::from(done))));
}

/// Whether this process is between `gasnet_barrier_notify` and the end of its wait.
pub fn is_open() -> bool {
    state().notified
}

/// Enters the barrier.
#[no_mangle]
pub extern "C" fn gasnet_barrier_notify(id: c_int, flags: c_int) {
    not_in_handler("gasnet_barrier_notify");
    let bits = |flags| Flags::from_bits(flags as u32);
    rules::only_flags("gasnet_barrier_notify", bits(flags), bits(FLAGS));
    if rules::CHECKED && coll::is_active() {
        fatal!(
            "rank {}: gasnet_barrier_notify was called while a collective (gex_Coll_*) is under way: they must not operate concurrently",
            runtime::get().rank()
        );
    }
    let mut state = state();
    if state.notified {
        fatal!(
            "rank {}: gasnet_barrier_notify was called twice without gasnet_barrier_wait between",
            runtime::get().rank()
        );
    }
    state.notified = true;
    let began = trace::clock(TraceCategory::Barrier);
    ENTERED.store(began, Ordering::Relaxed);
    barrier::of_job().enter(name(id, flags));
    if began != 0 {
        traced(EventKind::BarrierNotify, began, (id, flags), true);
    }
}

/// Leaves the barrier with what came out of it, seen by a caller who says `id` and `flags`.
fn leave(came_out: Name, id: c_int, flags: c_int) -> c_int {
    let mut state = state();
    state.notified = false;
    state.last = came_out;
    match (came_out, name(id, flags)) {
        (Name::Mismatch, _) | (_, Name::Mismatch) => ERR_BARRIER_MISMATCH,
        (Name::Named(a), Name::Named(b)) if a != b => ERR_BARRIER_MISMATCH,
        _ => OK,
    }
}

fn check_notified(function: &str) {
    if !state().notified {
        fatal!(
            "rank {}: {function} was called without gasnet_barrier_notify before it",
            runtime::get().rank()
        );
    }
}

/// Polls until all have entered. `GASNET_OK` or `GASNET_ERR_BARRIER_MISMATCH`.
#[no_mangle]
pub extern "C" fn gasnet_barrier_wait(id: c_int, flags: c_int) -> c_int {
    not_in_handler("gasnet_barrier_wait");
    check_notified("gasnet_barrier_wait");
    let began = trace::clock(TraceCategory::Barrier);
    let (barrier, mut came_out) = (barrier::of_job(), None);
    // The last to enter finds it complete: clients rely on some progress in here all the same (GASNet-examples).
    wait::poll_once();
    let mut is_complete = || {
        came_out = barrier.test();
        came_out.is_some()
    };
    if !wait::spin(&mut is_complete) {
        wait::until(Reason::NamedBarrier, is_complete);
    }
    if began != 0 {
        traced(EventKind::BarrierWait, began, (id, flags), true);
    }
    leave(came_out.unwrap_or(Name::Mismatch), id, flags)
}

/// Polls once. As `gasnet_barrier_wait`, or `GASNET_ERR_NOT_READY`.
#[no_mangle]
pub extern "C" fn gasnet_barrier_try(id: c_int, flags: c_int) -> c_int {
    not_in_handler("gasnet_barrier_try");
    check_notified("gasnet_barrier_try");
    let began = trace::clock(TraceCategory::Barrier);
    wait::poll_once();
    let came_out = barrier::of_job().test();
    if began != 0 {
        traced(EventKind::BarrierTry, began, (id, flags), came_out.is_some());
    }
    match came_out {
        Some(came_out) => leave(came_out, id, flags),
        None => ERR_NOT_READY,
    }
}

/// The name of the last barrier, if it had one.
pub fn last_name() -> Option<c_int> {
    match state().last {
        Name::Named(last) => Some(last),
        _ => None,
    }
}
