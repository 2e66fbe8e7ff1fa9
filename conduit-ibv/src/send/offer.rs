//! Packets that are larger than the peer's receive buffers, offered to their receivers
//! ([`crate::receive::fetch`]).
#![forbid(unsafe_code)]

use super::Messages;
use crate::buffers::Buffer;
use crate::credits::SendReservation;
use crate::ffi::Remote;
use crate::receive::offer::Offer;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::record::Record;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::HashMap;
use std::sync::atomic::AtomicU32;

/// Packets that peers fetch.
#[derive(Default)]
pub struct Offered {
    /// By number, with the peer.
    buffers: Mutex<HashMap<u32, (JobRank, Buffer)>>,
    next: AtomicU32,
}

impl Messages {
    /// Offers a packet in a buffer to its receiver. If that fails, the buffer stays the caller's.
    #[cold]
    pub fn offer(&self, reservation: &SendReservation<'_>, buffer: Buffer, bytes: usize) -> Result<(), Buffer> {
        let queue = reservation.connection.queue(0);
        let (peer, number) = (queue.peer(), self.offered.next.fetch_add(1, Ordering::Relaxed));
        let offer = Offer {
            memory: Remote {
                address: buffer.address(),
                rkey: buffer.with_chunk(|chunk| chunk.rkey(queue.rail)),
            },
            bytes: bytes as u32,
            number,
            class: reservation.class,
            path: queue.path as u8,
        };
        // Before the peer may answer.
        lock(&self.offered.buffers).insert(number, (peer, buffer));
        let encoded: [u8; Offer::BYTES] = offer.encode();
        let sent = self.send_note(reservation.connection, &encoded, reservation.credits);
        if sent.is_err() {
            if let Some((_, buffer)) = lock(&self.offered.buffers).remove(&number) {
                return Err(buffer);
            }
        }
        Ok(())
    }

    /// A peer has fetched a packet, whose buffer is free.
    #[cold]
    pub fn note_free(&self, source: JobRank, number: u32) {
        let mut offered = lock(&self.offered.buffers);
        let is_its = offered.get(&number).is_some_and(|(peer, _)| *peer == source);
        let removed = is_its.then(|| offered.remove(&number)).flatten();
        drop(offered);
        if let Some((_, buffer)) = removed {
            buffer.release();
        } else {
            let why = format!("it acknowledged packet {number}, which was never offered to it");
            self.fabric.peers.states.lose(source, why);
        }
    }
}
