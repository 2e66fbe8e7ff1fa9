//! Longs whose payload is put. UCX orders neither messages nor puts, so the packet is sent when a
//! flush has completed the put.

use crate::net::Net;
use crate::operations::AfterPut;
use crate::send::buffers::held_of;
use crate::settings;
use gasnet_conduit::{Busy, Class, LocalCompletion, Put, PutNotify, SendBuffer};
use gasnet_conduit_util::parts::length;

impl PutNotify for Net {
    /// All that fit: a put takes a round trip more. Over tcp a Long of 64 KiB takes six times as
    /// long by a put as in a packet.
    fn packed_limit(&self) -> usize {
        self.messages.max_packet - settings::AROUND
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let (link, peer) = (self.link(), put.to.peer);
        let Some(reservation) = self.messages.pay(link, peer, class, parts)? else {
            return Ok(released(reserved));
        };
        let written = self.messages.write(link, peer, (class, reservation.credits), parts);
        let begun = written.and_then(|message| {
            let after = AfterPut::Send(message, length(parts));
            match reserved {
                None => self.rma.begin_put(put, after),
                // A few bytes too long for a packet, which is rare.
                Some(_) => self.rma.put_copy(put, after).map(|_| released(reserved)),
            }
        });
        begun.map_err(|Busy| link.peers.account(peer).cancel(&reservation))
    }
}

/// The local completion of a put, whose source lay in a send buffer if there is one.
fn released(reserved: Option<SendBuffer>) -> LocalCompletion {
    if let Some(buffer) = reserved {
        held_of(buffer).release();
    }
    LocalCompletion::AtReturn
}
