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
use std::collections::HashMap;

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

/// A Long of which part has arrived.
#[derive(Debug, Default)]
struct Partial {
    received: usize,
    head: Option<(Head, Class)>,
}

/// The Longs of which parts have arrived, by sender and identifier.
#[derive(Debug, Default)]
pub struct Partials(HashMap<(JobRank, u32), Partial>);

/// Parts have more bytes together than their head states, or two heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// A Long that is complete, if it is.
pub type Completed = Result<Option<(Head, Class)>, Contradiction>;

impl Partials {
    /// The head of a Long has arrived.
    pub fn head(&mut self, key: (JobRank, u32), head: Head, class: Class) -> Completed {
        if self.0.entry(key).or_default().head.replace((head, class)).is_some() {
            return Err(Contradiction);
        }
        self.complete(key)
    }

    /// Data of a Long has arrived.
    pub fn data(&mut self, key: (JobRank, u32), bytes: usize) -> Completed {
        let partial = self.0.entry(key).or_default();
        partial.received = partial.received.saturating_add(bytes);
        self.complete(key)
    }

    /// Removes a Long that is complete.
    fn complete(&mut self, key: (JobRank, u32)) -> Completed {
        let Some((received, head)) = self.0.get(&key).and_then(|long| Some((long.received, long.head?))) else {
            return Ok(None);
        };
        match received.cmp(&(head.0.header.bytes as usize)) {
            Compared::Less => Ok(None),
            Compared::Greater => Err(Contradiction),
            Compared::Equal => {
                self.0.remove(&key);
                Ok(Some(head))
            }
        }
    }
}

static PARTIAL_LONGS: Mutex<Option<Partials>> = Mutex::new(None);

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
    update(
        |partials| partials.head((token.source.rank, id as u32), head, class),
        token,
    )
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
    update(|partials| partials.data((token.source.rank, id as u32), bytes), token)
}

/// Counts what has arrived of a Long, and runs the handler if that is all. Returns false if the
/// message is malformed.
fn update(change: impl FnOnce(&mut Partials) -> Completed, token: &Token) -> bool {
    let complete = change(gasnet_sys::lock(&PARTIAL_LONGS).get_or_insert_with(Partials::default));
    if let Ok(Some((head, class))) = complete {
        deliver::run_long(token.source.rank, class, &head);
    }
    complete.is_ok()
}
