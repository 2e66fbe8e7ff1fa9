//! Segmented Longs: payloads above [`max_medium`] to segments that the sender cannot access.
//!
//! Each packet of data carries its own destination; the head (header and arguments) is a separate
//! message. Order does not matter. The receiver counts the bytes of each Long and runs the handler
//! from the message that completes it; the handler may use that message's reply slot. Nothing is
//! acknowledged.
//!
//! All these messages are requests, those of a reply too: conduits set a place aside for one reply
//! to each request. A handler sends no requests, so a reply is copied and sent in later polls.

use std::cmp::Ordering as Compared;
use std::collections::BTreeMap;

use super::deferred::{self, SendMessage, MOST_COPIED};
use super::deliver;
use super::segment_head::{next_id, Head, MAX_HEAD};
use super::segmented_medium::{post_own, try_post_own};
use super::token::Token;
use super::{internal, join, local_completion, max_medium, split, AmCategory, Arg, Message};
use crate::mk::{self, MemRef};
use crate::runtime;
use crate::segment::reach;
use crate::types::Location;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_sys::atomic::Mutex;

/// Bytes of data that have arrived of a message, and its head with the number of all of them.
type Partial<H> = (u64, Option<(u64, H)>);

/// Messages of which part has arrived, by sender and identifier.
#[derive(Debug)]
pub struct Partials<H>(BTreeMap<(JobRank, u64), Partial<H>>);

/// Parts have more bytes together than their head states, or two heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// The head of a message that is complete, if it is.
pub type Completed<H> = Result<Option<H>, Contradiction>;

impl<H: Copy> Partials<H> {
    /// None.
    pub const NONE: Self = Self(BTreeMap::new());

    /// The head of a message with `total` bytes of data has arrived.
    pub fn head(&mut self, key: (JobRank, u64), total: u64, head: H) -> Completed<H> {
        if self.0.entry(key).or_default().1.replace((total, head)).is_some() {
            return Err(Contradiction);
        }
        self.complete(key)
    }

    /// Data of a message has arrived.
    pub fn data(&mut self, key: (JobRank, u64), bytes: usize) -> Completed<H> {
        let received = &mut self.0.entry(key).or_default().0;
        *received = received.saturating_add(bytes as u64);
        self.complete(key)
    }

    /// Removes a message that is complete.
    fn complete(&mut self, key: (JobRank, u64)) -> Completed<H> {
        let Some(&(received, Some((total, head)))) = self.0.get(&key) else {
            return Ok(None);
        };
        match received.cmp(&total) {
            Compared::Less => Ok(None),
            Compared::Greater => Err(Contradiction),
            Compared::Equal => {
                self.0.remove(&key);
                Ok(Some(head))
            }
        }
    }
}

static PARTIAL_LONGS: Mutex<Partials<(Head, Class)>> = Mutex::new(Partials::NONE);

/// Whether `message` must be segmented.
#[inline]
pub fn needed(message: &Message<'_>) -> bool {
    message.category == AmCategory::Long
        && message.bytes > max_medium(Some(message.target.rank))
        && !runtime::get().can_touch(message.target)
}

/// The messages of a Long that were not sent yet.
struct Parts {
    target: Location,
    class: Class,
    id: Arg,
    head: ([u8; MAX_HEAD], usize),
    destination: usize,
    payload: *const u8,
    bytes: usize,
    /// Data that was sent; None: the head comes next.
    sent: Option<usize>,
}

// SAFETY: those that another thread's poll sends have their payload in a copy, or in the client's
// source until local completion.
unsafe impl Send for Parts {}

impl Parts {
    fn new(message: &Message<'_>) -> Self {
        Self {
            target: message.target,
            class: message.class,
            id: next_id(),
            head: Head::encode(message, super::kind::LONG),
            destination: message.destination,
            payload: message.payload,
            bytes: message.bytes,
            sent: None,
        }
    }

    /// Bytes that were not sent.
    fn left(&self) -> usize {
        self.bytes - self.sent.unwrap_or(0)
    }

    /// Sends the next message. Returns whether it was the last.
    fn send_next(&mut self, send: SendMessage<'_>) -> Result<bool, Busy> {
        let message =
            |handler, args, payload| Message::internal(Class::Request, self.target, handler, args, Some(payload));
        let Some(sent) = self.sent else {
            let args = [self.id, Arg::from(self.class == Class::Reply)];
            send(&message(
                internal::LONG_HEAD,
                &args,
                (self.head.0.as_ptr(), self.head.1),
            ))?;
            self.sent = Some(0);
            return Ok(false);
        };
        let bytes = max_medium(Some(self.target.rank)).min(self.bytes - sent);
        let [a, b] = split((self.destination + sent) as u64);
        send(&message(
            internal::LONG_DATA,
            &[self.id, a, b],
            (self.payload.wrapping_add(sent), bytes),
        ))?;
        self.sent = Some(sent + bytes);
        Ok(sent + bytes == self.bytes)
    }
}

/// Sends `message`, waiting for room as [`super::inject::send`] does.
pub fn send(message: &Message<'_>) {
    let mut parts = Parts::new(message);
    if message.class == Class::Reply {
        return send_copy_later(parts);
    }
    while parts.send_next(&mut post_own) != Ok(true) {}
}

/// As [`try_send`], for a message of which a part has moved: its head is not refused, but sent in
/// later polls, too.
pub fn send_begun(message: &Message<'_>) -> Result<(), Busy> {
    try_send_parts(message, false)
}

/// Sends `message` if its head finds room. Data that finds none is sent in later polls: from the
/// client's source, if local completion may come later. Else the last [`MOST_COPIED`] bytes are
/// copied, and data before them waits.
pub fn try_send(message: &Message<'_>) -> Result<(), Busy> {
    try_send_parts(message, true)
}

fn try_send_parts(message: &Message<'_>, may_refuse: bool) -> Result<(), Busy> {
    let mut parts = Parts::new(message);
    if message.class == Class::Reply {
        send_copy_later(parts);
        return Ok(());
    }
    loop {
        match parts.send_next(&mut try_post_own) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(Busy) if may_refuse && parts.sent.is_none() => return Err(Busy),
            Err(Busy) if local_completion::may_come_later(message) => {
                send_source_later(parts, message);
                return Ok(());
            }
            Err(Busy) if parts.left() > MOST_COPIED => {
                if parts.send_next(&mut post_own) == Ok(true) {
                    return Ok(());
                }
            }
            Err(Busy) => {
                send_copy_later(parts);
                return Ok(());
            }
        }
    }
}

/// Lets later polls send what is left from the client's source, and then complete `message`
/// locally.
#[cold]
fn send_source_later(mut parts: Parts, message: &Message<'_>) {
    local_completion::later(message, |op| {
        deferred::later(message.target.rank, move || {
            let was_last = parts.send_next(&mut try_post_own)?;
            if was_last {
                local_completion::complete(op);
            }
            Ok(was_last)
        });
    });
}

/// Copies what is left, and lets later polls send it.
#[cold]
fn send_copy_later(mut parts: Parts) {
    let sent = parts.bytes - parts.left();
    // SAFETY: the client's source is valid until local completion.
    let copy = unsafe { std::slice::from_raw_parts(parts.payload.wrapping_add(sent), parts.left()) }.to_vec();
    deferred::later(parts.target.rank, move || {
        parts.payload = copy.as_ptr().wrapping_sub(sent);
        parts.send_next(&mut try_post_own)
    });
}

/// Receiver: the head of a Long. Returns false if the message is malformed.
pub fn on_head(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[id, is_reply] = args else { return false };
    let Some(head) = Head::decode(payload, bytes) else {
        return false;
    };
    let class = if is_reply == 0 { Class::Request } else { Class::Reply };
    let header = &head.header;
    if !head.is_of_long() || header.target_ep != token.target_ep {
        return false;
    }
    runtime::get().admit(
        token.source.rank,
        token.target_ep,
        header.destination as usize,
        header.bytes as usize,
    );
    let (key, total) = (key(token, id), u64::from(header.bytes));
    let complete = gasnet_sys::lock(&PARTIAL_LONGS).head(key, total, (head, class));
    run_if(complete, token)
}

/// Receiver: data of a Long. Returns false if the message is malformed.
pub fn on_data(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[id, a, b] = args else { return false };
    let address = join(a, b) as usize;
    if bytes == 0 {
        return false;
    }
    let to = runtime::get().admit(token.source.rank, token.target_ep, address, bytes);
    // SAFETY: the destination is one that the sender may name, the payload in the packet.
    reach::serving(token.source.rank, token.target_ep, address, bytes, || unsafe {
        mk::copy(to, MemRef::host(payload), bytes);
    });
    let complete = gasnet_sys::lock(&PARTIAL_LONGS).data(key(token, id), bytes);
    run_if(complete, token)
}

fn key(token: &Token, id: Arg) -> (JobRank, u64) {
    (token.source.rank, u64::from(id as u32))
}

/// Runs the handler of a Long, if all of it has arrived. Returns false if the message was
/// malformed.
fn run_if(complete: Completed<(Head, Class)>, token: &Token) -> bool {
    if let Ok(Some((head, class))) = complete {
        deliver::run_long(token.source.rank, class, &head);
    }
    complete.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_complete_when_all_is_there_in_any_order() {
        let mut partials = Partials::NONE;
        for id in 0..4 {
            let key = (JobRank(3), id);
            if id % 2 == 0 {
                assert!(partials.head(key, 10, 200).unwrap().is_none());
                assert!(id == 0 || partials.head(key, 10, 200).is_err(), "a second head");
            }
            assert!(partials.data(key, 4).unwrap().is_none());
            if id == 3 {
                assert!(partials.data(key, 7).unwrap().is_none());
                assert!(partials.head(key, 10, 200).is_err());
                continue;
            }
            let last = if id % 2 == 0 {
                partials.data(key, 6)
            } else {
                assert!(partials.data(key, 6).unwrap().is_none());
                partials.head(key, 10, 200)
            };
            assert_eq!(last, Ok(Some(200)));
        }
        assert!(!partials.0.contains_key(&(JobRank(3), 0)) && !partials.0.contains_key(&(JobRank(3), 1)));
    }
}
