//! Sending a message: to a neighbour through a ring, to others through the conduit, and to this
//! process itself by running its handler ([`loopback`]).
//!
//! Back-pressure has one form: [`try_send`] returns [`Busy`] and has no effect. [`send`] waits: a
//! request polls everything, a reply drains replies only, so handlers nest at most one level.
//!
//! A message to a neighbour waits for its target alone: for room in the ring, or for a payload
//! block that is in transit to the target. Both come free when the target polls. It never waits for
//! a block that another target or a prepared message holds; without a block, a payload travels in
//! its record, or in several ([`segmented_medium`]).

use std::ptr;

use super::table::INDEX_BASE;
use super::{
    gather, kind, long, long_put, loopback, payload_offset, poll_scope, segmented, segmented_medium, AmCategory,
    Header, Message, HEADER, IN_PLACE,
};
use crate::progress;
use crate::runtime::{self, Runtime};
use crate::shm::comm::Record;
use crate::shm::memory::UNIT;
use crate::stall::Reason;
use crate::thread;
use crate::trace;
use crate::wait::Waiter;
use gasnet_conduit::Busy;

/// Sends `message` now or not at all. Local completion is immediate. Never polls; but the handler
/// of a message to this process itself runs here.
///
/// All layers down to the ring become part of the caller, and what is rare takes its message by
/// value: so the common message exists in registers only.
#[inline(always)]
pub fn try_send(message: &Message<'_>) -> Result<(), Busy> {
    if try_whole(message).is_ok() {
        return Ok(());
    }
    if segmented_medium::needed(message) {
        return segmented_medium::try_send(message);
    }
    Err(Busy)
}

/// The same in one message, or in those of a segmented Long.
#[inline(always)]
fn try_whole(message: &Message<'_>) -> Result<(), Busy> {
    let sent = try_to(message);
    if message.handler < INDEX_BASE && trace::wants(trace::TraceCategory::Internal) && sent.is_ok() {
        record(*message);
    }
    sent
}

#[inline(always)]
fn try_to(message: &Message<'_>) -> Result<(), Busy> {
    let rt = runtime::get();
    if message.target.rank == rt.rank() && loopback::deliver(rt, *message) {
        return Ok(());
    }
    if rt.is_neighbour(message.target.rank) {
        return send_intra_nbrhd(rt, message);
    }
    send_network(rt, *message)
}

#[inline(never)]
fn send_network(rt: &Runtime, message: Message<'_>) -> Result<(), Busy> {
    if let Some(target) = long_put::target(rt, &message) {
        return long_put::send(rt, target, &message, true);
    }
    if segmented::needed(&message) {
        return segmented::try_send(&message);
    }
    if let Some(gather) = gather::wanted(rt, &message) {
        return gather::try_send(rt, gather, &message);
    }
    send_packet(rt, &message)
}

/// Records a message of the runtime's own.
#[cold]
fn record(m: Message<'_>) {
    let event =
        trace::TraceEvent::new(trace::EventKind::InternalSend, trace::monotonic_ns()).to(m.target.rank, m.bytes);
    trace::record(&event.with_fields(format_args!(" handler={}", m.handler)));
}

/// Sends `message`, waiting for room.
pub fn send(message: &Message<'_>) {
    send_inline(message);
}

/// The same as a part of the caller, for the functions that clients call.
#[inline(always)]
pub fn send_inline(message: &Message<'_>) {
    if message.category == AmCategory::Long {
        // The payload goes ahead, outside any reservation; only the head waits for room.
        if long::copied_ahead(runtime::get(), message) {
            return until_sent(&bare(message));
        }
        if let Some(target) = long_put::target(runtime::get(), message) {
            let sent = long_put::send(runtime::get(), target, message, false);
            debug_assert!(sent.is_ok());
            return;
        }
        if segmented::needed(message) {
            return segmented::send(message);
        }
    }
    until_sent(message);
}

#[inline(always)]
fn until_sent(message: &Message<'_>) {
    if try_whole(message).is_err() {
        wait_and_send(*message);
    }
}

#[cold]
fn wait_and_send(message: Message<'_>) {
    let scope = poll_scope(message.class);
    let mut waiter = Waiter::new(scope, Reason::Room(message.class, message.target.rank));
    loop {
        if progress::poll(scope) > 0 {
            waiter.reset();
        } else {
            waiter.idle();
        }
        if try_whole(&message).is_ok() {
            waiter.done();
            return;
        }
        if segmented_medium::needed(&message) {
            waiter.done();
            return segmented_medium::send(&message);
        }
    }
}

/// The head of a Long whose payload is in place.
#[inline]
fn bare<'a>(message: &Message<'a>) -> Message<'a> {
    Message {
        payload: ptr::null(),
        ..*message
    }
}

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
unsafe fn write_head(record: *mut u8, header: &Header, args: &[i32]) {
    // SAFETY: the header's bytes after the first word, into a record that has room for it.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(header).cast::<u8>().add(4), record.add(4), HEADER - 4) };
    // SAFETY: room for the arguments by contract.
    unsafe { ptr::copy_nonoverlapping(args.as_ptr(), record.add(HEADER).cast::<i32>(), args.len()) };
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

#[inline(always)]
fn send_intra_nbrhd(rt: &Runtime, m: &Message<'_>) -> Result<(), Busy> {
    let target = rt.nbrhd_index(m.target.rank);
    let bytes = HEADER + 4 * m.args.len();
    match m.category {
        AmCategory::Short => {
            let header = head(m, kind::SHORT, IN_PLACE);
            // SAFETY: the record has `bytes` bytes.
            rt.comm().send(target, pshm_record(m, kind::SHORT, bytes), |r| unsafe {
                write_head(r, &header, m.args);
            })
        }
        AmCategory::Long if m.bytes > 0 && !m.payload.is_null() => send_long_intra_nbrhd(rt, *m, target),
        AmCategory::Long => {
            let header = head(m, kind::LONG, IN_PLACE);
            // SAFETY: the record has `bytes` bytes.
            rt.comm().send(target, pshm_record(m, kind::LONG, bytes), |r| unsafe {
                write_head(r, &header, m.args);
            })
        }
        AmCategory::Medium => send_intra_nbrhd_with_payload(rt, m, target, kind::MEDIUM),
    }
}

/// Sends a Long whose payload is not yet at its destination.
#[inline(never)]
fn send_long_intra_nbrhd(rt: &Runtime, m: Message<'_>, target: usize) -> Result<(), Busy> {
    let bytes = HEADER + 4 * m.args.len();
    if rt.can_touch(m.target) {
        let header = head(&m, kind::LONG, IN_PLACE);
        return rt.comm().send(target, pshm_record(&m, kind::LONG, bytes), |r| {
            long::copy_mapped(rt, &m);
            // SAFETY: the record has `bytes` bytes.
            unsafe { write_head(r, &header, m.args) }
        });
    }
    if !rt.comm().has_room(target, m.class, bytes) {
        return Err(Busy);
    }
    match long::copied_by_kernel(rt, &m) {
        0 => {}
        copied if copied == m.bytes && send_intra_nbrhd(rt, &bare(&m)).is_ok() => return Ok(()),
        // What has moved cannot be taken back, so the Long is not refused any more.
        _ => return segmented::send_begun(&m),
    }
    if segmented::needed(&m) {
        return segmented::try_send(&m);
    }
    send_intra_nbrhd_with_payload(rt, &m, target, kind::PACKED_LONG)
}

#[inline(always)]
fn send_intra_nbrhd_with_payload(rt: &Runtime, m: &Message<'_>, target: usize, kind: u8) -> Result<(), Busy> {
    let offset = payload_offset(m.args.len());
    if let Some(block) = m.block {
        return send_block(rt, m, target, kind, block);
    }
    if offset + m.bytes <= rt.comm().inline_bytes(m.class) {
        return send_in_record(rt, m, target, kind);
    }
    if !rt.comm().has_room(target, m.class, HEADER + 4 * m.args.len()) {
        return Err(Busy);
    }
    let pool = rt.comm().pool(m.class);
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
    if length > rt.comm().max_record(m.class) || rt.comm().pool(m.class).half_in_transit(target) {
        return Err(Busy);
    }
    send_in_record(rt, &m, target, kind)
}

#[inline(always)]
fn send_in_record(rt: &Runtime, m: &Message<'_>, target: usize, kind: u8) -> Result<(), Busy> {
    let offset = payload_offset(m.args.len());
    let header = head(m, kind, IN_PLACE);
    rt.comm().send(target, pshm_record(m, kind, offset + m.bytes), |r| {
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
    rt.comm().pool(m.class).blocks().hand_over(block);
    // SAFETY: the record has `bare` bytes.
    rt.comm().send(target, pshm_record(m, kind, bare), |r| unsafe {
        write_head(r, &header, m.args);
    })
}

fn send_packet(rt: &Runtime, m: &Message<'_>) -> Result<(), Busy> {
    let packet_kind = match m.category {
        AmCategory::Short => kind::SHORT,
        AmCategory::Medium => kind::MEDIUM,
        AmCategory::Long => kind::PACKED_LONG,
    };
    let (front, length) = packet_front(m, &head(m, packet_kind, IN_PLACE));
    if m.category == AmCategory::Short {
        return thread::in_conduit(|| rt.network().send(m.target.rank, m.class, &[&front.0[..length]]));
    }
    let offset = payload_offset(m.args.len());
    let payload: &[u8] = if m.bytes == 0 {
        &[]
    } else {
        // SAFETY: the client answers for its payload until local completion, which is our return.
        unsafe { std::slice::from_raw_parts(m.payload, m.bytes) }
    };
    let parts = [&front.0[..offset], payload];
    thread::in_conduit(|| rt.network().send(m.target.rank, m.class, &parts))
}

/// What precedes the payload of a packet: header and arguments, of which the length is returned.
pub fn packet_front(m: &Message<'_>, header: &Header) -> (FrontBuffer, usize) {
    let mut front = FrontBuffer([0; super::OVERHEAD]);
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
pub struct FrontBuffer(pub [u8; super::OVERHEAD]);
