//! Reception: datagrams are authenticated, processed and acknowledged.
#![forbid(unsafe_code)]

use super::zero_copy::{is_bulk, is_would_block, ZeroCopyOutcome};
use super::Net;
use crate::packet::{Packet, ALIGN};
use crate::peer::Peer;
use crate::peers::Connection;
use crate::recv_window::Disposition;
use crate::sys::{Received, RECV_BATCH, RECV_BUFFER};
use crate::wire::HEADER_BYTES;
use crate::{last_part, MAX_PACKET_BYTES};
use gasnet_conduit::{Class, Cookie, JobRank, Upcalls};
use gasnet_sys::lock;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// Packets that a poll may deliver. The rest is deferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deliverable {
    /// Requests, replies and completions.
    All,
    /// Replies and completions.
    Replies,
    /// Nothing.
    Nothing,
}

impl Deliverable {
    /// Whether packets of a class may be delivered.
    pub fn includes(self, class: Class) -> bool {
        self == Self::All || (self == Self::Replies && class == Class::Reply)
    }
}

/// The receive buffers of a poll. Each thread that polls, and each nested poll, has its own.
pub struct ReceiveContext {
    /// Packets that this poll may deliver.
    pub deliverable: Deliverable,
    /// Packets, parts of transfers and completions delivered in this poll.
    pub delivered: usize,
    /// [`RECV_BATCH`] buffers, and behind them room to align one packet.
    pub memory: Vec<u8>,
    /// Offset of the first buffer in `memory`, which aligns it.
    pub start: usize,
    /// Number of buffers for the next system call.
    batch: usize,
    /// Calls in a row that filled all of them.
    full: u32,
    /// Datagrams that the last call received, by buffer.
    pub found: Vec<Received>,
    /// Senders of the datagrams in this poll.
    pub touched: Vec<JobRank>,
    /// Transfers completed in this poll, to be reported.
    pub done: Vec<Cookie>,
    /// Whether the last datagram was a long part of a transfer: the next one may be, too.
    pub is_bulk: bool,
}

impl ReceiveContext {
    /// Empty, with all buffers allocated.
    pub fn new() -> Self {
        let memory = vec![0; RECV_BATCH * RECV_BUFFER + MAX_PACKET_BYTES + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self {
            deliverable: Deliverable::Nothing,
            delivered: 0,
            memory,
            start,
            batch: 1,
            full: 0,
            found: Vec::with_capacity(RECV_BATCH),
            touched: Vec::new(),
            done: Vec::new(),
            is_bulk: false,
        }
    }
}

impl Net {
    /// Receives and processes a batch. Returns the time afterwards, and whether any datagram was
    /// authentic.
    pub fn receive(&self, context: &mut ReceiveContext, upcalls: &mut dyn Upcalls) -> (u64, bool) {
        let before = context.delivered;
        let outcome = if context.is_bulk && self.may_zero_copy() {
            self.receive_zero_copy(context)
        } else {
            ZeroCopyOutcome::NotTried
        };
        if outcome == ZeroCopyOutcome::NotTried && !self.receive_batch(context) {
            return (self.now(), false);
        }
        let now = self.now();
        if outcome != ZeroCopyOutcome::Done {
            self.process_batch(context, now, upcalls);
        }
        // Handlers may have run for a while.
        let now = if context.delivered == before { now } else { self.now() };
        let is_authentic = !context.touched.is_empty();
        self.respond(&mut context.touched, now);
        if context.deliverable == Deliverable::Nothing && !context.done.is_empty() {
            lock(&self.completed).append(&mut context.done);
            self.has_completed.store(true, Relaxed);
        }
        context.delivered += context.done.len();
        for id in context.done.drain(..) {
            upcalls.done(id.with_tag(0), last_part(id));
        }
        (now, is_authentic)
    }

    /// Receives a batch. Returns whether there was any datagram.
    fn receive_batch(&self, context: &mut ReceiveContext) -> bool {
        let buffers = context.start..context.start + RECV_BATCH * RECV_BUFFER;
        let result = self
            .socket
            .receive(&mut context.memory[buffers], context.batch, &mut context.found);
        if let Err(error) = result {
            match error.raw_os_error() {
                // ICMP errors are read elsewhere.
                _ if is_would_block(&error) => {}
                Some(libc::EBADF | libc::ENOTSOCK) => {
                    self.states.fail(&format!(
                        "its socket is gone ({error}). Does the program close descriptors that it did not open?"
                    ));
                }
                _ => self.drain_icmp_errors(),
            }
            (context.batch, context.full) = (1, 0);
            return false;
        }
        // An unused buffer costs the kernel one more check. Long datagrams are processed while they
        // are in the cache.
        let found = &context.found;
        let bytes: usize = found.iter().map(|received| received.bytes).sum();
        if found.len() < context.batch || bytes > RECV_BUFFER / 2 * found.len() {
            (context.batch, context.full) = ((context.batch / 2).max(1), 0);
        } else {
            context.full += 1;
            if context.full > 1 {
                context.batch = (2 * context.batch).min(RECV_BATCH);
            }
        }
        true
    }

    /// Processes the received buffers.
    pub fn process_batch(&self, context: &mut ReceiveContext, now: u64, upcalls: &mut dyn Upcalls) {
        let found = std::mem::take(&mut context.found);
        context.is_bulk = false;
        for (i, received) in found.iter().enumerate() {
            let (begin, bytes) = (context.start + i * RECV_BUFFER, received.bytes);
            if bytes == 0 {
                self.counters.rejected.fetch_add(1, Relaxed);
            }
            let each = received.datagram_bytes();
            for at in (0..bytes).step_by(each) {
                let range = begin + at..begin + (at + each).min(bytes);
                let is_delivered = self.process_datagram(range, context, now, upcalls);
                context.delivered += usize::from(is_delivered);
            }
        }
        context.found = found;
    }

    /// Processes one datagram. Returns whether a packet or a part of a transfer was delivered.
    fn process_datagram(
        &self,
        range: Range<usize>,
        context: &mut ReceiveContext,
        now: u64,
        upcalls: &mut dyn Upcalls,
    ) -> bool {
        let deliverable = context.deliverable;
        let processed = self.on_datagram(deliverable, &context.memory[range.clone()], now, &mut context.done);
        let Some((source, disposition)) = processed else {
            self.counters.rejected.fetch_add(1, Relaxed);
            return false;
        };
        if context.touched.last() != Some(&source) {
            context.touched.push(source);
        }
        let payload = range.start + HEADER_BYTES..range.end;
        match disposition {
            // Counts as delivered, so that a client that serves gets is not idle.
            Disposition::Placed => {
                context.is_bulk = is_bulk(Received {
                    bytes: range.len(),
                    gso_size: 0,
                });
                true
            }
            Disposition::Nothing
            | Disposition::Put(_)
            | Disposition::Get(_)
            | Disposition::GetReply(_)
            | Disposition::Reassembled(..) => false,
            Disposition::Duplicate => {
                self.counters.duplicates.fetch_add(1, Relaxed);
                false
            }
            Disposition::Packet(class) if deliverable.includes(class) => {
                if (payload.start - context.start) % ALIGN == 0 {
                    upcalls.packet(source, class, &mut context.memory[payload]);
                } else {
                    let at = context.start + RECV_BATCH * RECV_BUFFER;
                    let bytes = payload.len();
                    context.memory.copy_within(payload, at);
                    upcalls.packet(source, class, &mut context.memory[at..at + bytes]);
                }
                true
            }
            Disposition::Message(class, mut packet) if deliverable.includes(class) => {
                upcalls.packet(source, class, packet.bytes_mut());
                true
            }
            Disposition::Packet(class) => self.defer(source, class, Packet::of(&context.memory[payload])),
            Disposition::Message(class, packet) => self.defer(source, class, packet),
            Disposition::Close => {
                self.states.note_stop(source);
                false
            }
            Disposition::Malformed => {
                self.report_malformed(source);
                false
            }
        }
    }

    /// Reports a peer as lost that sent a malformed datagram with a right MAC.
    pub fn report_malformed(&self, source: JobRank) {
        self.states.lose(source, "it sent a malformed packet".to_owned());
    }

    fn defer(&self, source: JobRank, class: Class, packet: Packet) -> bool {
        self.deferred[class].push(source, packet);
        false
    }

    /// After a batch: transmits what the ACKs allow, sends ACKs that are due, and starts timers.
    fn respond(&self, touched: &mut Vec<JobRank>, now: u64) {
        if touched.len() > 1 {
            touched.sort_unstable();
            touched.dedup();
        }
        for rank in touched.drain(..) {
            if !self.states.is_present(rank) {
                continue;
            }
            let connection = self.connection(rank);
            let mut peer = lock(&connection.state);
            self.transmit(connection, &mut peer, now);
            if peer.is_ack_due(now) {
                self.send_ack(connection, &mut peer);
            }
            self.track(rank, &mut peer, now);
        }
    }

    /// Sends an ACK without data.
    pub fn send_ack(&self, connection: &Connection, peer: &mut Peer) {
        let ack = peer.make_ack(&self.keys);
        self.send_batch(connection, &[[IoSlice::new(&ack.header), IoSlice::new(&ack.payload)]]);
    }
}
