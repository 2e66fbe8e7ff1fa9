//! The send window of one class: datagrams that are not acknowledged yet.
//!
//! A retransmission keeps its number, so round trips are measured on datagrams that were sent once
//! (Karn's algorithm; RFC 6298, section 3).
#![forbid(unsafe_code)]

mod datagram;
mod loss;

use crate::fragment::{self, BASE_PAYLOAD};
use crate::mac::{Keys, PayloadDigest};
use crate::memory::ClientMemory;
use crate::per_class::PerClass;
use crate::recv_window::WINDOW;
use crate::slab::Slab;
use crate::sys::{DatagramSlices, SEND_BATCH};
use crate::wire::{widen, Header, ImplicitFields, Sack, ACK_NOW, HEADER_BYTES};
pub use datagram::Body;
use datagram::{Datagram, DatagramState};
use gasnet_conduit::{connections, Cookie, JobRank};
pub use loss::AckOutcome;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

/// A put that is not complete.
#[derive(Debug)]
struct PendingPut {
    id: Cookie,
    /// Bytes not acknowledged yet.
    remaining: usize,
}

/// Consecutive queued datagrams.
#[derive(Debug, Default)]
pub struct Batch {
    indices: Range<usize>,
    /// Bytes of their payloads.
    pub bytes: usize,
}

impl Batch {
    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Number of datagrams.
    pub fn len(&self) -> usize {
        self.indices.len()
    }
}

/// Header fields that all datagrams of a batch share.
#[derive(Clone, Copy, Debug)]
pub struct BatchContext {
    /// Rank of the peer.
    pub target: JobRank,
    /// Numbers received from the peer.
    pub sacks: PerClass<Sack>,
    /// Whether the last datagram asks for an acknowledgement.
    pub ack_now: bool,
    /// Time of the transmission.
    pub now: u64,
}

/// An acknowledgement of a probe, which may belong to an earlier transmission of the same datagram.
#[derive(Clone, Copy, Debug)]
struct AmbiguousAck {
    transmission: u64,
    sent_at: u64,
    acked_at: u64,
}

/// The send window of one class of one peer.
#[derive(Debug, Default)]
pub struct SendWindow {
    /// Number of the first of `datagrams`.
    base: u64,
    datagrams: VecDeque<Datagram>,
    /// Datagrams in the window that belong to long transfers.
    pub bulk: usize,
    /// Datagrams sent, and neither acknowledged nor declared lost.
    pub in_flight: usize,
    /// Bytes of their payloads.
    pub in_flight_bytes: usize,
    /// Bytes of payloads in the window that are copies.
    pub copied_bytes: usize,
    puts: Slab<PendingPut>,
    /// Puts that became complete and are not reported yet.
    pub completed: Vec<Cookie>,
    /// Datagrams that wait for transmission. None of them is before index `first_queued`.
    queued: usize,
    /// Bytes of their payloads.
    pub queued_bytes: usize,
    first_queued: usize,
    /// Transmissions so far, and the latest of those that were acknowledged, with its time.
    transmissions: u64,
    largest_acked: u64,
    largest_acked_at: u64,
    /// The ACK of a probe, while it is open which transmission it belongs to.
    ambiguous: Option<AmbiguousAck>,
    /// Whether datagrams above [`BASE_PAYLOAD`] are sent in fragments.
    pub fragmenting: bool,
    /// Whether long datagrams were lost lately, and none arrived since.
    pub mtu_suspect: bool,
}

impl SendWindow {
    /// Whether `datagrams` more fit into the window.
    pub fn has_room(&self, datagrams: usize) -> bool {
        self.datagrams.len() + datagrams <= WINDOW
    }

    /// Number of datagrams in the window.
    pub fn len(&self) -> usize {
        self.datagrams.len()
    }

    /// Whether everything was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.datagrams.is_empty()
    }

    /// Whether anything waits for transmission.
    pub fn has_queued(&self) -> bool {
        self.queued > 0
    }

    /// Number of the next datagram.
    pub fn next_number(&self) -> u64 {
        self.base + self.datagrams.len() as u64
    }

    /// Queues a datagram with the number [`SendWindow::next_number`].
    pub fn push(&mut self, mut header: Header, body: Body, put: Option<usize>) {
        header.number = self.next_number() as u32;
        self.copied_bytes += body.copied_bytes();
        self.queued_bytes += body.len();
        if self.queued == 0 {
            self.first_queued = self.datagrams.len();
        }
        self.queued += 1;
        self.datagrams.push_back(Datagram::new(header.encode(), body, put));
    }

    /// The same for a long transfer, which must leave some of the window to messages.
    pub fn push_bulk(&mut self, header: Header, body: Body, put: Option<usize>) {
        self.push(header, body, put);
        if let Some(datagram) = self.datagrams.back_mut() {
            datagram.bulk = true;
            self.bulk += 1;
        }
    }

    /// Begins a put of `remaining` bytes. Returns the key for [`SendWindow::push`].
    pub fn begin_put(&mut self, id: Cookie, remaining: usize) -> usize {
        self.puts.add(PendingPut { id, remaining })
    }

    /// Expands the low half of a number in an acknowledgement.
    pub fn widen(&self, low: u32) -> u64 {
        widen(low, self.base)
    }

    /// Whether a datagram in flight was last sent with this header.
    pub fn was_sent(&self, number: u32, head: &[u8; HEADER_BYTES]) -> bool {
        let index = self.widen(number).checked_sub(self.base);
        let datagram = index.and_then(|index| self.datagrams.get(index as usize));
        datagram.is_some_and(|datagram| matches!(datagram.state, DatagramState::Sent(_)) && datagram.head == *head)
    }

    /// Copies the payloads that are borrowed from memory which is about to be released.
    pub fn copy_overlapping(&mut self, keys: &Keys, memory: ClientMemory) {
        for datagram in self
            .datagrams
            .iter_mut()
            .filter(|datagram| datagram.state != DatagramState::Acked)
        {
            if matches!(datagram.body, Body::Borrowed(body) if body.overlaps(memory)) {
                self.copied_bytes += datagram.copy_payload(keys);
            }
        }
    }

    /// Number of datagrams that wait for transmission.
    pub fn queued(&self) -> usize {
        self.queued
    }

    fn needs_fragments(&self, datagram: &Datagram) -> bool {
        datagram.fragmented || (self.fragmenting && datagram.body.len() > BASE_PAYLOAD)
    }

    /// The next batch to send: at most `room` bytes, or one datagram if `may_exceed`. A datagram
    /// that needs fragments is a batch of its own.
    pub fn next_batch(&mut self, room: usize, may_exceed: bool) -> Batch {
        if self.queued == 0 {
            return Batch::default();
        }
        while self.datagrams[self.first_queued].state != DatagramState::Queued {
            self.first_queued += 1;
        }
        let (from, mut batch) = (self.first_queued, Batch::default());
        for datagram in self.datagrams.range(from..).take(SEND_BATCH) {
            let bytes = batch.bytes + datagram.body.len();
            let fits = bytes <= room || (may_exceed && batch.indices.is_empty());
            let alone = self.needs_fragments(datagram);
            if datagram.state != DatagramState::Queued || !fits || (alone && !batch.indices.is_empty()) {
                break;
            }
            let end = from + batch.indices.len() + 1;
            (batch.indices, batch.bytes) = (from..end, bytes);
            if alone {
                break;
            }
        }
        batch
    }

    /// Number of the last datagram of a batch, which is not empty.
    pub fn last_number(&self, batch: &Batch) -> u64 {
        self.base + batch.indices.end as u64 - 1
    }

    /// Whether the last datagram of a batch belongs to a put.
    pub fn ends_with_put(&self, batch: &Batch) -> bool {
        self.datagrams[batch.indices.end - 1].put.is_some()
    }

    /// Completes the headers of a batch, seals them and passes the batch to `send`. Returns how
    /// many datagrams were sent.
    pub fn send(
        &mut self,
        keys: &Keys,
        batch: &Batch,
        context: BatchContext,
        send: &mut impl FnMut(&[DatagramSlices<'_>]) -> usize,
    ) -> usize {
        let (base, last) = (self.base, batch.indices.end - 1);
        let implicit = |index: usize| ImplicitFields {
            target: context.target,
            number: base + index as u64,
            next: context.sacks.map(|sack| sack.next),
        };
        let fragmented = self.needs_fragments(&self.datagrams[last]);
        for index in batch.indices.clone() {
            let datagram = &mut self.datagrams[index];
            // Fragments may be sent in part, and again.
            if fragmented || datagram.needs_copy() {
                self.copied_bytes += datagram.copy_payload(keys);
            }
            let hash = match &datagram.body {
                Body::Copied(_, hash) => *hash,
                Body::Borrowed(memory) => keys.hash(memory.read()),
            };
            let ack_flag = if index == last && context.ack_now { ACK_NOW } else { 0 };
            let flags = ack_flag | datagram.transmission_flags();
            Header::refresh(&mut datagram.head, flags, context.sacks);
            let digest = PayloadDigest {
                bytes: datagram.body.len(),
                hash,
            };
            keys.seal(&mut datagram.head, &implicit(index), digest);
        }
        let sent = if fragmented {
            self.datagrams[last].fragmented = true;
            let Datagram { head, body, .. } = &self.datagrams[last];
            usize::from(fragment::send(keys, head, &implicit(last), body.bytes(), send))
        } else if batch.indices.len() == 1 {
            let Datagram { head, body, .. } = &self.datagrams[last];
            send(&[[IoSlice::new(head), IoSlice::new(body.bytes())]])
        } else {
            let mut all = [[IoSlice::new(&[]); 2]; SEND_BATCH];
            for (to, datagram) in all.iter_mut().zip(self.datagrams.range(batch.indices.clone())) {
                *to = [IoSlice::new(&datagram.head), IoSlice::new(datagram.body.bytes())];
            }
            send(&all[..batch.indices.len()])
        };
        let mut again = 0;
        for index in batch.indices.clone().take(sent) {
            let datagram = &mut self.datagrams[index];
            again += usize::from(datagram.transmissions > 0);
            self.transmissions += 1;
            datagram.state = DatagramState::Sent(context.now);
            datagram.last_transmission = self.transmissions;
            datagram.transmissions += 1;
            self.in_flight += 1;
            self.in_flight_bytes += datagram.body.len();
            self.queued_bytes -= datagram.body.len();
            self.queued -= 1;
        }
        if again > 0 {
            connections::retransmit(again);
        }
        sent
    }

    /// Processes an acknowledgement with full numbers. Payload buffers that are no longer needed go
    /// to `free`. `None`: the peer acknowledges a number that was never sent; nothing has changed.
    pub fn on_sack(&mut self, sack: Sack, now: u64, free: &mut Vec<Vec<u8>>) -> Option<AckOutcome> {
        let next = sack.next;
        let behind = 65 - u64::from(sack.bitmap.leading_zeros());
        let end = next.saturating_add(if sack.bitmap == 0 { 0 } else { behind });
        if end > self.next_number() {
            return None;
        }
        let mut outcome = AckOutcome::default();
        for number in self.base..next {
            self.on_acked(number, now, &mut outcome);
        }
        for bit in SetBits(sack.bitmap) {
            self.on_acked(next + 1 + bit, now, &mut outcome);
        }
        self.release_acked(free);
        Some(outcome)
    }

    /// Processes one word of a full SACK: bit i acknowledges number `next + 1 + 64 * word + i`.
    pub fn on_sack_word(&mut self, next: u64, word: usize, bitmap: u64, now: u64) -> AckOutcome {
        let first = next + 1 + 64 * word as u64;
        let mut outcome = AckOutcome::default();
        for bit in SetBits(bitmap) {
            if (self.base..self.next_number()).contains(&(first + bit)) {
                self.on_acked(first + bit, now, &mut outcome);
            }
        }
        outcome
    }

    fn on_acked(&mut self, number: u64, now: u64, outcome: &mut AckOutcome) {
        let Some(index) = number.checked_sub(self.base).map(|i| i as usize) else {
            return;
        };
        let Some(datagram) = self.datagrams.get_mut(index) else {
            return;
        };
        match datagram.state {
            DatagramState::Acked => return,
            DatagramState::Sent(at) => {
                self.in_flight -= 1;
                self.in_flight_bytes -= datagram.body.len();
                if datagram.is_probe {
                    self.ambiguous.get_or_insert(AmbiguousAck {
                        transmission: datagram.last_transmission,
                        sent_at: at,
                        acked_at: now,
                    });
                } else if datagram.last_transmission > self.largest_acked {
                    self.largest_acked = datagram.last_transmission;
                    self.largest_acked_at = at;
                    if datagram.transmissions == 1 {
                        outcome.rtt = Some(now.saturating_sub(at));
                    }
                }
            }
            // Declared lost, but an earlier transmission has arrived.
            DatagramState::Queued => {
                self.queued_bytes -= datagram.body.len();
                self.queued -= 1;
            }
        }
        datagram.state = DatagramState::Acked;
        let bytes = datagram.body.len();
        outcome.acked_bytes += bytes;
        if !datagram.fragmented {
            outcome.largest_unfragmented = outcome.largest_unfragmented.max(bytes);
        }
        let Some(at) = datagram.put else { return };
        // A datagram becomes `Acked` once, so no byte is counted twice.
        let Some(put) = self.puts.get(at) else { return };
        put.remaining -= bytes;
        if put.remaining == 0 {
            self.completed.push(put.id);
            self.puts.remove(at);
        }
    }

    /// Takes the ACK of a probe as that of its last transmission, if for `loss_delay` nanoseconds
    /// no other ACK contradicted it, or nothing else is in flight. Returns whether this may reveal
    /// losses.
    pub fn resolve_ambiguous(&mut self, loss_delay: u64, now: u64) -> bool {
        let due = self
            .ambiguous
            .filter(|ack| self.in_flight == 0 || now >= ack.acked_at + loss_delay);
        let Some(ack) = due else { return false };
        self.ambiguous = None;
        if ack.transmission > self.largest_acked {
            (self.largest_acked, self.largest_acked_at) = (ack.transmission, ack.sent_at);
        }
        self.in_flight > 0
    }

    fn release_acked(&mut self, free: &mut Vec<Vec<u8>>) {
        while self.datagrams.front().is_some_and(|d| d.state == DatagramState::Acked) {
            if let Some(datagram) = self.datagrams.pop_front() {
                self.bulk -= usize::from(datagram.bulk);
                self.copied_bytes -= datagram.body.copied_bytes();
                if let Body::Copied(bytes, _) = datagram.body {
                    free.push(bytes);
                }
                self.base += 1;
                self.first_queued = self.first_queued.saturating_sub(1);
            }
        }
    }
}

/// Indices of the set bits.
struct SetBits(u64);

impl Iterator for SetBits {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(u64::from(bit))
    }
}

#[cfg(test)]
mod tests;
