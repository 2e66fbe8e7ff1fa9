//! Puts and gets, at both ends.

use super::{lock, Net};
use crate::memory::ClientMemory;
use crate::peer_table::{Connection, ALIVE};
use crate::transfers::PutOp;
use gasnet_conduit::{Busy, JobRank, LocalCompletion, TransferId};
use std::sync::atomic::Ordering::Relaxed;

/// A put to begin; see [`gasnet_conduit::Conduit::put`].
pub struct PutRequest {
    /// Where to, in the peer's address space.
    pub destination: usize,
    /// Where from.
    pub source: *const u8,
    /// How many bytes.
    pub bytes: usize,
    /// Up to so many bytes are copied at once.
    pub copy_limit: usize,
    /// Names it when it is complete.
    pub id: TransferId,
}

/// A get to begin; see [`gasnet_conduit::Conduit::get`].
pub struct GetRequest {
    /// Where to.
    pub destination: *mut u8,
    /// Where from, in the peer's address space.
    pub source: usize,
    /// How many bytes.
    pub bytes: usize,
    /// Names it when it is complete.
    pub id: TransferId,
}

impl Net {
    fn live_connection(&self, rank: JobRank) -> Result<&Connection, Busy> {
        let status = self.peers[rank as usize].status.load(Relaxed);
        if status != ALIVE || self.stopped.load(Relaxed) {
            return Err(Busy);
        }
        Ok(self.connection(rank))
    }

    /// Peers may name this segment no longer, and its memory is looked at no more. They have all that they got of it, but this process may not know that.
    pub fn unregister_segment(&self, base: usize, bytes: usize) {
        self.segments.unregister(base, bytes);
        // SAFETY: readable, for it was a segment until now.
        let memory = unsafe { ClientMemory::new(base, bytes) };
        for connection in self.connections() {
            lock(&connection.state).release_memory(&self.keys, memory);
        }
    }

    /// Begins a put; see [`gasnet_conduit::Conduit::put`]. Up to `copied` bytes are copied at once.
    pub fn put(&self, rank: JobRank, request: &PutRequest) -> Result<LocalCompletion, Busy> {
        let connection = self.live_connection(rank)?;
        // SAFETY: a source is readable until the put is complete, by the contract of the trait. It is not written.
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
        // SAFETY: a destination is writable until the get is complete, by the contract of the trait.
        let destination = unsafe { ClientMemory::new(request.destination as usize, request.bytes) };
        let mut peer = lock(&connection.state);
        peer.get(&self.keys, request.source, destination, request.id)?;
        // What is asked for is short, whatever comes back.
        if !self.try_coalesce(rank, &mut peer, 0) {
            self.transmit_and_track(rank, connection, &mut peer, self.now());
        }
        Ok(())
    }
}
