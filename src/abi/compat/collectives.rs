//! The collectives of the GASNet-1 prototype that GASNet-EX still exports, over all processes, for
//! BCL, Realm's GASNet-1 module and Berkeley UPC.

use std::ffi::{c_char, c_int};
use std::future::Future;

use crate::abi::barrier;
use crate::abi::coll::equal;
use crate::abi::event::{gex_Event_Test, gex_Event_Wait};
use crate::coll::call::Call;
use crate::coll::p2p::Span;
use crate::coll::{self, broadcast, gather, team_barrier};
use crate::event::Event;
use crate::flags::{COLL_IN_ALLSYNC, COLL_OUT_ALLSYNC, ERR_NOT_READY, OK, TEAM_ALL};
use crate::rules::not_in_handler;
use crate::runtime;
use crate::team::Team;
use crate::thread;
use crate::trace::interval::{self, Interval};
use crate::types::Rank;
use crate::wait;

/// `gasnet_team_handle_t`. `GASNET_TEAM_ALL` is the only team.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct CollTeam(usize);

/// Starts a collective between the barriers that the flags ask for. Without them a rank starts at
/// its call and completes when its own part is complete.
fn start<W: Future<Output = ()> + Send + 'static>(
    name: &'static str,
    bytes: usize,
    flags: c_int,
    work: impl FnOnce(Call) -> W,
) -> Event {
    let team = runtime::get().team0;
    let interval = Interval::begin(name, bytes, format_args!(" team=0 size={}", team.size));
    // The three calls take their sequence numbers now, in this order.
    let before = (flags & COLL_IN_ALLSYNC != 0).then(|| team_barrier::barrier(Call::next(team)));
    // In a box: `all` holds it twice on the stack, which may be small.
    let work = Box::pin(work(Call::next(team)));
    let after = (flags & COLL_OUT_ALLSYNC != 0).then(|| team_barrier::barrier(Call::next(team)));
    let all = async move {
        if let Some(before) = before {
            before.await;
        }
        work.await;
        if let Some(after) = after {
            after.await;
        }
    };
    coll::start(team, interval::around(interval, all), || {
        thread::current().free.borrow_mut().take()
    })
}

/// Checks the arguments and returns the team.
fn check(team: CollTeam, root: Rank, function: &str) -> &'static Team {
    not_in_handler(function);
    let all = runtime::get().team0;
    if team.0 != TEAM_ALL {
        fatal!("{function}: GASNET_TEAM_ALL is the only team of the GASNet-1 collectives");
    }
    if root.0 >= all.size {
        fatal!("{function}: image {root} does not exist in a job of {}", all.size);
    }
    all
}

fn span(at: *mut u8, bytes: usize) -> Span {
    Span { at, bytes }
}

/// Starts a broadcast of `bytes` from the `source` of image `root`.
#[no_mangle]
pub extern "C" fn gasnet_coll_broadcast_nb(
    team: CollTeam,
    target: *mut u8,
    root: Rank,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) -> Event {
    check(team, root, "gasnet_coll_broadcast_nb");
    start("gasnet_coll_broadcast_nb", bytes, flags, |call| {
        broadcast::broadcast(call, root, span(target, bytes), span(source, bytes))
    })
}

/// Starts a scatter of the `source` of image `root`, `bytes` for each.
#[no_mangle]
pub extern "C" fn gasnet_coll_scatter_nb(
    team: CollTeam,
    target: *mut u8,
    root: Rank,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) -> Event {
    let name = "gasnet_coll_scatter_nb";
    let all = check(team, root, name);
    let parts = (all.rank == root).then(|| equal(all, source, bytes, name));
    start("gasnet_coll_scatter_nb", bytes, flags, |call| {
        gather::from_one(call, root, span(target, bytes), parts, true)
    })
}

/// Starts a gather of `bytes` from every `source` into the `target` of image `root`.
#[no_mangle]
pub extern "C" fn gasnet_coll_gather_nb(
    team: CollTeam,
    root: Rank,
    target: *mut u8,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) -> Event {
    let name = "gasnet_coll_gather_nb";
    let all = check(team, root, name);
    let parts = (all.rank == root).then(|| equal(all, target, bytes, name));
    start("gasnet_coll_gather_nb", bytes, flags, |call| {
        gather::to_one(call, root, parts, span(source, bytes), true)
    })
}

/// Starts an all-gather of `bytes` from every `source`.
#[no_mangle]
pub extern "C" fn gasnet_coll_gather_all_nb(
    team: CollTeam,
    target: *mut u8,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) -> Event {
    let name = "gasnet_coll_gather_all_nb";
    let parts = equal(check(team, Rank(0), name), target, bytes, name);
    start("gasnet_coll_gather_all_nb", bytes, flags, |call| {
        gather::to_all(call, parts, span(source, bytes))
    })
}

/// Starts an all-to-all of `bytes` for each pair.
#[no_mangle]
pub extern "C" fn gasnet_coll_exchange_nb(
    team: CollTeam,
    target: *mut u8,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) -> Event {
    let name = "gasnet_coll_exchange_nb";
    let all = check(team, Rank(0), name);
    let (target, source) = (equal(all, target, bytes, name), equal(all, source, bytes, name));
    start("gasnet_coll_exchange_nb", bytes, flags, |call| {
        gather::exchange(call, target, source)
    })
}

/// A blocking broadcast.
#[no_mangle]
pub extern "C" fn gasnet_coll_broadcast(
    team: CollTeam,
    target: *mut u8,
    root: Rank,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) {
    gex_Event_Wait(gasnet_coll_broadcast_nb(team, target, root, source, bytes, flags));
}

/// A blocking scatter.
#[no_mangle]
pub extern "C" fn gasnet_coll_scatter(
    team: CollTeam,
    target: *mut u8,
    root: Rank,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) {
    gex_Event_Wait(gasnet_coll_scatter_nb(team, target, root, source, bytes, flags));
}

/// A blocking gather.
#[no_mangle]
pub extern "C" fn gasnet_coll_gather(
    team: CollTeam,
    root: Rank,
    target: *mut u8,
    source: *mut u8,
    bytes: usize,
    flags: c_int,
) {
    gex_Event_Wait(gasnet_coll_gather_nb(team, root, target, source, bytes, flags));
}

/// A blocking all-gather.
#[no_mangle]
pub extern "C" fn gasnet_coll_gather_all(team: CollTeam, target: *mut u8, source: *mut u8, bytes: usize, flags: c_int) {
    gex_Event_Wait(gasnet_coll_gather_all_nb(team, target, source, bytes, flags));
}

/// A blocking all-to-all.
#[no_mangle]
pub extern "C" fn gasnet_coll_exchange(team: CollTeam, target: *mut u8, source: *mut u8, bytes: usize, flags: c_int) {
    gex_Event_Wait(gasnet_coll_exchange_nb(team, target, source, bytes, flags));
}

fn check_team(team: CollTeam, function: &str) {
    check(team, Rank(0), function);
}

/// Another name of `gasnet_barrier_notify`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier_notify(team: CollTeam, id: c_int, flags: c_int) {
    check_team(team, "gasnet_coll_barrier_notify");
    barrier::gasnet_barrier_notify(id, flags);
}

/// Another name of `gasnet_barrier_wait`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier_wait(team: CollTeam, id: c_int, flags: c_int) -> c_int {
    check_team(team, "gasnet_coll_barrier_wait");
    barrier::gasnet_barrier_wait(id, flags)
}

/// Another name of `gasnet_barrier_try`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier_try(team: CollTeam, id: c_int, flags: c_int) -> c_int {
    check_team(team, "gasnet_coll_barrier_try");
    barrier::gasnet_barrier_try(id, flags)
}

/// Another name of `gasnet_barrier`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier(team: CollTeam, id: c_int, flags: c_int) -> c_int {
    check_team(team, "gasnet_coll_barrier");
    super::gasnet_barrier(id, flags)
}

/// Does nothing: there is no search for algorithms, so there are no results to write.
#[no_mangle]
pub extern "C" fn gasnet_coll_dumpTuningState(_file: *mut c_char, team: CollTeam) {
    check_team(team, "gasnet_coll_dumpTuningState");
}

/// Does nothing: see `gasnet_coll_dumpTuningState`.
#[no_mangle]
pub extern "C" fn gasnet_coll_dumpProfile(_file: *mut c_char, team: CollTeam) {
    check_team(team, "gasnet_coll_dumpProfile");
}

/// Waits for a collective.
#[no_mangle]
pub extern "C" fn gasnet_coll_wait_sync(handle: Event) {
    gex_Event_Wait(handle);
}

/// Whether a collective is complete: `GASNET_OK` or `GASNET_ERR_NOT_READY`.
#[no_mangle]
pub extern "C" fn gasnet_coll_try_sync(handle: Event) -> c_int {
    // Clients call this in a loop and do not poll themselves.
    wait::poll_once();
    if gex_Event_Test(handle) == 0 {
        OK
    } else {
        ERR_NOT_READY
    }
}
