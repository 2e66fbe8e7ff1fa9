//! Send buffers that clients fill.

use super::Filled;
use crate::buffers::Bounces;
use crate::net::Net;
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.posts().buffers.pool.bytes()
    }

    fn reserve(&self, _: JobRank, _: Class, _: usize) -> Result<SendBuffer, Busy> {
        let bounce = self.posts().buffers.reserve().ok_or(Busy)?;
        Ok(SendBuffer(bounce.into_address() as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        // SAFETY: the client gives up what `reserve` has given it. If busy, it is not released.
        let bounce = unsafe { Bounces::reserved(buffer) };
        let filled = Filled { bounce, bytes };
        self.messages.send_reserved(self.posts(), peer, class, filled)
    }

    fn release(&self, buffer: SendBuffer) {
        // SAFETY: the client gives up what `reserve` has given it.
        unsafe { Bounces::reserved(buffer) }.release();
    }
}
