//! `gasnett_debug_malloc` and its variants (README, "GASNet debug malloc services"). The macros in
//! `gasnet_tools.h` add the place of the caller.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;

use crate::heap::{self, Place, Stats};

/// Alignment in bytes, as `malloc` guarantees it.
const ALIGN: usize = 16;

fn place(file: *const c_char, line: c_int) -> Place {
    Place {
        file: if file.is_null() { c"(client)".as_ptr() } else { file },
        line: line.max(0) as u32,
    }
}

fn new_block(bytes: usize, at: Place) -> *mut u8 {
    heap::at_exit();
    let block = heap::allocate(bytes, ALIGN, at);
    if block.is_null() {
        crate::fatal::fatal(format_args!("out of memory: cannot allocate {bytes} bytes at {at}"));
    }
    block
}

/// Allocates `bytes` bytes; never null.
#[no_mangle]
pub extern "C" fn gasnett_debug_malloc_at(bytes: usize, file: *const c_char, line: c_int) -> *mut c_void {
    new_block(bytes, place(file, line)).cast()
}

/// Allocates zeroed memory for `count` objects of `bytes` bytes; never null.
#[no_mangle]
pub extern "C" fn gasnett_debug_calloc_at(count: usize, bytes: usize, file: *const c_char, line: c_int) -> *mut c_void {
    let at = place(file, line);
    let Some(total) = count.checked_mul(bytes) else {
        crate::fatal::fatal(format_args!(
            "out of memory: cannot allocate {count} × {bytes} bytes at {at}"
        ));
    };
    let block = new_block(total, at);
    // SAFETY: just allocated with that size.
    unsafe { block.write_bytes(0, total) };
    block.cast()
}

/// Moves a block to a new one of `bytes` bytes. Null allocates; zero bytes free.
///
/// # Safety
/// `block` is null or from here and not freed.
#[no_mangle]
pub unsafe extern "C" fn gasnett_debug_realloc_at(
    block: *mut c_void,
    bytes: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_void {
    let at = place(file, line);
    if block.is_null() {
        return new_block(bytes, at).cast();
    }
    let old = block.cast::<u8>();
    // SAFETY: by contract; the new block does not overlap.
    unsafe {
        let had = heap::size_of_block(old, at);
        let moved = if bytes == 0 {
            ptr::null_mut()
        } else {
            new_block(bytes, at)
        };
        if !moved.is_null() {
            ptr::copy_nonoverlapping(old, moved, had.min(bytes));
        }
        heap::free(old, at);
        moved.cast()
    }
}

/// Frees a block. Null has no effect.
///
/// # Safety
/// `block` is null or from here and not freed.
#[no_mangle]
pub unsafe extern "C" fn gasnett_debug_free_at(block: *mut c_void, file: *const c_char, line: c_int) {
    // SAFETY: by contract.
    unsafe { heap::free(block.cast(), place(file, line)) };
}

/// A copy of a string, of at most `most` characters.
///
/// # Safety
/// `text` is a C string, or has `most` characters.
#[no_mangle]
pub unsafe extern "C" fn gasnett_debug_strndup_at(
    text: *const c_char,
    most: usize,
    file: *const c_char,
    line: c_int,
) -> *mut c_char {
    // SAFETY: by contract.
    let length = unsafe { libc::strnlen(text, most) };
    let copy = new_block(length + 1, place(file, line));
    // SAFETY: by contract, and the copy has room for the terminator.
    unsafe {
        ptr::copy_nonoverlapping(text.cast(), copy, length);
        copy.add(length).write(0);
    }
    copy.cast()
}

/// A copy of a string.
///
/// # Safety
/// `text` is a C string.
#[no_mangle]
pub unsafe extern "C" fn gasnett_debug_strdup_at(text: *const c_char, file: *const c_char, line: c_int) -> *mut c_char {
    // SAFETY: by contract.
    unsafe { gasnett_debug_strndup_at(text, CStr::from_ptr(text).count_bytes(), file, line) }
}

/// Ends the process if the block is damaged.
///
/// # Safety
/// `block` is null or from here.
#[no_mangle]
pub unsafe extern "C" fn gasnett_debug_memcheck_at(block: *const c_void, file: *const c_char, line: c_int) {
    // SAFETY: by contract.
    unsafe { heap::check_block(block.cast(), place(file, line)) };
}

/// Checks one block, a different one each time; ends the process if it is damaged.
#[no_mangle]
pub extern "C" fn gasnett_debug_memcheck_one_at(file: *const c_char, line: c_int) {
    heap::check(false, place(file, line));
}

/// Checks all blocks; ends the process if one is damaged.
#[no_mangle]
pub extern "C" fn gasnett_debug_memcheck_all_at(file: *const c_char, line: c_int) {
    heap::check(true, place(file, line));
}

/// The counters now.
///
/// # Safety
/// `stats` is writable.
#[no_mangle]
pub unsafe extern "C" fn gasnett_getheapstats(stats: *mut Stats) {
    // SAFETY: by contract.
    unsafe { stats.write(heap::stats()) };
}

macro_rules! plain {
    ($($name:ident = $at:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        /// For use through a pointer; the place is unknown.
        ///
        /// # Safety
        /// Pointers are null or what the C function of the same purpose takes.
        #[no_mangle]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            // SAFETY: by the other function's contract, which is this one's.
            #[allow(unused_unsafe)]
            unsafe { $at($($arg,)* ptr::null(), 0) }
        }
    )*};
}

plain! {
    gasnett_debug_malloc = gasnett_debug_malloc_at(bytes: usize) -> *mut c_void;
    gasnett_debug_calloc = gasnett_debug_calloc_at(count: usize, bytes: usize) -> *mut c_void;
    gasnett_debug_realloc = gasnett_debug_realloc_at(block: *mut c_void, bytes: usize) -> *mut c_void;
    gasnett_debug_free = gasnett_debug_free_at(block: *mut c_void);
    gasnett_debug_strdup = gasnett_debug_strdup_at(text: *const c_char) -> *mut c_char;
    gasnett_debug_strndup = gasnett_debug_strndup_at(text: *const c_char, most: usize) -> *mut c_char;
    gasnett_debug_memcheck = gasnett_debug_memcheck_at(block: *const c_void);
    gasnett_debug_memcheck_one = gasnett_debug_memcheck_one_at();
    gasnett_debug_memcheck_all = gasnett_debug_memcheck_all_at();
}
