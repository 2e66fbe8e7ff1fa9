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
    root: Rank,
    bytes: usize,
    flags: c_int,
    work: impl FnOnce(Call) -> W,
) -> Event {
    let team = runtime::get().team0;
    let interval = Interval::begin(name, bytes, || Some(team.locate(root).rank), (team.id, team.size));
    // The three calls take their sequence numbers now, in this order.
    let before = (flags & COLL_IN_ALLSYNC != 0).then(|| team_barrier::barrier(team));
    // In a box: `all` holds it twice on the stack, which may be small.
    let work = Box::pin(work(Call::next(team)));
    let after = (flags & COLL_OUT_ALLSYNC != 0).then(|| team_barrier::barrier(team));
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

/// Checks the arguments.
fn check(team: CollTeam, root: Rank, function: &str) {
    not_in_handler(function);
    if team.0 != TEAM_ALL {
        fatal!("{function}: GASNET_TEAM_ALL is the only team of the GASNet-1 collectives");
    }
    let size = runtime::get().size;
    if root.0 >= size {
        fatal!("{function}: image {root} does not exist in a job of {size}");
    }
}

fn span(at: *mut u8, bytes: usize) -> Span {
    Span { at, bytes }
}

/// The two forms of each collective, with a handle and blocking. Per line: the names, the
/// parameters, the root, and the algorithm for a call of that name.
macro_rules! collectives {
    ($(
        $(#[$doc:meta])*
        $nb:ident $blocking:ident ($($arg:ident: $type:ty),*; $bytes:ident)
            $root:expr, |$call:ident, $name:ident| $work:expr;
    )*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub extern "C" fn $nb(team: CollTeam, $($arg: $type,)* $bytes: usize, flags: c_int) -> Event {
            let $name = stringify!($nb);
            check(team, $root, $name);
            start($name, $root, $bytes, flags, |$call| $work)
        }

        $(#[$doc])*
        ///
        /// Waits until it is complete.
        #[no_mangle]
        pub extern "C" fn $blocking(team: CollTeam, $($arg: $type,)* $bytes: usize, flags: c_int) {
            gex_Event_Wait($nb(team, $($arg,)* $bytes, flags));
        }
    )*};
}

collectives! {
    /// Broadcasts `bytes` from the `source` of image `root`.
    gasnet_coll_broadcast_nb gasnet_coll_broadcast (target: *mut u8, root: Rank, source: *mut u8; bytes)
        root, |call, _name| broadcast::broadcast(call, root, span(target, bytes), span(source, bytes));
    /// Scatters the `source` of image `root`, `bytes` for each.
    gasnet_coll_scatter_nb gasnet_coll_scatter (target: *mut u8, root: Rank, source: *mut u8; bytes)
        root, |call, name| {
            let parts = (call.team().rank == root).then(|| equal(call.team(), source, bytes, name));
            gather::from_one(call, root, span(target, bytes), parts, true)
        };
    /// Gathers `bytes` from every `source` into the `target` of image `root`.
    gasnet_coll_gather_nb gasnet_coll_gather (root: Rank, target: *mut u8, source: *mut u8; bytes)
        root, |call, name| {
            let parts = (call.team().rank == root).then(|| equal(call.team(), target, bytes, name));
            gather::to_one(call, root, parts, span(source, bytes), true)
        };
    /// Gathers `bytes` from every `source` into every `target`.
    gasnet_coll_gather_all_nb gasnet_coll_gather_all (target: *mut u8, source: *mut u8; bytes)
        Rank(0), |call, name| gather::to_all(call, equal(call.team(), target, bytes, name), span(source, bytes));
    /// Exchanges `bytes` in each pair of images.
    gasnet_coll_exchange_nb gasnet_coll_exchange (target: *mut u8, source: *mut u8; bytes)
        Rank(0), |call, name| {
            let team = call.team();
            gather::exchange(call, equal(team, target, bytes, name), equal(team, source, bytes, name))
        };
}

/// Another name of `gasnet_barrier_notify`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier_notify(team: CollTeam, id: c_int, flags: c_int) {
    check(team, Rank(0), "gasnet_coll_barrier_notify");
    barrier::gasnet_barrier_notify(id, flags);
}

/// Another name of `gasnet_barrier_wait`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier_wait(team: CollTeam, id: c_int, flags: c_int) -> c_int {
    check(team, Rank(0), "gasnet_coll_barrier_wait");
    barrier::gasnet_barrier_wait(id, flags)
}

/// Another name of `gasnet_barrier_try`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier_try(team: CollTeam, id: c_int, flags: c_int) -> c_int {
    check(team, Rank(0), "gasnet_coll_barrier_try");
    barrier::gasnet_barrier_try(id, flags)
}

/// Another name of `gasnet_barrier`.
#[no_mangle]
pub extern "C" fn gasnet_coll_barrier(team: CollTeam, id: c_int, flags: c_int) -> c_int {
    check(team, Rank(0), "gasnet_coll_barrier");
    super::gasnet_barrier(id, flags)
}

/// Does nothing: there is no search for algorithms, so there are no results to write.
#[no_mangle]
pub extern "C" fn gasnet_coll_dumpTuningState(_file: *mut c_char, team: CollTeam) {
    check(team, Rank(0), "gasnet_coll_dumpTuningState");
}

/// Does nothing: see `gasnet_coll_dumpTuningState`.
#[no_mangle]
pub extern "C" fn gasnet_coll_dumpProfile(_file: *mut c_char, team: CollTeam) {
    check(team, Rank(0), "gasnet_coll_dumpProfile");
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
