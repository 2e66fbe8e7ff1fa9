//! What the path to a peer takes: as much as this host's kernel says, unless nothing of that size comes through (a "black hole", RFC 8899, section 4.3).
//! Then datagrams are no longer than what every path takes, and longer ones that were made before go in [`crate::fragment`].
//!
//! A peer that is stopped looks the same. So this lasts for a short while only, or until something long is acknowledged, and longer each time.
#![forbid(unsafe_code)]

use crate::fragment::NARROW;

/// How long datagrams stay short at first, and at most, nanoseconds.
const FIRST: u64 = 50_000_000;
const MOST: u64 = 60_000_000_000;

/// One peer's.
#[derive(Debug)]
pub struct Path {
    /// Payload of the largest datagrams, by the kernel.
    wide: usize,
    /// Until when short ones are sent; 0: long ones are.
    until: u64,
    /// Payload of one that did not come through.
    stuck: usize,
    /// How long it lasts the next time.
    next: u64,
}

impl Path {
    /// One that takes what the kernel says.
    pub fn new(wide: usize) -> Self {
        let (until, stuck, next) = (0, 0, FIRST);
        Self {
            wide,
            until,
            stuck,
            next,
        }
    }

    /// The kernel says something else.
    pub fn resize(&mut self, wide: usize) {
        self.wide = wide;
    }

    /// Whether long datagrams do not come through.
    pub fn is_narrow(&self) -> bool {
        self.until > 0
    }

    /// Whether long ones did not come through lately, and none has since.
    pub fn is_suspect(&self) -> bool {
        self.next > FIRST
    }

    /// Payload of the largest datagrams to be made.
    pub fn payload(&self) -> usize {
        if self.is_narrow() {
            self.wide.min(NARROW)
        } else {
            self.wide
        }
    }

    /// A datagram with so long a payload was sent again and again in vain.
    pub fn lost(&mut self, bytes: usize, now: u64) {
        if !self.is_narrow() {
            (self.stuck, self.until) = (bytes, now + self.next);
            self.next = (2 * self.next).min(MOST);
        }
    }

    /// One with so long a payload came as a whole.
    pub fn came(&mut self, bytes: usize) {
        if bytes >= self.stuck && bytes > NARROW {
            (self.until, self.next) = (0, FIRST);
        }
    }

    /// Whether it is time to try long ones again; then they are sent.
    pub fn tries_again(&mut self, now: u64) -> bool {
        let over = self.is_narrow() && now >= self.until;
        if over {
            self.until = 0;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_for_longer_and_longer() {
        let mut path = Path::new(8896);
        let (mut now, mut last) = (1, 0);
        for _ in 0..20 {
            assert_eq!((path.payload(), path.is_narrow()), (8896, false));
            path.lost(8896, now);
            assert_eq!((path.payload(), path.is_narrow()), (NARROW, true));
            let began = now;
            while !path.tries_again(now) {
                now += 1_000_000;
            }
            assert!(path.is_suspect() && now - began >= last.max(FIRST) && now - began <= MOST);
            last = now - began;
        }
        assert_eq!(last, MOST);
        // What is shorter than the one that got stuck proves nothing.
        path.lost(8896, now);
        path.came(8000);
        path.came(NARROW);
        assert!(path.is_narrow());
        path.came(8896);
        assert!(!path.is_narrow() && !path.is_suspect());
        path.lost(8896, now);
        assert!(path.tries_again(now + FIRST));
    }

    #[test]
    fn the_kernel_may_say_less() {
        let mut path = Path::new(8896);
        path.lost(8896, 1);
        path.resize(576);
        assert_eq!(path.payload(), 576);
    }
}
