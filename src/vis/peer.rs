//! Peer completion of a put (GASNet-EX 0.19, "VIS Put Peer PeerCompletion").
//!
//! A message names the client's handler and carries its payload. It gives how many bytes of the put
//! come in packets: since nothing is ordered, the target counts what has arrived and runs the
//! handler when all is there. A put to a neighbour has none.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::VisAccess;
use crate::am::segmented::Contradiction;
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

/// A put that has not arrived completely.
#[derive(Clone, Copy, Debug, Default)]
struct Arriving {
    bytes: u64,
    awaited: Option<Awaited>,
}

/// Puts that have not arrived completely, by source and identifier.
#[derive(Debug, Default)]
pub struct Puts(BTreeMap<(JobRank, u64), Arriving>);

static ARRIVING: Mutex<Puts> = Mutex::new(Puts(BTreeMap::new()));

impl Puts {
    /// `bytes` bytes of a put were copied to their places. Returns what is to run, if that makes it
    /// complete.
    pub fn data(&mut self, key: (JobRank, u64), bytes: usize) -> Result<Option<Awaited>, Contradiction> {
        let put = self.0.entry(key).or_default();
        put.bytes = put.bytes.saturating_add(bytes as u64);
        self.complete(key)
    }

    /// The message of a put has arrived. Likewise.
    pub fn message(&mut self, key: (JobRank, u64), awaited: Awaited) -> Result<Option<Awaited>, Contradiction> {
        if awaited.total == 0 {
            return Ok(Some(awaited));
        }
        if self.0.entry(key).or_default().awaited.replace(awaited).is_some() {
            return Err(Contradiction);
        }
        self.complete(key)
    }

    /// Removes a put that is complete.
    fn complete(&mut self, key: (JobRank, u64)) -> Result<Option<Awaited>, Contradiction> {
        let Some((bytes, awaited)) = self.0.get(&key).and_then(|put| Some((put.bytes, put.awaited?))) else {
            return Ok(None);
        };
        match bytes.cmp(&awaited.total) {
            Ordering::Less => Ok(None),
            Ordering::Greater => Err(Contradiction),
            Ordering::Equal => {
                self.0.remove(&key);
                Ok(Some(awaited))
            }
        }
    }
}

fn run(ready: Result<Option<Awaited>, Contradiction>) -> bool {
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
    let ready = gasnet_sys::lock(&ARRIVING).message((token.source.rank, id), awaited);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_is_complete_when_all_is_there_in_any_order() {
        let awaited = Awaited {
            total: 10,
            source: Location {
                rank: JobRank(3),
                ep: 0,
            },
            target_ep: 0,
            handler: 200,
            payload: Payload([0; MAX_PAYLOAD]),
            bytes: 0,
        };
        let mut puts = Puts::default();
        for id in 0..4 {
            let key = (JobRank(3), id);
            if id % 2 == 0 {
                assert!(puts.message(key, awaited).unwrap().is_none());
                assert!(id == 0 || puts.message(key, awaited).is_err(), "a second message");
            }
            assert!(puts.data(key, 4).unwrap().is_none());
            if id == 3 {
                assert!(puts.data(key, 7).unwrap().is_none());
                assert!(puts.message(key, awaited).is_err());
                continue;
            }
            let last = if id % 2 == 0 {
                puts.data(key, 6)
            } else {
                assert!(puts.data(key, 6).unwrap().is_none());
                puts.message(key, awaited)
            };
            assert_eq!(last.unwrap().map(|a| a.handler), Some(200));
        }
        assert!(!puts.0.contains_key(&(JobRank(3), 0)) && !puts.0.contains_key(&(JobRank(3), 1)));
    }
}
