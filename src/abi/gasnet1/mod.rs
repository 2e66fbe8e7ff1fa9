//! GASNet-1 (specification 1.8), implemented by the calls of GASNet-EX on the primordial team.

mod am;
mod rma;
mod segment;

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;

use super::client::{begin, Marked};
use super::{complain, registered};
use crate::am::table::{AmEntry, ANY_NARGS};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::flags::{Flags, ERR_BAD_ARG, ERR_NOT_INIT, OK, RANK_INVALID};
use crate::rules;
use crate::runtime::{self, Runtime};
use crate::segment::attach::was_attached;
use crate::segment::Segment;
use crate::team::TeamHandle;
use crate::trace::recorder;
use gasnet_conduit::JobRank;
use gasnet_sys::mem;

/// The team of a GASNet-1 call. In the debug flavour fatal unless the client has legacy support
/// (GASNet-EX 0.19, "Hybrid/transitional client support").
#[inline]
pub(super) fn team(function: &str) -> TeamHandle {
    let rt = runtime::get();
    if rules::CHECKED && !rt.client.flags.has(Flags::USES_GASNET1) {
        fatal!(
            "rank {}: {function} is a call of GASNet-1, and gex_Client_Init was not given \
             GEX_FLAG_USES_GASNET1 (gasnet_init implies it)",
            rt.rank
        );
    }
    rt.team0.handle()
}

/// `gasnet_init` of every thread mode and segment configuration.
#[no_mangle]
pub extern "C" fn gasneti_init_mode(
    mode: c_int,
    segments: c_int,
    argc: *mut c_int,
    argv: *mut *mut *mut std::ffi::c_char,
) -> c_int {
    // SAFETY: null or as `main` gets them, by the specification.
    let started = unsafe {
        begin(
            "gasnet_init",
            Marked { mode, segments },
            c"LEGACY",
            Flags::USES_GASNET1,
            argc,
            argv,
        )
    };
    started.map_or_else(|code| code, |_| OK)
}

/// `gasnet_handlerentry_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HandlerEntry {
    index: u8,
    function: Option<unsafe extern "C-unwind" fn()>,
}

/// Registers handlers and attaches a segment. Collective. Ignores `minheapoffset`.
///
/// # Safety
/// `table` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gasnet_attach(
    table: *mut HandlerEntry,
    count: c_int,
    bytes: usize,
    _minheapoffset: usize,
) -> c_int {
    if count < 0 {
        complain("gasnet_attach", "numentries must not be negative");
        return ERR_BAD_ARG;
    }
    let rt = runtime::get();
    if was_attached() {
        complain("gasnet_attach", "the job is attached already");
        return ERR_NOT_INIT;
    }
    let entries: &mut [HandlerEntry] = if count == 0 || table.is_null() {
        &mut []
    } else {
        // SAFETY: `count` entries by contract.
        unsafe { std::slice::from_raw_parts_mut(table, count as usize) }
    };
    let mut full: Vec<AmEntry> = entries
        .iter()
        .map(|e| AmEntry {
            index: e.index,
            function: e.function,
            flags: Flags::AM_ANY,
            nargs: ANY_NARGS,
            cdata: ptr::null(),
            name: ptr::null(),
        })
        .collect();
    let registered = registered("gasnet_attach", rt.endpoint0.handlers.register_any(&mut full));
    if registered != OK {
        return registered;
    }
    for (entry, registered) in entries.iter_mut().zip(&full) {
        entry.index = registered.index;
        recorder::handler(registered.index, registered.flags, registered.nargs);
    }
    // A segment of 0 bytes has one page (gasnet1_differences.md).
    let bytes = if bytes == 0 { mem::segment_page() } else { bytes };
    // Runs no handlers: other ranks may have returned already and send, while some clients set up
    // what their handlers need after their own call has returned (epcc).
    runtime::without_handlers(|| super::segment::attach("gasnet_attach", bytes, |_| ()))
}

/// The GASNet-EX objects of a GASNet-1 job; invalid handles before initialisation.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gasnet_QueryGexObjects(
    client: *mut *const Client,
    endpoint: *mut *const Endpoint,
    tm: *mut TeamHandle,
    segment: *mut *const Segment,
) {
    let rt = runtime::try_get();
    // SAFETY: the caller's contract.
    unsafe { super::system::store(client, rt.map_or(ptr::null(), |rt| ptr::from_ref(rt.client))) };
    // SAFETY: as above.
    unsafe { super::system::store(endpoint, rt.map_or(ptr::null(), |rt| ptr::from_ref(rt.endpoint0))) };
    // SAFETY: as above.
    unsafe { super::system::store(tm, rt.map_or(TeamHandle::INVALID, |rt| rt.team0.handle())) };
    let bound = rt.map_or(ptr::null_mut(), |rt| rt.endpoint0.segment.load(Ordering::Acquire));
    // SAFETY: as above.
    unsafe { super::system::store(segment, bound.cast_const()) };
}

/// The rank of this process; `(gasnet_node_t)-1` before initialisation.
#[no_mangle]
pub extern "C" fn gasnet_mynode() -> JobRank {
    runtime::try_get().map_or(JobRank(RANK_INVALID), |rt| rt.rank)
}

/// The number of ranks in the job; 0 before initialisation.
#[no_mangle]
pub extern "C" fn gasnet_nodes() -> u32 {
    runtime::try_get().map_or(0, |rt| rt.size)
}

/// `gasnet_nodeinfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NodeInfo {
    host: u32,
    supernode: u32,
    offset: usize,
    reserved: usize,
}

/// Fills `table` with host, neighbourhood and address offset of the first `count` ranks. Writes
/// nothing before initialisation.
///
/// # Safety
/// `table` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gasnet_getNodeInfo(table: *mut NodeInfo, count: c_int) -> c_int {
    let entry = |rt: &Runtime, rank| NodeInfo {
        host: rt.host_of(rank),
        supernode: rt.nbrhd_of(rank),
        offset: match rt.primordial_segment(rank) {
            Some(s) if rt.is_neighbour(rank) => (rt.map_neighbour(rank, s.base, 0) as usize).wrapping_sub(s.base),
            _ => 0,
        },
        reserved: 0,
    };
    // SAFETY: the caller's contract.
    unsafe { fill("gasnet_getNodeInfo", "nodeinfo_table", table, count, entry) }
}

/// Writes the entries of the first `count` ranks to the client's `table`, of that name. Writes
/// nothing before initialisation.
///
/// # Safety
/// `table` is null or has `count` entries.
unsafe fn fill<T>(
    function: &str,
    name: &str,
    table: *mut T,
    count: c_int,
    entry: impl Fn(&Runtime, JobRank) -> T,
) -> c_int {
    let Some(rt) = runtime::try_get().filter(|_| count != 0) else {
        return OK;
    };
    if table.is_null() || count < 0 {
        complain(
            function,
            &format!("{name} must not be null, and numentries not negative"),
        );
        return ERR_BAD_ARG;
    }
    for rank in (0..(count as u32).min(rt.size)).map(JobRank) {
        // SAFETY: `count` entries by contract.
        unsafe { table.add(rank.index()).write(entry(rt, rank)) };
    }
    OK
}

/// A variable of the job's environment, or null.
///
/// # Safety
/// `name` is null or a C string.
#[no_mangle]
pub unsafe extern "C" fn gasnet_getenv(name: *const std::ffi::c_char) -> *mut std::ffi::c_char {
    if name.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: not null, so a C string.
    unsafe { libc::getenv(name) }
}
