//! How much may be under way to a peer, and for how long nothing may come back.
//!
//! Round trips are smoothed as RFC 6298 says. The congestion window begins as in RFC 6928, grows as in RFC 5681, and shrinks once for each round trip with
//! losses, to seven tenths (RFC 9438, section 4.6): links that lose at random are to stay useful. Silence beyond two probes shrinks it to its minimum.
#![forbid(unsafe_code)]

/// How long a peer may keep an acknowledgement back, nanoseconds.
pub const ACK_DELAY: u64 = 1_000_000;
/// The least time before a probe: peers share cores.
const LEAST_PROBE: u64 = 2_000_000;
const MOST_PROBE: u64 = 500_000_000;
/// Datagrams of the first window, and of the smallest.
const FIRST: usize = 10;
const LEAST: usize = 2;
/// Beyond so many bytes the window grows only while round trips are below so many times the shortest: longer ones come from queues, which a larger window
/// would only lengthen (L. S. Brakmo and L. L. Peterson, "TCP Vegas", 1995). What waits in memory of this host falls out of its caches, too.
const CALM: usize = 256 << 10;
const QUEUED: u64 = 4;
/// But round trips of so many nanoseconds say that the peer has no core at the moment: it should find much when it gets one.
const ABSENT: u64 = 500_000;
/// Bytes of the largest window.
const MOST: usize = 8 << 20;

/// One peer's.
#[derive(Debug)]
pub struct Pace {
    /// Bytes that may be under way.
    pub window: usize,
    threshold: usize,
    /// Payload of the largest datagram.
    datagram: usize,
    smoothed: u64,
    variation: u64,
    /// The shortest round trip, 0 before one was measured.
    shortest: u64,
    /// Losses of datagrams below this number belong to a shrinking that was done, by class.
    recovered: [u64; 2],
    /// How long the first datagrams wait for an answer.
    first_probe: u64,
    /// Probes since something came.
    probes: u32,
}

impl Pace {
    /// For datagrams with at most this payload, into buffers of at least `first` bytes; before a round trip was measured they wait `first_probe` nanoseconds
    /// for an answer.
    pub fn new(datagram: usize, first: usize, first_probe: u64) -> Self {
        Self {
            window: (FIRST * datagram).min(first).min(CALM).max(LEAST * datagram),
            threshold: MOST,
            datagram,
            smoothed: 0,
            variation: 0,
            shortest: 0,
            recovered: [0; 2],
            first_probe,
            probes: 0,
        }
    }

    /// From now on the datagrams have another payload at most.
    pub fn resize(&mut self, datagram: usize) {
        self.datagram = datagram;
        self.window = self.window.max(LEAST * datagram);
    }

    /// `bytes` have come, and perhaps a round trip was measured.
    pub fn came(&mut self, bytes: usize, round_trip: Option<u64>) {
        if let Some(time) = round_trip {
            if self.shortest == 0 || time < self.shortest {
                self.shortest = time.max(1);
            }
            if self.smoothed == 0 {
                (self.smoothed, self.variation) = (time.max(1), time / 2);
            } else {
                self.variation = (3 * self.variation + self.smoothed.abs_diff(time)) / 4;
                self.smoothed = ((7 * self.smoothed + time) / 8).max(1);
            }
        }
        self.probes = 0;
        if self.window >= CALM && self.smoothed > QUEUED * self.shortest && self.smoothed < ABSENT {
            return;
        }
        self.window += if self.window < self.threshold {
            bytes
        } else {
            (2 * self.datagram * bytes).div_ceil(self.window)
        };
        self.window = self.window.min(MOST);
    }

    /// The datagram `number` of `class` was lost; `next` is the number of the next one.
    pub fn lost(&mut self, class: usize, number: u64, next: u64) {
        if number < self.recovered[class] {
            return;
        }
        self.recovered[class] = next;
        self.window = (self.window / 10 * 7).max(LEAST * self.datagram);
        self.threshold = self.window;
    }

    /// Nothing has come for [`Pace::probe_after`]. Returns whether all that is under way is to be taken for lost.
    pub fn probed(&mut self) -> bool {
        self.probes = self.probes.saturating_add(1);
        if self.probes <= 2 {
            return false;
        }
        if self.probes == 3 {
            self.threshold = (self.window / 2).max(LEAST * self.datagram);
        }
        self.window = LEAST * self.datagram;
        true
    }

    /// How long to wait for an acknowledgement before a probe, nanoseconds.
    pub fn probe_after(&self) -> u64 {
        let once = if self.smoothed == 0 {
            self.first_probe
        } else {
            (self.smoothed + 4 * self.variation + ACK_DELAY).max(LEAST_PROBE)
        };
        (once << self.probes.min(16)).min(MOST_PROBE)
    }

    /// How much earlier than one that came a datagram must have been sent to be lost (RFC 9002, section 6.1.2).
    pub fn patience(&self) -> u64 {
        (self.smoothed + self.smoothed / 8).max(LEAST_PROBE / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_and_shrink() {
        let mut pace = Pace::new(1000, 1 << 20, 9_000_000);
        assert_eq!(pace.window, 10_000);
        pace.came(10_000, Some(100));
        assert_eq!(pace.window, 20_000);
        pace.lost(0, 5, 20);
        pace.lost(0, 19, 22);
        assert_eq!(pace.window, 14_000);
        pace.came(14_000, None);
        assert_eq!(pace.window, 16_000);
        pace.lost(0, 20, 40);
        assert_eq!(pace.window, 11_200);
        for _ in 0..100 {
            pace.lost(1, 5, 10);
        }
        assert_eq!(pace.window, 7840);
        assert_eq!(Pace::new(65_000, 100_000, 1).window, 130_000);
    }

    #[test]
    fn queues_stop_growth() {
        let mut pace = Pace::new(10_000, 1 << 20, 1);
        pace.came(CALM - pace.window, Some(1000));
        for _ in 0..40 {
            pace.came(10_000, Some(10_000));
        }
        let window = pace.window;
        assert!((CALM..CALM + 40_000).contains(&window), "{window}");
        for time in [1500, 2 * ABSENT] {
            let window = pace.window;
            for _ in 0..40 {
                pace.came(10_000, Some(time));
            }
            assert!(pace.window > window + 100_000);
        }
    }

    #[test]
    fn probes_come_later_and_later() {
        let mut pace = Pace::new(1000, 1 << 20, 9_000_000);
        assert_eq!(pace.probe_after(), 9_000_000);
        pace.came(0, Some(50_000));
        let once = pace.probe_after();
        assert_eq!(once, LEAST_PROBE);
        let half = pace.window / 2;
        assert!(!pace.probed() && !pace.probed() && pace.probed());
        assert_eq!((pace.probe_after(), pace.window), (8 * once, 2000));
        for _ in 0..100 {
            pace.probed();
        }
        assert_eq!((pace.probe_after(), pace.window), (MOST_PROBE, 2000));
        pace.came(1, None);
        assert_eq!(pace.probe_after(), once);
        // What went well before all that silence does so again soon.
        while pace.window < half {
            let window = pace.window;
            pace.came(window, None);
            assert!(pace.window >= (2 * window - 1).min(half));
        }
    }
}
