//! Sending packets.
#![forbid(unsafe_code)]

use crate::init::{Net, LOST};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

impl Net {
    /// See [`gasnet_conduit::Conduit::send`]. Packets to a peer that has stopped are dropped,
    /// because the job is ending.
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        check_packet(parts);
        if self.stopped.load(Relaxed) || self.fates[peer.index()].load(Relaxed) == LOST {
            return Err(Busy);
        }
        if !self.is_present(peer) {
            return Ok(());
        }
        lock(&self.queue).send(peer, class, || parts.concat())?;
        self.ring();
        Ok(())
    }
}

/// Verifies the length of a packet.
pub fn check_packet(parts: &[&[u8]]) {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    assert!(
        bytes <= MAX_PACKET_BYTES,
        "defect: a packet of {bytes} bytes is longer than the conduit's limit"
    );
}
