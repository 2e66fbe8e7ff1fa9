//! Loss detection as in QUIC (RFC 9002, section 6.1): a datagram is lost when one that was sent
//! three transmissions, or some time, after it was acknowledged. Without any acknowledgement a
//! timeout probes the peer (section 6.2).
//!
//! A QUIC probe has a packet number of its own. Here a probe retransmits the first datagram, and an
//! ACK of it may belong to the earlier transmission: a peer that was descheduled may still be
//! processing the others. So the ACK counts for the probe only after a delay
//! ([`SendWindow::resolve_ambiguous`]).
#![forbid(unsafe_code)]

use super::{DatagramState, SendWindow};
use crate::fragment::BASE_PAYLOAD;

/// Transmissions by which a datagram must be overtaken to be declared lost.
const REORDER_THRESHOLD: u64 = 3;
/// Transmissions of a long datagram after which an MTU black hole is suspected; the lower limit
/// applies while one was seen lately.
const SUSPECT_AFTER: u32 = 6;
const SUSPECT_AGAIN_AFTER: u32 = 2;

/// The outcome of an acknowledgement or a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Payload bytes newly acknowledged.
    pub acked_bytes: usize,
    /// A round-trip sample, nanoseconds.
    pub rtt: Option<u64>,
    /// Payload bytes declared lost.
    pub lost_bytes: usize,
    /// Lowest number declared lost.
    pub first_lost: Option<u64>,
    /// Largest acknowledged payload that was never sent in fragments.
    pub largest_unfragmented: usize,
    /// Payload bytes of a datagram that suggests an MTU black hole.
    pub mtu_suspect: Option<usize>,
}

impl SendWindow {
    /// Declares datagrams lost that were sent [`REORDER_THRESHOLD`] transmissions, or `loss_delay`
    /// nanoseconds, before one that was acknowledged. They are queued again.
    pub fn detect_losses(&mut self, loss_delay: u64, outcome: &mut AckOutcome) {
        if self.in_flight == 0 || self.largest_acked == 0 {
            return;
        }
        for index in 0..self.datagrams.len() {
            let datagram = &self.datagrams[index];
            let DatagramState::Sent(at) = datagram.state else {
                continue;
            };
            if datagram.transmissions == 1 && datagram.last_transmission > self.largest_acked {
                // All datagrams behind it were sent later.
                return;
            }
            let by_count = datagram.last_transmission + REORDER_THRESHOLD <= self.largest_acked;
            let by_time = datagram.last_transmission < self.largest_acked && at + loss_delay < self.largest_acked_at;
            if by_count || by_time {
                self.mark_lost(index, outcome);
            }
        }
    }

    fn mark_lost(&mut self, index: usize, outcome: &mut AckOutcome) {
        let datagram = &mut self.datagrams[index];
        datagram.state = DatagramState::Queued;
        datagram.is_probe = false;
        self.in_flight -= 1;
        self.in_flight_bytes -= datagram.body.len();
        self.queued_bytes += datagram.body.len();
        outcome.lost_bytes += datagram.body.len();
        let limit = if self.mtu_suspect {
            SUSPECT_AGAIN_AFTER
        } else {
            SUSPECT_AFTER
        };
        if datagram.transmissions >= limit && !datagram.fragmented && datagram.body.len() > BASE_PAYLOAD {
            outcome.mtu_suspect = Some(datagram.body.len());
        }
        outcome.first_lost.get_or_insert(self.base + index as u64);
        self.first_queued = if self.queued == 0 {
            index
        } else {
            self.first_queued.min(index)
        };
        self.queued += 1;
    }

    /// After a timeout, queues the first datagram in flight again as a probe, or `everything`.
    pub fn probe(&mut self, everything: bool) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        for index in 0..self.datagrams.len() {
            if matches!(self.datagrams[index].state, DatagramState::Sent(_)) {
                self.mark_lost(index, &mut outcome);
                if !everything {
                    self.datagrams[index].is_probe = true;
                    break;
                }
            }
        }
        outcome
    }
}
