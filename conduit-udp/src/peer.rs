//! One peer: both classes in both directions, and what is owed to it. No system calls: [`crate::net`] sends what this says.
#![forbid(unsafe_code)]

mod receive;

use crate::congestion::Congestion;
use crate::fragment::Reassembly;
use crate::mac::Keys;
use crate::memory::ClientMemory;
use crate::per_class::{PerClass, CLASSES};
use crate::pmtu::Pmtu;
use crate::recv_window::{RecvWindow, WINDOW};
use crate::send_window::{AckOutcome, BatchContext, Body, SendWindow};
use crate::slab::Slab;
use crate::sys::DatagramSlices;
use crate::transfers::{BulkTransfer, PendingGet};
use crate::variables::Settings;
use crate::wire::{Header, Kind, Sack, HEADER_BYTES, OFFSET_UNIT};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::Class;
pub use receive::Disposition;
use std::collections::VecDeque;

/// Every so many datagrams ask for an acknowledgement.
const ACK_REQUEST_EVERY: u64 = 64;
/// So many requests go together, or so many bytes of them.
const FULL_BATCH: usize = 16;
const FULL_BATCH_BYTES: usize = 48 << 10;
/// Bytes of messages that a class keeps, whole messages but the first.
const MAX_COPIED_BYTES: usize = 1 << 20;

/// Values of [`Turn`].
const TURNS: usize = 3;

/// A window holds a largest packet twice.
const MIN_PAYLOAD: usize = (2 * MAX_PACKET_BYTES / WINDOW).next_multiple_of(64);

/// Who sends by turns: requests, answers to gets, long puts.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Requests,
    GetReplies,
    LongPuts,
}

impl Turn {
    const fn class(self) -> Class {
        match self {
            Self::Requests | Self::LongPuts => Class::Request,
            Self::GetReplies => Class::Reply,
        }
    }

    const fn next(self) -> Self {
        match self {
            Self::Requests => Self::GetReplies,
            Self::GetReplies => Self::LongPuts,
            Self::LongPuts => Self::Requests,
        }
    }
}

/// What [`Peer::transmit`] sends next.
struct NextSend {
    class: Class,
    turn: Turn,
    next_turn: Turn,
}

/// Datagrams that came since the last acknowledgement, when the first of them came, and whether that is wanted at once.
#[derive(Clone, Copy, Debug, Default)]
struct PendingAck {
    datagrams: u32,
    since: u64,
    immediate: bool,
}

/// Who speaks to whom.
#[derive(Clone, Copy, Debug)]
pub struct Ranks {
    /// This process.
    pub me: u32,
    /// The peer.
    pub peer: u32,
}

/// What one class waits for.
#[derive(Clone, Copy, Debug)]
struct ClassTimer {
    /// Since when everything that was sent has been unanswered.
    unanswered_since: u64,
    /// When something was last sent, or came that helps.
    last_progress: u64,
    /// Whether nothing has come since it was taken for lost.
    timed_out: bool,
}

impl ClassTimer {
    fn new(now: u64) -> Self {
        Self {
            unanswered_since: now,
            last_progress: now,
            timed_out: false,
        }
    }
}

/// What is known of a peer since the first contact.
#[derive(Debug)]
pub struct Peer {
    pair: Ranks,
    /// By class, as all that is.
    pub tx: PerClass<SendWindow>,
    /// See [`Peer::out`].
    pub rx: PerClass<RecvWindow>,
    reassembly: PerClass<Reassembly>,
    /// Long transfers, whose datagrams are made when they can go: puts, and answers to gets.
    pub bulk: PerClass<VecDeque<BulkTransfer>>,
    /// Gets whose bytes have not all come.
    pub gets: Slab<PendingGet>,
    /// Whose turn it is to send.
    turn: Turn,
    /// How much may go there.
    pub congestion: Congestion,
    pmtu: Pmtu,
    /// Payload of its largest datagrams.
    pub max_payload: usize,
    /// Datagrams of requests that may be under way.
    pub depth: usize,
    pending_ack: PendingAck,
    /// Number of the next datagram without data in each direction: from here, and from there.
    next_control: u64,
    expected_control: u64,
    /// The header of the last one from here.
    last_control: [u8; HEADER_BYTES],
    /// By class: what one hears says nothing about the other, whose only datagram may be lost.
    timers: PerClass<ClassTimer>,
    /// Payload buffers that no datagram needs.
    free_buffers: Vec<Vec<u8>>,
    /// Whether the list of peers to look at has it.
    pub tracked: bool,
    /// Whether the list of those has it for whom requests wait.
    pub coalescing: bool,
}

impl Peer {
    /// At first contact. `datagram` is the payload of the largest datagrams, `first` how many bytes may be sent before anything comes back.
    pub fn new(pair: Ranks, max_payload: usize, first: usize, settings: &Settings, now: u64) -> Self {
        Self {
            pair,
            tx: PerClass::default(),
            rx: PerClass::default(),
            reassembly: PerClass::default(),
            bulk: PerClass::default(),
            gets: Slab::default(),
            turn: Turn::Requests,
            congestion: Congestion::new(max_payload, first, settings.initial_rto),
            depth: settings.depth,
            pmtu: Pmtu::new(max_payload),
            max_payload,
            pending_ack: PendingAck::default(),
            next_control: 0,
            expected_control: 0,
            last_control: [0; HEADER_BYTES],
            timers: PerClass::from_fn(|_| ClassTimer::new(now)),
            free_buffers: Vec::new(),
            tracked: false,
            coalescing: false,
        }
    }

    /// Whether a message of so many bytes can be kept until it has come.
    pub fn has_room(&self, class: Class, bytes: usize) -> bool {
        let tx = &self.tx[class];
        let is_deep = class == Class::Request && tx.len() - tx.bulk >= self.depth;
        let parts = self.part_count(bytes);
        !is_deep
            && tx.has_room(parts)
            && self.leaves_share(class, parts)
            && (tx.is_empty() || tx.copied_bytes + bytes <= MAX_COPIED_BYTES)
    }

    /// The path to the peer takes other datagrams now. Those that were made are sent as they are: the kernel cuts what the path does not take.
    pub fn set_kernel_payload(&mut self, max_payload: usize) {
        self.pmtu.resize(max_payload);
        self.apply_pmtu();
    }

    fn apply_pmtu(&mut self) {
        self.max_payload = self.pmtu.payload();
        self.congestion.resize(self.max_payload);
        for tx in self.tx.iter_mut() {
            (tx.fragmenting, tx.mtu_suspect) = (self.pmtu.is_reduced(), self.pmtu.is_suspect());
        }
    }

    /// Datagrams of a message.
    pub fn part_count(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.max_payload).max(1)
    }

    /// Bytes of each but the last of the datagrams of so many bytes: about equally many, so that the one that comes last is not there long after the others.
    pub fn part_bytes(&self, bytes: usize) -> usize {
        let equal = bytes.div_ceil(self.part_count(bytes));
        equal.next_multiple_of(OFFSET_UNIT).min(self.max_payload)
    }

    /// Keeps a message, for which there is room; it waits to be sent.
    pub fn queue_message(&mut self, keys: &Keys, class: Class, slices: &[&[u8]]) {
        let message: usize = slices.iter().map(|slice| slice.len()).sum();
        let parts = self.part_count(message);
        let each = self.part_bytes(message);
        let mut rest = slices.iter().copied();
        let mut slice: &[u8] = &[];
        for part in 0..parts {
            let bytes = each.min(message - part * each);
            let mut payload = self.free_buffers.pop().unwrap_or_default();
            payload.clear();
            while payload.len() < bytes {
                if slice.is_empty() {
                    let Some(next) = rest.next() else { break };
                    slice = next;
                    continue;
                }
                let take = slice.len().min(bytes - payload.len());
                payload.extend_from_slice(&slice[..take]);
                slice = &slice[take..];
            }
            let header = Header {
                message: message as u32,
                part: part as u16,
                parts: parts as u16,
                ..self.header(keys, Kind::Data, class)
            };
            let hash = keys.hash(&payload);
            self.tx[class].push(header, Body::Copied(payload, hash), None);
        }
    }

    /// A header that says nothing yet.
    pub fn header(&self, keys: &Keys, kind: Kind, class: Class) -> Header {
        Header {
            job: keys.job,
            kind,
            class,
            flags: 0,
            source: self.pair.me,
            number: 0,
            message: 0,
            part: 0,
            parts: 0,
            sacks: PerClass::default(),
        }
    }

    /// A copy of what somebody lends, in a buffer that was used before.
    pub fn copy_payload(&mut self, keys: &Keys, memory: ClientMemory) -> Body {
        let mut copy = self.free_buffers.pop().unwrap_or_default();
        copy.clear();
        memory.copy_to(&mut copy);
        let hash = keys.hash(&copy);
        Body::Copied(copy, hash)
    }

    /// What has been received, by class.
    fn sacks(&self) -> PerClass<Sack> {
        PerClass::from_fn(|class| self.rx[class].sack())
    }

    /// Whether something is under way that will be acknowledged.
    pub fn has_in_flight(&self) -> bool {
        self.tx.iter().any(|tx| tx.in_flight > 0)
    }

    /// Whether so many requests wait that they should go, puts that are not cut into datagrams yet among them.
    pub fn has_full_batch(&self) -> bool {
        let puts = &self.bulk[Class::Request];
        let bytes: usize = puts.iter().take(FULL_BATCH).map(BulkTransfer::remaining).sum();
        self.tx[Class::Request].queued() + puts.len() >= FULL_BATCH
            || self.tx[Class::Request].queued_bytes + bytes >= FULL_BATCH_BYTES
    }

    fn in_flight_bytes(&self) -> usize {
        self.tx[Class::Request].in_flight_bytes + self.tx[Class::Reply].in_flight_bytes
    }

    /// Gives `send` what may go now, in runs; it says how many of a run went, and less than all ends it. Replies go first, and what is sent again of
    /// answers to gets; requests, long puts and answers to gets by turns, so that none of them waits for the end of the others.
    pub fn transmit(&mut self, keys: &Keys, now: u64, mut send: impl FnMut(&[DatagramSlices<'_>]) -> usize) {
        if self.pmtu.probe_larger(now) {
            self.apply_pmtu();
        }
        let (target, sacks) = (self.pair.peer, self.sacks());
        loop {
            let (flight, window) = (self.in_flight_bytes(), self.congestion.cwnd);
            let (room, first) = (window.saturating_sub(flight), !self.has_in_flight());
            let Some(NextSend { class, turn, next_turn }) = self.next_send(keys, room, first) else {
                return;
            };
            let is_last = self.bulk[class].is_empty();
            let tx = &mut self.tx[class];
            let batch = tx.next_batch(room, first);
            if batch.is_empty() {
                // It keeps its turn until there is room.
                self.turn = turn;
                return;
            }
            let (last, count) = (tx.last_number(&batch), batch.len());
            // Somebody waits for the end of a put.
            let ends_put = is_last && tx.queued() == count && tx.ends_with_put(&batch);
            let ack_now = ends_put || 2 * (flight + batch.bytes) >= window || (last + 1) % ACK_REQUEST_EVERY < count as u64;
            let timer = &mut self.timers[class];
            if tx.in_flight == 0 && !timer.timed_out {
                timer.unanswered_since = now;
            }
            let context = BatchContext {
                target,
                sacks,
                ack_now,
                now,
            };
            let sent = tx.send(keys, &batch, context, &mut send);
            if sent > 0 {
                timer.last_progress = now;
                self.turn = next_turn;
                if self.sack_fits_header() {
                    self.pending_ack = PendingAck::default();
                }
            }
            if sent < count {
                return;
            }
        }
    }

    /// The class of which something is to go next, for which datagrams are made if need be; whose turn it is, and will be when that has gone. None:
    /// nothing waits.
    fn next_send(&mut self, keys: &Keys, room: usize, may_exceed: bool) -> Option<NextSend> {
        if self.tx[Class::Reply].has_queued() {
            return Some(NextSend {
                class: Class::Reply,
                turn: self.turn,
                next_turn: self.turn,
            });
        }
        let mut turn = self.turn;
        for _ in 0..TURNS {
            let class = turn.class();
            if !matches!(turn, Turn::Requests) && (room > 0 || may_exceed) {
                self.segment_bulk(keys, class, room);
            }
            if self.tx[class].has_queued() {
                return Some(NextSend {
                    class,
                    turn,
                    next_turn: turn.next(),
                });
            }
            turn = turn.next();
        }
        None
    }

    /// How long everything that was sent of a class has been unanswered; of that which waits longer.
    pub fn unanswered(&self, now: u64) -> u64 {
        let classes = self.tx.iter().zip(self.timers.iter()).filter(|(tx, _)| tx.in_flight > 0);
        classes
            .map(|(_, timer)| now.saturating_sub(timer.unanswered_since))
            .max()
            .unwrap_or(0)
    }

    /// This process did nothing for a while: what has been unanswered meanwhile may have been answered.
    pub fn reset_unanswered(&mut self, now: u64) {
        self.timers.iter_mut().for_each(|timer| timer.unanswered_since = now);
    }

    /// What was sent of a class is taken for lost, in part, if nothing of it has moved for long enough. Returns whether all of it was.
    pub fn on_timer(&mut self, now: u64) -> bool {
        for class in CLASSES {
            if self.tx[class].resolve_ambiguous(self.congestion.loss_delay(), now) {
                self.detect_losses(class, AckOutcome::default(), now);
            }
        }
        let after = self.congestion.rto();
        let waits = |class: Class, after: u64| self.tx[class].in_flight > 0 && now >= self.timers[class].last_progress + after;
        if !waits(Class::Request, after) && !waits(Class::Reply, after) {
            return false;
        }
        // Both by one probe, where that is not much too early.
        let late = PerClass::from_fn(|class| waits(class, after / 2));
        let everything = self.congestion.on_timeout();
        for class in CLASSES.into_iter().filter(|&class| late[class]) {
            let timer = &mut self.timers[class];
            (timer.last_progress, timer.timed_out) = (now, true);
            let outcome = self.tx[class].probe(everything);
            self.update_pmtu(outcome, now);
        }
        everything
    }

    /// Whether nothing is under way, or owed.
    pub fn is_idle(&self) -> bool {
        self.tx.iter().all(SendWindow::is_empty) && self.bulk.iter().all(VecDeque::is_empty) && self.pending_ack.datagrams == 0
    }
}

/// The payload of the largest datagrams on a path that takes `bytes` at once: so that trains of them are aligned where they arrive. Every packet fits
/// into a window.
pub fn payload_of(bytes: usize) -> usize {
    (bytes / 64 * 64)
        .saturating_sub(HEADER_BYTES)
        .clamp(MIN_PAYLOAD, MAX_PACKET_BYTES)
}

#[cfg(any(test, fuzzing))]
pub mod link;
#[cfg(test)]
mod tests;
