//! Puts and gets.

use super::Net;
use crate::memory::ClientMemory;
use crate::peer_table::{Connection, ALIVE};
use crate::transfers::PutOp;
use gasnet_conduit::{Busy, JobRank, LocalCompletion, TransferId};
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

/// A put to begin; see [`gasnet_conduit::Conduit::put`].
pub struct PutRequest {
    /// Destination, in the peer's address space.
    pub destination: usize,
    /// Source, in this process.
    pub source: *const u8,
    /// Length in bytes.
    pub bytes: usize,
    /// Bytes up to which the source is copied at once.
    pub copy_limit: usize,
    /// Names the put in [`gasnet_conduit::Upcalls::rma_done`].
    pub id: TransferId,
}

/// A get to begin; see [`gasnet_conduit::Conduit::get`].
pub struct GetRequest {
    /// Destination, in this process.
    pub destination: *mut u8,
    /// Source, in the peer's address space.
    pub source: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Names the get in [`gasnet_conduit::Upcalls::rma_done`].
    pub id: TransferId,
}

impl Net {
    fn live_connection(&self, rank: JobRank) -> Result<&Connection, Busy> {
        let status = self.peers[rank.index()].status.load(Relaxed);
        if status != ALIVE || self.stopped.load(Relaxed) {
            return Err(Busy);
        }
        Ok(self.connection(rank))
    }

    /// Ends the access of peers to a segment; its memory is not read afterwards. Peers have
    /// received all replies to their gets from it, but the last acknowledgements may be
    /// outstanding.
    pub fn unregister_segment(&self, base: usize, bytes: usize) {
        self.segments.unregister(base, bytes);
        // SAFETY: the memory is readable, because it was registered until now.
        let memory = unsafe { ClientMemory::new(base, bytes) };
        for connection in self.connections() {
            lock(&connection.state).release_memory(&self.keys, memory);
        }
    }

    /// Begins a put; see [`gasnet_conduit::Conduit::put`].
    pub fn put(&self, rank: JobRank, request: &PutRequest) -> Result<LocalCompletion, Busy> {
        let connection = self.live_connection(rank)?;
        // SAFETY: by the contract of the trait the source is readable until the put is complete. It
        // is not written.
        let source = unsafe { ClientMemory::new(request.source as usize, request.bytes) };
        let mut peer = lock(&connection.state);
        let local = peer.put(
            &self.keys,
            PutOp {
                address: request.destination,
                source,
                copy_limit: request.copy_limit,
                id: request.id,
            },
        )?;
        if !self.try_coalesce(rank, &mut peer, request.bytes) {
            self.transmit_and_track(rank, connection, &mut peer, self.now());
        }
        Ok(local)
    }

    /// Begins a get; see [`gasnet_conduit::Conduit::get`].
    pub fn get(&self, rank: JobRank, request: &GetRequest) -> Result<(), Busy> {
        let connection = self.live_connection(rank)?;
        // SAFETY: by the contract of the trait the destination is writable until the get is
        // complete.
        let destination = unsafe { ClientMemory::new(request.destination as usize, request.bytes) };
        let mut peer = lock(&connection.state);
        peer.get(&self.keys, request.source, destination, request.id)?;
        // The request is short, however long the reply is.
        if !self.try_coalesce(rank, &mut peer, 0) {
            self.transmit_and_track(rank, connection, &mut peer, self.now());
        }
        Ok(())
    }
}
