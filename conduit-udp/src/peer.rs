//! The protocol state of one peer: both classes in both directions. Makes no system calls:
//! [`crate::net`] transmits what this module decides.
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
use crate::settings::Settings;
use crate::slab::Slab;
use crate::sys::DatagramSlices;
use crate::transfers::{BulkTransfer, PendingGet};
use crate::wire::{Header, Kind, Sack, HEADER_BYTES, OFFSET_UNIT};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Class, JobRank};
use std::collections::VecDeque;

/// One datagram in this number asks for an acknowledgement.
const ACK_REQUEST_EVERY: u64 = 64;
/// Requests, or bytes of them, that make a full batch: it is not held for more.
const FULL_BATCH: usize = 16;
const FULL_BATCH_BYTES: usize = 48 << 10;
/// Bytes of copied messages per class that wait for acknowledgement. One message may always be
/// queued.
const MAX_COPIED_BYTES: usize = 1 << 20;

/// Values of [`Turn`].
const TURNS: usize = 3;

/// The smallest `max_payload`: a window holds the largest packet twice.
const MIN_PAYLOAD: usize = (2 * MAX_PACKET_BYTES / WINDOW).next_multiple_of(64);

/// The traffic that takes turns in the congestion window.
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

/// Datagrams received since the last acknowledgement was sent; when the first of them arrived;
/// whether an ACK is due at once.
#[derive(Clone, Copy, Debug, Default)]
struct PendingAck {
    datagrams: u32,
    since: u64,
    immediate: bool,
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Ranks {
    /// Rank of this process.
    pub me: JobRank,
    /// Rank of the peer.
    pub peer: JobRank,
}

/// The retransmission timer of one class.
#[derive(Clone, Copy, Debug)]
struct ClassTimer {
    /// Time since which nothing in flight has been acknowledged.
    unanswered_since: u64,
    /// Time of the last transmission, or of the last ACK of new data.
    last_progress: u64,
    /// Whether the timer has expired and no ACK arrived since.
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

/// The protocol state of a peer.
#[derive(Debug)]
pub struct Peer {
    ranks: Ranks,
    /// Send windows.
    pub tx: PerClass<SendWindow>,
    /// Receive windows.
    pub rx: PerClass<RecvWindow>,
    reassembly: PerClass<Reassembly>,
    /// Long transfers that are split into datagrams as the window allows: puts among requests,
    /// replies to gets among replies.
    pub bulk: PerClass<VecDeque<BulkTransfer>>,
    /// Gets whose data has not all arrived.
    pub gets: Slab<PendingGet>,
    /// The traffic that transmits next.
    turn: Turn,
    /// Congestion control.
    pub congestion: Congestion,
    pmtu: Pmtu,
    /// Bytes of the largest payload that the path takes.
    pub max_payload: usize,
    /// Limit of request datagrams in flight (`GASNET_NETWORKDEPTH`).
    pub depth: usize,
    pending_ack: PendingAck,
    /// Number of the next control datagram (ACK or Close) to send, and the next expected.
    next_control: u64,
    expected_control: u64,
    /// Header of the last control datagram that was sent.
    last_control: [u8; HEADER_BYTES],
    /// Per class, because traffic of one class must not mask the loss of the only datagram of the
    /// other.
    timers: PerClass<ClassTimer>,
    /// Payload buffers for reuse.
    free_buffers: Vec<Vec<u8>>,
    /// Whether the peer's timers run: it is in `Net::active`.
    pub tracked: bool,
    /// Whether requests to this peer are held: it is in the coalescer's list.
    pub coalescing: bool,
}

impl Peer {
    /// The state at first contact. `first` is the number of bytes that may be sent before the first
    /// acknowledgement.
    pub fn new(ranks: Ranks, max_payload: usize, initial_window: usize, settings: &Settings, now: u64) -> Self {
        Self {
            ranks,
            tx: PerClass::default(),
            rx: PerClass::default(),
            reassembly: PerClass::default(),
            bulk: PerClass::default(),
            gets: Slab::default(),
            turn: Turn::Requests,
            congestion: Congestion::new(max_payload, initial_window, settings.initial_rto),
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

    /// Whether a message of `bytes` can be queued.
    pub fn has_room(&self, class: Class, bytes: usize) -> bool {
        let tx = &self.tx[class];
        let is_deep = class == Class::Request && tx.len() - tx.bulk >= self.depth;
        let parts = self.part_count(bytes);
        !is_deep
            && tx.has_room(parts)
            && self.leaves_share(class, parts)
            && (tx.is_empty() || tx.copied_bytes + bytes <= MAX_COPIED_BYTES)
    }

    /// Sets the largest payload that the kernel reports for the path. Datagrams made before are
    /// sent as they are; the kernel fragments them if need be.
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

    /// Number of datagrams of a message.
    pub fn part_count(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.max_payload).max(1)
    }

    /// Bytes in each datagram of a message but the last. The parts are of about equal size, so that
    /// the last one does not arrive long after the others.
    pub fn part_bytes(&self, bytes: usize) -> usize {
        let equal = bytes.div_ceil(self.part_count(bytes));
        equal.next_multiple_of(OFFSET_UNIT).min(self.max_payload)
    }

    /// Queues a message, for which [`Peer::has_room`] found room.
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

    /// A header with no acknowledgements.
    pub fn header(&self, keys: &Keys, kind: Kind, class: Class) -> Header {
        Header {
            job: keys.job,
            kind,
            class,
            flags: 0,
            source: self.ranks.me,
            number: 0,
            message: 0,
            part: 0,
            parts: 0,
            sacks: PerClass::default(),
        }
    }

    /// Copies client memory into a reused buffer.
    pub fn copy_payload(&mut self, keys: &Keys, memory: ClientMemory) -> Body {
        let mut copy = self.free_buffers.pop().unwrap_or_default();
        copy.clear();
        memory.copy_to(&mut copy);
        let hash = keys.hash(&copy);
        Body::Copied(copy, hash)
    }

    /// SACK blocks, by class.
    fn sacks(&self) -> PerClass<Sack> {
        PerClass::from_fn(|class| self.rx[class].sack())
    }

    /// Whether anything in flight awaits an acknowledgement.
    pub fn has_in_flight(&self) -> bool {
        self.tx.iter().any(|tx| tx.in_flight > 0)
    }

    /// Whether the queued requests fill a batch, including puts that are not split into datagrams
    /// yet.
    pub fn has_full_batch(&self) -> bool {
        let puts = &self.bulk[Class::Request];
        let bytes: usize = puts.iter().take(FULL_BATCH).map(BulkTransfer::remaining).sum();
        self.tx[Class::Request].queued() + puts.len() >= FULL_BATCH
            || self.tx[Class::Request].queued_bytes + bytes >= FULL_BATCH_BYTES
    }

    fn in_flight_bytes(&self) -> usize {
        self.tx[Class::Request].in_flight_bytes + self.tx[Class::Reply].in_flight_bytes
    }

    /// Passes batches of datagrams to `send` while the windows allow it. `send` returns how many of
    /// a batch were sent; fewer than all end the transmission. Replies go first, and
    /// retransmissions of get replies with them. Requests, long puts and get replies take turns, so
    /// that none starves.
    pub fn transmit(&mut self, keys: &Keys, now: u64, mut send: impl FnMut(&[DatagramSlices<'_>]) -> usize) {
        if self.pmtu.probe_larger(now) {
            self.apply_pmtu();
        }
        let (target, sacks) = (self.ranks.peer, self.sacks());
        loop {
            let (flight, window) = (self.in_flight_bytes(), self.congestion.cwnd);
            let (room, may_exceed) = (window.saturating_sub(flight), !self.has_in_flight());
            let Some((class, turn, next_turn)) = self.next_send(keys, room, may_exceed) else {
                return;
            };
            let is_last = self.bulk[class].is_empty();
            let tx = &mut self.tx[class];
            let batch = tx.next_batch(room, may_exceed);
            if batch.is_empty() {
                // Keep the turn until there is room.
                self.turn = turn;
                return;
            }
            let (last, count) = (tx.last_number(&batch), batch.len());
            // The client may be waiting for the end of the put.
            let ends_put = is_last && tx.queued() == count && tx.ends_with_put(&batch);
            let half_full = 2 * (flight + batch.bytes) >= window;
            let ack_now = ends_put || half_full || (last + 1) % ACK_REQUEST_EVERY < count as u64;
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

    /// Selects the class to transmit next, and splits long transfers into datagrams if need be.
    /// Returns also its turn and the next one. `None`: nothing is queued.
    fn next_send(&mut self, keys: &Keys, room: usize, may_exceed: bool) -> Option<(Class, Turn, Turn)> {
        if self.tx[Class::Reply].has_queued() {
            return Some((Class::Reply, self.turn, self.turn));
        }
        let mut turn = self.turn;
        for _ in 0..TURNS {
            let class = turn.class();
            if !matches!(turn, Turn::Requests) && (room > 0 || may_exceed) {
                self.segment_bulk(keys, class, room);
            }
            if self.tx[class].has_queued() {
                return Some((class, turn, turn.next()));
            }
            turn = turn.next();
        }
        None
    }

    /// Nanoseconds for which nothing in flight has been acknowledged; the maximum of both classes.
    pub fn unanswered(&self, now: u64) -> u64 {
        let classes = self
            .tx
            .iter()
            .zip(self.timers.iter())
            .filter(|(tx, _)| tx.in_flight > 0);
        classes
            .map(|(_, timer)| now.saturating_sub(timer.unanswered_since))
            .max()
            .unwrap_or(0)
    }

    /// Restarts the unanswered time, after this process was suspended and could not receive
    /// acknowledgements.
    pub fn reset_unanswered(&mut self, now: u64) {
        self.timers.iter_mut().for_each(|timer| timer.unanswered_since = now);
    }

    /// Runs the retransmission timers. Returns whether everything in flight was declared lost.
    pub fn on_timer(&mut self, now: u64) -> bool {
        for class in CLASSES {
            if self.tx[class].resolve_ambiguous(self.congestion.loss_delay(), now) {
                self.detect_losses(class, AckOutcome::default(), now);
            }
        }
        let after = self.congestion.rto();
        let is_due = |class: Class, after: u64| {
            let last_progress = self.timers[class].last_progress;
            self.tx[class].in_flight > 0 && now >= last_progress + after
        };
        if !is_due(Class::Request, after) && !is_due(Class::Reply, after) {
            return false;
        }
        // One timeout probes both classes, unless that is much too early for one.
        let late = PerClass::from_fn(|class| is_due(class, after / 2));
        let everything = self.congestion.on_timeout();
        for class in CLASSES.into_iter().filter(|&class| late[class]) {
            let timer = &mut self.timers[class];
            (timer.last_progress, timer.timed_out) = (now, true);
            let outcome = self.tx[class].probe(everything);
            self.update_pmtu(outcome, now);
        }
        everything
    }

    /// Whether nothing is queued or in flight, and no ACK is owed.
    pub fn is_idle(&self) -> bool {
        let is_sent = self.tx.iter().all(SendWindow::is_empty) && self.bulk.iter().all(VecDeque::is_empty);
        is_sent && self.pending_ack.datagrams == 0
    }
}

/// Payload of the largest datagrams on a path that takes datagrams of `bytes`. A multiple of 64, so
/// that the datagrams of a super-packet are aligned in the receive buffer.
pub fn payload_of(bytes: usize) -> usize {
    (bytes / 64 * 64)
        .saturating_sub(HEADER_BYTES)
        .clamp(MIN_PAYLOAD, MAX_PACKET_BYTES)
}

#[cfg(any(test, fuzzing))]
pub mod link;
#[cfg(test)]
mod tests;
