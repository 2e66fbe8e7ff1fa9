//! Send buffers that clients fill.

use crate::net::Net;
use crate::operations::{self, OwnedOperation};
use crate::send::transmit;
use crate::wire::{Kind, HEADER};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};
use gasnet_conduit_util::record::Record;

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.messages.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= self.max_bytes(), "defect: a send buffer of {bytes} bytes");
        let held = self.messages.reserved.take().ok_or(Busy)?;
        Ok(SendBuffer((held.into_address() + HEADER) as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let link = self.link();
        let Some(reservation) = link.peers.reserve(peer, class, bytes)? else {
            self.release(buffer);
            return Ok(());
        };
        let mut held = held_of(buffer);
        (held.kind, held.peer) = (operations::Kind::Packet(class), peer);
        link.header(reservation.credits).put(held.bytes(HEADER));
        transmit(link, held, Kind::Packet(class), bytes).map_err(|held| {
            held.into_address();
            link.peers.account(peer).cancel(&reservation)
        })
    }

    fn release(&self, buffer: SendBuffer) {
        held_of(buffer).release();
    }
}

/// The operation whose bytes begin [`HEADER`] before a send buffer.
pub fn held_of(buffer: SendBuffer) -> OwnedOperation {
    // SAFETY: the runtime returns what `reserve` has given it, once.
    unsafe { OwnedOperation::from_address(buffer.0 as usize - HEADER) }
}
