//! Peer completion of a put (GASNet-EX 0.19, "VIS Put Peer PeerCompletion").
//!
//! A message names the client's handler and carries its payload. It gives how many bytes of the put
//! come in packets: since nothing is ordered, the target counts what has arrived and runs the
//! handler when all is there. A put to a neighbour has none.

use std::collections::BTreeMap;

use super::VisAccess;
use crate::am::table::INDEX_BASE;
use crate::am::token::Token;
use crate::am::{deliver, inject, internal, join, Arg, Message};
use crate::types::AmCategory;
use crate::types::PeerCompletion;
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::{Class, JobRank};
use gasnet_sys::atomic::{Mutex, MutexGuard};

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

/// What is to run, and when.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    total: u64,
    source: Location,
    target_ep: EpIndex,
    handler: u8,
    payload: Payload,
    bytes: usize,
}

/// A put that has not arrived completely.
#[derive(Clone, Copy, Debug, Default)]
struct Arriving {
    bytes: u64,
    awaited: Option<Awaited>,
}

static ARRIVING: Mutex<BTreeMap<(JobRank, u64), Arriving>> = Mutex::new(BTreeMap::new());

fn arriving() -> MutexGuard<'static, BTreeMap<(JobRank, u64), Arriving>> {
    gasnet_sys::lock(&ARRIVING)
}

/// Changes what is known about a put; when that makes it complete, removes it and returns the
/// handler to run. Err if more bytes arrived than the put has.
fn update(key: (JobRank, u64), change: impl FnOnce(&mut Arriving)) -> Result<Option<Awaited>, ()> {
    let mut table = arriving();
    let entry = table.entry(key).or_default();
    change(entry);
    match entry.awaited {
        Some(awaited) if entry.bytes > awaited.total => Err(()),
        Some(awaited) if entry.bytes == awaited.total => {
            table.remove(&key);
            Ok(Some(awaited))
        }
        _ => Ok(None),
    }
}

fn run(ready: Result<Option<Awaited>, ()>) -> bool {
    match ready {
        Err(()) => false,
        Ok(None) => true,
        Ok(Some(mut a)) => {
            deliver::run_reply(a.source, a.target_ep, a.handler, a.payload.0.as_mut_ptr(), a.bytes);
            true
        }
    }
}

/// Target: `bytes` of put `id` were copied to their places. Returns false if the message is
/// malformed.
pub fn arrived(source: JobRank, id: u64, bytes: usize) -> bool {
    run(update((source, id), |put| {
        put.bytes = put.bytes.saturating_add(bytes as u64);
    }))
}

/// Target: which handler to run, and after how many bytes. Returns false if the message is
/// malformed.
pub fn on_peer(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[a, b, c, d, handler] = args else { return false };
    let Ok(handler) = u8::try_from(handler) else {
        return false;
    };
    if handler < INDEX_BASE || bytes > MAX_PAYLOAD {
        return false;
    }
    let mut awaited = Awaited {
        total: join(c, d),
        source: token.source,
        target_ep: token.target_ep & !ANYWHERE,
        handler,
        payload: Payload([0; MAX_PAYLOAD]),
        bytes,
    };
    // SAFETY: the payload lies in the message; its length was checked against the copy's.
    unsafe { std::ptr::copy_nonoverlapping(payload, awaited.payload.0.as_mut_ptr(), bytes) };
    if awaited.total == 0 {
        return run(Ok(Some(awaited)));
    }
    let mut twice = false;
    let ready = update((token.source.rank, join(a, b)), |put| {
        twice = put.awaited.replace(awaited).is_some();
    });
    !twice && run(ready)
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
        let message = |put: &mut Arriving| put.awaited = Some(awaited);
        let piece = |n: u64| move |put: &mut Arriving| put.bytes += n;
        for id in 0..4 {
            let key = (JobRank(3), id);
            if id % 2 == 0 {
                assert!(update(key, message).unwrap().is_none());
            }
            assert!(update(key, piece(4)).unwrap().is_none());
            if id == 3 {
                assert!(update(key, piece(7)).unwrap().is_none());
                assert!(update(key, message).is_err());
                continue;
            }
            let last = if id % 2 == 0 {
                update(key, piece(6))
            } else {
                assert!(update(key, piece(6)).unwrap().is_none());
                update(key, message)
            };
            assert_eq!(last.unwrap().map(|a| a.handler), Some(200));
        }
        assert!(!arriving().contains_key(&(JobRank(3), 0)) && !arriving().contains_key(&(JobRank(3), 1)));
    }
}
