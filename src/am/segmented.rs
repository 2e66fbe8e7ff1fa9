//! Segmented Longs: payloads above [`max_medium`] to segments that the sender cannot access.
//!
//! Each packet of data carries its own destination; the head (header and arguments) is a separate
//! message. Order does not matter. The receiver counts the bytes of each Long and runs the handler
//! from the message that completes it; the handler may use that message's reply slot. Nothing is
//! acknowledged, so requests and replies use the same protocol.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::deferred::{self, MOST_COPIED};
use super::deliver;
use super::token::Token;
use super::{inject, internal, join, max_medium, split, AmCategory, Arg, Header, Message, HEADER, MAX_ARGS, MAX_LONG};
use crate::mk::{self, MemRef};
use crate::runtime;
use crate::segment::reach;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_sys::atomic::Mutex;

/// Identifier of the next segmented message of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A Long of which part has arrived.
#[derive(Debug, Default)]
struct Partial {
    received: usize,
    head: Option<Head>,
}

/// Header and arguments of a segmented message.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// As the sender filled it.
    pub header: Header,
    /// Arguments; the header has their number.
    pub args: [Arg; MAX_ARGS],
}

/// Most bytes of an encoded head.
pub(super) const MAX_HEAD: usize = HEADER + 4 * MAX_ARGS;

impl Head {
    /// That of `message` as bytes, and their number.
    pub(super) fn encode(message: &Message<'_>, kind: u8) -> ([u8; MAX_HEAD], usize) {
        let mut head = [0u8; MAX_HEAD];
        let header = inject::head(message, kind, super::IN_PLACE);
        // SAFETY: the array has room for a header and all arguments.
        unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&header).cast(), head.as_mut_ptr(), HEADER) };
        // SAFETY: the bytes of the arguments.
        let args: &[u8] = unsafe { std::slice::from_raw_parts(message.args.as_ptr().cast(), 4 * message.args.len()) };
        head[HEADER..HEADER + args.len()].copy_from_slice(args);
        (head, HEADER + args.len())
    }

    /// From what the sender encoded; None if it is malformed. `payload` has `bytes` bytes.
    pub(super) fn decode(payload: *const u8, bytes: usize) -> Option<Self> {
        if !(HEADER..=MAX_HEAD).contains(&bytes) {
            return None;
        }
        // SAFETY: the payload has at least the bytes of a header, of which any are valid.
        let header = unsafe { payload.cast::<Header>().read_unaligned() };
        let mut args = [0; MAX_ARGS];
        let nargs = header.nargs();
        if bytes != HEADER + 4 * nargs {
            return None;
        }
        // SAFETY: so many arguments follow the header, and `bytes` limits them to MAX_ARGS.
        unsafe { ptr::copy_nonoverlapping(payload.add(HEADER), args.as_mut_ptr().cast(), 4 * nargs) };
        Some(Self { header, args })
    }
}

/// An identifier for the next segmented message of this process.
pub(super) fn next_id() -> Arg {
    NEXT.fetch_add(1, Ordering::Relaxed) as Arg
}

static PARTIAL_LONGS: Mutex<Option<HashMap<(JobRank, u32), Partial>>> = Mutex::new(None);

/// Whether `message` must be segmented.
#[inline]
pub fn needed(message: &Message<'_>) -> bool {
    message.category == AmCategory::Long
        && message.bytes > max_medium(Some(message.target.rank))
        && !runtime::get().can_touch(message.target)
}

/// Sends `message`, waiting for room as [`inject::send`] does.
pub fn send(message: &Message<'_>) {
    let sent = transmit(message, &mut |piece, _| {
        inject::send(piece);
        Ok(())
    });
    debug_assert!(sent.is_ok());
}

/// As [`try_send`], for a message of which a part has moved: its head is not refused, but sent in
/// later polls, too.
pub fn send_begun(message: &Message<'_>) -> Result<(), Busy> {
    try_send_parts(message, false)
}

/// Sends `message` if its head finds room. The last [`MOST_COPIED`] bytes of a request are copied
/// where they find none, and sent in later polls; data before them and that of a reply waits.
pub fn try_send(message: &Message<'_>) -> Result<(), Busy> {
    try_send_parts(message, true)
}

fn try_send_parts(message: &Message<'_>, may_refuse: bool) -> Result<(), Busy> {
    transmit(message, &mut |piece, left| {
        let waits = match left {
            Some(left) => message.class == Class::Reply || left > MOST_COPIED,
            None => message.class == Class::Reply && !may_refuse,
        };
        if waits {
            inject::send(piece);
            return Ok(());
        }
        deferred::send(piece, left.is_none() && may_refuse)
    })
}

/// Takes a part of a Long: the head, the only one that it may refuse, or data and the number of
/// bytes from there to the end.
type Out<'a> = &'a mut dyn FnMut(&Message<'_>, Option<usize>) -> Result<(), Busy>;

/// Passes all messages to `out`.
fn transmit(message: &Message<'_>, out: Out<'_>) -> Result<(), Busy> {
    let id = next_id();
    let (head, length) = Head::encode(message, super::kind::LONG);
    out(
        &part(message, internal::LONG_HEAD, &[id], (head.as_ptr(), length)),
        None,
    )?;
    let most = max_medium(Some(message.target.rank));
    for offset in (0..message.bytes).step_by(most) {
        let bytes = most.min(message.bytes - offset);
        let [a, b] = split((message.destination + offset) as u64);
        out(
            &part(
                message,
                internal::LONG_DATA,
                &[id, a, b],
                (message.payload.wrapping_add(offset), bytes),
            ),
            Some(message.bytes - offset),
        )?;
    }
    Ok(())
}

/// A message of the runtime's own with a part of `whole`.
pub(super) fn part<'a>(whole: &Message<'_>, handler: u8, args: &'a [Arg], payload: (*const u8, usize)) -> Message<'a> {
    Message::internal(whole.class, whole.target, handler, args, Some(payload))
}

/// Receiver: the head of a Long. Returns false if the message is malformed.
pub fn on_head(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[id] = args else { return false };
    let Some(head) = Head::decode(payload, bytes) else {
        return false;
    };
    let header = &head.header;
    let (address, total) = (header.destination as usize, header.bytes as usize);
    if total == 0 || total > MAX_LONG || header.target_ep != token.target_ep {
        return false;
    }
    if !header.is_for_client() || runtime::get().own_mem(token.target_ep, address, total).is_none() {
        return false;
    }
    update(token, id as u32, |partial| partial.head.replace(head).is_none())
}

/// Receiver: data of a Long. Returns false if the message is malformed.
pub fn on_data(token: &Token, args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[id, a, b] = args else { return false };
    let address = join(a, b) as usize;
    let to = runtime::get().own_mem(token.target_ep, address, bytes);
    let Some(to) = to.filter(|_| bytes > 0) else {
        return false;
    };
    // SAFETY: the destination is in our segment (checked), the payload in the packet.
    reach::serving(token.source.rank, token.target_ep, address, bytes, || unsafe {
        mk::copy(to, MemRef::host(payload), bytes);
    });
    update(token, id as u32, |partial| {
        partial.received += bytes;
        true
    })
}

/// Counts received bytes, and runs the handler at the last one. Returns false if `change` does, or
/// if more bytes arrive than announced.
fn update(token: &Token, id: u32, change: impl FnOnce(&mut Partial) -> bool) -> bool {
    let key = (token.source.rank, id);
    let complete = {
        let mut arriving = gasnet_sys::lock(&PARTIAL_LONGS);
        let arriving = arriving.get_or_insert_with(HashMap::new);
        let partial = arriving.entry(key).or_default();
        if !change(partial) {
            return false;
        }
        match partial.head {
            Some(head) if partial.received == head.header.bytes as usize => {
                arriving.remove(&key);
                Some(head)
            }
            Some(head) if partial.received > head.header.bytes as usize => return false,
            _ => None,
        }
    };
    if let Some(head) = complete {
        deliver::run_long(token.source.rank, token.class, &head);
    }
    true
}
