//! Packets whose payload the HCA reads from the client's memory: one work request with two pieces,
//! the front in a buffer and the payload in place.

use crate::buffers::AsLocal;
use crate::credits::SendReservation;
use crate::ffi::{Local, Work};
use crate::operations::CompletionAction;
use crate::send::Messages;
use gasnet_conduit::{Busy, Gather, GatheredPacket, LocalCompletion, SourceUse};

impl Gather for Messages {
    fn gather_limit(&self) -> usize {
        self.gather.unwrap_or(usize::MAX)
    }

    fn send_gathered(&self, packet: &GatheredPacket<'_>) -> Result<LocalCompletion, Busy> {
        let Some(reservation) = self.reserve_send(packet.peer, packet.class)? else {
            return Ok(LocalCompletion::AtReturn);
        };
        let sent = self.gather_or_copy(&reservation, packet);
        if sent.is_err() {
            reservation.cancel(&self.fabric.peers);
        }
        sent
    }
}

impl Messages {
    /// A client that waits for its payload waits less for a copy than for an acknowledgement.
    fn gather_or_copy(
        &self,
        reservation: &SendReservation<'_>,
        packet: &GatheredPacket<'_>,
    ) -> Result<LocalCompletion, Busy> {
        let queue = reservation.connection.queue(0);
        let rail = queue.rail;
        let key = match packet.source {
            SourceUse::Later if packet.front.len() + packet.bytes <= self.eager => {
                self.fabric.local(&packet.payload, rail, false)
            }
            _ => None,
        };
        let Some((lkey, _)) = key.filter(|(_, room)| packet.bytes <= *room) else {
            // SAFETY: the runtime keeps the payload readable until local completion.
            let payload = unsafe { std::slice::from_raw_parts(packet.payload.address as *const u8, packet.bytes) };
            self.assemble_and_send(reservation, &[packet.front, payload])?;
            return Ok(LocalCompletion::AtReturn);
        };
        let (front, bytes) = self.buffered(reservation.class, &[packet.front])?;
        let payload = Local {
            address: packet.payload.address,
            bytes: packet.bytes,
            lkey,
        };
        let work = Work::gather(&front.local(rail, bytes), &payload, self.word(reservation));
        let done = CompletionAction::Gathered(packet.cookie, front);
        self.fabric.post(queue, work, done)?;
        Ok(LocalCompletion::Later)
    }
}
