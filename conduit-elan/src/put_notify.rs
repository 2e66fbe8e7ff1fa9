//! Puts that notify: Longs whose message follows their payload.

use crate::buffers::{Use, BUFFER};
use crate::pending::CompletionAction;
use crate::rma::{OneSided, Source};
use crate::send::Messages;
use crate::transfers::Transfer;
use crate::wire::{length, HEAD};
use gasnet_conduit::{Busy, Class, LocalCompletion, Put, SendBuffer};

/// Room for the header and the arguments of a Long beside its payload.
const ARGUMENTS: usize = 128;

/// A put that is followed by a message.
#[derive(Clone, Copy)]
pub struct LongPut<'a> {
    pub put: &'a Put,
    /// The buffer of its source, if the client has filled one.
    pub filled: Option<SendBuffer>,
    pub class: Class,
    pub parts: &'a [&'a [u8]],
}

/// Largest payload that travels in its message.
pub fn packed_limit(rma: &OneSided) -> usize {
    rma.link().shim.info.queue_bytes as usize - HEAD - ARGUMENTS
}

impl Messages {
    /// Puts, and sends a message when the payload has arrived.
    pub fn put_and_notify(&self, rma: &OneSided, long: LongPut<'_>) -> Result<LocalCompletion, Busy> {
        debug_assert!(length(long.parts) <= BUFFER);
        let purpose = Use::of(long.class);
        rma.operation(purpose, || self.notify_now(rma, long))
    }

    fn notify_now(&self, rma: &OneSided, long: LongPut<'_>) -> Result<LocalCompletion, Busy> {
        let LongPut {
            put,
            filled,
            class,
            parts,
        } = long;
        let (link, purpose) = (rma.link(), Use::of(class));
        let place = rma.channels().take().ok_or(Busy)?;
        let message = self.prepare(link, put.to.peer, class, parts)?;
        let source = match filled {
            Some(buffer) => Ok(Some(Source {
                address: put.from.address,
                buffer: Some(link.buffers.reclaim(buffer)),
                is_in_use: false,
            })),
            None => rma.source(put, purpose),
        };
        match source {
            Err(Busy) => {
                self.cancel_queued(link, message);
                Err(Busy)
            }
            Ok(None) => {
                drop(place);
                let operation = rma.put_in_pieces(put, purpose);
                rma.begin(Transfer::new(operation, Some(message)));
                Ok(LocalCompletion::Later)
            }
            Ok(Some(source)) => Ok(rma.start_put(put, source, place, |is_in_use, buffer| {
                CompletionAction::Payload(Box::new(message), is_in_use.then_some(put.cookie), buffer)
            })),
        }
    }
}
