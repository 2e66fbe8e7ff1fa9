//! Operations that failed: records of errors in the queue.

use super::bindings as abi;
use super::endpoint::{Completion, Endpoint};
use super::Errno;
use std::ffi::{c_char, CStr};

/// An operation that failed.
#[derive(Debug)]
pub struct Failure {
    /// The operation, whose context may be null, and what was received of it.
    pub of: Completion,
    /// Length of a message that was cut off, or that of its beginning; 0 if the provider does not
    /// tell.
    pub bytes: usize,
    /// Its error.
    pub errno: Errno,
    /// The provider's text.
    pub text: String,
}

/// Room for a record. Later versions append fields, and write them if their interface is requested:
/// 88 bytes in all from 1.20 to 2.6.
#[repr(C)]
struct Room {
    entry: abi::fi_cq_err_entry,
    appended: [u64; 16],
}

impl Endpoint {
    /// Takes the record of an error from the queue. No other thread reads the queue meanwhile: a
    /// provider frees the text of a record (`err_data`) at the next read
    /// (libfabric@v2.6.0:prov/util/src/util_cq.c).
    pub fn failure(&self) -> Option<Failure> {
        let _call = self.calls.enter();
        // SAFETY: all zero is a valid value.
        let mut room: Room = unsafe { std::mem::zeroed() };
        let cq = self.cq.as_ptr();
        // SAFETY: fi_cq(3): a live queue, and room for a record.
        let count = unsafe {
            (*(*cq).ops)
                .readerr
                .map_or(0, |read| read(cq, (&raw mut room).cast(), 0))
        };
        if count <= 0 {
            return None;
        }
        let entry = &room.entry;
        let errno = Errno(entry.err);
        let mut buffer = [0_u8; 256];
        // Zero names no error of the provider (rxd, opx; tcp without an error of the kernel).
        let has_text = entry.prov_errno != 0;
        // SAFETY: a live queue, an error that was just read, and room for a text.
        let text = unsafe {
            let strerror = (*(*cq).ops).strerror.filter(|_| has_text);
            let text = strerror.map(|text| {
                text(
                    cq,
                    entry.prov_errno,
                    entry.err_data,
                    buffer.as_mut_ptr().cast::<c_char>(),
                    buffer.len(),
                )
            });
            text.filter(|text| !text.is_null())
                .map(|text| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        Some(Failure {
            of: Completion {
                op_context: entry.op_context,
                flags: entry.flags,
                len: if entry.buf.is_null() {
                    0
                } else {
                    entry.len.saturating_sub(entry.olen)
                },
                buf: entry.buf,
                data: entry.data,
            },
            bytes: entry.len,
            errno,
            text: match text {
                Some(text) if !text.is_empty() && text != errno.text() => format!("{} ({text})", errno.text()),
                _ => errno.text(),
            },
        })
    }
}
