//! Puts and gets over packets: the default for conduits without RMA.
//!
//! A put goes out in pieces, each acknowledged by a reply; a get asks for pieces, each answered by a reply that carries the data. A
//! call without IMMEDIATE waits for room piece by piece. With IMMEDIATE the first piece decides; what finds no room after it is
//! kept (a put's data is copied) and goes out from [`progress`]. A put with `LC_COPY_YES` keeps its first piece, too.

use gasnet_sys::atomic::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{transfer, Access, Manner, Started};
use crate::am::token::Token;
use crate::am::{inject, internal, join, max_medium, split, Arg, Message};
use crate::event::{Category, Op};
use crate::mk::{self, Spot};
use crate::runtime;
use crate::segment::reach;
use crate::types::Location;
use gasnet_conduit::{Busy, Class, TransferId};

/// One piece that goes out as a request.
#[derive(Debug)]
struct Piece {
    peer: Location,
    handler: u8,
    args: Vec<Arg>,
    data: Vec<u8>,
}

static WAITING: Mutex<VecDeque<Piece>> = Mutex::new(VecDeque::new());
static WAITING_COUNT: AtomicUsize = AtomicUsize::new(0);

fn waiting() -> gasnet_sys::atomic::MutexGuard<'static, VecDeque<Piece>> {
    WAITING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Sends one request, or keeps it for later. `first` pieces of an IMMEDIATE call are refused instead.
pub fn send(message: &Message<'_>, first: bool, immediate: bool) -> Result<(), Busy> {
    if !immediate {
        inject::send(message);
        return Ok(());
    }
    match inject::try_send(message) {
        Ok(()) => Ok(()),
        Err(Busy) if first => Err(Busy),
        Err(Busy) => {
            let data = if message.payload.is_null() {
                Vec::new()
            } else {
                // SAFETY: the client's source is valid until local completion.
                unsafe { std::slice::from_raw_parts(message.payload, message.bytes) }.to_vec()
            };
            let piece = Piece {
                peer: message.target,
                handler: message.handler,
                args: message.args.to_vec(),
                data,
            };
            waiting().push_back(piece);
            WAITING_COUNT.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
}

/// See [`super::put`].
pub fn put(access: &Access, op: &'static Op, manner: Manner) -> Result<Started, Busy> {
    let id = transfer::begin(op, Category::Put, access.peer.rank, access.local, access.bytes);
    let piece = max_medium(Some(access.peer.rank));
    let (mut offset, mut bounce) = (0, Vec::new());
    while offset < access.bytes {
        let bytes = piece.min(access.bytes - offset);
        let ([a, b], [c, d]) = (split((access.remote + offset) as u64), split(id.0));
        let args = [a, b, c, d];
        // SAFETY: the client's source, `bytes` of which are left at `offset`.
        let source = unsafe { access.here().plus(offset).readable(bytes, &mut bounce) };
        if send(
            &Message::internal(Class::Request, access.peer, internal::RMA_PUT, &args, Some((source, bytes))),
            offset == 0 && !manner.copy,
            manner.immediate || manner.copy,
        )
        .is_err()
        {
            transfer::cancel(id);
            return Err(Busy);
        }
        offset += bytes;
    }
    // Every piece was copied, into a packet or into a piece that waits.
    transfer::source_done(id);
    Ok(Started::UnderWay)
}

/// See [`super::get`].
pub fn get(access: &Access, op: &'static Op, manner: Manner) -> Result<Started, Busy> {
    let id = transfer::begin_to(op, Category::Get, access.peer.rank, access.here(), access.bytes);
    let piece = max_medium(Some(access.peer.rank));
    let mut offset = 0;
    while offset < access.bytes {
        let bytes = piece.min(access.bytes - offset);
        let ([a, b], [c, d], [e, f]) = (split((access.remote + offset) as u64), split(id.0), split(offset as u64));
        let args = [a, b, c, d, e, f, bytes as Arg];
        let message = Message::internal(Class::Request, access.peer, internal::RMA_GET, &args, None);
        if send(&message, offset == 0, manner.immediate).is_err() {
            transfer::cancel(id);
            return Err(Busy);
        }
        offset += bytes;
    }
    Ok(Started::UnderWay)
}

/// Sends pieces that wait, in order, until one finds no room.
#[inline]
pub fn progress() -> usize {
    if WAITING_COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    send_waiting()
}

#[cold]
fn send_waiting() -> usize {
    let mut queue = waiting();
    let mut sent = 0;
    while let Some(piece) = queue.front() {
        let payload = (!piece.data.is_empty()).then_some((piece.data.as_ptr(), piece.data.len()));
        let message = Message::internal(Class::Request, piece.peer, piece.handler, &piece.args, payload);
        if inject::try_send(&message).is_err() {
            break;
        }
        queue.pop_front();
        WAITING_COUNT.fetch_sub(1, Ordering::Relaxed);
        sent += 1;
    }
    sent
}

/// Replies to the runtime's own request. From a handler: drains replies while it waits.
fn reply(token: &Token, handler: u8, args: &[Arg], payload: Option<(*const u8, usize)>) {
    inject::send(&Message::internal(Class::Reply, token.source, handler, args, payload));
}

/// Target of a put: copies and acknowledges. False if the message makes no sense.
pub fn on_put(token: &Token, args: &[Arg], payload: *mut u8, bytes: usize) -> bool {
    let &[a, b, c, d] = args else { return false };
    let address = join(a, b) as usize;
    let Some(to) = runtime::get().own_spot(token.target_ep, address, bytes) else {
        return false;
    };
    // SAFETY: the destination is in our segment (checked), the payload in the packet.
    let copy = || unsafe { mk::copy(to, Spot::host(payload), bytes) };
    reach::serving(token.source.rank, token.target_ep, address, bytes, copy);
    reply(token, internal::RMA_PUT_DONE, &[c, d, bytes as Arg], None);
    true
}

/// Initiator of a put: a piece is done.
pub fn on_put_done(args: &[Arg]) -> bool {
    let &[c, d, bytes] = args else { return false };
    transfer::advance(TransferId(join(c, d)), bytes as u32 as usize)
}

/// Target of a get: answers with the data.
pub fn on_get(token: &Token, args: &[Arg]) -> bool {
    let &[a, b, c, d, e, f, bytes] = args else { return false };
    let (address, bytes) = (join(a, b) as usize, bytes as u32 as usize);
    let fits = (1..=max_medium(Some(token.source.rank))).contains(&bytes);
    let from = runtime::get().own_spot(token.target_ep, address, bytes);
    let Some(from) = from.filter(|_| fits) else { return false };
    let answer = || {
        let mut bounce = Vec::new();
        // SAFETY: the source is in our segment (checked).
        let data = unsafe { from.readable(bytes, &mut bounce) };
        reply(token, internal::RMA_DATA, &[c, d, e, f], Some((data, bytes)));
    };
    if from.kind.is_some() {
        answer();
    } else {
        reach::serving_read(token.source.rank, token.target_ep, address, bytes, answer);
    }
    true
}

/// Initiator of a get: data of a piece.
pub fn on_data(args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[c, d, e, f] = args else { return false };
    let id = TransferId(join(c, d));
    let Some(to) = transfer::landing(id, join(e, f) as usize, bytes) else {
        return false;
    };
    // SAFETY: `landing` checked the range against the get's destination, which the client keeps until completion.
    unsafe { mk::copy(to, Spot::host(payload), bytes) };
    transfer::advance(id, bytes)
}
