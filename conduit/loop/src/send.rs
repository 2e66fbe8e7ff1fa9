//! Sending packets.

use crate::buffers::BYTES;
use crate::memory::Memory;
use crate::queue::Content;
use crate::replies;
use crate::rma::COPY_LIMIT;
use crate::start::{Net, LOST};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{
    Busy, Class, Gather, GatheredPacket, JobRank, LocalCompletion, SendBuffer, SendBuffers, SourceUse, PACKET_ALIGN,
};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

/// Least payload that is not copied.
const GATHER_LIMIT: usize = 1 << 10;

impl Net {
    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        check_packet(parts.iter().map(|part| part.len()).sum());
        self.post(peer, class, || Content::Copied(parts.concat())).map(|_| ())
    }

    /// Posts a packet, and returns whether it was posted: packets to a peer that has stopped are
    /// dropped, because the job is ending.
    fn post(&self, peer: JobRank, class: Class, content: impl FnOnce() -> Content) -> Result<bool, Busy> {
        if self.stopped.load(Relaxed) || self.states[peer.index()].load(Relaxed) == LOST {
            return Err(Busy);
        }
        if !self.is_present(peer) {
            return Ok(false);
        }
        lock(&self.queue).send(peer, class, content)?;
        replies::note(peer, class);
        self.ring();
        Ok(true)
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        BYTES
    }

    fn reserve(&self, peer: JobRank, class: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        let address = lock(&self.buffers).reserve(peer, class, bytes)?;
        Ok(SendBuffer(address as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        check_packet(bytes);
        let address = buffer.0 as usize;
        lock(&self.buffers).send(address, peer, class);
        match self.post(peer, class, || Content::Reserved(address, bytes)) {
            Ok(true) => {}
            Ok(false) => lock(&self.buffers).free(address),
            Err(Busy) => {
                lock(&self.buffers).keep(address, peer, class);
                return Err(Busy);
            }
        }
        Ok(())
    }

    fn release(&self, buffer: SendBuffer) {
        lock(&self.buffers).release(buffer.0 as usize);
    }
}

impl Gather for Net {
    fn gather_limit(&self) -> usize {
        GATHER_LIMIT
    }

    fn send_gathered(&self, packet: &GatheredPacket<'_>) -> Result<LocalCompletion, Busy> {
        let GatheredPacket {
            front, payload, bytes, ..
        } = *packet;
        check_packet(front.len() + bytes);
        assert!(
            front.len() % PACKET_ALIGN == 0 && bytes >= GATHER_LIMIT,
            "defect: a gather of {} and {bytes} bytes",
            front.len()
        );
        let address = lock(&self.keys).local(&payload, bytes);
        let copies = packet.source == SourceUse::Now && bytes <= COPY_LIMIT;
        let posted = self.post(packet.peer, packet.class, || {
            if copies {
                // SAFETY: the caller keeps the payload until local completion.
                let payload = unsafe { Memory::new(address, bytes) }.read();
                Content::Copied([front, &payload].concat())
            } else {
                Content::Gathered(front.to_vec(), (address, bytes), packet.cookie)
            }
        })?;
        Ok(if copies || !posted {
            LocalCompletion::AtReturn
        } else {
            LocalCompletion::Later
        })
    }
}

/// Verifies the length of a packet.
pub fn check_packet(bytes: usize) {
    assert!(
        bytes <= MAX_PACKET_BYTES,
        "defect: a packet of {bytes} bytes is longer than the conduit's limit"
    );
}
