//! Acknowledgements of puts over packets. A message of its own for each would cost as much as the
//! put: those of a stream of puts wait for the end of the poll that delivers them, or for the next
//! handler of the client's, which may take long, and leave together.

use super::token::Token;
use super::unacknowledged::{Entry, MOST};
use super::{inject, internal, split, Arg, Message};
use crate::thread::{self, Thread};
use crate::types::Location;
use gasnet_conduit::Class;

/// Bytes of the longest packet whose acknowledgement waits: that of a long one costs little beside
/// it, and the sender may wait for its room.
const MOST_BYTES: usize = 8 << 10;

/// Acknowledges `bytes` bytes of a put to the sender of `token`: at once or, if it may wait, with
/// others.
pub fn acknowledge(token: &Token, transfer: u64, bytes: usize, may_wait: bool) {
    let may_wait = may_wait && bytes <= MOST_BYTES;
    let (thread, entry) = (thread::current(), [transfer, bytes as u64]);
    if !may_wait && thread.unacknowledged.is_empty() {
        return send(token.source, &[entry]);
    }
    while !thread.unacknowledged.add(token.source, entry) {
        flush(thread);
    }
    if !may_wait {
        flush(thread);
    }
}

/// Acknowledges what the thread has not yet acknowledged. Waits for room as a reply does, in polls
/// that deliver no request, and so nothing to acknowledge.
pub fn flush(thread: &Thread) {
    let mut copy = [[0; 2]; MOST];
    if let Some((to, entries)) = thread.unacknowledged.take(&mut copy) {
        send(to, entries);
    }
}

fn send(to: Location, entries: &[Entry]) {
    let message = |handler, args, payload| Message::internal(Class::Reply, to, handler, args, payload);
    if let &[[transfer, bytes]] = entries {
        let [a, b] = split(transfer);
        return inject::send(&message(internal::RMA_PUT_DONE, &[a, b, bytes as Arg], None));
    }
    let payload = (entries.as_ptr().cast(), size_of_val(entries));
    inject::send(&message(internal::RMA_PUTS_DONE, &[], Some(payload)));
}

/// The entries of a message about several puts. None if it is malformed.
///
/// # Safety
/// `payload` has `bytes` bytes.
pub unsafe fn parse(payload: *const u8, bytes: usize) -> Option<impl Iterator<Item = Entry>> {
    // SAFETY: the entries lie within `bytes`, at any alignment.
    let entry = move |i| unsafe { payload.cast::<Entry>().add(i).read_unaligned() };
    (bytes % size_of::<Entry>() == 0).then(|| (0..bytes / size_of::<Entry>()).map(entry))
}
