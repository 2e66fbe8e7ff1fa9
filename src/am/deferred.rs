//! Requests of the runtime that found no room and must not wait are copied and sent in later polls.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{inject, Arg, Message};
use crate::types::Location;
use gasnet_conduit::{Busy, Class};
use gasnet_sys::atomic::Mutex;

/// A request that waits for room.
#[derive(Debug)]
struct Deferred {
    peer: Location,
    handler: u8,
    args: Vec<Arg>,
    data: Vec<u8>,
}

static WAITING: Mutex<VecDeque<Deferred>> = Mutex::new(VecDeque::new());
static WAITING_COUNT: AtomicUsize = AtomicUsize::new(0);

fn waiting() -> gasnet_sys::atomic::MutexGuard<'static, VecDeque<Deferred>> {
    gasnet_sys::lock(&WAITING)
}

/// Sends one request, or queues a copy. The `first` message of an IMMEDIATE call is refused
/// instead.
pub fn send(message: &Message<'_>, first: bool, immediate: bool) -> Result<(), Busy> {
    if !immediate {
        inject::send(message);
        return Ok(());
    }
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
            waiting().push_back(deferred);
            WAITING_COUNT.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
}

/// Sends requests that wait, in order, until one finds no room. Returns how many went out.
#[inline]
pub fn progress() -> usize {
    if WAITING_COUNT.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    send_waiting()
}

#[cold]
fn send_waiting() -> usize {
    let mut queue = waiting();
    let mut sent = 0;
    while let Some(deferred) = queue.front() {
        let payload = (!deferred.data.is_empty()).then_some((deferred.data.as_ptr(), deferred.data.len()));
        let message = Message::internal(Class::Request, deferred.peer, deferred.handler, &deferred.args, payload);
        if inject::try_send(&message).is_err() {
            break;
        }
        queue.pop_front();
        WAITING_COUNT.fetch_sub(1, Ordering::Relaxed);
        sent += 1;
    }
    sent
}
