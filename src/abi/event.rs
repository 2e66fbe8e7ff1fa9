//! `gex_Event_*` and `gex_NBI_*`: events and implicit sets.

use std::ffi::c_int;

use super::rma::root;
use crate::event::{Event, Op};
use crate::event_array::{first_open, sync_array};
use crate::flags::{Flags, EC_GET, EC_LC, EC_PUT, EC_RMW, ERR_NOT_READY, OK};
use crate::rules::{self, no_flags, not_in_handler, CHECKED};
use crate::stall::Reason;
use crate::trace::{
    self,
    recorder::{self, Call},
    EventKind, TraceCategory,
};
use crate::{progress, runtime, thread, wait};

/// The categories that implicit operations have.
const NBI_CATEGORIES: u32 = EC_PUT | EC_GET | EC_RMW;

/// Entry checks of a call with reserved flags: not in a handler, no flags.
macro_rules! enter {
    ($function:expr, $flags:expr) => {
        not_in_handler($function);
        no_flags($function, $flags);
    };
}

/// Whether `event` is complete, after advancing collectives if need be. Runs no handler and
/// receives nothing.
#[inline]
fn is_done(event: Event) -> bool {
    event.is_done() || (progress::advance() > 0 && event.is_done())
}

fn check(event: Event, function: &str) {
    rules::event(function, event);
    if event == Event::NO_OP {
        fatal!("{function} was given GEX_EVENT_NO_OP, which names no operation: the call that returned it did nothing");
    }
}

/// Records a test of, or a wait for, `what` that began at `began`.
#[cold]
fn record(kind: EventKind, began: u64, what: &str, done: bool) {
    if done {
        let code = recorder::WHAT.iter().position(|&name| name == what).unwrap_or(0) as u8;
        recorder::write(&Call {
            code,
            ..Call::new(kind)
        });
    } else {
        recorder::count_poll();
    }
    let event = trace::TraceEvent::new(kind, began).until_now();
    trace::record(&event.with_fields(format_args!(" what={what} done={}", u8::from(done))));
}

/// 0 or `GASNET_ERR_NOT_READY`, for a test of `what`.
#[inline]
fn test(what: &str, is_done: impl FnOnce() -> bool) -> c_int {
    let done = traced!(TraceCategory::Sync, is_done(), |began, done| record(
        EventKind::Test,
        began,
        what,
        done
    ));
    if done {
        OK
    } else {
        ERR_NOT_READY
    }
}

/// Polls once, except before initialisation, when there is nothing to poll and nothing to wait for.
#[inline]
fn poll() {
    if runtime::try_get().is_some() {
        wait::poll_once();
    }
}

/// Waits for `what`, which may be puts, gets or atomics if it `has_accesses`.
#[inline]
fn wait(what: &str, reason: Reason, has_accesses: bool, is_done: impl FnMut() -> bool) {
    let until = || {
        if has_accesses {
            wait::until_complete(reason, is_done);
        } else {
            wait::until(reason, is_done);
        }
    };
    traced!(TraceCategory::Sync, until(), |began, ()| record(
        EventKind::Wait,
        began,
        what,
        true
    ));
}

/// Tests an event and consumes it when it is complete. Returns 0 then. Never polls.
#[no_mangle]
pub extern "C" fn gex_Event_Test(event: Event) -> c_int {
    check(event, "gex_Event_Test");
    not_in_handler("gex_Event_Test");
    if event.is_invalid() {
        return OK;
    }
    test("event", || {
        let done = is_done(event);
        if done {
            event.consume(&mut thread::current().free.borrow_mut());
        }
        done
    })
}

/// Polls, once at least, until the event is complete, and consumes it.
#[no_mangle]
pub extern "C" fn gex_Event_Wait(event: Event) {
    check(event, "gex_Event_Wait");
    not_in_handler("gex_Event_Wait");
    if event.is_invalid() {
        return;
    }
    if event.is_done() {
        progress::poll_along();
    }
    let has_accesses = event.operation().is_some_and(Op::has_accesses);
    wait("event", Reason::Event(event), has_accesses, || event.is_done());
    event.consume(&mut thread::current().free.borrow_mut());
}

/// The client's array.
///
/// # Safety
/// `events` is null or has `count` entries.
unsafe fn array<'a>(function: &str, events: *mut Event, count: usize) -> &'a mut [Event] {
    if CHECKED && count > 0 && events.is_null() {
        fatal!("{function}: the array of {count} events is null");
    }
    if count == 0 || events.is_null() {
        return &mut [];
    }
    // SAFETY: not null, so `count` entries.
    let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
    if CHECKED {
        for &event in events.iter() {
            rules::event(function, event);
        }
    }
    events
}

/// Synchronises what is complete in the array: whether that is "some", and whether it is "all".
fn pass(events: &mut [Event]) -> (bool, bool) {
    let (synced, open) = sync_array(events, &mut thread::current().free.borrow_mut());
    (synced > 0 || open == 0, open == 0)
}

/// Polls, once at least, until a pass over the array ends the wait. The open event that the reason
/// needs is looked for only if there is a wait.
fn wait_array(what: &str, events: &mut [Event], reason: fn(usize, Event) -> Reason, is_over: fn((bool, bool)) -> bool) {
    poll();
    let mut done = is_over(pass(events));
    let first = if done { Event::INVALID } else { first_open(events) };
    wait(what, reason(events.len(), first), false, || {
        done = done || is_over(pass(events));
        done
    });
}

/// Synchronises the complete events of an array. Returns 0 when there was one, or none was open.
/// Never polls.
///
/// # Safety
/// `events` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_TestSome(events: *mut Event, count: usize, flags: Flags) -> c_int {
    enter!("gex_Event_TestSome", flags);
    progress::advance();
    // SAFETY: the caller's contract.
    let events = unsafe { array("gex_Event_TestSome", events, count) };
    test("some", || pass(events).0)
}

/// Polls, once at least, until one event of an array is complete or none is open.
///
/// # Safety
/// `events` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_WaitSome(events: *mut Event, count: usize, flags: Flags) {
    enter!("gex_Event_WaitSome", flags);
    // SAFETY: the caller's contract.
    let events = unsafe { array("gex_Event_WaitSome", events, count) };
    wait_array("some", events, Reason::SomeEvent, |(some, _)| some);
}

/// Synchronises the complete events of an array. Returns 0 when none is open. Never polls.
///
/// # Safety
/// `events` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_TestAll(events: *mut Event, count: usize, flags: Flags) -> c_int {
    enter!("gex_Event_TestAll", flags);
    progress::advance();
    // SAFETY: the caller's contract.
    let events = unsafe { array("gex_Event_TestAll", events, count) };
    test("all", || pass(events).1)
}

/// Polls, once at least, until no event of an array is open.
///
/// # Safety
/// `events` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_WaitAll(events: *mut Event, count: usize, flags: Flags) {
    enter!("gex_Event_WaitAll", flags);
    // SAFETY: the caller's contract.
    let events = unsafe { array("gex_Event_WaitAll", events, count) };
    wait_array("all", events, Reason::AllEvents, |(_, all)| all);
}

/// The leaf event of `root` for one category.
#[no_mangle]
pub extern "C" fn gex_Event_QueryLeaf(root: Event, category: u32) -> Event {
    check(root, "gex_Event_QueryLeaf");
    if CHECKED && root.is_leaf() {
        fatal!("gex_Event_QueryLeaf: {:#x} is a leaf; it takes a root", root.0);
    }
    if !matches!(category, EC_LC | EC_PUT | EC_GET | EC_RMW) {
        fatal!("gex_Event_QueryLeaf: {category:#x} is not a single category (GEX_EC_GET, _PUT, _AM, _LC or _RMW)");
    }
    root.leaf(category as usize)
}

/// Checks that implicit operations may be synchronised here, and that `mask` names a category.
/// Debug flavour.
fn check_implicit(function: &str, mask: u32) {
    if !CHECKED {
        return;
    }
    if thread::current().in_region() {
        fatal!(
            "{function} was called inside an access region, whose operations are synchronised by the event of \
             gex_NBI_EndAccessRegion (GASNet 1.8, \"Implicit access region synchronization\"). End the region first."
        );
    }
    // GEX_EC_ALL without a category keeps bits of no category.
    if mask != 0 && mask & (NBI_CATEGORIES | EC_LC) == 0 {
        fatal!("{function}: event_mask {mask:#x} has none of GEX_EC_*");
    }
}

/// Returns 0 when the implicit operations of this thread in the given categories are complete.
/// Never polls.
#[no_mangle]
pub extern "C" fn gex_NBI_Test(mask: u32, flags: Flags) -> c_int {
    enter!("gex_NBI_Test", flags);
    check_implicit("gex_NBI_Test", mask);
    let done = || thread::current().nbi_set().is_done((mask & NBI_CATEGORIES) as usize);
    test("implicit", || done() || (progress::advance() > 0 && done()))
}

/// Polls until the implicit operations of this thread in the given categories are complete. Polls
/// once at least, because clients call it in a loop that spins on a flag.
#[no_mangle]
pub extern "C" fn gex_NBI_Wait(mask: u32, flags: Flags) {
    enter!("gex_NBI_Wait", flags);
    check_implicit("gex_NBI_Wait", mask);
    poll();
    let (set, mask) = (thread::current().nbi_set(), (mask & NBI_CATEGORIES) as usize);
    wait("implicit", Reason::Implicit(set, mask), true, || set.is_done(mask));
}

/// Opens an access region: implicit operations of this thread go into a set of their own.
#[no_mangle]
pub extern "C" fn gex_NBI_BeginAccessRegion(flags: Flags) {
    enter!("gex_NBI_BeginAccessRegion", flags);
    if !thread::current().begin_region() {
        fatal!("gex_NBI_BeginAccessRegion: an access region is open already on this thread; they do not nest");
    }
}

/// Closes the access region and returns its root event.
#[no_mangle]
pub extern "C" fn gex_NBI_EndAccessRegion(flags: Flags) -> Event {
    enter!("gex_NBI_EndAccessRegion", flags);
    let thread = thread::current();
    let region = thread.end_region();
    if region.is_none() {
        fatal!("gex_NBI_EndAccessRegion: no access region is open on this thread");
    }
    root(thread, region)
}
