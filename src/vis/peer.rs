//! Peer completion of a put (GASNet-EX 0.19, "VIS Put Peer PeerCompletion").
//!
//! A message names the client's handler and carries its payload. It gives how many bytes of the put
//! come in packets: since nothing is ordered, the target counts what has arrived and runs the
//! handler when all is there. A put to a neighbour has none.

use super::VisAccess;
use crate::am::segmented::{Completed, Partials};
use crate::am::table::INDEX_BASE;
use crate::am::token::Token;
use crate::am::{deliver, inject, internal, join, Arg, Message};
use crate::types::AmCategory;
use crate::types::PeerCompletion;
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::{Class, JobRank};
use gasnet_sys::atomic::Mutex;

/// `GEX_VIS_MAX_PEERCOMPLETION`.
pub const MAX_PAYLOAD: usize = 127;

/// Sends the message that goes with a put of `total` bytes in packets named `id`. Waits for room.
pub fn send(access: &VisAccess<'_>, completion: &PeerCompletion, id: u64, total: u64) {
    let args = [
        (id >> 32) as Arg,
        id as Arg,
        (total >> 32) as Arg,
        total as Arg,
        Arg::from(completion.handler),
    ];
    let payload = if completion.bytes == 0 {
        args.as_ptr().cast()
    } else {
        completion.payload
    };
    let (class, category) = (Class::Request, AmCategory::Medium);
    let message = Message::new(class, category, access.peer, internal::VIS_PEER, &args);
    let message = message.from_endpoint(access.source_ep & !ANYWHERE);
    inject::send(&message.with_payload(payload, completion.bytes));
}

/// A payload that came before its data.
#[repr(align(16))]
#[derive(Clone, Copy, Debug)]
struct Payload([u8; MAX_PAYLOAD]);

/// A peer-completion handler, and the put that it waits for.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// Bytes of the put.
    pub total: u64,
    /// The initiator.
    pub source: Location,
    target_ep: EpIndex,
    /// A client's.
    pub handler: u8,
    payload: Payload,
    bytes: usize,
}

/// Puts that have not arrived completely.
static ARRIVING: Mutex<Partials<Awaited>> = Mutex::new(Partials::NONE);

fn run(ready: Completed<Awaited>) -> bool {
    if let Ok(Some(mut a)) = ready {
        deliver::run_reply(a.source, a.target_ep, a.handler, a.payload.0.as_mut_ptr(), a.bytes);
    }
    ready.is_ok()
}

/// Target: `bytes` of put `id` were copied to their places. Returns false if the message is
/// malformed.
pub fn arrived(source: JobRank, id: u64, bytes: usize) -> bool {
    let ready = gasnet_sys::lock(&ARRIVING).data((source, id), bytes);
    run(ready)
}

/// Target: which handler to run, and after how many bytes. Returns false if the message is
/// malformed.
pub fn on_peer(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let Some((id, awaited)) = Awaited::decode(token, args, payload, bytes) else {
        return false;
    };
    if awaited.total == 0 {
        return run(Ok(Some(awaited)));
    }
    let ready = gasnet_sys::lock(&ARRIVING).head((token.source.rank, id), awaited.total, awaited);
    run(ready)
}

impl Awaited {
    /// The put's identifier and what is to run after it, from its message. `payload` has `bytes`
    /// bytes.
    pub fn decode(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> Option<(u64, Self)> {
        let &[a, b, c, d, handler] = args else { return None };
        let handler = u8::try_from(handler).ok().filter(|handler| *handler >= INDEX_BASE)?;
        if bytes > MAX_PAYLOAD {
            return None;
        }
        let mut copy = Payload([0; MAX_PAYLOAD]);
        // SAFETY: the payload lies in the message; its length was checked against the copy's.
        unsafe { std::ptr::copy_nonoverlapping(payload, copy.0.as_mut_ptr(), bytes) };
        let awaited = Self {
            total: join(c, d),
            source: token.source,
            target_ep: token.target_ep & !ANYWHERE,
            handler,
            payload: copy,
            bytes,
        };
        Some((join(a, b), awaited))
    }
}
