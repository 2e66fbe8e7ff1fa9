//! Send buffers that clients fill.

use super::Messages;
use crate::buffers::{AsLocal, Buffer};
use crate::ffi::Work;
use crate::operations::CompletionAction;
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};

/// The buffer that was reserved.
pub fn buffer_of(reserved: SendBuffer) -> Buffer {
    // SAFETY: the runtime returns what `reserve` has given it, once.
    unsafe { Buffer::from_address(reserved.0 as usize) }
}

impl SendBuffers for Messages {
    fn max_bytes(&self) -> usize {
        self.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= self.max_bytes(), "defect: a send buffer of {bytes} bytes");
        let buffer = self.pools.reserved.take(self.fabric.domains()).ok_or(Busy)?;
        Ok(SendBuffer(buffer.into_address() as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let reservation = self.reserve_send(peer, class)?;
        let mut held = buffer_of(buffer);
        let Some(reservation) = reservation else {
            held.release();
            return Ok(());
        };
        let queue = reservation.connection.queue(0);
        let keep = |held: Buffer| {
            held.into_address();
            reservation.cancel(&self.fabric.peers);
        };
        if reservation.connection.rings.takes(bytes) {
            let written = self.write(&reservation, &[held.bytes(bytes)], bytes);
            match written {
                Ok(()) => held.release(),
                Err(Busy) => keep(held),
            }
            return written;
        }
        if bytes > self.eager {
            return self.offer(&reservation, held, bytes).map_err(|held| {
                keep(held);
                Busy
            });
        }
        let Some(mut guard) = self.fabric.lock_queue(queue) else {
            keep(held);
            return Err(Busy);
        };
        let rail = queue.rail;
        let work = Work::send(&held.local(rail, bytes), self.word(&reservation));
        // SAFETY: the buffer is released after completion.
        let posted = unsafe { guard.post(work, CompletionAction::Buffer(held)) };
        drop(guard);
        posted.map_err(|(done, why)| {
            if let CompletionAction::Buffer(held) = done {
                keep(held);
            }
            self.fabric.refused(queue, "sending a message", why)
        })
    }

    fn release(&self, buffer: SendBuffer) {
        buffer_of(buffer).release();
    }
}
