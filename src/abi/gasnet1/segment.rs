//! GASNet-1 queries of segments.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::fill;
use crate::runtime::{self, Runtime};
use crate::segment::configuration::is_everything;
use crate::segment::Bounds;

/// The largest segment that this rank may attach. With EVERYTHING, all memory.
#[no_mangle]
pub extern "C" fn gasnet_getMaxLocalSegmentSize() -> usize {
    if is_everything() {
        return Bounds::ALL_MEMORY.bytes;
    }
    runtime::try_get().map_or(0, |rt| rt.max_local_bytes)
}

/// The largest segment that every rank may attach. With EVERYTHING, all memory.
#[no_mangle]
pub extern "C" fn gasnet_getMaxGlobalSegmentSize() -> usize {
    if is_everything() {
        return Bounds::ALL_MEMORY.bytes;
    }
    runtime::try_get().map_or(0, |rt| rt.max_global_bytes)
}

/// `gasnet_seginfo_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SegInfo {
    addr: *mut c_void,
    size: usize,
}

/// Fills `table` with the segments of the first `count` ranks. Writes nothing before
/// initialisation.
///
/// # Safety
/// `table` is null or has `count` entries.
#[no_mangle]
pub unsafe extern "C" fn gasnet_getSegmentInfo(table: *mut SegInfo, count: c_int) -> c_int {
    let entry = |rt: &Runtime, rank| {
        let segment = if is_everything() {
            Some(Bounds::ALL_MEMORY)
        } else {
            rt.primordial_segment(rank)
        };
        segment.map_or(
            SegInfo {
                addr: ptr::null_mut(),
                size: 0,
            },
            |s| SegInfo {
                addr: s.base as *mut c_void,
                size: s.bytes,
            },
        )
    };
    // SAFETY: the caller's contract.
    unsafe { fill("gasnet_getSegmentInfo", "seginfo_table", table, count, entry) }
}
