//! `gex_Segment_*`: attaching, creating, querying and destroying segments.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::compat::call_attach_hook;
use super::ep::bound;
use super::handles::{self, cdata, query};
use super::mk::{self, KindHandle};
use super::{answer, complain};
use crate::client::Client;
use crate::flags::{Flags, ERR_BAD_ARG};
use crate::mk::Refusal;
use crate::rules::{self, no_flags, not_in_handler};
use crate::runtime;
use crate::segment::configuration::is_everything;
use crate::segment::{create, Memory, Segment};
use crate::team::{self, scratch, TeamHandle};
use crate::trace;
use crate::types::Rank;
use gasnet_sys::mem;

cdata! { gex_Segment_SetCData gex_Segment_QueryCData Segment, handles::segment, "segment" }

/// The client that owns a segment.
#[no_mangle]
pub extern "C" fn gex_Segment_QueryClient(_segment: *const Segment) -> *const Client {
    runtime::get().client
}

/// The flags of a segment. None exist.
#[no_mangle]
pub extern "C" fn gex_Segment_QueryFlags(_segment: *const Segment) -> Flags {
    Flags::NONE
}

query! {
    /// The first byte of a segment.
    gex_Segment_QueryAddr(Segment, handles::segment) -> *mut c_void = |segment| segment.base as *mut c_void;
    /// The length of a segment in bytes.
    gex_Segment_QuerySize(Segment, handles::segment) -> usize = |segment| segment.bytes;
}

/// Allocates the primordial segment and binds it. Collective. A size that is not a multiple of the
/// page size is rounded up, with a warning in the debug flavour. With EVERYTHING the size means
/// nothing, there is no segment, and the output is `GEX_SEGMENT_INVALID`.
///
/// # Safety
/// `segment` is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_Attach(segment: *mut *const Segment, tm: TeamHandle, bytes: usize) -> c_int {
    let name = "gex_Segment_Attach";
    not_in_handler(name);
    let team = team::team(tm, name);
    if rules::CHECKED && !team.is_primordial() {
        fatal!("{name}: the team must be the primordial one, from gex_Client_Init");
    }
    if segment.is_null() {
        complain(name, "segment_p must not be null");
        return ERR_BAD_ARG;
    }
    let page = mem::segment_page();
    if rules::CHECKED && bytes % page != 0 && !is_everything() {
        gasnet_tools::process::warn(format_args!(
            "{name}: {bytes} bytes is not a multiple of GASNET_PAGESIZE ({page}) and is rounded up"
        ));
    }
    // A size that cannot be rounded up is refused as too large.
    let whole = bytes.checked_next_multiple_of(page).unwrap_or(bytes);
    attach(name, whole, |attached| {
        // SAFETY: not null, so valid for a write.
        unsafe { segment.write(attached.map_or(ptr::null(), ptr::from_ref)) };
    })
}

/// Attaches for `function`, and passes the segment, if there is one, to `take`. Returns the code.
pub(super) fn attach(function: &str, bytes: usize, take: impl FnOnce(Option<&'static Segment>)) -> c_int {
    answer(function, runtime::get().attach(bytes, call_attach_hook), |attached| {
        if let Some(made) = attached {
            created(made);
        }
        take(attached);
    })
}

/// Records a new segment.
fn created(made: &Segment) {
    trace::created(format_args!(
        " what=segment handle={made:p} size={} base={:#x}",
        made.bytes, made.base
    ));
}

/// Queries a bound segment. Non-zero, and the outputs are not written, when there is none.
///
/// # Safety
/// Each output is null or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_QueryBound(
    tm: TeamHandle,
    rank: Rank,
    owner: *mut *mut c_void,
    here: *mut *mut c_void,
    bytes: *mut usize,
) -> c_int {
    let name = "gex_Segment_QueryBound";
    not_in_handler(name);
    let Some(answer) = bound(name, tm, rank) else { return 1 };
    // SAFETY: the caller's contract.
    unsafe { answer.store(owner, here, bytes) };
    0
}

/// Creates a segment in the client's memory, or in new memory when `address` is null.
///
/// # Safety
/// `segment` is null or valid for a write. The memory at `address` stays mapped while the segment
/// lives.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_Create(
    segment: *mut *const Segment,
    client: *const Client,
    address: *mut c_void,
    bytes: usize,
    kind: KindHandle,
    flags: Flags,
) -> c_int {
    let name = "gex_Segment_Create";
    not_in_handler(name);
    let rt = runtime::get();
    if segment.is_null() || client.is_null() || !flags.is_none() {
        complain(name, "segment_p and client must not be null, and flags must be 0");
        return ERR_BAD_ARG;
    }
    if kind != KindHandle::HOST {
        return answer(name, mk::segment(address as usize, bytes, kind), |made| {
            // SAFETY: not null, so valid for a write.
            unsafe { segment.write(made) };
        });
    }
    let most = if address.is_null() {
        rt.max_local_bytes
    } else {
        usize::MAX
    };
    if bytes == 0 || bytes > most || (address as usize).checked_add(bytes).is_none() {
        complain(
            name,
            &format!(
                "a length of {bytes} bytes is not possible; memory of the library's is limited to {} bytes",
                rt.max_local_bytes
            ),
        );
        return ERR_BAD_ARG;
    }
    if !address.is_null() && mem::is_writable(address as usize, bytes) == Some(false) {
        complain(
            name,
            &format!(
                "this process may not read and write all of the {bytes} bytes at {address:p}. Map them first, \
                 and keep them mapped."
            ),
        );
        return ERR_BAD_ARG;
    }
    let made = create::create(rt, address as usize, bytes).map_err(Refusal::Resource);
    answer(name, made, |made| {
        // SAFETY: not null, so valid for a write.
        unsafe { segment.write(made) };
        created(made);
    })
}

/// Destroys a segment that `gex_Segment_Create` created.
///
/// # Safety
/// `segment` is null or the handle of a segment, and is not used again.
#[no_mangle]
pub unsafe extern "C" fn gex_Segment_Destroy(segment: *const Segment, flags: Flags) {
    let name = "gex_Segment_Destroy";
    not_in_handler(name);
    no_flags(name, flags);
    if rules::CHECKED && !segment.is_null() {
        // SAFETY: a handle.
        unsafe { handles::segment(name, segment) };
    }
    // SAFETY: null or a handle.
    let Some(segment) = (unsafe { segment.as_ref::<'static>() }) else {
        fatal!("{name} was given GEX_SEGMENT_INVALID");
    };
    if segment.memory == Memory::Attached {
        fatal!("{name}: the attached segment lives as long as the process");
    }
    if let Some(scratch) = scratch::of_segment(segment).filter(|_| rules::CHECKED) {
        fatal!(
            "{name}: the segment has the scratch space of a live team, {} bytes at {:#x}. Destroy the team first.",
            scratch.bytes,
            scratch.address
        );
    }
    trace::destroyed(format_args!(" what=segment handle={segment:p}"));
    // SAFETY: the client does not use it again.
    unsafe { create::destroy(runtime::get(), segment) };
}
