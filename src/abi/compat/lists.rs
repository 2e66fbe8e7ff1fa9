//! `gasnett_format_*` of `gasnet_vis.h`: descriptions of scattered data as text, for messages. The
//! reference's test programs use them. The client allocates the size that the `_bufsz` function
//! returns; the text and its NUL always fit.

use std::ffi::{c_char, c_void};
use std::fmt::Write;

use super::names::deliver;
use crate::team::TeamHandle;
use crate::types::Rank;
use crate::vis::shape::{List, Memvec};

/// Bytes for the text before the entries: five numbers, and words.
const HEAD: usize = 256;
/// Bytes per entry: an address and a length, or three numbers.
const ENTRY: usize = 80;

fn describe(list: List) -> String {
    let mut text = format!(
        "{} entries, {} bytes:",
        list.count(),
        list.bytes().unwrap_or(usize::MAX)
    );
    for (address, bytes) in (0..list.count()).map(|i| list.piece(i)) {
        // Writing to a String cannot fail.
        let _ = write!(text, " {address:#x}+{bytes}");
    }
    text
}

/// The size of the longest text for a list of `count` entries.
#[no_mangle]
pub extern "C" fn gasnett_format_memveclist_bufsz(count: usize) -> usize {
    HEAD + count * ENTRY
}

/// Describes a vector list.
///
/// # Safety
/// `list` has `count` entries; `buf` has the room that `gasnett_format_memveclist_bufsz` says.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_memveclist(buf: *mut c_char, count: usize, list: *const Memvec) {
    let list = List::Vector {
        entries: list,
        count,
        base: 0,
    };
    // SAFETY: the caller's contract.
    unsafe { deliver(buf, &describe(list)) };
}

/// The size of the longest text for a list of `count` addresses.
#[no_mangle]
pub extern "C" fn gasnett_format_addrlist_bufsz(count: usize) -> usize {
    HEAD + count * ENTRY
}

/// Describes an indexed list of pieces of `bytes` bytes.
///
/// # Safety
/// `list` has `count` entries; `buf` has the room that `gasnett_format_addrlist_bufsz` says.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_addrlist(buf: *mut c_char, count: usize, list: *const *mut u8, bytes: usize) {
    let list = List::Indexed {
        entries: list,
        count,
        bytes,
        base: 0,
    };
    // SAFETY: the caller's contract.
    unsafe { deliver(buf, &describe(list)) };
}

/// The size of the longest text for a strided description.
#[no_mangle]
pub extern "C" fn gasnett_format_putsgets_bufsz(stridelevels: usize) -> usize {
    HEAD + stridelevels * ENTRY
}

/// Describes a strided put to, or get from, `rank`. `reserved` is ignored.
///
/// # Safety
/// The arrays have `stridelevels` entries; `buf` has the room that `gasnett_format_putsgets_bufsz`
/// says.
#[no_mangle]
pub unsafe extern "C" fn gasnett_format_putsgets(
    buf: *mut c_char,
    _reserved: *mut c_void,
    _tm: TeamHandle,
    rank: Rank,
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
        // SAFETY: `stridelevels` entries by contract.
        let (turns, to, from) = unsafe { (*count.add(i), *dststrides.add(i), *srcstrides.add(i)) };
        // Writing to a String cannot fail.
        let _ = write!(text, ", {turns} x ({to}, {from})");
    }
    // SAFETY: the caller's contract.
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
        unsafe {
            gasnett_format_putsgets(
                out,
                none,
                TeamHandle::INVALID,
                Rank(u32::MAX),
                top,
                steps,
                top,
                steps,
                all,
                counts,
                4,
            );
        };
        assert!(read(&buffer).ends_with(&format!("{all} x ({0}, {0})", isize::MIN)));
    }
}
