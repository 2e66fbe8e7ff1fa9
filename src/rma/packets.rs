//! Puts and gets over packets: the default for conduits without RMA.
//!
//! A put is a series of packets, each acknowledged by a reply; a get is a series of requests, each
//! answered by a reply with data. A call without IMMEDIATE waits for room before each packet. With
//! IMMEDIATE only the first packet may be refused; later ones that find no room are queued (a put's
//! data is copied) and sent in later polls ([`crate::am::deferred`]). A put with `LC_COPY_YES` also
//! queues its first packet.

use super::transfer::{self, TransferId};
use super::{Access, Manner, Started};
use crate::am::deferred::send;
use crate::am::token::Token;
use crate::am::{inject, internal, join, max_medium, split, Arg, Message};
use crate::event::{Op, OpKind};
use crate::mk::{self, MemRef};
use crate::runtime;
use crate::segment::reach;
use gasnet_conduit::{Busy, Class};

/// See [`super::put`].
pub fn put(access: &Access, op: &'static Op, manner: Manner) -> Result<Started, Busy> {
    // All data is copied before return, into packets or into queued requests, so local completion
    // is not counted.
    let id = transfer::begin(op, OpKind::Put, access.peer.rank, access.here(), access.bytes);
    let piece = max_medium(Some(access.peer.rank));
    let (mut offset, mut bounce) = (0, Vec::new());
    while offset < access.bytes {
        let bytes = piece.min(access.bytes - offset);
        let ([a, b], [c, d]) = (split((access.remote + offset) as u64), split(id.0));
        let args = [a, b, c, d];
        // SAFETY: the client's source, `bytes` of which are left at `offset`.
        let source = unsafe { access.here().plus(offset).readable(bytes, &mut bounce) };
        if send(
            &Message::internal(
                Class::Request,
                access.peer,
                internal::RMA_PUT,
                &args,
                Some((source, bytes)),
            ),
            offset == 0 && !manner.copy,
            manner.immediate || manner.copy,
        )
        .is_err()
        {
            transfer::finish(id);
            return Err(Busy);
        }
        offset += bytes;
    }
    Ok(Started::UnderWay)
}

/// See [`super::get`].
pub fn get(access: &Access, op: &'static Op, manner: Manner) -> Result<Started, Busy> {
    let id = transfer::begin(op, OpKind::Get, access.peer.rank, access.here(), access.bytes);
    let piece = max_medium(Some(access.peer.rank));
    let mut offset = 0;
    while offset < access.bytes {
        let bytes = piece.min(access.bytes - offset);
        let ([a, b], [c, d], [e, f]) = (
            split((access.remote + offset) as u64),
            split(id.0),
            split(offset as u64),
        );
        let args = [a, b, c, d, e, f, bytes as Arg];
        let message = Message::internal(Class::Request, access.peer, internal::RMA_GET, &args, None);
        if send(&message, offset == 0, manner.immediate).is_err() {
            transfer::finish(id);
            return Err(Busy);
        }
        offset += bytes;
    }
    Ok(Started::UnderWay)
}

/// Replies to the runtime's own request. From a handler: drains replies while it waits.
fn reply(token: &Token, handler: u8, args: &[Arg], payload: Option<(*const u8, usize)>) {
    inject::send(&Message::internal(Class::Reply, token.source, handler, args, payload));
}

/// Target of a put: copies and acknowledges. Returns false if the message is malformed.
pub fn on_put(token: &Token, args: &[Arg], payload: *mut u8, bytes: usize) -> bool {
    let &[a, b, c, d] = args else { return false };
    let address = join(a, b) as usize;
    let Some(to) = runtime::get().own_mem(token.target_ep, address, bytes) else {
        return false;
    };
    // SAFETY: the destination is in our segment (checked), the payload in the packet.
    let copy = || unsafe { mk::copy(to, MemRef::host(payload), bytes) };
    reach::serving(token.source.rank, token.target_ep, address, bytes, copy);
    reply(token, internal::RMA_PUT_DONE, &[c, d, bytes as Arg], None);
    true
}

/// Initiator of a put: a packet was acknowledged.
pub fn on_put_done(args: &[Arg]) -> bool {
    let &[c, d, bytes] = args else { return false };
    transfer::advance(TransferId(join(c, d)), bytes as u32 as usize)
}

/// Target of a get: answers with the data.
pub fn on_get(token: &Token, args: &[Arg]) -> bool {
    let &[a, b, c, d, e, f, bytes] = args else { return false };
    let (address, bytes) = (join(a, b) as usize, bytes as u32 as usize);
    let fits = (1..=max_medium(Some(token.source.rank))).contains(&bytes);
    let from = runtime::get().own_mem(token.target_ep, address, bytes);
    let Some(from) = from.filter(|_| fits) else {
        return false;
    };
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

/// Initiator of a get: data of one reply.
pub fn on_data(args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[c, d, e, f] = args else { return false };
    let id = TransferId(join(c, d));
    let Some(to) = transfer::get_destination(id, join(e, f) as usize, bytes) else {
        return false;
    };
    // SAFETY: `get_destination` checked the range against the get's destination, which the client
    // keeps until completion.
    unsafe { mk::copy(to, MemRef::host(payload), bytes) };
    transfer::advance(id, bytes)
}
