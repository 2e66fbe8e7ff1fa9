//! `gasnet_barrier_*`: the split-phase barrier of GASNet-1.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::barrier::{split_phase, Name};
use crate::event;
use crate::flags::{
    Flags, BARRIERFLAG_ANONYMOUS, BARRIERFLAG_MISMATCH, BARRIERFLAG_UNNAMED, ERR_BARRIER_MISMATCH, ERR_NOT_READY, OK,
};
use crate::rules::{self, not_in_handler};
use crate::runtime;
use crate::trace::{self, recorder, EventKind, TraceCategory, TraceEvent};

/// Flags of the three calls.
const FLAGS: c_int = BARRIERFLAG_ANONYMOUS | BARRIERFLAG_MISMATCH | BARRIERFLAG_UNNAMED;

/// When the barrier was entered (trace clock); 0 when that is not recorded.
static ENTERED: AtomicU64 = AtomicU64::new(0);

/// The name that a call passes as `id` and `flags`.
fn name(id: c_int, flags: c_int) -> Name {
    if flags & BARRIERFLAG_MISMATCH != 0 {
        Name::Mismatch
    } else if flags & BARRIERFLAG_ANONYMOUS != 0 {
        Name::Anonymous
    } else {
        Name::Named(id)
    }
}

/// Records a call that began at `began`, and the time since the barrier was entered.
#[cold]
fn record(kind: EventKind, began: u64, id: c_int, flags: c_int, done: bool) {
    match kind {
        EventKind::BarrierNotify => (),
        _ if done => recorder::barrier(EventKind::BarrierWait),
        _ => recorder::count_poll(),
    }
    let entered = ENTERED.load(Ordering::Relaxed);
    let since = if entered == 0 { 0 } else { began.saturating_sub(entered) };
    let event = TraceEvent::new(kind, began).until_now();
    trace::record(&event.with_fields(format_args!(
        " id={id} flags={flags} done={} since={since}",
        u8::from(done)
    )));
}

/// The code for whether the names of a barrier agree.
fn code(agree: bool) -> c_int {
    if agree {
        OK
    } else {
        ERR_BARRIER_MISMATCH
    }
}

/// Enters the barrier.
#[no_mangle]
pub extern "C" fn gasnet_barrier_notify(id: c_int, flags: c_int) {
    let function = "gasnet_barrier_notify";
    not_in_handler(function);
    let bits = |flags| Flags::from_bits(flags as u32);
    rules::only_flags(function, bits(flags), bits(FLAGS));
    let rt = runtime::get();
    if rules::CHECKED && event::is_under_way(rt.team0.number) {
        fatal!(
            "rank {}: {function} was called while a collective (gex_Coll_*) over the primordial team is under \
             way: they must not operate concurrently",
            rt.rank
        );
    }
    let began = trace::clock(TraceCategory::Barrier);
    ENTERED.store(began, Ordering::Relaxed);
    if began != 0 {
        recorder::barrier(EventKind::BarrierNotify);
    }
    split_phase::notify(name(id, flags));
    if began != 0 {
        record(EventKind::BarrierNotify, began, id, flags, true);
    }
}

/// Polls until all ranks have entered. Returns `GASNET_OK` or `GASNET_ERR_BARRIER_MISMATCH`.
#[no_mangle]
pub extern "C" fn gasnet_barrier_wait(id: c_int, flags: c_int) -> c_int {
    not_in_handler("gasnet_barrier_wait");
    split_phase::check_notified("gasnet_barrier_wait");
    code(traced!(
        TraceCategory::Barrier,
        split_phase::wait(name(id, flags)),
        |began, _| {
            record(EventKind::BarrierWait, began, id, flags, true);
        }
    ))
}

/// Polls once. Returns as `gasnet_barrier_wait` does, or `GASNET_ERR_NOT_READY`.
#[no_mangle]
pub extern "C" fn gasnet_barrier_try(id: c_int, flags: c_int) -> c_int {
    not_in_handler("gasnet_barrier_try");
    split_phase::check_notified("gasnet_barrier_try");
    let agree = traced!(
        TraceCategory::Barrier,
        split_phase::test(name(id, flags)),
        |began, agree| {
            record(EventKind::BarrierTry, began, id, flags, agree.is_some());
        }
    );
    agree.map_or(ERR_NOT_READY, code)
}
