//! Decides when ranks that have not called exit have had enough time. The root of the tree of
//! agents does, from the state of all ranks.
//!
//! The caller passes the time, so that tests need not wait.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::super::options::ExitTimeouts;
use super::super::tree::message::RankCounts;

/// Windows in a row in which all running ranks only waited, after which they will not join: after a
/// success, after a failure.
const WINDOWS: (u32, u32) = (4, 1);

/// An end of the job that has begun.
#[derive(Debug)]
pub struct Shutdown {
    /// Exit code of the job, 0 to 255.
    pub code: i32,
    /// Incremented when a rank arrives. Windows observed before do not count then, because others
    /// may follow.
    pub epoch: u32,
    /// Ranks that are not in exit must leave.
    pub left: bool,
    /// Ranks in exit may go.
    pub went: bool,
    since: Instant,
    /// A rank was lost: the others get no time to arrive.
    lost: bool,
}

impl Shutdown {
    /// Starts with a rank in exit with `code`, or with one that is `lost`.
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

    /// Another rank has arrived. The first code counts, except that a failure replaces a success
    /// until ranks must leave. Whether anything has changed.
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

    /// Whether ranks that are not in exit have had enough time. `all` is the state of all ranks.
    ///
    /// A progress thread polls while other threads work. So after a success, a rank that polls and
    /// does not wait has the exit timeout; one that does neither is computing and has more.
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
            shutdown.is_over(seen(3, 0, 1), TIMEOUTS, start)
                && shutdown.is_over(seen(3, 0, 0), TIMEOUTS, start + TIMEOUTS.failure)
        );
        assert!(shutdown.another(9, true));
        assert!(shutdown.is_over(seen(0, 0, 0), TIMEOUTS, start));
        shutdown.left = true;
        assert!(!shutdown.another(5, true));
    }
}
