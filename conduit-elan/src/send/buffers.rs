//! Send buffers that clients fill.

use super::is_short;
use crate::buffers::BUFFER;
use crate::net::Net;
use crate::wire::{Content, QueuedMessage};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        BUFFER
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= BUFFER, "defect: a buffer of {bytes} bytes");
        self.link().buffers.reserve().ok_or(Busy)
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let (messages, link) = (&self.messages, self.link());
        if is_short(link, bytes) {
            // SAFETY: the client has written as many bytes of the buffer.
            let message = unsafe { std::slice::from_raw_parts(buffer.0, bytes) };
            messages.send(link, peer, class, &[message])?;
            self.release(buffer);
            return Ok(());
        }
        messages.take_credit(link, peer, class)?;
        // SAFETY: the client gives up what `reserve` has given it.
        let content = Content::Long(unsafe { link.buffers.reserved(buffer) }, bytes);
        messages.send_queued(link, QueuedMessage { peer, class, content });
        Ok(())
    }

    fn release(&self, buffer: SendBuffer) {
        // SAFETY: the client gives up what `reserve` has given it.
        unsafe { self.link().buffers.reserved(buffer) }.release();
    }
}
