//! Send buffers that clients fill.

use super::transmit;
use crate::credits::SendReservation;
use crate::link::Stalled;
use crate::net::Net;
use crate::operations::{self, take, OwnedOperation};
use crate::wire::{padding, Kind, HEADER};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.messages.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        let most = self.messages.max_packet;
        assert!(bytes <= most, "defect: a send buffer of {bytes} bytes");
        let held = take(&self.messages.reserved, &self.link().endpoint).ok_or(Busy)?;
        let address = held.address() + HEADER;
        held.into_context();
        Ok(SendBuffer(address as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let link = self.link();
        let message = HEADER + bytes + padding(bytes);
        let reservation = SendReservation::take(link, peer, class, message)?;
        let mut held = held_of(buffer);
        let Some(reservation) = reservation else {
            held.release();
            return Ok(());
        };
        let header = link.header(Kind::Packet(class), reservation.credits());
        header.encode(bytes, held.bytes(HEADER));
        (held.kind, held.peer) = (operations::Kind::Packet(class), peer);
        let started = link.or_stall(transmit(link, held, message, reservation.number), |held| {
            Stalled::Message(held, message)
        });
        started.map_err(|(held, why)| {
            held.into_context();
            reservation.refused(link, why)
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
