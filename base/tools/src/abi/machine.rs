//! README-tools, "System properties" and "Miscellaneous tools".

use std::ffi::{c_char, c_void, CString};
use std::sync::OnceLock;

use libc::c_int;

use super::text;
use crate::{bytes, fatal, system, RELEASE};

/// The host's name.
#[no_mangle]
pub extern "C" fn gasnett_gethostname() -> *const c_char {
    system::hostname_c().as_ptr()
}

/// The executable's path, or an empty string.
#[no_mangle]
pub extern "C" fn gasnett_exe_name() -> *const c_char {
    system::exe_name_c().as_ptr()
}

/// Number of processors, or 0.
#[no_mangle]
pub extern "C" fn gasnett_cpu_count() -> c_int {
    system::cpu_count()
}

/// Physical memory in bytes; if unknown 0, or a fatal error.
#[no_mangle]
#[allow(non_snake_case)]
pub extern "C" fn gasnett_getPhysMemSz(failureIsFatal: c_int) -> u64 {
    match system::physical_memory() {
        Some(bytes) => bytes,
        None if failureIsFatal != 0 => fatal::fatal(format_args!("cannot determine the size of physical memory")),
        None => 0,
    }
}

/// Whether the least significant byte comes first.
#[no_mangle]
pub extern "C" fn gasnett_isLittleEndian() -> c_int {
    c_int::from(cfg!(target_endian = "little"))
}

/// The property of this build that costs performance; empty if there is none.
#[no_mangle]
pub extern "C" fn gasnett_performance_warning_str() -> *const c_char {
    if cfg!(feature = "debug-checks") {
        c"        debugging and correctness checks are compiled in (GASNET_DEBUG)\n".as_ptr()
    } else {
        c"".as_ptr()
    }
}

/// The release as text.
#[no_mangle]
pub extern "C" fn gasnett_release_version_str() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let (major, minor, patch) = RELEASE;
    TEXT.get_or_init(|| CString::new(format!("{major}.{minor}.{patch}")).unwrap_or_default())
        .as_ptr()
}

/// The release as a number that increases with each release.
#[no_mangle]
pub extern "C" fn gasnett_release_version() -> u64 {
    let (major, minor, patch) = RELEASE;
    u64::from(major) * 1_000_000 + u64::from(minor) * 10_000 + u64::from(patch)
}

/// Binds the calling thread to a processor; 0 on success.
#[no_mangle]
pub extern "C" fn gasnett_set_affinity(rank: c_int) -> c_int {
    c_int::from(!system::set_affinity(rank))
}

/// Lets other threads run.
#[no_mangle]
pub extern "C" fn gasnett_sched_yield() {
    std::thread::yield_now();
}

/// Fresh zeroed, page-aligned memory; failure is fatal.
#[no_mangle]
pub extern "C" fn gasnett_mmap(nbytes: usize) -> *mut c_void {
    let mapped = match nbytes {
        0 => Err(std::io::Error::from_raw_os_error(libc::EINVAL)),
        _ => gasnet_sys::mem::map_private(nbytes),
    };
    match mapped {
        Ok(address) => address as *mut c_void,
        Err(why) => fatal::fatal(format_args!("cannot map {nbytes} bytes of memory: {why}")),
    }
}

/// The caller's bytes at `address`.
///
/// # Safety
/// `count` bytes at `address` are readable and do not change for the lifetime chosen.
unsafe fn bytes_at<'a>(address: *const c_void, count: usize) -> &'a [u8] {
    if count == 0 || address.is_null() {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(address.cast(), count) }
}

/// A checksum of `numbytes` bytes.
///
/// # Safety
/// The bytes are readable.
#[no_mangle]
pub unsafe extern "C" fn gasnett_checksum(p: *const c_void, numbytes: c_int) -> u64 {
    // SAFETY: the caller promises it.
    bytes::checksum(unsafe { bytes_at(p, usize::try_from(numbytes).unwrap_or(0)) })
}

/// Number of zero bytes in a 32-bit word.
#[no_mangle]
pub extern "C" fn gasnett_count0s_uint32_t(x: u32) -> c_int {
    bytes::zero_bytes_in(u64::from(x)) as c_int - 4
}

/// Number of zero bytes in a 64-bit word.
#[no_mangle]
pub extern "C" fn gasnett_count0s_uint64_t(x: u64) -> c_int {
    bytes::zero_bytes_in(x) as c_int
}

/// Number of zero bytes in a word of pointer size.
#[no_mangle]
pub extern "C" fn gasnett_count0s_uintptr_t(x: usize) -> c_int {
    bytes::zero_bytes_in(x as u64) as c_int - (8 - size_of::<usize>() as c_int)
}

/// Number of zero bytes.
///
/// # Safety
/// The bytes are readable.
#[no_mangle]
pub unsafe extern "C" fn gasnett_count0s(p: *const c_void, numbytes: usize) -> usize {
    // SAFETY: the caller promises it.
    bytes::zero_bytes(unsafe { bytes_at(p, numbytes) })
}

/// Copies, and counts the zero bytes.
///
/// # Safety
/// `src` is readable, `dst` writable, and they do not overlap.
#[no_mangle]
pub unsafe extern "C" fn gasnett_count0s_copy(dst: *mut c_void, src: *const c_void, numbytes: usize) -> usize {
    // SAFETY: the caller promises it.
    let source = unsafe { bytes_at(src, numbytes) };
    let mut zeros = 0;
    // Block by block, so that the count reads data that the copy has just cached.
    for (index, block) in source.chunks(4096).enumerate() {
        // SAFETY: the block lies inside the range that the caller made writable.
        unsafe { std::ptr::copy_nonoverlapping(block.as_ptr(), dst.cast::<u8>().add(index * 4096), block.len()) };
        zeros += bytes::zero_bytes(block);
    }
    zeros
}

/// Maximizes the limits on CPU time and memory; non-zero on success.
#[no_mangle]
pub extern "C" fn gasnett_maximize_rlimits() -> c_int {
    c_int::from(system::maximize_rlimits())
}

/// Maximizes one limit; non-zero on success.
#[no_mangle]
pub extern "C" fn gasnett_maximize_rlimit(res: c_int, lim_desc: *const c_char) -> c_int {
    c_int::from(system::maximize_rlimit(res, &text(lim_desc)))
}
