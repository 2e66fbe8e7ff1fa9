//! `gex_Coll_*`, and collectives beyond the specification (`gasnetx_Coll_*`). The former accept the
//! segment disposition of local buffers; `GEX_FLAG_PEER_SEG_*` have no effect, because there are no
//! remote addresses. The latter accept no flags.

use std::ffi::c_void;
use std::future::Future;
use std::slice;

use crate::barrier::split_phase;
use crate::coll::call::Call;
use crate::coll::gather::{self, Parts};
use crate::coll::operators::{Operator, OperatorArgs, UserFn};
use crate::coll::p2p::Span;
use crate::coll::{self, broadcast, reduce, scan, team_barrier};
use crate::event::{Event, Op};
use crate::flags::Flags;
use crate::rules::{self, not_in_handler};
use crate::runtime;
use crate::segment::disposition::{self, own_base};
use crate::team::TeamHandle;
use crate::team::{self, Team};
use crate::thread;
use crate::trace::interval::{self, Interval};
use crate::types::Rank;

fn op() -> &'static Op {
    thread::current().free.borrow_mut().take()
}

/// A collective in the trace: its name, the bytes that this rank contributes or receives, and the
/// root.
type What = (&'static str, usize, Option<Rank>);

fn start<W: Future<Output = ()> + Send + 'static>(
    (name, bytes, root): What,
    team: &'static Team,
    work: impl FnOnce(Call) -> W,
) -> Event {
    let root = || root.map(|root| team.locate(root).rank);
    let interval = Interval::begin(name, bytes, root, (team.id, team.size));
    let work = work(Call::next(team));
    if interval.is_some() {
        // In a box: each of the two on the stack, which may be small, is one too many.
        return coll::start(team, interval::around(interval, Box::pin(work)), op);
    }
    coll::start(team, work, op)
}

/// The team of a collective. Checks that the call is allowed here. Debug flavour.
fn may_call(tm: TeamHandle, function: &str) -> &'static Team {
    not_in_handler(function);
    let team = team::team(tm, function);
    if rules::CHECKED && team.is_primordial() && split_phase::is_open() {
        fatal!(
            "{function} was called between gasnet_barrier_notify and gasnet_barrier_wait: collectives over the \
             primordial team and that barrier must not operate concurrently"
        );
    }
    team
}

/// The team of a collective that moves data. Fatal when its local member has device memory.
fn team_of(tm: TeamHandle, function: &str) -> &'static Team {
    let team = may_call(tm, function);
    if let Some(device) = runtime::get().device_of(team.ep) {
        fatal!(
            "{function}: the local member of the team is an endpoint with a segment on {device}; collectives \
             move host memory. Use a team \
             of primordial endpoints (GASNet-EX Memory Kinds 2025.8, gex_TM_Create)."
        );
    }
    team
}

fn check_root(team: &Team, root: Rank, function: &str) {
    if root.0 >= team.size {
        fatal!("{function}: root {root} is not in a team of {} members", team.size);
    }
}

/// Checks that source and destination are equal or do not overlap. Debug flavour.
fn check_apart(destination: *const u8, source: *const u8, bytes: usize, function: &str) {
    let apart = (destination as usize).abs_diff(source as usize);
    if rules::CHECKED && apart != 0 && apart < bytes {
        fatal!("{function}: src and dst overlap: {bytes} bytes at {source:p} and {destination:p}");
    }
}

fn span(at: *mut u8, bytes: usize) -> Span {
    Span { at, bytes }
}

/// The local range of a call: `at` is an address or, with `GEX_FLAG_SELF_SEG_OFFSET`, an offset in
/// the segment of the team's local member.
fn place(function: &str, team: &Team, flags: Flags, at: *const u8, bytes: usize) -> Span {
    let at = at.cast_mut().wrapping_add(own_base(team.ep, flags));
    if rules::CHECKED {
        disposition::check(flags, team.ep, at as usize, bytes, function);
        if at.is_null() && bytes > 0 {
            fatal!("{function}: src and dst must not be null; {bytes} bytes are to be read or written there");
        }
    }
    span(at, bytes)
}

/// Checks that `flags` are of the segment disposition. Debug flavour.
fn placing(function: &str, flags: Flags) {
    rules::only_flags(function, flags, Flags::SEG);
}

/// Checks, in both flavours, that `flags` are 0.
fn reserved(function: &str, flags: Flags) {
    if !flags.is_none() {
        fatal!("{function}: flags {flags:#x} are not for this call, they must be 0");
    }
}

/// Starts a barrier over a team. Collective.
#[no_mangle]
pub extern "C" fn gex_Coll_BarrierNB(tm: TeamHandle, flags: Flags) -> Event {
    let team = may_call(tm, "gex_Coll_BarrierNB");
    rules::no_flags("gex_Coll_BarrierNB", flags);
    let interval = Interval::begin("gex_Coll_BarrierNB", 0, || None, (team.id, team.size));
    let barrier = team_barrier::barrier(team);
    if interval.is_some() {
        return coll::start(team, interval::around(interval, barrier), op);
    }
    coll::start_barrier(team, barrier, op)
}

/// Starts a broadcast over a team. Collective. `source` is significant at the root only.
#[no_mangle]
pub extern "C" fn gex_Coll_BroadcastNB(
    tm: TeamHandle,
    root: Rank,
    destination: *mut u8,
    source: *const u8,
    bytes: usize,
    flags: Flags,
) -> Event {
    let name = "gex_Coll_BroadcastNB";
    let team = team_of(tm, name);
    placing(name, flags);
    check_root(team, root, name);
    let target = place(name, team, flags, destination, bytes);
    let mut from = Span::source(source, bytes);
    if team.rank == root {
        from = place(name, team, flags, source, bytes);
        check_apart(target.at, from.at, bytes, name);
    }
    start((name, bytes, Some(root)), team, |call| {
        broadcast::broadcast(call, root, target, from)
    })
}

/// The arguments of a reduction. `target` is as the client passed it until [`place`] has checked
/// it, where it is significant.
struct Reduction {
    team: &'static Team,
    target: Span,
    source: Span,
    operator: Operator,
}

/// Checks what all reductions share.
fn reduction(
    function: &str,
    tm: TeamHandle,
    destination: *mut u8,
    source: *const u8,
    count: usize,
    operator: &OperatorArgs,
    flags: Flags,
) -> Reduction {
    let (team, element) = (team_of(tm, function), operator.element);
    let operator = Operator::new(operator).unwrap_or_else(|why| fatal!("{function}: {why}"));
    let Some(bytes) = element.checked_mul(count) else {
        fatal!("{function}: {count} elements of {element} bytes exceed the address space");
    };
    Reduction {
        team,
        target: span(destination, bytes),
        source: place(function, team, flags, source, bytes),
        operator,
    }
}

/// Reductions. Per line: the name, the root if the destination is significant there only, the rule
/// for flags, and the work.
macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident($($root:ident)?) $rule:expr, |$call:ident, $r:ident| $work:expr;)*) => {$(
        $(#[$doc])*
        #[no_mangle]
        pub extern "C" fn $name(
            tm: TeamHandle, $($root: Rank,)? destination: *mut u8, source: *const u8, dt: u32, element: usize,
            count: usize, op: u32, user: Option<UserFn>, cdata: *mut c_void, flags: Flags,
        ) -> Event {
            let (name, rule): (&str, fn(&str, Flags)) = (stringify!($name), $rule);
            rule(name, flags);
            let operator = OperatorArgs { dt, element, op, user, cdata };
            let mut $r = reduction(name, tm, destination, source, count, &operator, flags);
            $(check_root($r.team, $root, name);)?
            let is_target = true $(&& $r.team.rank == $root)?;
            if is_target {
                $r.target = place(name, $r.team, flags, destination, $r.source.bytes);
                check_apart($r.target.at, $r.source.at, $r.source.bytes, name);
            }
            let root = None$(.or(Some($root)))?;
            start((name, $r.source.bytes, root), $r.team, |$call| $work)
        }
    )*};
}

reductions! {
    /// Starts a reduction to one member. Collective. `destination` is significant at the root only.
    gex_Coll_ReduceToOneNB(root) placing, |call, r| reduce::to_one(call, root, r.target, r.source, r.operator);
    /// Starts a reduction to all members. Collective.
    gex_Coll_ReduceToAllNB() placing, |call, r| reduce::to_all(call, r.target, r.source, r.operator);
    /// Starts a prefix reduction: rank `i` receives the contributions of ranks 0 to `i`, combined
    /// in this order. Collective.
    gasnetx_Coll_ScanNB() reserved, |call, r| scan::scan(call, r.target, r.source, r.operator, false);
    /// As `gasnetx_Coll_ScanNB`, without the rank's own contribution. Does not write the
    /// destination of rank 0. Collective.
    gasnetx_Coll_ExclusiveScanNB() reserved, |call, r| scan::scan(call, r.target, r.source, r.operator, true);
}

/// Equal parts of `bytes` for all members of `team`.
pub(super) fn equal(team: &Team, at: *mut u8, bytes: usize, function: &str) -> Parts {
    match bytes.checked_mul(team.size as usize) {
        Some(total) => Parts::Equal(span(at, total), bytes),
        None => fatal!(
            "{function}: {bytes} bytes for each of {} members exceed the address space",
            team.size
        ),
    }
}

/// Parts of `counts[i]` bytes at `offsets[i]`.
///
/// # Safety
/// Both arrays have an entry for every member.
unsafe fn listed(team: &Team, at: *mut u8, counts: *const usize, offsets: *const usize) -> Parts {
    // SAFETY: the caller's contract.
    let counts = unsafe { slice::from_raw_parts(counts, team.size as usize) };
    // SAFETY: the caller's contract.
    let offsets = unsafe { slice::from_raw_parts(offsets, team.size as usize) };
    let part = |(&bytes, &offset): (&usize, &usize)| span(at.wrapping_add(offset), bytes);
    Parts::Listed(counts.iter().zip(offsets).map(part).collect())
}

/// Collectives beyond the specification. Per line: the name, the parameters, the root if there is
/// one, and the bytes in the trace and the work, of the team that the call names.
macro_rules! extensions {
    ($(
        $(#[$doc:meta])*
        $name:ident ($($arg:ident: $type:ty),*) $(root $root:ident)?, |$team:ident, $function:ident| $work:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Arrays have an entry for every member where they are significant.
        #[no_mangle]
        pub unsafe extern "C" fn $name(tm: TeamHandle, $($arg: $type,)* flags: Flags) -> Event {
            let $function = stringify!($name);
            reserved($function, flags);
            let $team = team_of(tm, $function);
            $(check_root($team, $root, $function);)?
            let (bytes, work) = $work;
            let root = None$(.or(Some($root)))?;
            start(($function, bytes, root), $team, work)
        }
    )*};
}

extensions! {
    /// Starts a gather: the root receives `bytes` from each member's `source`, in the order of
    /// ranks. Collective.
    gasnetx_Coll_GatherNB (root: Rank, destination: *mut u8, source: *const u8, bytes: usize)
        root root, |team, name| {
            let target = (team.rank == root).then(|| equal(team, destination, bytes, name));
            (bytes, |call| gather::to_one(call, root, target, Span::source(source, bytes), true))
        };
    /// As `gasnetx_Coll_GatherNB`; the root receives `counts[i]` bytes from member `i` at
    /// `offsets[i]`. Both arrays are significant at the root only. Collective.
    gasnetx_Coll_GatherVNB (root: Rank, destination: *mut u8, counts: *const usize, offsets: *const usize,
        source: *const u8, bytes: usize)
        root root, |team, name| {
            // SAFETY: the caller's contract.
            let target = (team.rank == root).then(|| unsafe { listed(team, destination, counts, offsets) });
            (bytes, |call| gather::to_one(call, root, target, Span::source(source, bytes), false))
        };
    /// Starts a scatter: member `i` receives the `i`-th `bytes` of the root's `source`. Collective.
    gasnetx_Coll_ScatterNB (root: Rank, destination: *mut u8, source: *const u8, bytes: usize)
        root root, |team, name| {
            let parts = (team.rank == root).then(|| equal(team, source.cast_mut(), bytes, name));
            (bytes, |call| gather::from_one(call, root, span(destination, bytes), parts, true))
        };
    /// As `gasnetx_Coll_ScatterNB`; member `i` receives `counts[i]` bytes from `offsets[i]`. Both
    /// arrays are significant at the root only. Collective.
    gasnetx_Coll_ScatterVNB (root: Rank, destination: *mut u8, bytes: usize, source: *const u8,
        counts: *const usize, offsets: *const usize)
        root root, |team, name| {
            // SAFETY: the caller's contract.
            let parts = (team.rank == root).then(|| unsafe { listed(team, source.cast_mut(), counts, offsets) });
            (bytes, |call| gather::from_one(call, root, span(destination, bytes), parts, false))
        };
    /// Starts an all-gather: every member receives `bytes` from each `source`, in the order of
    /// ranks. Collective.
    gasnetx_Coll_AllGatherNB (destination: *mut u8, source: *const u8, bytes: usize),
        |team, name| {
            let target = equal(team, destination, bytes, name);
            (bytes, |call| gather::to_all(call, target, Span::source(source, bytes)))
        };
    /// As `gasnetx_Coll_AllGatherNB`; member `i` contributes `counts[i]` bytes, which go to
    /// `offsets[i]`. Collective.
    gasnetx_Coll_AllGatherVNB (destination: *mut u8, counts: *const usize, offsets: *const usize, source: *const u8),
        |team, name| {
            // SAFETY: the caller's contract.
            let target = unsafe { listed(team, destination, counts, offsets) };
            let own = target.part(team.rank.0).bytes;
            (own, move |call| gather::to_all(call, target, Span::source(source, own)))
        };
    /// Starts an all-to-all: the `j`-th `bytes` of member `i`'s `source` become the `i`-th of
    /// member `j`'s `destination`. Collective.
    gasnetx_Coll_AllToAllNB (destination: *mut u8, source: *const u8, bytes: usize),
        |team, name| {
            let target = equal(team, destination, bytes, name);
            let parts = equal(team, source.cast_mut(), bytes, name);
            (bytes, |call| gather::exchange(call, target, parts))
        };
    /// As `gasnetx_Coll_AllToAllNB`, with parts of any length at any offset. The part that `i`
    /// sends to `j` has the length that `j` expects from `i`. Collective.
    gasnetx_Coll_AllToAllVNB (destination: *mut u8, destination_counts: *const usize,
        destination_offsets: *const usize, source: *const u8, source_counts: *const usize,
        source_offsets: *const usize),
        |team, name| {
            // SAFETY: the caller's contract.
            let target = unsafe { listed(team, destination, destination_counts, destination_offsets) };
            // SAFETY: the caller's contract.
            let parts = unsafe { listed(team, source.cast_mut(), source_counts, source_offsets) };
            let bytes = (0..team.size).map(|rank| parts.part(rank).bytes).sum();
            (bytes, |call| gather::exchange(call, target, parts))
        };
}
