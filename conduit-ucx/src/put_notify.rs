//! Longs whose payload is put. UCX orders neither messages nor puts, so the packet is sent when a
//! flush has completed the put.

use crate::net::Net;
use crate::operations::AfterPut;
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
        assert!(reserved.is_none(), "defect: a send buffer, but there are none");
        let link = self.link();
        let Some((message, reservation)) = self.messages.prepare(link, put.to.peer, class, parts)? else {
            return Ok(LocalCompletion::AtReturn);
        };
        let begun = self.rma.begin_put(put, AfterPut::Send(message, length(parts)));
        begun.map_err(|Busy| reservation.cancel(&link.peers))
    }
}
