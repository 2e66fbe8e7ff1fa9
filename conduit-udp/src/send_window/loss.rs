//! Which datagrams are lost is decided as QUIC does (RFC 9002, section 6.1): by later ones that came, three of them or some time before; and by a probe when
//! nothing comes at all (section 6.2). QUIC gives a probe a number of its own. Here it is the first datagram again, and when that has come it may have been
//! the earlier one: from a peer that had no core for a while, and goes on to take in the others. So it counts for later than those only after a while.
#![forbid(unsafe_code)]

use super::{DatagramState, SendWindow};
use crate::fragment::BASE_PAYLOAD;

/// Datagrams sent later that came, before one is taken for lost.
const REORDER_THRESHOLD: u64 = 3;
/// How often a long datagram is sent before the path is doubted, and where it has been already.
const SUSPECT_AFTER: u32 = 6;
const SUSPECT_AGAIN_AFTER: u32 = 2;

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AckOutcome {
    /// Bytes that have come, payloads only.
    pub acked_bytes: usize,
    /// A round trip, in nanoseconds, if one could be measured.
    pub rtt: Option<u64>,
    /// Bytes that were found to be lost.
    pub lost_bytes: usize,
    /// The earliest number that was found to be lost.
    pub first_lost: Option<u64>,
    /// Bytes of the longest that came and was never sent in pieces.
    pub largest_unfragmented: usize,
    /// Bytes of one that makes the path doubtful.
    pub mtu_suspect: Option<usize>,
}

impl SendWindow {
    /// Finds those that are lost: sent [`REORDER_THRESHOLD`] sendings before one that came, or `loss_delay` nanoseconds before it. They wait again.
    pub fn detect_losses(&mut self, loss_delay: u64, outcome: &mut AckOutcome) {
        if self.in_flight == 0 || self.largest_acked == 0 {
            return;
        }
        for index in 0..self.datagrams.len() {
            let datagram = &self.datagrams[index];
            let DatagramState::Sent(at) = datagram.state else { continue };
            if datagram.transmissions == 1 && datagram.transmission > self.largest_acked {
                // All behind it were sent later still.
                return;
            }
            let by_count = datagram.transmission + REORDER_THRESHOLD <= self.largest_acked;
            let by_time = datagram.transmission < self.largest_acked && at + loss_delay < self.largest_acked_at;
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

    /// Nothing comes: what was sent first waits again, or everything.
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
