//! Messages of the runtime that found no room and must not wait: later polls send them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{inject, Arg, Message};
use crate::types::Location;
use gasnet_conduit::{Busy, Class};
use gasnet_sys::atomic::Mutex;

/// Tries to send the next message of an operation. Returns whether that was the last one.
type Next = Box<dyn FnMut() -> Result<bool, Busy> + Send>;

/// How an operation sends a message: [`inject::try_send`] or [`wait_for_room`].
pub type SendMessage<'a> = &'a mut dyn FnMut(&Message<'_>) -> Result<(), Busy>;

/// Sends a message, waiting for room.
pub fn wait_for_room(message: &Message<'_>) -> Result<(), Busy> {
    inject::send(message);
    Ok(())
}

/// Messages that one poll sends at most.
const BATCH: usize = 64;

static WAITING: Mutex<VecDeque<Next>> = Mutex::new(VecDeque::new());
static WAITING_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Lets polls call `next` until it has sent its last message. It must not poll.
pub fn later(next: impl FnMut() -> Result<bool, Busy> + Send + 'static) {
    gasnet_sys::lock(&WAITING).push_back(Box::new(next));
    WAITING_COUNT.fetch_add(1, Ordering::Relaxed);
}

/// A request that waits for room.
#[derive(Debug)]
struct Deferred {
    peer: Location,
    handler: u8,
    args: Vec<Arg>,
    data: Vec<u8>,
}

impl Deferred {
    fn send(&self) -> Result<bool, Busy> {
        let payload = (!self.data.is_empty()).then_some((self.data.as_ptr(), self.data.len()));
        let message = Message::internal(Class::Request, self.peer, self.handler, &self.args, payload);
        inject::try_send(&message).map(|()| true)
    }
}

/// Sends one request, or queues a copy. The `first` message of an operation is refused instead.
pub fn send(message: &Message<'_>, first: bool) -> Result<(), Busy> {
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
            let deferred = Deferred {
                peer: message.target,
                handler: message.handler,
                args: message.args.to_vec(),
                data,
            };
            later(move || deferred.send());
            Ok(())
        }
    }
}

/// Sends messages that wait, in order, until one finds no room. Returns how many went out.
#[inline]
pub fn progress() -> usize {
    if WAITING_COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    send_waiting()
}

#[cold]
fn send_waiting() -> usize {
    let Ok(mut queue) = WAITING.try_lock() else { return 0 };
    let mut sent = 0;
    while sent < BATCH {
        let Some(next) = queue.front_mut() else { break };
        let Ok(was_last) = next() else { break };
        sent += 1;
        if was_last {
            queue.pop_front();
            WAITING_COUNT.fetch_sub(1, Ordering::Relaxed);
        }
    }
    sent
}
