//! Path MTU of one peer. It is what this host's kernel reports, except while datagrams of that size
//! vanish (an MTU "black hole", RFC 8899, section 4.3). Then new datagrams have the size that every
//! path takes, and older, longer ones are sent in fragments ([`crate::fragment`]).
//!
//! A stopped peer looks the same. So the reduction ends after a short time, or when a long datagram
//! is acknowledged; it lasts twice as long each time.
#![forbid(unsafe_code)]

use crate::fragment::BASE_PAYLOAD;

/// Shortest and longest reduction, nanoseconds.
const MIN_DURATION: u64 = 50_000_000;
const MAX_DURATION: u64 = 60_000_000_000;

/// The path MTU of one peer, in bytes of payload.
#[derive(Debug)]
pub struct Pmtu {
    /// Largest payload according to the kernel.
    kernel_payload: usize,
    /// End of the current reduction; 0: none.
    reduced_until: u64,
    /// Payload of the datagram that was lost.
    lost_payload: usize,
    /// Duration of the next reduction.
    duration: u64,
}

impl Pmtu {
    /// Starts with the kernel's value.
    pub fn new(kernel_payload: usize) -> Self {
        let (reduced_until, lost_payload, duration) = (0, 0, MIN_DURATION);
        Self {
            kernel_payload,
            reduced_until,
            lost_payload,
            duration,
        }
    }

    /// Sets the kernel's value.
    pub fn resize(&mut self, kernel_payload: usize) {
        self.kernel_payload = kernel_payload;
    }

    /// Whether a reduction is in effect.
    pub fn is_reduced(&self) -> bool {
        self.reduced_until > 0
    }

    /// Whether there was a reduction, and no long datagram has been acknowledged since.
    pub fn is_suspect(&self) -> bool {
        self.duration > MIN_DURATION
    }

    /// Largest payload for new datagrams.
    pub fn payload(&self) -> usize {
        if self.is_reduced() {
            self.kernel_payload.min(BASE_PAYLOAD)
        } else {
            self.kernel_payload
        }
    }

    /// A datagram with this payload was lost repeatedly.
    pub fn on_loss(&mut self, bytes: usize, now: u64) {
        if !self.is_reduced() {
            (self.lost_payload, self.reduced_until) = (bytes, now + self.duration);
            self.duration = (2 * self.duration).min(MAX_DURATION);
        }
    }

    /// A datagram with this payload was acknowledged, without fragments.
    pub fn on_ack(&mut self, bytes: usize) {
        if bytes >= self.lost_payload && bytes > BASE_PAYLOAD {
            (self.reduced_until, self.duration) = (0, MIN_DURATION);
        }
    }

    /// Ends an expired reduction. Returns whether it did, so that long datagrams are sent again.
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
        // A datagram shorter than the lost one proves nothing.
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
