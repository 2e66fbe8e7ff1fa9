//! How much may be under way to a peer, and for how long nothing may come back.
//!
//! Round trips are smoothed as RFC 6298 says. The congestion window begins as in RFC 6928, grows as in RFC 5681, and shrinks once for each round trip with
//! losses, to seven tenths (RFC 9438, section 4.6): links that lose at random are to stay useful. Silence beyond two probes shrinks it to its minimum.
#![forbid(unsafe_code)]

use crate::per_class::PerClass;
use gasnet_conduit::Class;

/// How long a peer may keep an acknowledgement back, nanoseconds.
pub const MAX_ACK_DELAY: u64 = 1_000_000;
/// The least time before a probe: peers share cores.
const MIN_RTO: u64 = 2_000_000;
const MAX_RTO: u64 = 500_000_000;
/// Datagrams of the first window, and of the smallest.
const INITIAL_WINDOW: usize = 10;
const MIN_WINDOW: usize = 2;
/// Beyond so many bytes the window grows only while round trips are below so many times the shortest: longer ones come from queues, which a larger window
/// would only lengthen (L. S. Brakmo and L. L. Peterson, "TCP Vegas", 1995). What waits in memory of this host falls out of its caches, too.
const DELAY_LIMITED_FROM: usize = 256 << 10;
const MAX_QUEUEING: u64 = 4;
/// But round trips of so many nanoseconds say that the peer has no core at the moment: it should find much when it gets one.
const DESCHEDULED_RTT: u64 = 500_000;
/// Bytes of the largest window.
const MAX_CWND: usize = 8 << 20;

/// One peer's.
#[derive(Debug)]
pub struct Congestion {
    /// Bytes that may be under way.
    pub cwnd: usize,
    ssthresh: usize,
    /// Payload of the largest datagram.
    max_payload: usize,
    srtt: u64,
    rttvar: u64,
    /// The shortest round trip, 0 before one was measured.
    min_rtt: u64,
    /// Losses of datagrams below this number belong to a shrinking that was done, by class.
    recovery_end: PerClass<u64>,
    /// How long the first datagrams wait for an answer.
    initial_rto: u64,
    /// Probes since something came.
    timeouts: u32,
}

impl Congestion {
    /// For datagrams with at most this payload, into buffers of at least `initial` bytes; before a round trip was measured they wait `initial_rto` nanoseconds
    /// for an answer.
    pub fn new(max_payload: usize, initial: usize, initial_rto: u64) -> Self {
        Self {
            cwnd: (INITIAL_WINDOW * max_payload)
                .min(initial)
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

    /// From now on the datagrams have another payload at most.
    pub fn resize(&mut self, max_payload: usize) {
        self.max_payload = max_payload;
        self.cwnd = self.cwnd.max(MIN_WINDOW * max_payload);
    }

    /// `bytes` have come, and perhaps a round trip was measured.
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

    /// The datagram `number` of `class` was lost; `next` is the number of the next one.
    pub fn on_loss(&mut self, class: Class, number: u64, next: u64) {
        if number < self.recovery_end[class] {
            return;
        }
        self.recovery_end[class] = next;
        self.cwnd = (self.cwnd / 10 * 7).max(MIN_WINDOW * self.max_payload);
        self.ssthresh = self.cwnd;
    }

    /// Nothing has come for [`Congestion::rto`]. Returns whether all that is under way is to be taken for lost.
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

    /// How long to wait for an acknowledgement before a probe, nanoseconds.
    pub fn rto(&self) -> u64 {
        let base = if self.srtt == 0 {
            self.initial_rto
        } else {
            (self.srtt + 4 * self.rttvar + MAX_ACK_DELAY).max(MIN_RTO)
        };
        (base << self.timeouts.min(16)).min(MAX_RTO)
    }

    /// How much earlier than one that came a datagram must have been sent to be lost (RFC 9002, section 6.1.2).
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
        // What went well before all that silence does so again soon.
        while congestion.cwnd < half {
            let window = congestion.cwnd;
            congestion.on_ack(window, None);
            assert!(congestion.cwnd >= (2 * window - 1).min(half));
        }
    }
}
