//! Puts that notify: Longs whose message follows their payload.

use crate::buffers::Use;
use crate::net::Net;
use crate::operations::CompletionAction;
use crate::rma::Source;
use crate::transfers::Transfer;
use crate::wire::HEAD;
use gasnet_conduit::{Busy, Class, LocalCompletion, Put, PutNotify, SendBuffer};

/// Room for the header and the arguments of a Long beside its payload.
const ARGUMENTS: usize = 128;

impl PutNotify for Net {
    /// The payload of a short message.
    fn packed_limit(&self) -> usize {
        self.rma.link.shim.info.queue_bytes as usize - HEAD - ARGUMENTS
    }

    /// The message is sent when the payload has arrived.
    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let Self { messages, rma, .. } = self;
        let (link, purpose) = (&rma.link, Use::of(class));
        rma.operation(purpose, || {
            let place = rma.channels.take().ok_or(Busy)?;
            let message = messages.prepare(link, put.to.peer, class, parts)?;
            let source = match reserved {
                Some(buffer) => Ok(Some(Source {
                    address: put.from.address,
                    // SAFETY: the client gives up what `reserve` has given it: this put is not busy.
                    buffer: Some(unsafe { link.buffers.reserved(buffer) }),
                    is_in_use: false,
                })),
                None => rma.source(put, purpose),
            };
            match source {
                Err(Busy) => {
                    messages.cancel_queued(message);
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
        })
    }
}
