//! Sending a message: whole ([`post`]) or in segments, with its payload put or gathered by the
//! conduit, and to this process itself by running its handler ([`loopback`]).
//!
//! Back-pressure has one form: [`try_send`] returns [`Busy`] and has no effect. [`send`] waits: a
//! request polls everything, a reply drains replies only, so handlers nest at most one level.

use std::ptr;

use super::token::Token;
use super::{
    gather, kind, long, long_put, loopback, post, segmented, segmented_medium, AmCategory, Arg, Message, HEADER,
};
use crate::runtime::{self, Runtime};
use gasnet_conduit::{Busy, Class};

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
    post::traced(message, try_to(message))
}

#[inline(always)]
fn try_to(message: &Message<'_>) -> Result<(), Busy> {
    let rt = runtime::get();
    if message.target.rank == rt.rank && loopback::deliver(rt, *message) {
        return Ok(());
    }
    if !rt.is_neighbour(message.target.rank) {
        return send_network(rt, *message);
    }
    let target = rt.nbrhd_index(message.target.rank);
    match message.category {
        AmCategory::Short => post::bare(rt, message, target, kind::SHORT),
        AmCategory::Long if message.bytes > 0 && !message.payload.is_null() => {
            send_long_intra_nbrhd(rt, *message, target)
        }
        AmCategory::Long => post::bare(rt, message, target, kind::LONG),
        AmCategory::Medium => post::with_payload(rt, message, target, kind::MEDIUM),
    }
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
    post::to_network(rt, &message)
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
    let is_sent = post::until_room(&message, || match try_whole(&message) {
        Ok(()) => Some(true),
        Err(Busy) => segmented_medium::needed(&message).then_some(false),
    });
    if !is_sent {
        segmented_medium::send(&message);
    }
}

/// The same, for an operation of several messages.
pub fn wait_for_room(message: &Message<'_>) -> Result<(), Busy> {
    send(message);
    Ok(())
}

/// Replies to the runtime's own request. From a handler: drains replies while it waits.
pub fn reply(token: &Token, handler: u8, args: &[Arg], payload: Option<(*const u8, usize)>) {
    send(&Message::internal(Class::Reply, token.source, handler, args, payload));
}

/// The head of a Long whose payload is in place.
#[inline]
fn bare<'a>(message: &Message<'a>) -> Message<'a> {
    Message {
        payload: ptr::null(),
        ..*message
    }
}

/// Sends a Long whose payload is not yet at its destination.
#[inline(never)]
fn send_long_intra_nbrhd(rt: &Runtime, m: Message<'_>, target: usize) -> Result<(), Busy> {
    if rt.can_touch(m.target) {
        return post::long_to_mapped(rt, &m, target);
    }
    if !rt.comm.has_room(target, m.class, HEADER + 4 * m.args.len()) {
        return Err(Busy);
    }
    match long::copied_by_kernel(rt, &m) {
        0 => {}
        copied if copied == m.bytes && post::bare(rt, &m, target, kind::LONG).is_ok() => return Ok(()),
        // Bytes that have moved cannot be taken back, so the Long is not refused any more.
        _ => return segmented::send_begun(&m),
    }
    if segmented::needed(&m) {
        return segmented::try_send(&m);
    }
    post::with_payload(rt, &m, target, kind::PACKED_LONG)
}
