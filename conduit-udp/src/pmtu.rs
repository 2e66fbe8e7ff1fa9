//! What the path to a peer takes: as much as this host's kernel says, unless nothing of that size comes through (a "black hole", RFC 8899, section 4.3).
//! Then datagrams are no longer than what every path takes, and longer ones that were made before go in [`crate::fragment`].
//!
//! A peer that is stopped looks the same. So this lasts for a short while only, or until something long is acknowledged, and longer each time.
#![forbid(unsafe_code)]

use crate::fragment::BASE_PAYLOAD;

/// How long datagrams stay short at first, and at most, nanoseconds.
const MIN_DURATION: u64 = 50_000_000;
const MAX_DURATION: u64 = 60_000_000_000;

/// One peer's.
#[derive(Debug)]
pub struct Pmtu {
    /// Payload of the largest datagrams, by the kernel.
    kernel_payload: usize,
    /// Until when short ones are sent; 0: long ones are.
    reduced_until: u64,
    /// Payload of one that did not come through.
    lost_payload: usize,
    /// How long it lasts the next time.
    duration: u64,
}

impl Pmtu {
    /// One that takes what the kernel says.
    pub fn new(kernel_payload: usize) -> Self {
        let (reduced_until, lost_payload, duration) = (0, 0, MIN_DURATION);
        Self {
            kernel_payload,
            reduced_until,
            lost_payload,
            duration,
        }
    }

    /// The kernel says something else.
    pub fn resize(&mut self, kernel_payload: usize) {
        self.kernel_payload = kernel_payload;
    }

    /// Whether long datagrams do not come through.
    pub fn is_reduced(&self) -> bool {
        self.reduced_until > 0
    }

    /// Whether long ones did not come through lately, and none has since.
    pub fn is_suspect(&self) -> bool {
        self.duration > MIN_DURATION
    }

    /// Payload of the largest datagrams to be made.
    pub fn payload(&self) -> usize {
        if self.is_reduced() {
            self.kernel_payload.min(BASE_PAYLOAD)
        } else {
            self.kernel_payload
        }
    }

    /// A datagram with so long a payload was sent again and again in vain.
    pub fn on_loss(&mut self, bytes: usize, now: u64) {
        if !self.is_reduced() {
            (self.lost_payload, self.reduced_until) = (bytes, now + self.duration);
            self.duration = (2 * self.duration).min(MAX_DURATION);
        }
    }

    /// One with so long a payload came as a whole.
    pub fn on_ack(&mut self, bytes: usize) {
        if bytes >= self.lost_payload && bytes > BASE_PAYLOAD {
            (self.reduced_until, self.duration) = (0, MIN_DURATION);
        }
    }

    /// Whether it is time to try long ones again; then they are sent.
    pub fn probe_larger(&mut self, now: u64) -> bool {
        let over = self.is_reduced() && now >= self.reduced_until;
        if over {
            self.reduced_until = 0;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_back_off() {
        let mut pmtu = Pmtu::new(8896);
        let (mut now, mut last) = (1, 0);
        for _ in 0..20 {
            assert_eq!((pmtu.payload(), pmtu.is_reduced()), (8896, false));
            pmtu.on_loss(8896, now);
            assert_eq!((pmtu.payload(), pmtu.is_reduced()), (BASE_PAYLOAD, true));
            let began = now;
            while !pmtu.probe_larger(now) {
                now += 1_000_000;
            }
            assert!(pmtu.is_suspect() && now - began >= last.max(MIN_DURATION) && now - began <= MAX_DURATION);
            last = now - began;
        }
        assert_eq!(last, MAX_DURATION);
        // What is shorter than the one that got stuck proves nothing.
        pmtu.on_loss(8896, now);
        pmtu.on_ack(8000);
        pmtu.on_ack(BASE_PAYLOAD);
        assert!(pmtu.is_reduced());
        pmtu.on_ack(8896);
        assert!(!pmtu.is_reduced() && !pmtu.is_suspect());
        pmtu.on_loss(8896, now);
        assert!(pmtu.probe_larger(now + MIN_DURATION));
    }

    #[test]
    fn the_kernel_limit_may_shrink() {
        let mut pmtu = Pmtu::new(8896);
        pmtu.on_loss(8896, 1);
        pmtu.resize(576);
        assert_eq!(pmtu.payload(), 576);
    }
}
