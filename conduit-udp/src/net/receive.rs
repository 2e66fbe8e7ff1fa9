//! What the socket has: datagrams are checked, taken in, and answered.
#![forbid(unsafe_code)]

use super::zero_copy::{is_long, is_nothing, Came};
use super::{lock, Net};
use crate::packet::{Packet, ALIGN};
use crate::peer::{Heard, Peer};
use crate::peer_table::{Contact, HERE, LEFT};
use crate::sys::{BATCH, BUFFER};
use crate::wire::HEADER;
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Class, JobRank, TransferId, Upcalls};
use std::io::IoSlice;
use std::sync::atomic::Ordering::Relaxed;

/// What may be delivered. The rest is kept for a poll that wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Requests and replies.
    All,
    /// Replies only.
    Replies,
    /// Nothing, no completions either.
    Nothing,
}

impl Wanted {
    /// Whether packets of a class may be delivered.
    pub fn has(self, class: usize) -> bool {
        self == Self::All || (self == Self::Replies && class == Class::Reply as usize)
    }
}

/// What a poll receives into. Polls of several threads, and one inside another, have one each.
pub struct Context {
    /// The buffers, and a place for one packet behind them.
    pub memory: Vec<u8>,
    /// Where they begin.
    pub start: usize,
    /// Buffers for the next call of the system.
    batch: usize,
    /// How often in a row that filled them all.
    full: u32,
    /// What the last one found, as [`crate::sys::Socket::receive`] says it.
    pub found: Vec<(usize, usize)>,
    /// Peers that sent something in this poll.
    pub touched: Vec<JobRank>,
    /// Transfers that became complete in it.
    pub done: Vec<TransferId>,
    /// Whether the last datagram was a long part of a transfer, so that the next one perhaps is, too.
    pub is_long: bool,
}

impl Context {
    /// With nothing in it.
    pub fn new() -> Self {
        let memory = vec![0; BATCH * BUFFER + MAX_PACKET_BYTES + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN);
        Self {
            memory,
            start,
            batch: 1,
            full: 0,
            found: Vec::with_capacity(BATCH),
            touched: Vec::new(),
            done: Vec::new(),
            is_long: false,
        }
    }
}

impl Net {
    /// Takes in what the socket has, and returns what time it is then.
    pub fn receive(&self, wanted: Wanted, context: &mut Context, delivered: &mut usize, upcalls: &mut dyn Upcalls) -> u64 {
        let before = *delivered;
        let came = if context.is_long && self.may_place() {
            self.receive_in_place(wanted, context, delivered)
        } else {
            Came::Unknown
        };
        if came == Came::Unknown && !self.fetch(context) {
            return self.now();
        }
        let now = self.now();
        if came != Came::Nothing {
            self.take_found(wanted, context, now, delivered, upcalls);
        }
        // Handlers may have taken their time.
        let now = if *delivered == before { now } else { self.now() };
        self.answer(&mut context.touched, now);
        if wanted == Wanted::Nothing && !context.done.is_empty() {
            lock(&self.finished).append(&mut context.done);
            self.has_finished.store(true, Relaxed);
        }
        *delivered += context.done.len();
        for id in context.done.drain(..) {
            upcalls.rma_done(id);
        }
        now
    }

    /// Fills the buffers with what the socket has. Returns whether it had anything.
    fn fetch(&self, context: &mut Context) -> bool {
        let buffers = context.start..context.start + BATCH * BUFFER;
        let result = self
            .socket
            .receive(&mut context.memory[buffers], context.batch, &mut context.found);
        if let Err(why) = result {
            if !is_nothing(&why) {
                self.hear_errors();
            }
            (context.batch, context.full) = (1, 0);
            return false;
        }
        // A buffer more than is filled costs the system a look, and what is long is better looked at while it is in the cache.
        let found = &context.found;
        let bytes: usize = found.iter().map(|one| one.0).sum();
        if found.len() < context.batch || bytes > BUFFER / 2 * found.len() {
            (context.batch, context.full) = ((context.batch / 2).max(1), 0);
        } else {
            context.full += 1;
            if context.full > 1 {
                context.batch = (2 * context.batch).min(BATCH);
            }
        }
        true
    }

    /// Takes in what is in the buffers.
    pub fn take_found(&self, wanted: Wanted, context: &mut Context, now: u64, delivered: &mut usize, upcalls: &mut dyn Upcalls) {
        let found = std::mem::take(&mut context.found);
        context.is_long = false;
        for (i, &(bytes, each)) in found.iter().enumerate() {
            let begin = context.start + i * BUFFER;
            if bytes == 0 {
                self.counters.strange.fetch_add(1, Relaxed);
            }
            let each = if each == 0 { bytes.max(1) } else { each };
            for at in (0..bytes).step_by(each) {
                let range = begin + at..begin + (at + each).min(bytes);
                *delivered += usize::from(self.datagram(wanted, range, context, now, upcalls));
            }
        }
        context.found = found;
    }

    /// Takes in one datagram. Returns whether a packet was delivered, or a part of a transfer.
    fn datagram(
        &self,
        wanted: Wanted,
        range: std::ops::Range<usize>,
        context: &mut Context,
        now: u64,
        upcalls: &mut dyn Upcalls,
    ) -> bool {
        let Some((source, heard)) = self.hear(wanted, &context.memory[range.clone()], now, &mut context.done) else {
            self.counters.strange.fetch_add(1, Relaxed);
            return false;
        };
        if context.touched.last() != Some(&source) {
            context.touched.push(source);
        }
        let class = |class: usize| if class == 0 { Class::Request } else { Class::Reply };
        let payload = range.start + HEADER..range.end;
        match heard {
            // Who serves others is not idle, although it waits for something else.
            Heard::Placed => {
                context.is_long = is_long((range.len(), 0));
                true
            }
            Heard::Nothing | Heard::Put(_) | Heard::Get(_) | Heard::Got(_) | Heard::Gathered(..) => false,
            Heard::Again => {
                self.counters.again.fetch_add(1, Relaxed);
                false
            }
            Heard::Packet(number) if wanted.has(number) => {
                if (payload.start - context.start) % ALIGN == 0 {
                    upcalls.packet(source, class(number), &mut context.memory[payload]);
                } else {
                    let at = context.start + BATCH * BUFFER;
                    let bytes = payload.len();
                    context.memory.copy_within(payload, at);
                    upcalls.packet(source, class(number), &mut context.memory[at..at + bytes]);
                }
                true
            }
            Heard::Joined(number, mut packet) if wanted.has(number) => {
                upcalls.packet(source, class(number), packet.bytes_mut());
                true
            }
            Heard::Packet(number) => self.defer(source, number, Packet::of(&context.memory[payload])),
            Heard::Joined(number, packet) => self.defer(source, number, packet),
            Heard::Bye => {
                let _ = self.places[source as usize]
                    .fate
                    .compare_exchange(HERE, LEFT, Relaxed, Relaxed);
                false
            }
            Heard::Nonsense => {
                self.lose_broken(source);
                false
            }
        }
    }

    /// A member sent what no member sends.
    pub fn lose_broken(&self, source: JobRank) {
        self.lose(source, "it sent a malformed packet".to_owned());
    }

    fn defer(&self, source: JobRank, class: usize, packet: Packet) -> bool {
        self.deferred[class].add(source, packet);
        false
    }

    /// Acknowledges what is due, after a batch, and has the rest looked at later.
    fn answer(&self, touched: &mut Vec<JobRank>, now: u64) {
        if touched.len() > 1 {
            touched.sort_unstable();
            touched.dedup();
        }
        for rank in touched.drain(..) {
            if self.places[rank as usize].fate.load(Relaxed) != HERE {
                continue;
            }
            let contact = self.contact(rank);
            let mut peer = lock(&contact.state);
            self.transmit(contact, &mut peer, now);
            if peer.is_ack_due(now) {
                self.acknowledge(contact, &mut peer);
            }
            self.keep_in_view(rank, &mut peer, now);
        }
    }

    /// Sends an acknowledgement of its own.
    pub fn acknowledge(&self, contact: &Contact, peer: &mut Peer) {
        let (header, payload) = peer.acknowledge(&self.keys);
        self.put(contact, &[[IoSlice::new(&header), IoSlice::new(&payload)]]);
    }
}
