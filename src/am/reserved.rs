//! Negotiated payloads for other neighbourhoods, in send buffers of the conduit: from Prepare to
//! transmission they are not copied.
//!
//! A buffer has room for the front of the packet, whose length is known at Prepare, and the payload
//! behind it. A Medium, or a Long up to the packed limit, is sent as it lies there; of a larger
//! Long the conduit puts the payload.

use super::encode::{head, write_front};
use super::local_completion::until_taken;
use super::{inject, kind, long_put, payload_offset, AmCategory, Message, IN_PLACE};
use crate::runtime::Runtime;
use crate::thread;
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};

/// The message for which a buffer is reserved.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// Its target.
    pub peer: JobRank,
    /// Request or reply.
    pub class: Class,
    /// Number of its arguments.
    pub nargs: usize,
    /// Bytes of payload.
    pub bytes: usize,
    /// Least bytes of payload, where buffers are smaller.
    pub least: usize,
}

/// Reserves room for the payload of a message. Returns its place and its length. None if there is
/// no such buffer now.
pub fn reserve(buffers: &dyn SendBuffers, wanted: Wanted) -> Option<(*mut u8, usize)> {
    let offset = payload_offset(wanted.nargs);
    let bytes = wanted.bytes.min(buffers.max_bytes() - offset);
    if bytes < wanted.least {
        return None;
    }
    let buffer = thread::in_conduit(|| buffers.reserve(wanted.peer, wanted.class, offset + bytes)).ok()?;
    Some((buffer.0.wrapping_add(offset), bytes))
}

/// The buffer whose payload of a message with `nargs` arguments lies at `payload`.
fn buffer_of(payload: *const u8, nargs: usize) -> SendBuffer {
    SendBuffer(payload.cast_mut().wrapping_sub(payload_offset(nargs)))
}

/// Gives back the buffer of a payload that is not sent.
pub fn release(buffers: &dyn SendBuffers, payload: *const u8, nargs: usize) {
    thread::in_conduit(|| buffers.release(buffer_of(payload, nargs)));
}

/// Sends `m`, whose payload lies in a buffer of [`reserve`]'s. Waits for room unless `immediate`.
/// If it is refused, the buffer stays reserved.
pub fn send(rt: &Runtime, buffers: &dyn SendBuffers, m: &Message<'_>, immediate: bool) -> Result<(), Busy> {
    let buffer = buffer_of(m.payload, m.args.len());
    if let Some(target) = long_put::target(rt, m) {
        return long_put::send_reserved(target, buffer, m, immediate);
    }
    let length = payload_offset(m.args.len()) + m.bytes;
    if length > rt.conduit_limits.max_packet_bytes {
        // Several packets, which have buffers of their own.
        if immediate {
            inject::try_send(m)?;
        } else {
            inject::send(m);
        }
        thread::in_conduit(|| buffers.release(buffer));
        return Ok(());
    }
    let packet_kind = match m.category {
        AmCategory::Long => kind::PACKED_LONG,
        _ => kind::MEDIUM,
    };
    // SAFETY: the buffer is reserved for this message, and the front lies before the payload.
    unsafe { write_front(buffer.0, &head(m, packet_kind, IN_PLACE), m.args) };
    until_taken(m, immediate, || {
        buffers.send_reserved(m.target.rank, m.class, buffer, length)
    })
}
