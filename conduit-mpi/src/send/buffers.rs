//! Send buffers that clients fill.

use crate::ffi::Handle;
use crate::link::{Link, Message};
use crate::operations::Buffer;
use crate::wire::{kind, HEADER};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};
use gasnet_conduit_util::record::Record;

impl<H: Handle> SendBuffers for Link<H> {
    fn max_bytes(&self) -> usize {
        self.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= self.max_packet, "defect: a send buffer of {bytes} bytes");
        let buffer = self.reserved.take_or_make(|| ()).ok_or(Busy)?;
        Ok(SendBuffer((buffer.into_address() + HEADER) as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let Some(reservation) = self.peers.reserve(peer, class, bytes)? else {
            self.release(buffer);
            return Ok(());
        };
        let mut buffer = held_of(buffer);
        self.header(kind::of(class), bytes, reservation.credits)
            .put(buffer.bytes(HEADER));
        // A process that has stopped drops it.
        let _ = self.start(Message {
            to: peer,
            buffer,
            bytes: HEADER + bytes,
        });
        Ok(())
    }

    fn release(&self, buffer: SendBuffer) {
        held_of(buffer).release();
    }
}

/// The buffer whose bytes begin [`HEADER`] before a send buffer.
fn held_of(buffer: SendBuffer) -> Buffer {
    // SAFETY: the runtime returns what `reserve` has given it, once.
    unsafe { Buffer::from_address(buffer.0 as usize - HEADER) }
}
