//! Puts and gets over packets: the default for conduits without RMA.
//!
//! A put is a series of packets, each acknowledged by a reply, or several by one where the client
//! has more under way ([`acknowledge`]); a get is a series of requests, each
//! answered by a reply with data. A call without IMMEDIATE waits for room before each packet. With
//! IMMEDIATE only the first packet may be refused. If a later one finds no room, it and those after
//! it are sent in later polls ([`crate::am::deferred`]), from the client's source. Where the client
//! may reuse that at return, up to [`MOST_COPIED`] bytes are copied, and a longer rest waits for
//! room. A put with `LC_COPY_YES` copies what it cannot send, its first packet included.

use super::transfer::{self, TransferId};
use super::{Access, Manner, Started};
use crate::am::deferred::{SendMessage, MOST_COPIED};
use crate::am::inject::wait_for_room;
use crate::am::token::Token;
use crate::am::{acknowledge, deferred, inject, internal, join, max_medium, split, Arg, Message};
use crate::event::{Category, Op, OpKind};
use crate::mk::{self, MemRef};
use crate::runtime;
use crate::segment::reach;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_job::counters::OneSided;

/// The packets of a put or a get that were not sent yet.
struct Packets {
    access: Access,
    id: TransferId,
    /// The thread had other transfers under way.
    is_of_many: bool,
    /// Of the next packet.
    offset: usize,
    /// A put's source, if it was copied.
    copy: Vec<u8>,
    /// Counts local completion.
    source: Option<&'static Op>,
}

// SAFETY: the local side is the client's memory, valid until the operation is locally complete, or
// the copy.
unsafe impl Send for Packets {}

impl Packets {
    fn new(access: &Access, op: &'static Op, kind: OpKind) -> Self {
        let (id, is_of_many) = transfer::begin_among(op, kind, access.peer.rank, access.here(), access.bytes);
        Self {
            access: *access,
            id,
            is_of_many,
            offset: 0,
            copy: Vec::new(),
            source: None,
        }
    }

    /// Length of the next packet.
    fn piece(&self) -> usize {
        max_medium(Some(self.access.peer.rank)).min(self.access.bytes - self.offset)
    }

    /// Sends the next packet of a put. Returns whether it was the last.
    fn put_next(&mut self, send: SendMessage<'_>) -> Result<bool, Busy> {
        let (access, bytes, mut bounce) = (&self.access, self.piece(), Vec::new());
        let ([a, b], [c, d]) = (split((access.remote + self.offset) as u64), split(self.id.0));
        // SAFETY: the source, `bytes` of which are left at `offset`.
        let source = unsafe { access.here().plus(self.offset).readable(bytes, &mut bounce) };
        let has_more = self.is_of_many || self.offset + bytes < access.bytes;
        let handler = if has_more {
            internal::RMA_PUT_OF_MANY
        } else {
            internal::RMA_PUT
        };
        send(&Message::internal(
            Class::Request,
            access.peer,
            handler,
            &[a, b, c, d],
            Some((source, bytes)),
        ))?;
        self.offset += bytes;
        let was_last = self.offset == self.access.bytes;
        if let Some(op) = self.source.filter(|_| was_last) {
            op.complete(Category::Local);
        }
        Ok(was_last)
    }

    /// Sends the next request of a get. Returns whether it was the last.
    fn get_next(&mut self, send: SendMessage<'_>) -> Result<bool, Busy> {
        let (access, bytes) = (&self.access, self.piece());
        let ([a, b], [c, d], [e, f]) = (
            split((access.remote + self.offset) as u64),
            split(self.id.0),
            split(self.offset as u64),
        );
        let args = [a, b, c, d, e, f, bytes as Arg];
        send(&Message::internal(
            Class::Request,
            access.peer,
            internal::RMA_GET,
            &args,
            None,
        ))?;
        self.offset += bytes;
        Ok(self.offset == access.bytes)
    }

    /// Copies what is left of a put's source.
    fn copy_source(&mut self) {
        let bytes = self.access.bytes - self.offset;
        self.copy = vec![0; bytes];
        let to = MemRef::host(self.copy.as_mut_ptr());
        // SAFETY: the client's source, `bytes` of which are left at `offset`.
        unsafe { mk::copy(to, self.access.here().plus(self.offset), bytes) };
        self.access = Access {
            local: self.copy.as_mut_ptr(),
            device: None,
            ..self.access.after(self.offset)
        };
        self.offset = 0;
    }
}

/// Calls `next` until it has sent its last packet.
fn send_all(mut next: impl FnMut() -> Result<bool, Busy>) -> Result<(), Busy> {
    while !next()? {}
    Ok(())
}

/// See [`super::put`]. A part of it has moved already if it `has_begun`: it is not refused.
pub fn put(access: &Access, op: &'static Op, manner: Manner, has_begun: bool) -> Result<Started, Busy> {
    access.count(OneSided::Put);
    // Local completion is counted only if packets are sent later.
    let mut packets = Packets::new(access, op, OpKind::Put);
    if !manner.immediate && !manner.copy {
        send_all(|| packets.put_next(&mut wait_for_room))?;
        return Ok(Started::UnderWay);
    }
    if send_all(|| packets.put_next(&mut inject::try_send)).is_ok() {
        return Ok(Started::UnderWay);
    }
    if packets.offset == 0 && !manner.copy && !has_begun {
        transfer::finish(packets.id);
        return Err(Busy);
    }
    match manner.kind {
        _ if manner.copy => packets.copy_source(),
        OpKind::PutNow if access.bytes - packets.offset > MOST_COPIED => {
            send_all(|| packets.put_next(&mut wait_for_room))?;
            return Ok(Started::UnderWay);
        }
        OpKind::PutNow => packets.copy_source(),
        OpKind::PutWithLocal => {
            op.begin(Category::Local);
            packets.source = Some(op);
        }
        _ => {}
    }
    deferred::later(access.peer.rank, move || packets.put_next(&mut inject::try_send));
    Ok(Started::UnderWay)
}

/// See [`super::get`], and [`put`].
pub fn get(access: &Access, op: &'static Op, manner: Manner, has_begun: bool) -> Result<Started, Busy> {
    access.count(OneSided::Get);
    let mut packets = Packets::new(access, op, OpKind::Get);
    if !manner.immediate {
        send_all(|| packets.get_next(&mut wait_for_room))?;
        return Ok(Started::UnderWay);
    }
    if send_all(|| packets.get_next(&mut inject::try_send)).is_ok() {
        return Ok(Started::UnderWay);
    }
    if packets.offset == 0 && !has_begun {
        transfer::finish(packets.id);
        return Err(Busy);
    }
    deferred::later(access.peer.rank, move || packets.get_next(&mut inject::try_send));
    Ok(Started::UnderWay)
}

/// Target of a put: copies and acknowledges, perhaps later. Returns false if the message is
/// malformed.
pub fn on_put(token: &Token, args: &[Arg], payload: *mut u8, bytes: usize, is_of_many: bool) -> bool {
    let &[a, b, c, d] = args else { return false };
    let address = join(a, b) as usize;
    let to = runtime::get().admit(token.source.rank, token.target_ep, address, bytes);
    // SAFETY: the destination is one that the sender may name, the payload in the packet.
    let copy = || unsafe { mk::copy(to, MemRef::host(payload), bytes) };
    reach::serving(token.source.rank, token.target_ep, address, bytes, copy);
    acknowledge::acknowledge(token, join(c, d), bytes, is_of_many);
    true
}

/// Initiator of a put: a packet was acknowledged.
pub fn on_put_done(from: JobRank, args: &[Arg]) -> bool {
    let &[c, d, bytes] = args else { return false };
    transfer::put_arrived(TransferId(join(c, d)), from, bytes as u32 as usize)
}

/// Initiator of puts: packets of several were acknowledged.
pub fn on_puts_done(from: JobRank, payload: *const u8, bytes: usize) -> bool {
    // SAFETY: the payload is in the packet.
    let Some(mut entries) = (unsafe { acknowledge::parse(payload, bytes) }) else {
        return false;
    };
    entries.all(|[transfer, bytes]| transfer::put_arrived(TransferId(transfer), from, bytes as usize))
}

/// Target of a get: answers with the data.
pub fn on_get(token: &Token, args: &[Arg]) -> bool {
    let &[a, b, c, d, e, f, bytes] = args else { return false };
    let (address, bytes) = (join(a, b) as usize, bytes as u32 as usize);
    if !(1..=max_medium(Some(token.source.rank))).contains(&bytes) {
        return false;
    }
    let from = runtime::get().admit(token.source.rank, token.target_ep, address, bytes);
    let answer = || {
        let mut bounce = Vec::new();
        // SAFETY: the source is one that the sender may name.
        let data = unsafe { from.readable(bytes, &mut bounce) };
        inject::reply(token, internal::RMA_DATA, &[c, d, e, f], Some((data, bytes)));
    };
    if from.kind.is_some() {
        answer();
    } else {
        reach::serving_read(token.source.rank, token.target_ep, address, bytes, answer);
    }
    true
}

/// Initiator of a get: data of one reply.
pub fn on_data(from: JobRank, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[c, d, e, f] = args else { return false };
    let id = TransferId(join(c, d));
    let Some(to) = transfer::get_destination(id, from, join(e, f) as usize, bytes) else {
        return false;
    };
    // SAFETY: `get_destination` checked the range against the get's destination, which the client
    // keeps until completion.
    unsafe { mk::copy(to, MemRef::host(payload), bytes) };
    transfer::get_arrived(id, from, bytes)
}
