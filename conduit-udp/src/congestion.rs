//! Congestion control and retransmission timeout of one peer.
//!
//! SRTT and RTTVAR follow RFC 6298. The congestion window starts as in RFC 6928 and grows as in RFC
//! 5681. It shrinks to seven tenths, once per round trip with losses (RFC 9438, section 4.6), so
//! that links with random loss stay useful. After the third timeout in a row it shrinks to its
//! minimum.
#![forbid(unsafe_code)]

use crate::per_class::PerClass;
use gasnet_conduit::Class;

/// Nanoseconds for which a peer may delay an acknowledgement.
pub const MAX_ACK_DELAY: u64 = 1_000_000;
/// Bounds of the RTO, nanoseconds. The lower one is generous because peers share cores.
const MIN_RTO: u64 = 2_000_000;
const MAX_RTO: u64 = 500_000_000;
/// Datagrams in the initial and in the smallest window.
const INITIAL_WINDOW: usize = 10;
const MIN_WINDOW: usize = 2;
/// Window bytes above which it grows only while SRTT is below `MAX_QUEUEING` times the shortest
/// RTT. Longer round trips come from queues, which a larger window would lengthen (L. S. Brakmo and
/// L. L. Peterson, "TCP Vegas", 1995). Data queued in this host's memory also falls out of its
/// caches.
const DELAY_LIMITED_FROM: usize = 256 << 10;
const MAX_QUEUEING: u64 = 4;
/// SRTT in nanoseconds from which the delay means that the peer is descheduled. The window may
/// grow: the peer should find much to do when it gets a core.
const DESCHEDULED_RTT: u64 = 500_000;
/// Bytes of the largest window.
const MAX_CWND: usize = 8 << 20;

/// Congestion control of one peer.
#[derive(Debug)]
pub struct Congestion {
    /// The congestion window: bytes that may be in flight.
    pub cwnd: usize,
    ssthresh: usize,
    /// Bytes of the largest payload.
    max_payload: usize,
    srtt: u64,
    rttvar: u64,
    /// Shortest RTT in nanoseconds; 0 before the first sample.
    min_rtt: u64,
    /// Losses of datagrams below this number belong to a reduction that was made already.
    recovery_end: PerClass<u64>,
    /// RTO before the first RTT sample, nanoseconds.
    initial_rto: u64,
    /// Timeouts since the last acknowledgement of new data.
    timeouts: u32,
}

impl Congestion {
    /// `initial` bounds the initial window: the bytes that the peer's receive buffer holds.
    /// `initial_rto` is in nanoseconds.
    pub fn new(max_payload: usize, initial_window: usize, initial_rto: u64) -> Self {
        Self {
            cwnd: (INITIAL_WINDOW * max_payload)
                .min(initial_window)
                .min(DELAY_LIMITED_FROM)
                .max(MIN_WINDOW * max_payload),
            ssthresh: MAX_CWND,
            max_payload,
            srtt: 0,
            rttvar: 0,
            min_rtt: 0,
            recovery_end: PerClass::default(),
            initial_rto,
            timeouts: 0,
        }
    }

    /// Sets the largest payload.
    pub fn resize(&mut self, max_payload: usize) {
        self.max_payload = max_payload;
        self.cwnd = self.cwnd.max(MIN_WINDOW * max_payload);
    }

    /// `bytes` were acknowledged, perhaps with an RTT sample.
    pub fn on_ack(&mut self, bytes: usize, rtt: Option<u64>) {
        if let Some(time) = rtt {
            if self.min_rtt == 0 || time < self.min_rtt {
                self.min_rtt = time.max(1);
            }
            if self.srtt == 0 {
                (self.srtt, self.rttvar) = (time.max(1), time / 2);
            } else {
                self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(time)) / 4;
                self.srtt = ((7 * self.srtt + time) / 8).max(1);
            }
        }
        self.timeouts = 0;
        if self.cwnd >= DELAY_LIMITED_FROM && self.srtt > MAX_QUEUEING * self.min_rtt && self.srtt < DESCHEDULED_RTT {
            return;
        }
        self.cwnd += if self.cwnd < self.ssthresh {
            bytes
        } else {
            (2 * self.max_payload * bytes).div_ceil(self.cwnd)
        };
        self.cwnd = self.cwnd.min(MAX_CWND);
    }

    /// Datagram `number` of `class` was lost; `next` is the number of the next new one.
    pub fn on_loss(&mut self, class: Class, number: u64, next: u64) {
        if number < self.recovery_end[class] {
            return;
        }
        self.recovery_end[class] = next;
        self.cwnd = (self.cwnd / 10 * 7).max(MIN_WINDOW * self.max_payload);
        self.ssthresh = self.cwnd;
    }

    /// The RTO has expired without an acknowledgement. Returns whether everything in flight counts
    /// as lost.
    pub fn on_timeout(&mut self) -> bool {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts <= 2 {
            return false;
        }
        if self.timeouts == 3 {
            self.ssthresh = (self.cwnd / 2).max(MIN_WINDOW * self.max_payload);
        }
        self.cwnd = MIN_WINDOW * self.max_payload;
        true
    }

    /// The RTO, with exponential backoff, in nanoseconds.
    pub fn rto(&self) -> u64 {
        let base = if self.srtt == 0 {
            self.initial_rto
        } else {
            (self.srtt + 4 * self.rttvar + MAX_ACK_DELAY).max(MIN_RTO)
        };
        (base << self.timeouts.min(16)).min(MAX_RTO)
    }

    /// The time threshold of loss detection (RFC 9002, section 6.1.2), nanoseconds.
    pub fn loss_delay(&self) -> u64 {
        (self.srtt + self.srtt / 8).max(MIN_RTO / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_and_shrink() {
        let mut congestion = Congestion::new(1000, 1 << 20, 9_000_000);
        assert_eq!(congestion.cwnd, 10_000);
        congestion.on_ack(10_000, Some(100));
        assert_eq!(congestion.cwnd, 20_000);
        congestion.on_loss(Class::Request, 5, 20);
        congestion.on_loss(Class::Request, 19, 22);
        assert_eq!(congestion.cwnd, 14_000);
        congestion.on_ack(14_000, None);
        assert_eq!(congestion.cwnd, 16_000);
        congestion.on_loss(Class::Request, 20, 40);
        assert_eq!(congestion.cwnd, 11_200);
        for _ in 0..100 {
            congestion.on_loss(Class::Reply, 5, 10);
        }
        assert_eq!(congestion.cwnd, 7840);
        assert_eq!(Congestion::new(65_000, 100_000, 1).cwnd, 130_000);
    }

    #[test]
    fn queueing_stops_growth() {
        let mut congestion = Congestion::new(10_000, 1 << 20, 1);
        congestion.on_ack(DELAY_LIMITED_FROM - congestion.cwnd, Some(1000));
        for _ in 0..40 {
            congestion.on_ack(10_000, Some(10_000));
        }
        let window = congestion.cwnd;
        assert!(
            (DELAY_LIMITED_FROM..DELAY_LIMITED_FROM + 40_000).contains(&window),
            "{window}"
        );
        for time in [1500, 2 * DESCHEDULED_RTT] {
            let window = congestion.cwnd;
            for _ in 0..40 {
                congestion.on_ack(10_000, Some(time));
            }
            assert!(congestion.cwnd > window + 100_000);
        }
    }

    #[test]
    fn rto_backs_off() {
        let mut congestion = Congestion::new(1000, 1 << 20, 9_000_000);
        assert_eq!(congestion.rto(), 9_000_000);
        congestion.on_ack(0, Some(50_000));
        let base = congestion.rto();
        assert_eq!(base, MIN_RTO);
        let half = congestion.cwnd / 2;
        assert!(!congestion.on_timeout() && !congestion.on_timeout() && congestion.on_timeout());
        assert_eq!((congestion.rto(), congestion.cwnd), (8 * base, 2000));
        for _ in 0..100 {
            congestion.on_timeout();
        }
        assert_eq!((congestion.rto(), congestion.cwnd), (MAX_RTO, 2000));
        congestion.on_ack(1, None);
        assert_eq!(congestion.rto(), base);
        // Slow start returns to half the former window.
        while congestion.cwnd < half {
            let window = congestion.cwnd;
            congestion.on_ack(window, None);
            assert!(congestion.cwnd >= (2 * window - 1).min(half));
        }
    }
}
