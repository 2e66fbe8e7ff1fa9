//! What the specification calls erroneous and several functions check alike. Debug flavour: each check is nothing in the release flavour.

use crate::abi::{LcOpt, LC_DEFER, LC_GROUP, LC_NOW};
use crate::client::Client;
use crate::endpoint::{self, Endpoint};
use crate::event::{Doubt, Event};
use crate::flags::Flags;
use crate::runtime;
use crate::segment::create;
use crate::segment::Segment;
use crate::types::Location;

/// Whether there are checks.
pub const CHECKED: bool = cfg!(feature = "debug-checks");

/// Flags of puts and gets.
pub const RMA_FLAGS: Flags = Flags::IMMEDIATE
    .with(Flags::LC_COPY)
    .with(Flags::ENABLE_LEAF_LC)
    .with(Flags::PEER_NEVER_SELF)
    .with(Flags::PEER_NEVER_NBRHD)
    .with(Flags::SEG);
/// Those that change nothing for a neighbour, as inline code has them, too (`GASNETI_PLAIN_FLAGS`, `gasnetex_inline.h`).
pub const PLAIN_FLAGS: Flags = Flags::IMMEDIATE
    .with(Flags::PEER_NEVER_SELF)
    .with(Flags::SELF_SEG.without(Flags::SELF_SEG_OFFSET))
    .with(Flags::PEER_SEG_BOUND);
/// Flags of Active Messages.
pub const AM_FLAGS: Flags = Flags::IMMEDIATE.with(Flags::LC_COPY).with(Flags::SEG);

/// What a local-completion option may be.
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

/// `flags` are reserved.
#[inline]
pub fn no_flags(function: &str, flags: Flags) {
    only_flags(function, flags, Flags::NONE);
}

/// `flags` are of `allowed` and do not contradict each other.
#[inline]
pub fn only_flags(function: &str, flags: Flags, allowed: Flags) {
    if !CHECKED {
        return;
    }
    // Some calls are allowed before initialisation.
    let rank = || runtime::get().rank();
    if !allowed.has_all(flags) {
        fatal!(
            "rank {}: {function}: flags {:#x} are not for this call",
            rank(),
            flags.without(allowed)
        );
    }
    if flags.has_all(Flags::LC_COPY) {
        fatal!("rank {}: {function}: GEX_FLAG_LC_COPY_YES and _NO exclude each other", rank());
    }
}

/// What `GEX_FLAG_PEER_NEVER_*` say about the peer is true.
#[inline]
pub fn never(function: &str, flags: Flags, peer: Location) {
    if !CHECKED || !flags.has(Flags::PEER_NEVER_SELF | Flags::PEER_NEVER_NBRHD) {
        return;
    }
    let rt = runtime::get();
    if peer.rank == rt.rank() {
        fatal!(
            "rank {}: {function}: GEX_FLAG_PEER_NEVER_* was given, and the peer is in this process",
            rt.rank()
        );
    }
    if flags.has(Flags::PEER_NEVER_NBRHD) && rt.is_neighbour(peer.rank) {
        fatal!(
            "rank {}: {function}: GEX_FLAG_PEER_NEVER_NBRHD was given, and rank {} is a neighbour",
            rt.rank(),
            peer.rank
        );
    }
}

/// Source and destination are apart. `remote` is an address at the peer.
#[inline]
pub fn no_overlap(function: &str, peer: Location, remote: usize, local: *const u8, bytes: usize) {
    if !CHECKED || bytes == 0 {
        return;
    }
    let rt = runtime::get();
    let Some(here) = rt.map_near(peer, remote, bytes) else {
        return;
    };
    if (here as usize).abs_diff(local as usize) < bytes {
        fatal!(
            "rank {}: {function}: source and destination of {bytes} bytes overlap, at {here:p} and {local:p}",
            rt.rank()
        );
    }
}

/// A local-completion option is one that goes with this kind of call.
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
            runtime::get().rank()
        );
    }
}

/// An event names an operation that nobody has synchronised, or none.
#[inline]
pub fn event(function: &str, event: Event) {
    if !CHECKED {
        return;
    }
    let value = event.0;
    match event.doubt() {
        None => (),
        Some(Doubt::NoOp) => {
            fatal!("{function} was given GEX_EVENT_NO_OP, which names no operation: the call that returned it did nothing")
        }
        Some(Doubt::Unknown) => fatal!("{function}: {value:#x} is not a gex_Event_t"),
        Some(Doubt::Synchronised) => {
            fatal!("{function}: the event {value:#x} was synchronised already, or is a leaf of one that was")
        }
    }
}

/// The process has a rank `rank`.
#[inline]
pub fn job_rank(function: &str, rank: u32) {
    if CHECKED && rank >= runtime::get().size() {
        crate::team::no_rank(format_args!(
            "{function}: job rank {rank} does not exist in a job of {}",
            runtime::get().size()
        ));
    }
}

/// The endpoint behind a handle.
///
/// # Safety
/// A handle of ours or null; what is neither is noticed in the debug flavour.
#[inline]
pub unsafe fn endpoint<'a>(function: &str, ep: *const Endpoint) -> &'a Endpoint {
    if ep.is_null() {
        fatal!("{function} was given GEX_EP_INVALID");
    }
    if CHECKED && !std::ptr::eq(ep, runtime::get().endpoint0()) && !endpoint::is_other(ep) {
        fatal!("{function}: {ep:p} is not a gex_EP_t");
    }
    // SAFETY: by contract.
    unsafe { &*ep }
}

/// The segment behind a handle.
///
/// # Safety
/// A handle of ours; one that is null or was destroyed is noticed in the debug flavour.
#[inline]
pub unsafe fn segment<'a>(function: &str, segment: *const Segment) -> &'a Segment {
    if CHECKED {
        if segment.is_null() {
            fatal!("{function} was given GEX_SEGMENT_INVALID");
        }
        if create::DESTROYED.has(segment as usize) {
            fatal!("{function}: the segment {segment:p} was destroyed");
        }
    }
    // SAFETY: by contract.
    unsafe { &*segment }
}

/// The client behind a handle.
///
/// # Safety
/// A handle of ours; what is not one is noticed in the debug flavour.
#[inline]
pub unsafe fn client<'a>(function: &str, client: *const Client) -> &'a Client {
    if CHECKED && !std::ptr::eq(client, runtime::get().client()) {
        let what = if client.is_null() {
            "GEX_CLIENT_INVALID"
        } else {
            "something that is not a gex_Client_t"
        };
        fatal!("{function} was given {what}");
    }
    // SAFETY: by contract.
    unsafe { &*client }
}
