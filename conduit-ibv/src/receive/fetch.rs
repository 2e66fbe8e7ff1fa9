//! Packets that are larger than the peer's receive buffers.
//!
//! Such a packet stays in its sender's buffer. A message offers it; the receiver reads it by RDMA
//! into a buffer of its own, delivers it there, and notes in a message of its own that the sender's
//! buffer is free. An offer costs what the packet would: a credit if it is a request.
//!
//! A receiver without a free buffer, or without room in its queue, keeps the offer for a later
//! poll. Requests and replies have pools of their own, and a reply's buffer is free as soon as its
//! handler has returned, so replies never wait for requests.

use crate::buffers::{AsLocal, Buffer};
use crate::ffi::{Errno, Remote, Work};
use crate::net::Net;
use crate::send::queue::CompletionAction;
use crate::send::{Grant, ROOM};
use crate::wire::{self, Kind};
use gasnet_conduit::{Busy, Class, JobRank, PollScope, Upcalls};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicUsize};

/// Offers of this process, and those of peers.
#[derive(Default)]
pub struct Fetches {
    /// Buffers of packets that peers fetch, by number, with the peer.
    offered: Mutex<HashMap<u32, (JobRank, Buffer)>>,
    next: AtomicU32,
    /// Work that found no room: a later poll does it.
    waiting: Mutex<Vec<Waiting>>,
    /// Requests that were read, in their buffers.
    #[allow(clippy::vec_box, reason = "they come in boxes")]
    read: Mutex<VecDeque<Box<Fetched>>>,
    /// Members of both.
    count: AtomicUsize,
}

/// Work that waits for room.
enum Waiting {
    Fetch(JobRank, Offer),
    /// The note that the packet of this number was fetched.
    Note(JobRank, u32),
}

/// A packet that its sender offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    memory: Remote,
    bytes: u32,
    /// Names it in the receiver's note.
    number: u32,
    class: Class,
    /// The path whose HCA has the memory.
    path: u8,
}

/// A packet that is read, or was.
#[derive(Debug)]
pub struct Fetched {
    source: JobRank,
    offer: Offer,
    buffer: Buffer,
}

impl Offer {
    /// Length of its encoding, by which a receiver knows it.
    pub const BYTES: usize = 24;

    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&(self.memory.address as u64).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.memory.rkey.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.number.to_le_bytes());
        bytes[20] = u8::from(self.class == Class::Reply);
        bytes[21] = self.path;
        bytes
    }

    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            memory: Remote {
                address: (u64::from(word(0)) | u64::from(word(4)) << 32) as usize,
                rkey: word(8),
            },
            bytes: word(12),
            number: word(16),
            class: if bytes[20] == 0 { Class::Request } else { Class::Reply },
            path: bytes[21],
        }
    }
}

impl Fetches {
    fn wait(&self, work: Waiting) {
        lock(&self.waiting).push(work);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Whether a poll should call [`Net::poll_fetches`].
    #[inline]
    pub fn has_work(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }
}

impl Net {
    /// Offers a packet in a buffer to its receiver. If that fails, the buffer stays the caller's.
    #[cold]
    pub fn offer(&self, grant: &Grant<'_>, buffer: Buffer, bytes: usize) -> Result<(), Buffer> {
        let queue = grant.connection.queue(0);
        let (peer, number) = (queue.peer(), self.fetches.next.fetch_add(1, Ordering::Relaxed));
        let offer = Offer {
            memory: Remote {
                address: buffer.address(),
                rkey: buffer.with_chunk(|chunk| chunk.rkey(self.paths[queue.path].rail)),
            },
            bytes: bytes as u32,
            number,
            class: grant.class,
            path: queue.path as u8,
        };
        // Before the peer may answer.
        lock(&self.fetches.offered).insert(number, (peer, buffer));
        let sent = self.send_note(grant.connection, &offer.encode(), grant.credits);
        if sent.is_err() {
            if let Some((_, buffer)) = lock(&self.fetches.offered).remove(&number) {
                return Err(buffer);
            }
        }
        Ok(())
    }

    /// A peer offers a packet.
    #[cold]
    pub fn take_offer(&self, source: JobRank, bytes: &[u8; Offer::BYTES]) {
        let offer = Offer::decode(bytes);
        let bytes = offer.bytes as usize;
        // No process offers what fits buffers.
        let is_due = self.eager < bytes && bytes <= self.settings.max_packet;
        if !is_due || usize::from(offer.path) >= self.paths.len() {
            let why = format!("it offers a packet of {} bytes on path {}", offer.bytes, offer.path);
            return self.peers.states.lose(source, why);
        }
        let Some(connection) = self.peers.connection(source) else {
            return;
        };
        let most = self.pools.most_offers();
        if !connection.note_offer(most) {
            let why = format!("it offers more than {most} packets");
            return self.peers.states.lose(source, why);
        }
        if offer.class == Class::Reply || self.peers.hold(connection) {
            self.fetch(source, offer);
        }
    }

    fn fetch(&self, source: JobRank, offer: Offer) {
        let Some(connection) = self.peers.connection(source) else {
            return;
        };
        let queue = connection.route(usize::from(offer.path));
        let pool = &self.pools.landings[usize::from(offer.class == Class::Reply)];
        let Some(buffer) = pool.take(self.domains()) else {
            return self.fetches.wait(Waiting::Fetch(source, offer));
        };
        let local = buffer.local(self.paths[queue.path].rail, offer.bytes as usize);
        let work = Work::read(&local, offer.memory);
        let fetched = Box::new(Fetched { source, offer, buffer });
        let Some(mut turn) = queue.turn(self.rail(&queue)) else {
            fetched.buffer.release();
            return self.fetches.wait(Waiting::Fetch(source, offer));
        };
        // SAFETY: the buffer is released after completion.
        let posted = unsafe { turn.post(work, CompletionAction::Fetched(fetched)) };
        drop(turn);
        if let Err((done, why)) = posted {
            done.release();
            if why == Errno::NO_MEMORY {
                self.fetches.wait(Waiting::Fetch(source, offer));
            } else {
                let _ = self.refused(queue, "fetching a message", why);
            }
        }
    }

    /// A packet has been read: its sender is notified. A reply is delivered, and a request by a
    /// later poll, because its handler may wait for what the poll under way has found. Returns how
    /// many upcalls that made.
    #[cold]
    pub fn fetched(&self, fetched: Box<Fetched>, upcalls: &mut dyn Upcalls) -> usize {
        self.note_fetched(fetched.source, fetched.offer.number);
        if fetched.offer.class == Class::Request {
            lock(&self.fetches.read).push_back(fetched);
            self.fetches.count.fetch_add(1, Ordering::Release);
            return 0;
        }
        let (source, mut buffer, bytes) = (fetched.source, fetched.buffer, fetched.offer.bytes);
        upcalls.packet(source, Class::Reply, buffer.bytes(bytes as usize));
        buffer.release();
        1
    }

    /// Does what waited for room, and delivers requests. Returns how many.
    #[cold]
    pub fn poll_fetches(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let waiting = std::mem::take(&mut *lock(&self.fetches.waiting));
        self.fetches.count.fetch_sub(waiting.len(), Ordering::Relaxed);
        for work in waiting {
            match work {
                Waiting::Fetch(source, offer) => self.fetch(source, offer),
                Waiting::Note(source, number) => self.note_fetched(source, number),
            }
        }
        if scope != PollScope::All {
            return 0;
        }
        let Some(fetched) = lock(&self.fetches.read).pop_front() else {
            return 0;
        };
        self.fetches.count.fetch_sub(1, Ordering::Relaxed);
        let (source, mut buffer, bytes) = (fetched.source, fetched.buffer, fetched.offer.bytes);
        self.kept_request(source, buffer.bytes(bytes as usize), upcalls);
        buffer.release();
        1
    }

    fn note_fetched(&self, source: JobRank, number: u32) {
        let Some(connection) = self.peers.connection(source) else {
            return;
        };
        // Before the peer may offer another one from the same buffer.
        connection.end_offer();
        if self.send_note(connection, &number.to_le_bytes(), 0).is_err() && self.peers.states.is_present(source) {
            connection.note_offer(usize::MAX);
            self.fetches.wait(Waiting::Note(source, number));
        }
    }

    /// A peer has fetched a packet, whose buffer is free.
    #[cold]
    pub fn note_free(&self, source: JobRank, number: u32) {
        let mut offered = lock(&self.fetches.offered);
        let is_its = offered.get(&number).is_some_and(|(peer, _)| *peer == source);
        let removed = is_its.then(|| offered.remove(&number)).flatten();
        drop(offered);
        if let Some((_, buffer)) = removed {
            buffer.release();
        } else {
            let why = format!("it has fetched packet {number}, which it was not offered");
            self.peers.states.lose(source, why);
        }
    }

    /// Sends a message that is no packet.
    fn send_note(&self, connection: &crate::peers::Connection, bytes: &[u8], credits: u32) -> Result<(), Busy> {
        let mut room = ROOM;
        let message = self.message(Class::Reply, &[bytes], &mut room)?;
        let word = wire::encode(Kind::Note, self.rank, credits);
        self.transmit(connection, message, word)
    }
}

impl Fetched {
    /// The work request is not posted: its buffer is free.
    pub fn release(self) {
        self.buffer.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_come_back() {
        for class in [Class::Request, Class::Reply] {
            let offer = Offer {
                memory: Remote {
                    address: 0x7f12_3456_789a_b000,
                    rkey: 0xdead_beef,
                },
                bytes: 65_664,
                number: 0x8000_0001,
                class,
                path: 7,
            };
            assert_eq!(Offer::decode(&offer.encode()), offer);
        }
    }
}
