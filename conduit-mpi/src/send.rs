//! Sending messages.

mod buffers;

use crate::ffi::Handle;
use crate::link::{Link, Message};
use crate::wire::{kind, HEADER, MOST_CREDITS};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::parts::{gather, length};
use gasnet_conduit_util::record::Record;

impl<H: Handle> Link<H> {
    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes = length(parts);
        assert!(
            bytes <= self.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        let Some(reservation) = self.peers.reserve(peer, class, bytes)? else {
            return Ok(());
        };
        let Some(mut buffer) = self.buffer(class, bytes) else {
            return Err(self.peers.account(peer).cancel(&reservation));
        };
        let (header, packet) = buffer.bytes(HEADER + bytes).split_at_mut(HEADER);
        self.header(kind::of(class), bytes, reservation.credits).put(header);
        gather(parts, packet);
        self.start(Message {
            to: peer,
            buffer,
            bytes: HEADER + bytes,
        })
    }

    /// Starts to send a message, unless this process has stopped.
    fn start(&self, message: Message) -> Result<(), Busy> {
        let Some(mut turn) = self.turn() else {
            message.buffer.release();
            return Err(Busy);
        };
        self.post(&mut turn, message);
        Ok(())
    }

    /// Returns credits to a peer in a message of their own.
    pub fn return_credits(&self, peer: JobRank) {
        let owed = self.peers.credits(peer);
        let Some(mut buffer) = self.buffer(Class::Reply, 0) else {
            return self.peers.limits.note(peer, owed);
        };
        let credits = owed.take_owed(MOST_CREDITS);
        self.header(kind::CREDITS, 0, credits).put(buffer.bytes(HEADER));
        // A process that has stopped owes nothing any more.
        let _ = self.start(Message {
            to: peer,
            buffer,
            bytes: HEADER,
        });
    }
}
