//! Puts and gets.

use super::Net;
use crate::copy_limit;
use crate::memory::ClientMemory;
use crate::peers::Connection;
use crate::transfers::PutOp;
use gasnet_conduit::{Busy, Get, JobRank, LocalCompletion, Put, Rma};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

impl Net {
    fn live_connection(&self, rank: JobRank) -> Result<&Connection, Busy> {
        if !self.states.is_present(rank) || self.stopped.load(Relaxed) {
            return Err(Busy);
        }
        Ok(self.connection(rank))
    }

    /// Ends the access of peers to a segment; its memory is not read afterwards. Peers have
    /// received all replies to their gets from it, but the last acknowledgements may be
    /// outstanding.
    pub fn unregister_segment(&self, segment: u32) {
        let Some((base, bytes)) = self.segments.unregister(segment) else {
            return;
        };
        // SAFETY: the memory is readable, because it was registered until now.
        let memory = unsafe { ClientMemory::new(base, bytes) };
        for connection in self.connections() {
            lock(&connection.state).release_memory(&self.keys, memory);
        }
    }
}

impl Rma for Net {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let rank = put.to.peer;
        let connection = self.live_connection(rank)?;
        // SAFETY: by the contract of the trait the source is readable until the put is complete. It
        // is not written.
        let source = unsafe { ClientMemory::new(put.from.address, put.bytes) };
        let mut peer = lock(&connection.state);
        let local = peer.put(
            &self.keys,
            PutOp {
                address: put.to.address,
                source,
                copy_limit: copy_limit(put.source),
                id: put.cookie,
            },
        )?;
        if !self.try_coalesce(rank, &mut peer, put.bytes) {
            self.transmit_and_track(rank, connection, &mut peer, self.now());
        }
        Ok(local)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let rank = get.from.peer;
        let connection = self.live_connection(rank)?;
        // SAFETY: by the contract of the trait the destination is writable until the get is
        // complete.
        let destination = unsafe { ClientMemory::new(get.to.address, get.bytes) };
        let mut peer = lock(&connection.state);
        peer.get(&self.keys, get.from.address, destination, get.cookie)?;
        // The request is short, however long the reply is.
        if !self.try_coalesce(rank, &mut peer, 0) {
            self.transmit_and_track(rank, connection, &mut peer, self.now());
        }
        Ok(())
    }
}
