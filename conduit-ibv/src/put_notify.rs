//! Longs whose data is put: a message follows the put on the same queue pair.

use crate::buffers::AsLocal;
use crate::credits::SendReservation;
use crate::fabric::Fabric;
use crate::ffi::Work;
use crate::operations::CompletionAction;
use crate::rma::{extent_of, in_place, local_completion, Operations};
use crate::route::Route;
use crate::send::buffers::buffer_of;
use crate::send::message::ROOM;
use crate::transfers::{Following, Transfer};
use gasnet_conduit::{Busy, Class, Completion, LocalCompletion, Put, PutNotify, SendBuffer};
use gasnet_conduit_util::report::Report;

/// A message that follows a put.
struct Notice<'a> {
    reservation: &'a SendReservation<'a>,
    parts: &'a [&'a [u8]],
}

impl PutNotify for Operations {
    fn packed_limit(&self) -> usize {
        self.packed
    }

    /// The message follows the put on the same queue pair: a receiver completes it after the bytes
    /// of the put (InfiniBand specification, volume 1, 9.5, "transaction ordering").
    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let Some(reservation) = self.messages.reserve_send(put.to.peer, class)? else {
            if let Some(reserved) = reserved {
                buffer_of(reserved).release();
            }
            return Ok(LocalCompletion::AtReturn);
        };
        let started = self.put_then_send(put, reserved, &reservation, parts);
        if started.is_err() {
            reservation.cancel(&self.fabric().peers);
        }
        started
    }
}

impl Operations {
    fn put_then_send(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        reservation: &SendReservation<'_>,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let (queue, fabric) = (reservation.connection.queue(put.bytes), self.fabric());
        let rail = queue.rail;
        let Some(remote) = fabric.remote(&put.to, put.bytes, &queue) else {
            return self.put_long_then_send(put, reserved, reservation, parts);
        };
        // The reserved buffer stays the client's if this is refused.
        let is_reserved = reserved.is_some();
        let (work, done) = match reserved {
            Some(reserved) => {
                let buffer = buffer_of(reserved);
                let lkey = buffer.local(rail, 0).lkey;
                (
                    Work::write(&in_place(put, lkey), remote),
                    CompletionAction::Buffer(buffer),
                )
            }
            None => match self.put_at_once::<true, _>(put, rail, remote, |work, done| (work, done))? {
                Some(posted) => posted,
                None => return self.put_long_then_send(put, None, reservation, parts),
            },
        };
        let local_completion = local_completion(&done);
        self.post_with_message(queue, work, done, Notice { reservation, parts })
            .map_err(|done| {
                match done {
                    CompletionAction::Buffer(buffer) if is_reserved => {
                        buffer.into_address();
                    }
                    done => done.release(),
                }
                Busy
            })?;
        Ok(local_completion)
    }

    /// Posts a put and the message that follows it. If neither is posted, the put is the caller's
    /// again.
    #[inline(always)]
    fn post_with_message(
        &self,
        queue: Route<'_>,
        work: Work,
        done: CompletionAction,
        notice: Notice<'_>,
    ) -> Result<(), CompletionAction> {
        let (messages, fabric, Notice { reservation, parts }) = (&self.messages, self.fabric(), notice);
        let mut room = ROOM;
        let Ok(message) = messages.message(reservation.class, parts, &mut room) else {
            return Err(done);
        };
        let Some(mut guard) = fabric.lock_for_two(queue) else {
            message.release();
            return Err(done);
        };
        // SAFETY: the runtime keeps its memory until local completion, and buffers are released
        // then.
        if let Err((done, why)) = unsafe { guard.post(work, done) } {
            drop(guard);
            message.release();
            let _ = fabric.refused(queue, "a put", why);
            return Err(done);
        }
        let sent = Fabric::post_message(&mut guard, message, messages.word(reservation));
        drop(guard);
        if let Err(why) = sent {
            // There was room for both, so this is no lack of it.
            let text = format!("{}: sending a message failed: {why}", fabric.name(queue.path));
            fabric.peers.states.lose(queue.peer(), text);
        }
        Ok(())
    }

    /// The same with a put of several work requests, or of memory that is to be registered.
    #[cold]
    fn put_long_then_send(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        reservation: &SendReservation<'_>,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        self.stalled.admit()?;
        let queue = reservation.connection.queue(put.bytes);
        let (buffer, bytes) = self.messages.buffered(reservation.class, parts)?;
        let source = reserved.map(buffer_of);
        let (report, completion) = match &source {
            Some(_) => (Report::Nothing, LocalCompletion::AtReturn),
            None => (Report::Part(put.cookie, Completion::Source), LocalCompletion::Later),
        };
        let message = Following {
            buffer,
            bytes,
            word: self.messages.word(reservation),
        };
        let transfer = Transfer::new(extent_of(put), queue.path, report);
        self.begin(transfer.with_message(source, message));
        Ok(completion)
    }
}
