//! Sends one message whole: in a record to a neighbour, in a packet to others.
//!
//! A message to a neighbour waits for its target alone: for room in the ring, or for a payload
//! block that is in transit to the target. Both come free when the target polls. It never waits for
//! a block that another target or a prepared message holds; without a block, a payload travels in
//! its record, or in several ([`super::segmented_medium`]).

use std::ptr;

use super::encode::{head, packet_front, write_head};
use super::table::INDEX_BASE;
use super::{kind, long, payload_offset, poll_scope, AmCategory, Message, HEADER, IN_PLACE};
use crate::progress;
use crate::runtime::{self, Runtime};
use crate::shm::comm::Record;
use crate::shm::memory::UNIT;
use crate::stall::Reason;
use crate::thread;
use crate::trace;
use crate::wait::Waiter;
use gasnet_conduit::Busy;

/// Sends a message of the runtime's own, a Short or a Medium, now or not at all.
pub fn try_send(message: &Message<'_>) -> Result<(), Busy> {
    let rt = runtime::get();
    if !rt.is_neighbour(message.target.rank) {
        return traced(message, to_network(rt, message));
    }
    let target = rt.nbrhd_index(message.target.rank);
    let sent = match message.category {
        AmCategory::Short => bare(rt, message, target, kind::SHORT),
        AmCategory::Long => bare(rt, message, target, kind::LONG),
        AmCategory::Medium => with_payload(rt, message, target, kind::MEDIUM),
    };
    traced(message, sent)
}

/// Polls until `attempt`, which sends `message`, returns a value.
#[cold]
pub fn until_room<T>(message: &Message<'_>, mut attempt: impl FnMut() -> Option<T>) -> T {
    let scope = poll_scope(message.class);
    let mut waiter = Waiter::new(scope, Reason::Room(message.class, message.target.rank));
    loop {
        if progress::poll(scope) > 0 {
            waiter.reset();
        } else {
            waiter.idle();
        }
        if let Some(value) = attempt() {
            waiter.done();
            return value;
        }
    }
}

/// Records a message of the runtime's own, if it was sent.
#[inline(always)]
pub fn traced(m: &Message<'_>, sent: Result<(), Busy>) -> Result<(), Busy> {
    if m.handler < INDEX_BASE && trace::wants(trace::TraceCategory::Internal) && sent.is_ok() {
        record(*m);
    }
    sent
}

#[cold]
fn record(m: Message<'_>) {
    let event =
        trace::TraceEvent::new(trace::EventKind::InternalSend, trace::monotonic_ns()).to(m.target.rank, m.bytes);
    trace::record(&event.with_fields(format_args!(" handler={}", m.handler)));
}

/// The shared-memory record of a message: `bytes` with this kind.
#[inline(always)]
fn pshm_record(m: &Message<'_>, kind: u8, bytes: usize) -> Record {
    Record {
        class: m.class,
        kind,
        small: m.args.len() as u8,
        bytes,
    }
}

/// Sends header and arguments to neighbour number `target`: a Short, or a Long whose payload is in
/// place.
#[inline(always)]
pub fn bare(rt: &Runtime, m: &Message<'_>, target: usize, kind: u8) -> Result<(), Busy> {
    let header = head(m, kind, IN_PLACE);
    let bytes = HEADER + 4 * m.args.len();
    // SAFETY: the record has `bytes` bytes.
    rt.comm.send(target, pshm_record(m, kind, bytes), |r| unsafe {
        write_head(r, &header, m.args);
    })
}

/// Sends a Long to neighbour number `target`, whose memory is mapped here, and copies the payload
/// once there is room.
pub fn long_to_mapped(rt: &Runtime, m: &Message<'_>, target: usize) -> Result<(), Busy> {
    let header = head(m, kind::LONG, IN_PLACE);
    let bytes = HEADER + 4 * m.args.len();
    rt.comm.send(target, pshm_record(m, kind::LONG, bytes), |r| {
        long::copy_mapped(rt, m);
        // SAFETY: the record has `bytes` bytes.
        unsafe { write_head(r, &header, m.args) }
    })
}

/// Sends a message of this kind to neighbour number `target`, with its payload.
#[inline(always)]
pub fn with_payload(rt: &Runtime, m: &Message<'_>, target: usize, kind: u8) -> Result<(), Busy> {
    let offset = payload_offset(m.args.len());
    if let Some(block) = m.block {
        return send_block(rt, m, target, kind, block);
    }
    if offset + m.bytes <= rt.comm.inline_bytes(m.class) {
        return send_in_record(rt, m, target, kind);
    }
    if !rt.comm.has_room(target, m.class, HEADER + 4 * m.args.len()) {
        return Err(Busy);
    }
    let pool = rt.comm.pool(m.class);
    let Some(block) = pool.take(target, m.bytes) else {
        return send_without_block(rt, *m, target, kind);
    };
    // SAFETY: the block is ours and holds MAX_MEDIUM bytes, the limit that the caller keeps.
    unsafe { ptr::copy_nonoverlapping(m.payload, pool.blocks().payload(block), m.bytes) };
    send_block(rt, m, target, kind, block).inspect_err(|_| pool.blocks().free(block))
}

/// Sends a payload above the inline limit, for which there is no block: in its record, if it fits
/// there. But a target to which many blocks are in transit soon frees one, which is faster.
#[cold]
fn send_without_block(rt: &Runtime, m: Message<'_>, target: usize, kind: u8) -> Result<(), Busy> {
    let length = payload_offset(m.args.len()) + m.bytes;
    if length > rt.comm.max_record(m.class) || rt.comm.pool(m.class).half_in_transit(target) {
        return Err(Busy);
    }
    send_in_record(rt, &m, target, kind)
}

#[inline(always)]
fn send_in_record(rt: &Runtime, m: &Message<'_>, target: usize, kind: u8) -> Result<(), Busy> {
    let offset = payload_offset(m.args.len());
    let header = head(m, kind, IN_PLACE);
    rt.comm.send(target, pshm_record(m, kind, offset + m.bytes), |r| {
        // Write the first cache line last: the receiver polls it and may take the line at any
        // time.
        let first = UNIT.saturating_sub(offset);
        if m.bytes > first {
            // SAFETY: the record has room for the payload at `offset`; the client answers for
            // the source.
            unsafe { ptr::copy_nonoverlapping(m.payload.add(first), r.add(offset + first), m.bytes - first) };
        }
        // SAFETY: the record has room for the header and the arguments.
        unsafe { write_head(r, &header, m.args) };
        // SAFETY: as for the rest of the payload.
        unsafe { copy_small(m.payload, r.add(offset), first.min(m.bytes)) };
    })
}

/// Copies at most 32 bytes, 16 and 32 without a call.
///
/// # Safety
/// Both are of `bytes` bytes.
#[inline(always)]
unsafe fn copy_small(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: by contract.
    unsafe {
        match bytes {
            16 => ptr::copy_nonoverlapping(from, to, 16),
            32 => ptr::copy_nonoverlapping(from, to, 32),
            _ => ptr::copy_nonoverlapping(from, to, bytes),
        }
    }
}

#[inline(always)]
fn send_block(rt: &Runtime, m: &Message<'_>, target: usize, kind: u8, block: u16) -> Result<(), Busy> {
    let header = head(m, kind, block);
    let bare = HEADER + 4 * m.args.len();
    rt.comm.pool(m.class).blocks().hand_over(block);
    // SAFETY: the record has `bare` bytes.
    rt.comm.send(target, pshm_record(m, kind, bare), |r| unsafe {
        write_head(r, &header, m.args);
    })
}

/// Sends a message to another neighbourhood, in one packet.
#[inline]
pub fn to_network(rt: &Runtime, m: &Message<'_>) -> Result<(), Busy> {
    let packet_kind = match m.category {
        AmCategory::Short => kind::SHORT,
        AmCategory::Medium => kind::MEDIUM,
        AmCategory::Long => kind::PACKED_LONG,
    };
    let (front, length) = packet_front(m, &head(m, packet_kind, IN_PLACE));
    if m.category == AmCategory::Short {
        return thread::in_conduit(|| rt.network.send(m.target.rank, m.class, &[&front.0[..length]]));
    }
    let offset = payload_offset(m.args.len());
    let payload: &[u8] = if m.bytes == 0 {
        &[]
    } else {
        // SAFETY: the client answers for its payload until local completion, which is our return.
        unsafe { std::slice::from_raw_parts(m.payload, m.bytes) }
    };
    let parts = [&front.0[..offset], payload];
    thread::in_conduit(|| rt.network.send(m.target.rank, m.class, &parts))
}
