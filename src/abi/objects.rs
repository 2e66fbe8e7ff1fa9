//! Queries of clients, endpoints and segments, and what makes and binds them.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use super::compat::call_attach_hook;
use super::handles;
use super::system::store;
use super::{complain, mk};
use crate::am::table::Entry;
use crate::client::Client;
use crate::endpoint::{self, Endpoint, MAX_ENDPOINTS};
use crate::flags::{Flags, EP_CAPABILITY_ALL, ERR_BAD_ARG, ERR_RESOURCE, OK};
use crate::rules;
use crate::runtime;
use crate::segment::attach::AttachError;
use crate::segment::configuration::is_everything;
use crate::segment::publish::publish;
use crate::segment::reach::ALL_MEMORY;
use crate::segment::{create, Memory, Segment};
use crate::team::{self, scratch, Named, TeamHandle};
use crate::trace;
use gasnet_sys::mem;

macro_rules! cdata {
    ($($set:ident $query:ident $type:ty, $checked:ident, $what:literal;)*) => {$(
        #[doc = concat!("Sets the client's pointer of a ", $what, ".")]
        #[no_mangle]
        pub unsafe extern "C" fn $set(object: *const $type, value: *mut c_void) {
            // SAFETY: a handle of ours by contract; the objects live for the rest of the process.
            unsafe { handles::$checked(stringify!($set), object) }.cdata.store(value, Ordering::Release);
        }

        #[doc = concat!("The client's pointer of a ", $what, "; null at first.")]
        #[no_mangle]
        pub unsafe extern "C" fn $query(object: *const $type) -> *mut c_void {
            // SAFETY: as above.
            unsafe { handles::$checked(stringify!($query), object) }.cdata.load(Ordering::Acquire)
        }
    )*};
}

cdata! {
    gex_Client_SetCData gex_Client_QueryCData Client, client, "client";
    gex_EP_SetCData gex_EP_QueryCData Endpoint, endpoint, "endpoint";
    gex_Segment_SetCData gex_Segment_QueryCData Segment, segment, "segment";
}

/// Flags passed to `gex_Client_Init`.
#[no_mangle]
pub unsafe extern "C" fn gex_Client_QueryFlags(client: *const Client) -> Flags {
    // SAFETY: a handle of ours.
    unsafe { handles::client("gex_Client_QueryFlags", client) }.flags
}

/// Name passed to `gex_Client_Init`.
#[no_mangle]
pub unsafe extern "C" fn gex_Client_QueryName(client: *const Client) -> *const c_char {
    // SAFETY: a handle of ours.
    unsafe { handles::client("gex_Client_QueryName", client) }.name.as_ptr()
}

/// The owner of an endpoint.
#[no_mangle]
pub extern "C" fn gex_EP_QueryClient(_ep: *const Endpoint) -> *const Client {
    runtime::get().client()
}

/// Flags passed when the endpoint was created; of a primordial one those of `gex_Client_Init`.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_QueryFlags(ep: *const Endpoint) -> Flags {
    // SAFETY: a handle of ours.
    unsafe { handles::endpoint("gex_EP_QueryFlags", ep) }.flags
}

/// The bound segment, or null.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_QuerySegment(ep: *const Endpoint) -> *mut Segment {
    // SAFETY: a handle of ours.
    unsafe { handles::endpoint("gex_EP_QuerySegment", ep) }
        .segment
        .load(Ordering::Acquire)
}

/// Index of an endpoint among those of its process.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_QueryIndex(ep: *const Endpoint) -> u16 {
    // SAFETY: a handle of ours.
    unsafe { handles::endpoint("gex_EP_QueryIndex", ep) }.index
}

/// The owner of a segment.
#[no_mangle]
pub extern "C" fn gex_Segment_QueryClient(_segment: *const Segment) -> *const Client {
    runtime::get().client()
}

/// Flags of a segment: none exist.
#[no_mangle]
pub extern "C" fn gex_Segment_QueryFlags(_segment: *const Segment) -> Flags {
    Flags::NONE
}

/// First byte of a segment.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_QueryAddr(segment: *const Segment) -> *mut c_void {
    // SAFETY: a handle of ours.
    unsafe { handles::segment("gex_Segment_QueryAddr", segment) }.base as *mut c_void
}

/// Length of a segment in bytes.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_QuerySize(segment: *const Segment) -> usize {
    // SAFETY: a handle of ours.
    unsafe { handles::segment("gex_Segment_QuerySize", segment) }.bytes
}

/// Registers handlers; see `am::table`.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_RegisterHandlers(ep: *const Endpoint, table: *mut Entry, count: usize) -> c_int {
    if ep.is_null() || (table.is_null() && count > 0) {
        complain("gex_EP_RegisterHandlers", "ep and table must not be null");
        return ERR_BAD_ARG;
    }
    if count == 0 {
        return OK;
    }
    rules::not_in_handler("gex_EP_RegisterHandlers");
    // SAFETY: the client's table of `count` entries.
    let entries = unsafe { std::slice::from_raw_parts_mut(table, count) };
    // SAFETY: a handle of ours.
    let handlers = &unsafe { handles::endpoint("gex_EP_RegisterHandlers", ep) }.handlers;
    super::registered("gex_EP_RegisterHandlers", handlers.register(entries))
}

/// Allocates and binds the primordial segment. Collective. A size that is no multiple of a page is rounded up (a warning in the debug flavour). In
/// EVERYTHING there is no segment, and the answer is `GEX_SEGMENT_INVALID`.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_Attach(segment: *mut *const Segment, tm: TeamHandle, bytes: usize) -> c_int {
    rules::not_in_handler("gex_Segment_Attach");
    team::team(tm, "gex_Segment_Attach");
    if segment.is_null() {
        complain("gex_Segment_Attach", "segment_p must not be null");
        return ERR_BAD_ARG;
    }
    let page = mem::page_size();
    if rules::CHECKED && bytes % page != 0 {
        gasnet_tools::process::warn(format_args!(
            "gex_Segment_Attach: {bytes} bytes is no multiple of GASNET_PAGESIZE, {page}, and is rounded up"
        ));
    }
    // What cannot be rounded is refused as too much.
    let whole = bytes.checked_next_multiple_of(page).unwrap_or(bytes);
    match attach("gex_Segment_Attach", whole) {
        Ok(attached) => {
            // SAFETY: not null; the client's to write.
            unsafe { segment.write(attached.map_or(ptr::null(), ptr::from_ref)) };
            OK
        }
        Err(code) => code,
    }
}

/// Attaches for `function`. An error is the code to return.
pub(super) fn attach(function: &str, bytes: usize) -> Result<Option<&'static Segment>, c_int> {
    let (why, code) = match runtime::get().attach(bytes, call_attach_hook) {
        Ok(attached) => {
            if let Some(made) = attached {
                trace::created(format_args!(
                    " what=segment handle={made:p} size={} base={:#x}",
                    made.bytes, made.base
                ));
            }
            return Ok(attached);
        }
        Err(AttachError::Argument(why)) => (why, ERR_BAD_ARG),
        Err(AttachError::Resource(why)) => (why, ERR_RESOURCE),
    };
    complain(function, &why);
    Err(code)
}

/// Addresses of a bound segment: the owner's, ours if it is mapped here, and its length.
struct Bound {
    owner: usize,
    here: usize,
    bytes: usize,
}

fn bound(tm: TeamHandle, rank: u32) -> Option<Bound> {
    let rt = runtime::get();
    let location = match team::decode(tm) {
        Named::Team(team) if rank < team.size => team.locate(rank),
        Named::Pair(_, ep) if rank < rt.size() => crate::types::Location { rank, ep },
        _ => return None,
    };
    let segment = rt.bound_segment(location)?;
    let here = rt.map_near(location, segment.base, 0).map_or(0, |here| here as usize);
    Some(Bound {
        owner: segment.base,
        here,
        bytes: segment.bytes,
    })
}

fn check_rank(function: &str, tm: TeamHandle, rank: u32) {
    let size = match team::decode(tm) {
        Named::Team(team) => team.size,
        Named::Pair(..) => runtime::get().size(),
    };
    if rules::CHECKED && rank >= size {
        fatal!("{function}: rank {rank} does not exist among {size}");
    }
}

/// Queries a bound segment. What was attached or published is known here: never communicates.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_QueryBoundSegmentNB(
    tm: TeamHandle,
    rank: u32,
    owner: *mut usize,
    here: *mut usize,
    bytes: *mut usize,
    flags: Flags,
) -> usize {
    let name = "gex_EP_QueryBoundSegmentNB";
    if !flags.has(Flags::IMMEDIATE) {
        rules::not_in_handler(name);
    }
    rules::only_flags(name, flags, Flags::IMMEDIATE);
    check_rank(name, tm, rank);
    let answer = bound(tm, rank).unwrap_or(Bound {
        owner: 0,
        here: 0,
        bytes: 0,
    });
    for (output, value) in [(owner, answer.owner), (here, answer.here), (bytes, answer.bytes)] {
        // SAFETY: null or the client's to write.
        unsafe { store(output, value) };
    }
    0
}

/// As `gex_EP_QueryBoundSegmentNB`, waiting, and non-zero without touching the outputs when there is no segment.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_QueryBound(
    tm: TeamHandle,
    rank: u32,
    owner: *mut usize,
    here: *mut usize,
    bytes: *mut usize,
) -> c_int {
    let name = "gex_Segment_QueryBound";
    rules::not_in_handler(name);
    check_rank(name, tm, rank);
    let Some(answer) = bound(tm, rank) else { return 1 };
    for (output, value) in [(owner, answer.owner), (here, answer.here), (bytes, answer.bytes)] {
        // SAFETY: null or the client's to write.
        unsafe { store(output, value) };
    }
    0
}

/// Tells the members of a team the bound segments of some endpoints of this process. Collective; also a barrier.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_PublishBoundSegment(
    tm: TeamHandle,
    eps: *const *const Endpoint,
    count: usize,
    flags: Flags,
) -> c_int {
    let name = "gex_EP_PublishBoundSegment";
    rules::not_in_handler(name);
    let team = team::team(tm, name);
    let good = flags.is_none() && (!eps.is_null() || count == 0);
    let endpoints: &[*const Endpoint] = if good && count > 0 {
        // SAFETY: the client's array of `count` handles.
        unsafe { std::slice::from_raw_parts(eps, count) }
    } else {
        &[]
    };
    // SAFETY: null, or handles of ours.
    let endpoints: Vec<&Endpoint> = endpoints.iter().filter_map(|&ep| unsafe { ep.as_ref() }).collect();
    // The call is collective: who brings wrong arguments takes part with none, so that nobody waits for it.
    let published = publish(runtime::get(), team, &endpoints);
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

/// Makes a further endpoint, which has all capabilities.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_Create(ep: *mut *const Endpoint, client: *const Client, capabilities: u32, flags: Flags) -> c_int {
    let name = "gex_EP_Create";
    rules::not_in_handler(name);
    if ep.is_null()
        || client.is_null()
        || capabilities == 0
        || capabilities & !EP_CAPABILITY_ALL != 0
        || !Flags::HINT_ACCEL_ALL.has_all(flags)
    {
        complain(
            name,
            "ep_p and client must not be null, capabilities must be of GEX_EP_CAPABILITY_*, and flags of GEX_FLAG_HINT_ACCEL_*",
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
    // SAFETY: not null; the client's to write.
    unsafe { ep.write(made) };
    trace::created(format_args!(" what=endpoint handle={made:p} index={}", made.index));
    OK
}

/// Makes a segment of the client's memory, or of new memory when `address` is null.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_Create(
    segment: *mut *const Segment,
    client: *const Client,
    address: *mut c_void,
    bytes: usize,
    kind: usize,
    flags: Flags,
) -> c_int {
    let name = "gex_Segment_Create";
    rules::not_in_handler(name);
    let rt = runtime::get();
    if segment.is_null() || client.is_null() || !flags.is_none() {
        complain(name, "segment_p and client must not be null, and flags must be 0");
        return ERR_BAD_ARG;
    }
    if kind != mk::HOST {
        return super::answer(name, mk::segment(address as usize, bytes, kind), |made| {
            // SAFETY: not null; the client's to write.
            unsafe { segment.write(made) };
        });
    }
    let most = if address.is_null() { rt.max_local_bytes() } else { usize::MAX };
    if bytes == 0 || bytes > most || (address as usize).checked_add(bytes).is_none() {
        complain(
            name,
            &format!(
                "a length of {bytes} bytes is not possible; memory of the library's is limited to {} bytes",
                rt.max_local_bytes()
            ),
        );
        return ERR_BAD_ARG;
    }
    if !address.is_null() && mem::is_writable(address as usize, bytes) == Some(false) {
        complain(
            name,
            &format!("the {bytes} bytes at {address:p} are not all memory that this process may read and write: map them first, and keep them mapped"),
        );
        return ERR_BAD_ARG;
    }
    match create::create(rt, address as usize, bytes) {
        Ok(made) => {
            // SAFETY: not null; the client's to write.
            unsafe { segment.write(made) };
            trace::created(format_args!(
                " what=segment handle={made:p} size={} base={:#x}",
                made.bytes, made.base
            ));
            OK
        }
        Err(why) => {
            complain(name, &why);
            ERR_RESOURCE
        }
    }
}

/// Ends a segment that `gex_Segment_Create` made.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_Destroy(segment: *const Segment, flags: Flags) {
    rules::not_in_handler("gex_Segment_Destroy");
    rules::no_flags("gex_Segment_Destroy", flags);
    if rules::CHECKED && !segment.is_null() {
        // SAFETY: a handle of ours.
        unsafe { handles::segment("gex_Segment_Destroy", segment) };
    }
    // SAFETY: null, or a handle of ours.
    let Some(segment) = (unsafe { segment.as_ref::<'static>() }) else {
        fatal!("gex_Segment_Destroy was given GEX_SEGMENT_INVALID");
    };
    if segment.memory == Memory::Attached {
        fatal!("gex_Segment_Destroy: the attached segment lives as long as the process");
    }
    if let Some(lent) = scratch::lent_from(segment).filter(|_| rules::CHECKED) {
        fatal!(
            "gex_Segment_Destroy: the segment has the scratch space of a live team, {} bytes at {:#x}. Destroy the team first.",
            lent.bytes,
            lent.address
        );
    }
    trace::destroyed(format_args!(" what=segment handle={segment:p}"));
    // SAFETY: the client uses it no more.
    unsafe { create::destroy(runtime::get(), segment) };
}

/// Binds a segment to an endpoint that has none.
#[no_mangle]
pub unsafe extern "C" fn gex_EP_BindSegment(ep: *const Endpoint, segment: *const Segment, flags: Flags) -> c_int {
    let name = "gex_EP_BindSegment";
    rules::not_in_handler(name);
    // SAFETY: null, or a handle of ours.
    let (Some(ep), Some(segment)) = (unsafe { ep.as_ref() }, unsafe { segment.as_ref::<'static>() }) else {
        complain(name, "neither the endpoint nor the segment may be null");
        return ERR_BAD_ARG;
    };
    if rules::CHECKED {
        // SAFETY: a handle of ours; a destroyed segment keeps its memory in the debug flavour.
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

/// Largest segment that this rank may attach; in EVERYTHING that of all memory.
#[no_mangle]
pub extern "C" fn gasnet_getMaxLocalSegmentSize() -> usize {
    if is_everything() {
        return ALL_MEMORY.bytes;
    }
    runtime::try_get().map_or(0, |rt| rt.max_local_bytes())
}

/// Largest segment that every rank may attach; in EVERYTHING that of all memory.
#[no_mangle]
pub extern "C" fn gasnet_getMaxGlobalSegmentSize() -> usize {
    if is_everything() {
        return ALL_MEMORY.bytes;
    }
    runtime::try_get().map_or(0, |rt| rt.max_global_bytes())
}

/// `gasnet_seginfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SegInfo {
    addr: *mut c_void,
    size: usize,
}

/// Fills `table` with the first `count` ranks' segments. Before initialisation there are no ranks.
#[no_mangle]
pub unsafe extern "C" fn gasnet_getSegmentInfo(table: *mut SegInfo, count: c_int) -> c_int {
    let Some(rt) = runtime::try_get().filter(|_| count != 0) else {
        return OK;
    };
    if table.is_null() || count < 0 {
        complain("gasnet_getSegmentInfo", "seginfo_table must not be null");
        return ERR_BAD_ARG;
    }
    for rank in 0..(count as u32).min(rt.size()) {
        let segment = if is_everything() {
            (ALL_MEMORY.base, ALL_MEMORY.bytes)
        } else {
            rt.primordial_segment(rank).map_or((0, 0), |s| (s.base, s.bytes))
        };
        // SAFETY: the client's table of `count` entries.
        unsafe {
            table.add(rank as usize).write(SegInfo {
                addr: segment.0 as *mut c_void,
                size: segment.1,
            });
        };
    }
    OK
}
