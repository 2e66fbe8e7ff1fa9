//! GASNet-1 queries of segments.

use std::ffi::{c_int, c_void};

use crate::abi::complain;
use crate::flags::{ERR_BAD_ARG, OK};
use crate::runtime;
use crate::segment::configuration::is_everything;
use crate::segment::Bounds;
use gasnet_conduit::JobRank;

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
    let Some(rt) = runtime::try_get().filter(|_| count != 0) else {
        return OK;
    };
    if table.is_null() || count < 0 {
        complain(
            "gasnet_getSegmentInfo",
            "seginfo_table must not be null, and numentries not negative",
        );
        return ERR_BAD_ARG;
    }
    for rank in (0..(count as u32).min(rt.size)).map(JobRank) {
        let (base, size) = if is_everything() {
            (Bounds::ALL_MEMORY.base, Bounds::ALL_MEMORY.bytes)
        } else {
            rt.primordial_segment(rank).map_or((0, 0), |s| (s.base, s.bytes))
        };
        let addr = base as *mut c_void;
        // SAFETY: `count` entries.
        unsafe { table.add(rank.index()).write(SegInfo { addr, size }) };
    }
    OK
}
