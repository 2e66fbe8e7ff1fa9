//! Descriptions of scattered data as text, for messages (`gasnett_format_*` of `gasnet_vis.h`; the reference's test programs use them).
//!
//! The client allocates what the `_bufsz` function says; the text and its NUL always fit.

use std::ffi::{c_char, c_void};
use std::fmt::Write;

use crate::vis::shape::{List, Memvec};

/// Room for all that is not said per entry: five numbers, and words.
const HEAD: usize = 256;
/// Room for an address and a length, or for three numbers.
const ENTRY: usize = 80;

/// Writes `text` and a NUL.
///
/// # Safety
/// `buffer` has room for both.
unsafe fn deliver(buffer: *mut c_char, text: &str) {
    // SAFETY: by contract.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), text.len()) };
    // SAFETY: by contract.
    unsafe { buffer.add(text.len()).write(0) };
}

fn describe(list: List) -> String {
    let mut text = format!("{} entries, {} bytes:", list.count(), list.bytes().unwrap_or(usize::MAX));
    for (address, bytes) in (0..list.count()).map(|i| list.piece(i)) {
        // Writing to a String cannot fail.
        let _ = write!(text, " {address:#x}+{bytes}");
    }
    text
}

/// Bytes that the text of a list of `count` entries takes at most.
#[no_mangle]
pub extern "C" fn gasnett_format_memveclist_bufsz(count: usize) -> usize {
    HEAD + count * ENTRY
}

/// Describes a vector list.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_memveclist(buf: *mut c_char, count: usize, list: *const Memvec) {
    let list = List::Vector {
        entries: list,
        count,
        base: 0,
    };
    // SAFETY: the client's array and its buffer, as long as `gasnett_format_memveclist_bufsz` says.
    unsafe { deliver(buf, &describe(list)) };
}

/// Bytes that the text of a list of `count` addresses takes at most.
#[no_mangle]
pub extern "C" fn gasnett_format_addrlist_bufsz(count: usize) -> usize {
    HEAD + count * ENTRY
}

/// Describes an indexed list of pieces of `bytes` bytes.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_addrlist(buf: *mut c_char, count: usize, list: *const *mut u8, bytes: usize) {
    let list = List::Indexed {
        entries: list,
        count,
        bytes,
        base: 0,
    };
    // SAFETY: the client's array and its buffer, as long as `gasnett_format_addrlist_bufsz` says.
    unsafe { deliver(buf, &describe(list)) };
}

/// Bytes that the text of a strided description takes at most.
#[no_mangle]
pub extern "C" fn gasnett_format_putsgets_bufsz(stridelevels: usize) -> usize {
    HEAD + stridelevels * ENTRY
}

/// Describes a strided put to, or get from, `rank`. `reserved` is ignored.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_putsgets(
    buf: *mut c_char,
    _reserved: *mut c_void,
    _tm: usize,
    rank: u32,
    dstaddr: *mut u8,
    dststrides: *const isize,
    srcaddr: *mut u8,
    srcstrides: *const isize,
    elemsz: usize,
    count: *const usize,
    stridelevels: usize,
) {
    let mut text = format!("rank {rank}, destination {dstaddr:?}, source {srcaddr:?}, {elemsz} bytes");
    for i in 0..stridelevels {
        // SAFETY: the client's arrays of `stridelevels` entries.
        let (turns, to, from) = unsafe { (*count.add(i), *dststrides.add(i), *srcstrides.add(i)) };
        // Writing to a String cannot fail.
        let _ = write!(text, ", {turns} x ({to}, {from})");
    }
    // SAFETY: the client's buffer, as long as `gasnett_format_putsgets_bufsz` says.
    unsafe { deliver(buf, &text) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_texts_fit() {
        let all = usize::MAX;
        let entries = [Memvec {
            address: all as *mut u8,
            bytes: all,
        }; 3];
        let read = |buffer: &[u8]| {
            std::ffi::CStr::from_bytes_until_nul(buffer)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        let mut buffer = vec![1_u8; gasnett_format_memveclist_bufsz(3)];
        // SAFETY: three entries; a buffer of the size asked for.
        unsafe { gasnett_format_memveclist(buffer.as_mut_ptr().cast(), 3, entries.as_ptr()) };
        assert!(read(&buffer).ends_with(&format!(" {all:#x}+{all}")));
        let mut buffer = vec![1_u8; gasnett_format_putsgets_bufsz(4)];
        let (steps, counts, top) = ([isize::MIN; 4], [all; 4], all as *mut u8);
        let (out, none) = (buffer.as_mut_ptr().cast(), std::ptr::null_mut());
        let (steps, counts) = (steps.as_ptr(), counts.as_ptr());
        // SAFETY: four levels; a buffer of the size asked for.
        unsafe { gasnett_format_putsgets(out, none, 0, u32::MAX, top, steps, top, steps, all, counts, 4) };
        assert!(read(&buffer).ends_with(&format!("{all} x ({0}, {0})", isize::MIN)));
    }
}
