//! Segmented Mediums: a payload for a neighbour that neither fits into a record nor finds a block,
//! while no block is in transit to that neighbour. Others hold them all, or prepared messages do. A
//! Long whose payload travels in its message goes the same way.
//!
//! The head (header and arguments) and the segments are Mediums of the runtime's own, and each fits
//! into a record: they wait for their target only. A ring keeps their order, so the head arrives
//! first. The receiver assembles the payload in a buffer, and runs the handler from the message
//! that completes it; the handler may use that message's reply slot.

use std::collections::HashMap;

use super::deferred;
use super::deliver;
use super::segment_head::{next_id, Head, MAX_HEAD};
use super::token::Token;
use super::wire::{self, Carrier, Payload};
use super::{internal, kind, payload_offset, post, AmCategory, Arg, Message, HEADER};
use crate::runtime;
use crate::shm::layout::MAX_MEDIUM;
use crate::types::Location;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_sys::atomic::Mutex;

/// A message of which part has arrived.
#[derive(Debug)]
pub struct Partial {
    head: Head,
    /// Words keep the payload aligned for any type.
    buffer: Vec<u128>,
    received: usize,
}

impl Partial {
    /// From what the sender encoded; None if it is malformed. `payload` has `bytes` bytes.
    pub fn begin(payload: *const u8, bytes: usize) -> Option<Self> {
        let head = Head::decode(payload, bytes)?;
        let (kind, nargs, total) = (head.header.word as u8, head.header.nargs(), head.header.bytes as usize);
        let length = payload_offset(nargs) + total;
        wire::shape(kind, nargs as u8, HEADER + 4 * nargs).ok()?;
        let place = wire::payload(Carrier::Packet, kind, nargs, &head.header, length);
        let is_possible = place == Ok(Payload::InPlace) && (1..=MAX_MEDIUM).contains(&total);
        is_possible.then(|| Self {
            head,
            buffer: vec![0; total.div_ceil(size_of::<u128>())],
            received: 0,
        })
    }

    /// Copies a segment of `bytes` bytes: whether that was the last. None if it is malformed.
    pub fn add(&mut self, offset: usize, payload: *const u8, bytes: usize) -> Option<bool> {
        let total = self.head.header.bytes as usize;
        if bytes > total - self.received || offset > total - bytes {
            return None;
        }
        // SAFETY: the segment lies inside the buffer (checked), the payload in the message.
        unsafe { std::ptr::copy_nonoverlapping(payload, self.buffer.as_mut_ptr().cast::<u8>().add(offset), bytes) };
        self.received += bytes;
        Some(self.received == total)
    }

    /// The head and the payload.
    pub fn parts(&mut self) -> (&Head, *mut u8) {
        (&self.head, self.buffer.as_mut_ptr().cast())
    }
}

static PARTIAL: Mutex<Option<HashMap<(JobRank, u32), Partial>>> = Mutex::new(None);

/// Whether `message`, which [`super::inject::try_send`] has just refused, must be segmented.
#[cold]
pub fn needed(message: &Message<'_>) -> bool {
    let rt = runtime::get();
    if message.block.is_some() || message.payload.is_null() || !rt.is_neighbour(message.target.rank) {
        return false;
    }
    let (comm, class) = (&rt.comm, message.class);
    let target = rt.nbrhd_index(message.target.rank);
    let travels = match message.category {
        AmCategory::Short => false,
        AmCategory::Medium => true,
        AmCategory::Long => message.bytes <= MAX_MEDIUM && !rt.can_touch(message.target),
    };
    travels
        && payload_offset(message.args.len()) + message.bytes > comm.max_record(class)
        && !comm.pool(class).in_transit(target)
        && comm.has_room(target, class, payload_offset(1) + MAX_HEAD)
}

/// Sends `message`, waiting for room as [`super::inject::send`] does.
pub fn send(message: &Message<'_>) {
    let sent = transmit(message, &mut |segment, _| {
        send_segment(segment);
        Ok(())
    });
    debug_assert!(sent.is_ok());
}

/// Sends `message` if its head finds room. Segments of a request that find none are copied and sent
/// in later polls; those of a reply wait.
pub fn try_send(message: &Message<'_>) -> Result<(), Busy> {
    transmit(message, &mut |segment, first| match (first, message.class) {
        (false, Class::Reply) => {
            send_segment(segment);
            Ok(())
        }
        _ => send_or_defer(segment, first),
    })
}

/// Sends a segment, waiting for room.
fn send_segment(segment: &Message<'_>) {
    if post::try_send(segment).is_err() {
        post::until_room(segment, || post::try_send(segment).ok());
    }
}

/// A segment that waits for room.
#[derive(Debug)]
struct Deferred {
    peer: Location,
    handler: u8,
    args: Vec<Arg>,
    data: Vec<u8>,
}

impl Deferred {
    fn send(&self) -> Result<bool, Busy> {
        let payload = (!self.data.is_empty()).then_some((self.data.as_ptr(), self.data.len()));
        let message = Message::internal(Class::Request, self.peer, self.handler, &self.args, payload);
        post::try_send(&message).map(|()| true)
    }
}

/// Sends a segment of a request, or lets later polls send a copy. The `first` one is refused
/// instead.
fn send_or_defer(message: &Message<'_>, first: bool) -> Result<(), Busy> {
    match post::try_send(message) {
        Ok(()) => Ok(()),
        Err(Busy) if first => Err(Busy),
        Err(Busy) => {
            let data = if message.payload.is_null() {
                Vec::new()
            } else {
                // SAFETY: the client's source is valid until local completion.
                unsafe { std::slice::from_raw_parts(message.payload, message.bytes) }.to_vec()
            };
            let segment = Deferred {
                peer: message.target,
                handler: message.handler,
                args: message.args.to_vec(),
                data,
            };
            deferred::later(message.target.rank, move || segment.send());
            Ok(())
        }
    }
}

/// Passes all messages to `out`, with a flag on the first: the only one that `out` may refuse.
fn transmit(message: &Message<'_>, out: &mut dyn FnMut(&Message<'_>, bool) -> Result<(), Busy>) -> Result<(), Busy> {
    let id = next_id();
    let travels_as = match message.category {
        AmCategory::Long => kind::PACKED_LONG,
        _ => kind::MEDIUM,
    };
    let (head, length) = Head::encode(message, travels_as);
    out(
        &part(message, internal::MEDIUM_HEAD, &[id], (head.as_ptr(), length)),
        true,
    )?;
    let most = runtime::get().comm.max_record(message.class) - payload_offset(2);
    for offset in (0..message.bytes).step_by(most) {
        let bytes = most.min(message.bytes - offset);
        out(
            &part(
                message,
                internal::MEDIUM_DATA,
                &[id, offset as Arg],
                (message.payload.wrapping_add(offset), bytes),
            ),
            false,
        )?;
    }
    Ok(())
}

/// A message of the runtime's own with a part of `whole`.
fn part<'a>(whole: &Message<'_>, handler: u8, args: &'a [Arg], payload: (*const u8, usize)) -> Message<'a> {
    Message::internal(whole.class, whole.target, handler, args, Some(payload))
}

/// Sends a message of the runtime's own now or not at all: whole, or in segments if it must be.
pub fn try_post_own(message: &Message<'_>) -> Result<(), Busy> {
    match post::try_send(message) {
        Err(Busy) if needed(message) => try_send(message),
        sent => sent,
    }
}

/// The same, waiting for room.
pub fn post_own(message: &Message<'_>) -> Result<(), Busy> {
    if post::try_send(message).is_ok() {
        return Ok(());
    }
    let is_sent = post::until_room(message, || match post::try_send(message) {
        Ok(()) => Some(true),
        Err(Busy) => needed(message).then_some(false),
    });
    if !is_sent {
        send(message);
    }
    Ok(())
}

/// Receiver: the head. Returns false if the message is malformed.
pub fn on_head(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[id] = args else { return false };
    Partial::begin(payload, bytes).is_some_and(|partial| insert((token.source.rank, id as u32), partial))
}

/// Receiver: a segment. Runs the handler at the last one. Returns false if the message is
/// malformed.
pub fn on_data(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[id, offset] = args else { return false };
    let key = (token.source.rank, id as u32);
    let taken = gasnet_sys::lock(&PARTIAL)
        .as_mut()
        .and_then(|arriving| arriving.remove(&key));
    let Some(mut partial) = taken else { return false };
    match partial.add(offset as u32 as usize, payload, bytes) {
        None => false,
        Some(false) => insert(key, partial),
        Some(true) => {
            let (head, assembled) = partial.parts();
            deliver::run_assembled(token.source.rank, token.class, head, assembled);
            true
        }
    }
}

/// Keeps a message until its next segment. False if its sender has another one of that identifier.
fn insert(key: (JobRank, u32), partial: Partial) -> bool {
    let mut arriving = gasnet_sys::lock(&PARTIAL);
    arriving.get_or_insert_with(HashMap::new).insert(key, partial).is_none()
}
