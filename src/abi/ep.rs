//! `gex_EP_*`: endpoints, their handlers, and the segments bound to them.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use super::handles::{self, cdata, query};
use super::system::store;
use super::{complain, registered};
use crate::am::table::AmEntry;
use crate::client::Client;
use crate::endpoint::{self, Endpoint, MAX_ENDPOINTS};
use crate::event::Event;
use crate::flags::{Flags, EP_CAPABILITY_ALL, ERR_BAD_ARG, ERR_RESOURCE, OK};
use crate::rules::{self, not_in_handler};
use crate::runtime;
use crate::segment::publish::publish;
use crate::segment::Segment;
use crate::team::{self, TeamHandle};
use crate::trace::{self, recorder};
use crate::types::{EpIndex, Rank};

cdata! { gex_EP_SetCData gex_EP_QueryCData Endpoint, handles::endpoint, "endpoint" }

/// The client that owns an endpoint.
#[no_mangle]
pub extern "C" fn gex_EP_QueryClient(_ep: *const Endpoint) -> *const Client {
    runtime::get().client
}

query! {
    /// The flags of `gex_EP_Create`; for the primordial endpoint, those of `gex_Client_Init`.
    gex_EP_QueryFlags(Endpoint, handles::endpoint) -> Flags = |ep| ep.flags;
    /// The bound segment, or null.
    gex_EP_QuerySegment(Endpoint, handles::endpoint) -> *mut Segment = |ep| ep.segment.load(Ordering::Acquire);
    /// The index of an endpoint within its process.
    gex_EP_QueryIndex(Endpoint, handles::endpoint) -> EpIndex = |ep| ep.index;
}

/// Creates an endpoint. It has all capabilities, whatever the client asks for.
///
/// # Safety
/// `ep` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_Create(
    ep: *mut *const Endpoint,
    client: *const Client,
    capabilities: u32,
    flags: Flags,
) -> c_int {
    let name = "gex_EP_Create";
    not_in_handler(name);
    let known = capabilities != 0 && capabilities & !EP_CAPABILITY_ALL == 0;
    if ep.is_null() || client.is_null() || !known || !Flags::HINT_ACCEL_ALL.has_all(flags) {
        complain(
            name,
            "ep_p and client must not be null, capabilities must be of GEX_EP_CAPABILITY_*, and flags of \
             GEX_FLAG_HINT_ACCEL_*",
        );
        return ERR_BAD_ARG;
    }
    let Some(made) = endpoint::create(flags) else {
        complain(
            name,
            &format!("this process has {MAX_ENDPOINTS} endpoints (GASNET_MAXEPS) already"),
        );
        return ERR_RESOURCE;
    };
    // SAFETY: not null, so valid for a write.
    unsafe { ep.write(made) };
    trace::created(format_args!(" what=endpoint handle={made:p} index={}", made.index));
    OK
}

/// Registers handlers and fills in the indices that the client left open.
///
/// # Safety
/// `ep` is null or the handle of an endpoint; `table` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_RegisterHandlers(ep: *const Endpoint, table: *mut AmEntry, count: usize) -> c_int {
    let name = "gex_EP_RegisterHandlers";
    if ep.is_null() || (table.is_null() && count > 0) {
        complain(name, "ep and table must not be null");
        return ERR_BAD_ARG;
    }
    if count == 0 {
        return OK;
    }
    not_in_handler(name);
    // SAFETY: not null, so `count` entries.
    let entries = unsafe { std::slice::from_raw_parts_mut(table, count) };
    // SAFETY: the caller's contract.
    let handlers = &unsafe { handles::endpoint(name, ep) }.handlers;
    let result = handlers.register(entries);
    if result.is_ok() {
        for entry in entries {
            recorder::handler(entry.index, entry.flags, entry.nargs);
        }
    }
    registered(name, result)
}

/// Binds a segment to an endpoint that has none.
///
/// # Safety
/// `ep` and `segment` are null or handles.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_BindSegment(ep: *const Endpoint, segment: *const Segment, flags: Flags) -> c_int {
    let name = "gex_EP_BindSegment";
    not_in_handler(name);
    // SAFETY: null or handles.
    let (Some(ep), Some(segment)) = (unsafe { ep.as_ref() }, unsafe { segment.as_ref::<'static>() }) else {
        complain(name, "neither the endpoint nor the segment may be null");
        return ERR_BAD_ARG;
    };
    if rules::CHECKED {
        // SAFETY: a handle; in the debug flavour a destroyed segment keeps its memory.
        unsafe { handles::segment(name, segment) };
    }
    if !flags.is_none() {
        complain(name, "flags must be 0");
        return ERR_BAD_ARG;
    }
    if let Some(device) = segment.kind.filter(|_| ep.index == 0) {
        complain(
            name,
            &format!("the primordial endpoint takes host memory only; the segment is on {device}"),
        );
        return ERR_BAD_ARG;
    }
    if !ep.bind(segment) {
        complain(name, "the endpoint has a bound segment");
        return ERR_BAD_ARG;
    }
    OK
}

/// Sends the bound segments of `count` endpoints of this process to the members of a team.
/// Collective; also a barrier.
///
/// # Safety
/// `eps` is null or has `count` entries, each null or the handle of an endpoint.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_PublishBoundSegment(
    tm: TeamHandle,
    eps: *const *const Endpoint,
    count: usize,
    flags: Flags,
) -> c_int {
    let name = "gex_EP_PublishBoundSegment";
    not_in_handler(name);
    let team = team::team(tm, name);
    let good = flags.is_none() && (!eps.is_null() || count == 0);
    let endpoints: &[*const Endpoint] = if good && count > 0 {
        // SAFETY: not null, so `count` entries.
        unsafe { std::slice::from_raw_parts(eps, count) }
    } else {
        &[]
    };
    // SAFETY: null or handles.
    let endpoints: Vec<&Endpoint> = endpoints.iter().filter_map(|&ep| unsafe { ep.as_ref() }).collect();
    // A member with bad arguments still takes part, with no endpoints, so that the others do not
    // wait for it.
    let published = publish(runtime::get(), team, &endpoints);
    let index = |i: usize| endpoints[i].index;
    if rules::CHECKED && (0..endpoints.len()).any(|i| (0..i).any(|earlier| index(earlier) == index(i))) {
        fatal!("{name}: eps names an endpoint twice");
    }
    if !good || endpoints.len() < count {
        complain(
            name,
            "flags must be 0, eps must not be null unless num_eps is 0, and its entries must be endpoints",
        );
        return ERR_BAD_ARG;
    }
    match published {
        Ok(()) => OK,
        Err(why) => {
            complain(name, &why);
            ERR_RESOURCE
        }
    }
}

/// A bound segment: its base at the owner, its base here (null if it is not mapped), and its
/// length.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    owner: *mut c_void,
    here: *mut c_void,
    bytes: usize,
}

impl Bound {
    /// No segment.
    const NONE: Self = Self {
        owner: ptr::null_mut(),
        here: ptr::null_mut(),
        bytes: 0,
    };

    /// Writes the three values to the outputs of a query.
    ///
    /// # Safety
    /// Each output is null or valid for a write.
    pub unsafe fn store(self, owner: *mut *mut c_void, here: *mut *mut c_void, bytes: *mut usize) {
        for (output, value) in [(owner, self.owner), (here, self.here)] {
            // SAFETY: the caller's contract.
            unsafe { store(output, value) };
        }
        // SAFETY: the caller's contract.
        unsafe { store(bytes, self.bytes) };
    }
}

/// The segment bound to the endpoint that `(tm, rank)` names, if there is one. Never communicates:
/// what was attached or published is known here. Fatal in the debug flavour when there is no such
/// rank.
pub(super) fn bound(function: &str, tm: TeamHandle, rank: Rank) -> Option<Bound> {
    let rt = runtime::get();
    let size = team::size(tm);
    if rank.0 >= size {
        if rules::CHECKED {
            fatal!("{function}: rank {rank} does not exist among {size}");
        }
        return None;
    }
    let (_, location) = team::resolve(tm, rank);
    let segment = rt.bound_segment(location)?;
    let here = rt.mapped_address(location, segment.base, 0);
    Some(Bound {
        owner: segment.base as *mut c_void,
        here: here.map_or(ptr::null_mut(), <*mut u8>::cast),
        bytes: segment.bytes,
    })
}

/// Queries a bound segment. The event is complete at return.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_QueryBoundSegmentNB(
    tm: TeamHandle,
    rank: Rank,
    owner: *mut *mut c_void,
    here: *mut *mut c_void,
    bytes: *mut usize,
    flags: Flags,
) -> Event {
    let name = "gex_EP_QueryBoundSegmentNB";
    if !flags.has(Flags::IMMEDIATE) {
        not_in_handler(name);
    }
    rules::only_flags(name, flags, Flags::IMMEDIATE);
    // SAFETY: the caller's contract.
    unsafe { bound(name, tm, rank).unwrap_or(Bound::NONE).store(owner, here, bytes) };
    Event::INVALID
}
