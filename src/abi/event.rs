//! Events and implicit sets.

use std::ffi::c_int;

use crate::event::{sync_array, Event};
use crate::flags::{Flags, EC_GET, EC_LC, EC_PUT, EC_RMW, ERR_NOT_READY};
use crate::rules::{self, no_flags, not_in_handler, CHECKED};
use crate::stall::Reason;
use crate::trace::{self, EventKind, TraceCategory};
use crate::{progress, runtime, thread, wait};

/// The categories that implicit operations have.
const NBI_CATEGORIES: u32 = EC_PUT | EC_GET | EC_RMW;

/// Whether `event` is complete now, letting collectives move (no handler runs, nothing is received).
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

/// Records a test or a wait that began at `began` for `what`.
#[cold]
fn traced(kind: EventKind, began: u64, what: &str, done: bool) {
    let event = trace::TraceEvent::new(kind, began).until_now();
    trace::record(&event.with_fields(format_args!(" what={what} done={}", u8::from(done))));
}

/// Tests, recording it.
#[inline]
fn test(what: &str, is_done: impl FnOnce() -> bool) -> c_int {
    let began = trace::clock(TraceCategory::Sync);
    let done = is_done();
    if began != 0 {
        traced(EventKind::Test, began, what, done);
    }
    if done {
        0
    } else {
        ERR_NOT_READY
    }
}

/// Polls once. Before initialisation there is nothing to poll, and nothing to wait for.
#[inline]
fn poll() {
    if runtime::try_get().is_some() {
        wait::poll_once();
    }
}

/// Waits, recording it.
#[inline]
fn wait(what: &str, reason: Reason, is_done: impl FnMut() -> bool) {
    let began = trace::clock(TraceCategory::Sync);
    wait::until(reason, is_done);
    if began != 0 {
        traced(EventKind::Wait, began, what, true);
    }
}

/// 0 and the event is consumed, or not 0. Never polls.
#[no_mangle]
pub extern "C" fn gex_Event_Test(event: Event) -> c_int {
    check(event, "gex_Event_Test");
    not_in_handler("gex_Event_Test");
    if event.is_invalid() {
        return 0;
    }
    test("event", || {
        let done = is_done(event);
        if done {
            event.consume(&mut thread::current().free.borrow_mut());
        }
        done
    })
}

/// Polls until the event is complete, and consumes it.
#[no_mangle]
pub extern "C" fn gex_Event_Wait(event: Event) {
    check(event, "gex_Event_Wait");
    not_in_handler("gex_Event_Wait");
    if event.is_invalid() {
        return;
    }
    wait("event", Reason::Event(event), || event.is_done());
    event.consume(&mut thread::current().free.borrow_mut());
}

/// # Safety
/// `events` points to `count` events of the client.
unsafe fn array<'a>(function: &str, events: *mut Event, count: usize) -> &'a mut [Event] {
    if count == 0 || events.is_null() {
        return &mut [];
    }
    // SAFETY: by contract.
    let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
    if CHECKED {
        for &event in events.iter() {
            rules::event(function, event);
        }
    }
    events
}

/// One pass over the array: whether "some" and whether "all" are complete.
fn pass(events: &mut [Event]) -> (bool, bool) {
    let (synced, open) = sync_array(events, &mut thread::current().free.borrow_mut());
    (synced > 0 || open == 0, open == 0)
}

/// 0 when at least one event is complete or none was open. Never polls.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_TestSome(events: *mut Event, count: usize, flags: Flags) -> c_int {
    not_in_handler("gex_Event_TestSome");
    no_flags("gex_Event_TestSome", flags);
    progress::advance();
    // SAFETY: the client's array.
    let events = unsafe { array("gex_Event_TestSome", events, count) };
    test("some", || pass(events).0)
}

/// Polls, once at least, until one event is complete or none is open.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_WaitSome(events: *mut Event, count: usize, flags: Flags) {
    not_in_handler("gex_Event_WaitSome");
    no_flags("gex_Event_WaitSome", flags);
    // SAFETY: the client's array.
    let events = unsafe { array("gex_Event_WaitSome", events, count) };
    poll();
    wait("some", Reason::SomeEvent(count), || pass(events).0);
}

/// 0 when no event is open any more. Never polls.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_TestAll(events: *mut Event, count: usize, flags: Flags) -> c_int {
    not_in_handler("gex_Event_TestAll");
    no_flags("gex_Event_TestAll", flags);
    progress::advance();
    // SAFETY: the client's array.
    let events = unsafe { array("gex_Event_TestAll", events, count) };
    test("all", || pass(events).1)
}

/// Polls, once at least, until no event is open any more.
#[no_mangle]
pub unsafe extern "C" fn gex_Event_WaitAll(events: *mut Event, count: usize, flags: Flags) {
    not_in_handler("gex_Event_WaitAll");
    no_flags("gex_Event_WaitAll", flags);
    // SAFETY: the client's array.
    let events = unsafe { array("gex_Event_WaitAll", events, count) };
    poll();
    wait("all", Reason::AllEvents(count), || pass(events).1);
}

/// The leaf of `root` for one category.
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

/// 0 when what this thread started implicitly, of the given categories, is complete. Never polls.
#[no_mangle]
pub extern "C" fn gex_NBI_Test(mask: u32, flags: Flags) -> c_int {
    not_in_handler("gex_NBI_Test");
    no_flags("gex_NBI_Test", flags);
    let done = || thread::current().nbi_set().is_done((mask & NBI_CATEGORIES) as usize);
    test("implicit", || done() || (progress::advance() > 0 && done()))
}

/// Polls, once at least, until what this thread started implicitly, of the given categories, is complete: clients spin on a flag around it.
#[no_mangle]
pub extern "C" fn gex_NBI_Wait(mask: u32, flags: Flags) {
    not_in_handler("gex_NBI_Wait");
    no_flags("gex_NBI_Wait", flags);
    poll();
    let set = thread::current().nbi_set();
    wait("implicit", Reason::Implicit(set), || {
        set.is_done((mask & NBI_CATEGORIES) as usize)
    });
}

/// From now on implicit operations of this thread go into a set of their own.
#[no_mangle]
pub extern "C" fn gex_NBI_BeginAccessRegion(flags: Flags) {
    not_in_handler("gex_NBI_BeginAccessRegion");
    no_flags("gex_NBI_BeginAccessRegion", flags);
    if !thread::current().begin_region() {
        fatal!("gex_NBI_BeginAccessRegion: an access region is open already on this thread; they do not nest");
    }
}

/// Ends the access region; its root event.
#[no_mangle]
pub extern "C" fn gex_NBI_EndAccessRegion(flags: Flags) -> Event {
    not_in_handler("gex_NBI_EndAccessRegion");
    no_flags("gex_NBI_EndAccessRegion", flags);
    let thread = thread::current();
    let Some(op) = thread.end_region() else {
        fatal!("gex_NBI_EndAccessRegion: no access region is open on this thread");
    };
    let event = op.event();
    if !event.is_done() {
        return event;
    }
    event.consume(&mut thread.free.borrow_mut());
    Event::INVALID
}
