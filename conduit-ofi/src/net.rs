//! A started conduit: its parts.

use crate::connect_timeout::ConnectTimeouts;
use crate::link::Link;
use crate::receive::deliver::Receiver;
use crate::rma::OneSided;
use crate::send::{held_of, send_reserved, Messages};
use crate::stale_shm::StaleShm;
use gasnet_conduit::{Busy, Class, JobRank, LocalCompletion, Put, PutNotify, SendBuffer, SendBuffers};

/// A started conduit.
pub struct Net {
    /// Completions that a poll takes at most.
    pub completions: usize,
    /// Peers to which operations wait.
    pub connect_timeouts: ConnectTimeouts,
    pub stale_shm: StaleShm,
    pub messages: Messages,
    pub receiver: Receiver,
    // Last: what is above has regions of its endpoint.
    pub rma: OneSided,
}

impl Net {
    /// The endpoint and its peers.
    #[inline]
    pub fn link(&self) -> &Link {
        &self.rma.link
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: nobody else has this any more; regions are dropped next.
        unsafe { self.rma.close() };
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.messages.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        self.messages.reserve(self.link(), bytes)
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        send_reserved(self.link(), peer, class, buffer, bytes)
    }

    fn release(&self, buffer: SendBuffer) {
        held_of(buffer).release();
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.messages.packed_limit(self.rma.abilities.announces)
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        self.messages.put_and_notify(&self.rma, put, reserved, (class, parts))
    }
}
