//! Checks of what the specification calls erroneous, for calls of several families. They exist in
//! the debug flavour only and end the job. In the release flavour each is nothing.

use crate::event::{Event, EventDefect};
use crate::flags::{self, Flags};
use crate::runtime;
use crate::team;
use crate::thread;
use crate::types::Location;
use gasnet_conduit::JobRank;

/// Whether this is the debug flavour.
pub const CHECKED: bool = cfg!(feature = "debug-checks");

/// Flags of puts and gets.
pub const RMA_FLAGS: Flags = Flags::IMMEDIATE
    .with(Flags::LC_COPY)
    .with(Flags::ENABLE_LEAF_LC)
    .with(Flags::PEER_NEVER_SELF)
    .with(Flags::PEER_NEVER_NBRHD)
    .with(Flags::SEG);
/// Flags that change nothing when the peer is a neighbour. Inline code has the same set
/// (`GASNETI_PLAIN_FLAGS`, `gasnetex_inline.h`).
pub const PLAIN_FLAGS: Flags = Flags::IMMEDIATE
    .with(Flags::PEER_NEVER_SELF)
    .with(Flags::SELF_SEG.without(Flags::SELF_SEG_OFFSET))
    .with(Flags::PEER_SEG_BOUND);
/// Flags of Active Messages.
pub const AM_FLAGS: Flags = Flags::IMMEDIATE.with(Flags::LC_COPY).with(Flags::SEG);

/// The local-completion option of a call (`gex_Event_t *lc_opt`): one of the constants below, or
/// the client's event.
pub type LcOpt = *mut Event;

/// `GEX_EVENT_NOW`.
pub const LC_NOW: LcOpt = flags::EVENT_NOW as LcOpt;
/// `GEX_EVENT_DEFER`.
pub const LC_DEFER: LcOpt = flags::EVENT_DEFER as LcOpt;
/// `GEX_EVENT_GROUP`, the highest of the constants.
pub const LC_GROUP: LcOpt = flags::EVENT_GROUP as LcOpt;

const _: () = assert!(Event::INVALID.0 == flags::EVENT_INVALID && Event::NO_OP.0 == flags::EVENT_NO_OP);

/// Calls that take a local-completion option. Each accepts other constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lc {
    /// Puts with a root event.
    PutNb,
    /// Puts in the implicit set.
    PutNbi,
    /// Requests.
    Request,
    /// Replies.
    Reply,
}

/// `function` may wait or run handlers: the thread holds no handler-safe lock and does not run a
/// reduction function, to which the same rules apply.
#[inline]
pub fn no_locks_held(function: &str) {
    if !CHECKED {
        return;
    }
    let thread = thread::current();
    if thread.locks_held.count() > 0 {
        fatal!("{function} was called while this thread holds a handler-safe lock. Release it first.");
    }
    if thread.reducing.get() {
        fatal!(
            "{function} was called inside a user-defined reduction function, which may only compute, query, and use \
             handler-safe locks (GASNet-EX 0.19, \"User-Defined Reduction Operations\")."
        );
    }
}

/// `function` communicates: the thread runs no handler, holds no lock, and has no prepared request.
#[inline]
pub fn not_in_handler(function: &str) {
    if !CHECKED {
        return;
    }
    let thread = thread::current();
    if let Some((name, index)) = thread.handler() {
        let name = name.map_or("unnamed".into(), |n| n.to_string_lossy().into_owned());
        fatal!(
            "{function} was called inside AM handler {index} ({name}). Handlers may only reply, query, and \
             use handler-safe locks \
             (GASNet-EX 0.19, \"Calls from restricted context\")."
        );
    }
    no_locks_held(function);
    if thread.request_desc.prepared().is_some() {
        fatal!("{function} was called between gex_AM_PrepareRequest and its Commit. Commit or cancel first.");
    }
}

/// `flags` are reserved and must be 0.
#[inline]
pub fn no_flags(function: &str, flags: Flags) {
    only_flags(function, flags, Flags::NONE);
}

/// `flags` are a subset of `allowed`, and at most one `GEX_FLAG_LC_COPY_*`.
#[inline]
pub fn only_flags(function: &str, flags: Flags, allowed: Flags) {
    if !CHECKED {
        return;
    }
    // Some calls are allowed before initialisation.
    let rank = || runtime::get().rank;
    if !allowed.has_all(flags) {
        fatal!(
            "rank {}: {function}: flags {:#x} are not for this call",
            rank(),
            flags.without(allowed)
        );
    }
    if flags.has_all(Flags::LC_COPY) {
        fatal!(
            "rank {}: {function}: GEX_FLAG_LC_COPY_YES and _NO exclude each other",
            rank()
        );
    }
}

/// The peer is where `GEX_FLAG_PEER_NEVER_*` promise.
#[inline]
pub fn never(function: &str, flags: Flags, peer: Location) {
    if !CHECKED || !flags.has(Flags::PEER_NEVER_SELF | Flags::PEER_NEVER_NBRHD) {
        return;
    }
    let rt = runtime::get();
    if peer.rank == rt.rank {
        fatal!(
            "rank {}: {function}: GEX_FLAG_PEER_NEVER_* was given, and the peer is in this process",
            rt.rank
        );
    }
    if flags.has(Flags::PEER_NEVER_NBRHD) && rt.is_neighbour(peer.rank) {
        fatal!(
            "rank {}: {function}: GEX_FLAG_PEER_NEVER_NBRHD was given, and rank {} is a neighbour",
            rt.rank,
            peer.rank
        );
    }
}

/// Source and destination do not overlap. `remote` is an address at the peer. They may be equal:
/// loops over all ranks put a block to its own place, where nothing changes.
#[inline]
pub fn no_overlap(function: &str, peer: Location, remote: usize, local: *const u8, bytes: usize) {
    if !CHECKED || bytes == 0 {
        return;
    }
    let rt = runtime::get();
    let Some(here) = rt.mapped_address(peer, remote, bytes) else {
        return;
    };
    let apart = (here as usize).abs_diff(local as usize);
    if apart != 0 && apart < bytes {
        fatal!(
            "rank {}: {function}: source and destination of {bytes} bytes overlap, at {here:p} and {local:p}",
            rt.rank
        );
    }
}

/// Calls of this kind accept the local-completion option.
#[inline]
pub fn local_completion(function: &str, lc_opt: LcOpt, kind: Lc) {
    if !CHECKED {
        return;
    }
    let (good, name) = if lc_opt.is_null() {
        (false, "NULL")
    } else if lc_opt == LC_NOW {
        (true, "GEX_EVENT_NOW")
    } else if lc_opt == LC_DEFER {
        (matches!(kind, Lc::PutNb | Lc::PutNbi), "GEX_EVENT_DEFER")
    } else if lc_opt == LC_GROUP {
        (matches!(kind, Lc::PutNbi | Lc::Request), "GEX_EVENT_GROUP")
    } else {
        (kind != Lc::PutNbi, "a pointer to an event")
    };
    if !good {
        fatal!(
            "rank {}: {function}: lc_opt must not be {name} in this call",
            runtime::get().rank
        );
    }
}

/// An event is null or names an operation that was not synchronised yet.
#[inline]
pub fn event(function: &str, event: Event) {
    if !CHECKED {
        return;
    }
    let value = event.0;
    match event.defect() {
        None => (),
        Some(EventDefect::NoOp) => {
            fatal!(
                "{function} was given GEX_EVENT_NO_OP, which names no operation: the call that returned it did nothing"
            )
        }
        Some(EventDefect::Unknown) => fatal!("{function}: {value:#x} is not a gex_Event_t"),
        Some(EventDefect::Synchronised) => {
            fatal!("{function}: the event {value:#x} was synchronised already, or is a leaf of one that was")
        }
    }
}

/// The job has a rank `rank`.
#[inline]
pub fn job_rank(function: &str, rank: JobRank) {
    if CHECKED && rank.0 >= runtime::get().size {
        team::no_rank(format_args!(
            "{function}: job rank {rank} does not exist in a job of {}",
            runtime::get().size
        ));
    }
}
