//! Packets that are larger than the peer's receive buffers.
//!
//! Such a packet stays in its sender's buffer. A message offers it; the receiver reads it by RDMA
//! into a buffer of its own, delivers it there, and notes in a message of its own that the sender's
//! buffer is free. An offer costs what the packet would: a credit if it is a request.
//!
//! A receiver without a free buffer, or without room in its queue, keeps the offer for a later
//! poll. Requests and replies have pools of their own, and a reply's buffer is free as soon as its
//! handler has returned, so replies never wait for requests.

use crate::buffers::AsLocal;
use crate::ffi::{Errno, Work};
use crate::operations::CompletionAction;
use crate::receive::deliver::deliver_kept;
use crate::receive::offer::{Fetched, Offer};
use crate::send::Messages;
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;

/// Packets that this process fetches.
#[derive(Default)]
pub struct Fetches {
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

impl Fetches {
    fn wait(&self, work: Waiting) {
        lock(&self.waiting).push(work);
        self.count.fetch_add(1, Ordering::Release);
    }

    /// Whether a poll should call [`Fetches::poll`].
    #[inline]
    pub fn has_work(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// A peer offers a packet.
    #[cold]
    pub fn take_offer(&self, messages: &Messages, source: JobRank, offer: Offer) {
        let (bytes, fabric) = (offer.bytes as usize, &messages.fabric);
        // No process offers what fits buffers.
        let is_due = messages.eager < bytes && bytes <= messages.max_packet;
        if !is_due || usize::from(offer.path) >= fabric.paths.len() {
            let why = format!("it offers a packet of {} bytes on path {}", offer.bytes, offer.path);
            return fabric.peers.states.lose(source, why);
        }
        let Some(connection) = fabric.peers.connection(source) else {
            return;
        };
        let most = messages.pools.most_offers();
        if !connection.note_offer(most) {
            let why = format!("it offers more than {most} packets");
            return fabric.peers.states.lose(source, why);
        }
        if offer.class == Class::Reply || fabric.peers.hold(connection) {
            self.fetch(messages, source, offer);
        }
    }

    fn fetch(&self, messages: &Messages, source: JobRank, offer: Offer) {
        let fabric = &messages.fabric;
        let Some(connection) = fabric.peers.connection(source) else {
            return;
        };
        let queue = connection.route(usize::from(offer.path));
        let pool = &messages.pools.fetch[usize::from(offer.class == Class::Reply)];
        let Some(buffer) = pool.take(fabric.domains()) else {
            return self.wait(Waiting::Fetch(source, offer));
        };
        let local = buffer.local(queue.rail, offer.bytes as usize);
        let work = Work::read(&local, offer.memory);
        let fetched = Box::new(Fetched { source, offer, buffer });
        let Some(mut guard) = fabric.lock_queue(queue) else {
            fetched.buffer.release();
            return self.wait(Waiting::Fetch(source, offer));
        };
        // SAFETY: the buffer is released after completion.
        let posted = unsafe { guard.post(work, CompletionAction::Fetched(fetched)) };
        drop(guard);
        if let Err((done, why)) = posted {
            done.release();
            if why == Errno::NO_MEMORY {
                self.wait(Waiting::Fetch(source, offer));
            } else {
                let _ = fabric.refused(queue, "fetching a message", why);
            }
        }
    }

    /// A packet has been read: its sender is notified. A reply is delivered, and a request by a
    /// later poll, because its handler may wait for what the poll under way has found. Returns how
    /// many upcalls that made.
    #[cold]
    pub fn fetched(&self, messages: &Messages, fetched: Box<Fetched>, upcalls: &mut dyn Upcalls) -> usize {
        self.note_fetched(messages, fetched.source, fetched.offer.number);
        if fetched.offer.class == Class::Request {
            lock(&self.read).push_back(fetched);
            self.count.fetch_add(1, Ordering::Release);
            return 0;
        }
        let (source, mut buffer, bytes) = (fetched.source, fetched.buffer, fetched.offer.bytes);
        upcalls.packet(source, Class::Reply, buffer.bytes(bytes as usize));
        buffer.release();
        1
    }

    /// Does what waited for room, and delivers requests. Returns how many.
    #[cold]
    pub fn poll(&self, messages: &Messages, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        self.count.fetch_sub(waiting.len(), Ordering::Relaxed);
        for work in waiting {
            match work {
                Waiting::Fetch(source, offer) => self.fetch(messages, source, offer),
                Waiting::Note(source, number) => self.note_fetched(messages, source, number),
            }
        }
        if scope != PollScope::All {
            return 0;
        }
        let Some(fetched) = lock(&self.read).pop_front() else {
            return 0;
        };
        self.count.fetch_sub(1, Ordering::Relaxed);
        let (source, mut buffer, bytes) = (fetched.source, fetched.buffer, fetched.offer.bytes);
        deliver_kept(&messages.fabric.peers, source, buffer.bytes(bytes as usize), upcalls);
        buffer.release();
        1
    }

    fn note_fetched(&self, messages: &Messages, source: JobRank, number: u32) {
        let peers = &messages.fabric.peers;
        let Some(connection) = peers.connection(source) else {
            return;
        };
        // Before the peer may offer another one from the same buffer.
        connection.end_offer();
        if messages.send_note(connection, &number.to_le_bytes(), 0).is_err() && peers.states.is_present(source) {
            connection.note_offer(usize::MAX);
            self.wait(Waiting::Note(source, number));
        }
    }
}
