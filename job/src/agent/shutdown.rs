//! When ranks that have not called exit have had their time. The first agent of a job decides, from what is known of all ranks.
//!
//! Time comes in from outside, so that tests do not wait.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::super::options::ExitTimeouts;
use super::super::tree::message::RankCounts;

/// Windows in a row in which nobody did anything but wait, after which nobody will: of a success, of a failure.
const WINDOWS: (u32, u32) = (4, 1);

/// An end that has begun.
#[derive(Debug)]
pub struct Shutdown {
    /// Exit code of the job, 0 to 255.
    pub code: i32,
    /// Number of the look at those who still run: it grows when a rank arrives, for then others may be on their way.
    pub epoch: u32,
    /// Those who are not in exit have been told to leave.
    pub left: bool,
    /// All who are in exit have been told to go.
    pub went: bool,
    since: Instant,
    /// A rank was lost: nobody waits for the others to arrive.
    lost: bool,
}

impl Shutdown {
    /// Begins with a rank in exit with `code`, or `lost`.
    pub fn new(code: i32, lost: bool, now: Instant) -> Self {
        Self {
            code: code & 0xff,
            epoch: 1,
            left: false,
            went: false,
            since: now,
            lost,
        }
    }

    /// Another rank has arrived. The first code counts, but success gives way to a failure that comes before anybody is told to leave.
    /// Whether there is something new to tell.
    pub fn another(&mut self, code: i32, lost: bool) -> bool {
        if self.left {
            return false;
        }
        if self.code == 0 {
            self.code = code & 0xff;
        }
        self.lost |= lost;
        self.epoch += 1;
        true
    }

    /// Whether those who are not in exit have had their time. `all` is what is known of all ranks.
    ///
    /// A progress thread polls while others work: after a success, who polls and does not wait has the exit timeout, and who does neither is
    /// at work and has more time.
    pub fn is_over(&self, all: RankCounts, timeouts: ExitTimeouts, now: Instant) -> bool {
        let passed = |time| now >= self.since + time;
        let seen = |times, windows| all.epoch == self.epoch && times >= windows;
        self.lost
            || if self.code == 0 {
                seen(all.waiting, WINDOWS.0) || passed(timeouts.exit) && seen(all.idle, 1) || passed(timeouts.busy)
            } else {
                seen(all.idle, WINDOWS.1) || passed(timeouts.failure)
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TIMEOUTS: ExitTimeouts = ExitTimeouts {
        exit: Duration::from_secs(10),
        busy: Duration::from_secs(30),
        failure: Duration::from_secs(1),
    };

    fn seen(epoch: u32, waiting: u32, idle: u32) -> RankCounts {
        RankCounts {
            running: 3,
            present: 4,
            epoch,
            waiting,
            idle,
        }
    }

    #[test]
    fn a_success_waits_for_those_who_are_busy() {
        let start = Instant::now();
        let mut shutdown = Shutdown::new(0, false, start);
        assert!(!shutdown.is_over(seen(1, 3, 9), TIMEOUTS, start));
        assert!(shutdown.is_over(seen(1, 4, 4), TIMEOUTS, start));
        // Pollers have less time than those who are at work.
        let later = start + TIMEOUTS.exit;
        assert!(shutdown.is_over(seen(1, 0, 1), TIMEOUTS, later) && !shutdown.is_over(seen(1, 0, 0), TIMEOUTS, later));
        assert!(shutdown.is_over(seen(1, 0, 0), TIMEOUTS, start + TIMEOUTS.busy));
        // Somebody has arrived: what was seen before does not count.
        assert!(shutdown.another(0, false));
        assert!(!shutdown.is_over(seen(1, 4, 4), TIMEOUTS, start) && !shutdown.is_over(seen(1, 4, 4), TIMEOUTS, later));
    }

    #[test]
    fn a_failure_and_a_loss_wait_less() {
        let start = Instant::now();
        let mut shutdown = Shutdown::new(0, false, start);
        assert!(shutdown.another(259, false));
        assert_eq!(shutdown.code, 3);
        assert!(shutdown.another(4, false));
        assert_eq!(shutdown.code, 3);
        assert!(!shutdown.is_over(seen(3, 0, 0), TIMEOUTS, start));
        assert!(
            shutdown.is_over(seen(3, 0, 1), TIMEOUTS, start) && shutdown.is_over(seen(3, 0, 0), TIMEOUTS, start + TIMEOUTS.failure)
        );
        assert!(shutdown.another(9, true));
        assert!(shutdown.is_over(seen(0, 0, 0), TIMEOUTS, start));
        shutdown.left = true;
        assert!(!shutdown.another(5, true));
    }
}
