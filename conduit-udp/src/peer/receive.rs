//! The receiving side of a peer: its datagrams, its acknowledgements, and the ACKs owed to it.
#![forbid(unsafe_code)]

use super::{ClassTimer, Peer, PendingAck};
use crate::congestion::MAX_ACK_DELAY;
use crate::fragment::FragmentOutcome;
use crate::mac::Keys;
use crate::per_class::CLASSES;
use crate::recv_window::{Disposition, RecvWindow, FULL_SACK_BYTES};
use crate::send_window::AckOutcome;
use crate::wire::{widen, Header, ImplicitFields, Kind, ACK_NOW, HEADER_BYTES};
use gasnet_conduit::Class;

/// Datagrams received before an ACK is due, unless other traffic carries it.
const ACK_AFTER: u32 = 32;

/// An acknowledgement without data.
pub struct AckDatagram {
    /// Its encoded header.
    pub header: [u8; HEADER_BYTES],
    /// The SACK bitmaps of both whole windows; empty when those in the header suffice.
    pub payload: Vec<u8>,
}

impl Peer {
    /// Expands the numbers in a header and returns the fields that are authenticated but not
    /// transmitted.
    pub fn implicit_fields(&self, header: &mut Header) -> ImplicitFields {
        for class in CLASSES {
            let sack = &mut header.sacks[class];
            sack.next = self.tx[class].widen(sack.next as u32);
        }
        ImplicitFields {
            target: self.ranks.me,
            number: match header.kind {
                Kind::Ack | Kind::Close => widen(header.number, self.expected_control),
                _ => self.rx[header.class].widen(header.number),
            },
            next: header.sacks.map(|sack| sack.next),
        }
    }

    /// Processes an authentic datagram.
    pub fn receive(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Disposition {
        if matches!(header.kind, Kind::Ack | Kind::Close) {
            if number < self.expected_control {
                return Disposition::Duplicate;
            }
            let Some(next) = number.checked_add(1) else {
                return Disposition::Malformed;
            };
            self.expected_control = next;
        }
        if self.process_acks(header, now) == Disposition::Malformed {
            return Disposition::Malformed;
        }
        match header.kind {
            Kind::Close => Disposition::Close,
            Kind::Ack => self.receive_full_sack(header, payload, now),
            Kind::Fragment => self.receive_fragment(header, number, payload, now),
            _ => self.receive_data(header, number, payload, now),
        }
    }

    /// Accepts a fragment. The last one completes its datagram, which is then processed.
    fn receive_fragment(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Disposition {
        let class = header.class;
        let (rx, reassembly) = (&self.rx[class], &mut self.reassembly[class]);
        if rx.is_stale(number) {
            self.note_ack_owed(true, now);
            return Disposition::Duplicate;
        }
        reassembly.retain(|number| !rx.is_stale(number));
        match reassembly.accept(header, number, payload) {
            FragmentOutcome::Incomplete => Disposition::Nothing,
            FragmentOutcome::Duplicate => Disposition::Duplicate,
            FragmentOutcome::Malformed => Disposition::Malformed,
            FragmentOutcome::Complete(header, packet) => {
                let disposition = self.receive_data(&header, number, packet.bytes(), now);
                Disposition::Reassembled(Box::new(disposition), packet)
            }
        }
    }

    /// Processes a complete data datagram.
    fn receive_data(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Disposition {
        match header.kind {
            Kind::Data => {
                let class = header.class;
                let has_gap = self.rx[class].sack().bitmap != 0;
                let outcome = self.rx[class].accept(header, number, payload);
                self.note_ack_owed(
                    has_gap || outcome == Disposition::Duplicate || header.flags & ACK_NOW != 0,
                    now,
                );
                outcome
            }
            _ => self.receive_transfer(header, number, now),
        }
    }

    /// Processes the acknowledgements in a header.
    pub fn process_acks(&mut self, header: &Header, now: u64) -> Disposition {
        for class in CLASSES {
            let Some(outcome) = self.tx[class].on_sack(header.sacks[class], now, &mut self.free_buffers) else {
                return Disposition::Malformed;
            };
            self.on_acked(class, outcome, now);
        }
        // Enough for a window of small datagrams. The rest is freed.
        self.free_buffers.truncate(64);
        Disposition::Nothing
    }

    /// Accepts a datagram of a transfer, once. Its number is marked as received before its bytes
    /// are placed, and acknowledged after. A duplicate that arrives when the transfer is complete
    /// is therefore below the window or marked in it. (One whose number has wrapped has the wrong
    /// MAC.)
    fn receive_transfer(&mut self, header: &Header, number: u64, now: u64) -> Disposition {
        let class = match header.kind {
            Kind::GetReply => Class::Reply,
            _ => Class::Request,
        };
        if header.class != class {
            return Disposition::Malformed;
        }
        let has_gap = self.rx[class].sack().bitmap != 0;
        let is_new = self.rx[class].accept_number(number);
        self.note_ack_owed(has_gap || !is_new || header.flags & ACK_NOW != 0, now);
        let operand = header.operand();
        match header.kind {
            _ if !is_new => Disposition::Duplicate,
            Kind::Put => Disposition::Put(operand),
            Kind::Get => Disposition::Get(operand),
            _ => Disposition::GetReply(operand),
        }
    }

    fn receive_full_sack(&mut self, header: &Header, payload: &[u8], now: u64) -> Disposition {
        if payload.is_empty() {
            return Disposition::Nothing;
        }
        if payload.len() != FULL_SACK_BYTES {
            return Disposition::Malformed;
        }
        let words: Vec<u64> = payload
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(std::array::from_fn(|i| bytes[i])))
            .collect();
        for (class, words) in CLASSES.into_iter().zip(words.chunks_exact(words.len() / 2)) {
            for (i, &bitmap) in words.iter().enumerate() {
                let outcome = self.tx[class].on_sack_word(header.sacks[class].next, i, bitmap, now);
                self.on_acked(class, outcome, now);
            }
        }
        Disposition::Nothing
    }

    fn on_acked(&mut self, class: Class, outcome: AckOutcome, now: u64) {
        if outcome.acked_bytes == 0 && outcome.rtt.is_none() {
            return;
        }
        self.timers[class] = ClassTimer::new(now);
        self.congestion.on_ack(outcome.acked_bytes, outcome.rtt);
        self.tx[class].resolve_ambiguous(self.congestion.loss_delay(), now);
        self.detect_losses(class, outcome, now);
    }

    /// Declares datagrams of a class lost, after an acknowledgement or a timeout.
    pub fn detect_losses(&mut self, class: Class, mut outcome: AckOutcome, now: u64) {
        self.tx[class].detect_losses(self.congestion.loss_delay(), &mut outcome);
        if let Some(number) = outcome.first_lost {
            self.congestion.on_loss(class, number, self.tx[class].next_number());
        }
        self.update_pmtu(outcome, now);
    }

    /// Updates the path MTU with what was acknowledged and lost.
    pub fn update_pmtu(&mut self, outcome: AckOutcome, now: u64) {
        if outcome.mtu_suspect.is_none() && (outcome.largest_unfragmented == 0 || !self.pmtu.is_suspect()) {
            return;
        }
        if let Some(bytes) = outcome.mtu_suspect {
            self.pmtu.on_loss(bytes, now);
        }
        self.pmtu.on_ack(outcome.largest_unfragmented);
        self.apply_pmtu();
    }

    fn note_ack_owed(&mut self, at_once: bool, now: u64) {
        let ack = &mut self.pending_ack;
        if ack.datagrams == 0 {
            ack.since = now;
        }
        ack.datagrams += 1;
        ack.immediate |= at_once;
    }

    /// Whether an ACK is due.
    pub fn is_ack_due(&self, now: u64) -> bool {
        let ack = &self.pending_ack;
        ack.immediate || ack.datagrams >= ACK_AFTER || (ack.datagrams > 0 && now >= ack.since + MAX_ACK_DELAY / 8)
    }

    /// Whether the header's SACK bitmaps cover all that was received out of order, as they usually
    /// do.
    pub fn sack_fits_header(&self) -> bool {
        self.rx.iter().all(|rx| rx.bitmap()[1..].iter().all(|&word| word == 0))
    }

    /// Makes an ACK of everything received. Nothing is owed afterwards.
    pub fn make_ack(&mut self, keys: &Keys) -> AckDatagram {
        self.pending_ack = PendingAck::default();
        let long = !self.sack_fits_header();
        let words = self.rx.iter().flat_map(RecvWindow::bitmap).filter(|_| long);
        let payload: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        AckDatagram {
            header: self.control_header(keys, Kind::Ack, &payload),
            payload,
        }
    }

    /// Encodes and seals the header of a control datagram.
    pub fn control_header(&mut self, keys: &Keys, kind: Kind, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let number = self.next_control;
        self.next_control += 1;
        let header = Header {
            number: number as u32,
            sacks: self.sacks(),
            ..self.header(keys, kind, Class::Request)
        };
        let mut bytes = header.encode();
        let implicit = ImplicitFields {
            target: self.ranks.peer,
            number,
            next: header.sacks.map(|sack| sack.next),
        };
        keys.seal(&mut bytes, &implicit, keys.digest(payload));
        self.last_control = bytes;
        bytes
    }

    /// Whether a datagram in flight has the header in `quote`. Only a host that has seen the
    /// datagram can quote it, because the header contains a MAC.
    pub fn was_sent(&self, quote: &[u8]) -> bool {
        let Some(head) = quote.first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let Some(header) = Header::decode(head) else {
            return false;
        };
        *head == self.last_control || self.tx[header.class].was_sent(header.number, head)
    }
}
