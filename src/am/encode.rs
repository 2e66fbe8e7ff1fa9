//! The front of a message, its header and arguments, as the bytes of a record or packet.

use std::ptr;

use super::{Header, Message, HEADER, OVERHEAD};

/// The header of `message`.
#[inline]
pub fn head(message: &Message<'_>, kind: u8, block: u16) -> Header {
    Header {
        word: u32::from(kind) | (message.args.len() as u32) << 8,
        handler: message.handler,
        flags: 0,
        target_ep: message.target.ep,
        bytes: message.bytes as u32,
        source_ep: message.source_ep,
        block,
        destination: message.destination as u64,
    }
}

/// Writes all of the header but its first word, and the arguments.
///
/// # Safety
/// `record` is 8-byte aligned and has room for both.
#[inline(always)]
pub unsafe fn write_head(record: *mut u8, header: &Header, args: &[i32]) {
    // SAFETY: the header's bytes after the first word, into a record that has room for it.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(header).cast::<u8>().add(4), record.add(4), HEADER - 4) };
    // SAFETY: room for the arguments by contract.
    unsafe { ptr::copy_nonoverlapping(args.as_ptr(), record.add(HEADER).cast::<i32>(), args.len()) };
}

/// Header and arguments of a packet, and their length.
pub fn packet_front(m: &Message<'_>, header: &Header) -> (FrontBuffer, usize) {
    let mut front = FrontBuffer([0; OVERHEAD]);
    // SAFETY: OVERHEAD bytes hold a header and all arguments.
    unsafe { write_front(front.0.as_mut_ptr(), header, m.args) };
    (front, HEADER + 4 * m.args.len())
}

/// Writes header and arguments of a packet.
///
/// # Safety
/// `packet` is 8-byte aligned and has room for both.
pub unsafe fn write_front(packet: *mut u8, header: &Header, args: &[i32]) {
    // SAFETY: room for the header, and aligned, by contract.
    unsafe { packet.cast::<u32>().write(header.word) };
    // SAFETY: as above.
    unsafe { write_head(packet, header, args) };
}

/// Room for header and arguments.
#[repr(C, align(16))]
pub struct FrontBuffer(pub [u8; OVERHEAD]);
