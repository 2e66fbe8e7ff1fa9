//! Puts and gets, at both ends.

use super::{lock, Net};
use crate::memory::Lent;
use crate::peer_table::{Contact, HERE};
use gasnet_conduit::{Busy, JobRank, LocalCompletion, TransferId};
use std::sync::atomic::Ordering::Relaxed;

impl Net {
    fn partner(&self, rank: JobRank) -> Result<&Contact, Busy> {
        let fate = self.places[rank as usize].fate.load(Relaxed);
        if fate != HERE || self.stopped.load(Relaxed) {
            return Err(Busy);
        }
        Ok(self.contact(rank))
    }

    /// Peers may name this segment no longer, and its memory is looked at no more. They have all that they got of it, but this process may not know that.
    pub fn withdraw(&self, base: usize, bytes: usize) {
        self.segments.remove(base, bytes);
        // SAFETY: readable, for it was a segment until now.
        let memory = unsafe { Lent::new(base, bytes) };
        for contact in self.contacts() {
            lock(&contact.state).give_back(&self.keys, memory);
        }
    }

    /// Begins a put; see [`gasnet_conduit::Conduit::put`]. Up to `copied` bytes are copied at once.
    pub fn put_to(
        &self,
        rank: JobRank,
        address: usize,
        source: (*const u8, usize),
        copied: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        let contact = self.partner(rank)?;
        // SAFETY: a source is readable until the put is complete, by the contract of the trait. It is not written.
        let source = unsafe { Lent::new(source.0 as usize, source.1) };
        let bytes = source.bytes;
        let mut peer = lock(&contact.state);
        let local = peer.put(&self.keys, address, source, copied, id)?;
        if !self.may_wait(rank, &mut peer, bytes) {
            self.push_on(rank, contact, &mut peer, self.now());
        }
        Ok(local)
    }

    /// Begins a get; see [`gasnet_conduit::Conduit::get`].
    pub fn get_from(&self, rank: JobRank, destination: *mut u8, address: usize, bytes: usize, id: TransferId) -> Result<(), Busy> {
        let contact = self.partner(rank)?;
        // SAFETY: a destination is writable until the get is complete, by the contract of the trait.
        let destination = unsafe { Lent::new(destination as usize, bytes) };
        let mut peer = lock(&contact.state);
        peer.get(&self.keys, address, destination, id)?;
        // What is asked for is short, whatever comes back.
        if !self.may_wait(rank, &mut peer, 0) {
            self.push_on(rank, contact, &mut peer, self.now());
        }
        Ok(())
    }
}
