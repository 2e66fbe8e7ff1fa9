//! When ranks that have not called exit have had their time. The first agent of a job decides, from what is known of all ranks.
//!
//! Time comes in from outside, so that tests do not wait.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::super::options::Patience;
use super::super::tree::message::Census;

/// Windows in a row in which nobody did anything but wait, after which nobody will: of a success, of a failure.
const WINDOWS: (u32, u32) = (4, 1);

/// An end that has begun.
#[derive(Debug)]
pub struct Ending {
    /// Exit code of the job, 0 to 255.
    pub code: i32,
    /// Number of the look at those who still run: it grows when a rank arrives, for then others may be on their way.
    pub look: u32,
    /// Those who are not in exit have been told to leave.
    pub left: bool,
    /// All who are in exit have been told to go.
    pub went: bool,
    since: Instant,
    /// A rank was lost: nobody waits for the others to arrive.
    lost: bool,
}

impl Ending {
    /// Begins with a rank in exit with `code`, or `lost`.
    pub fn new(code: i32, lost: bool, now: Instant) -> Self {
        Self {
            code: code & 0xff,
            look: 1,
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
        self.look += 1;
        true
    }

    /// Whether those who are not in exit have had their time. `all` is what is known of all ranks.
    ///
    /// A progress thread polls while others work: after a success, who polls and does not wait has the exit timeout, and who does neither is
    /// at work and has more time.
    pub fn is_over(&self, all: Census, patience: Patience, now: Instant) -> bool {
        let passed = |time| now >= self.since + time;
        let seen = |times, windows| all.look == self.look && times >= windows;
        self.lost
            || if self.code == 0 {
                seen(all.quiet, WINDOWS.0) || passed(patience.exit) && seen(all.idle, 1) || passed(patience.busy)
            } else {
                seen(all.idle, WINDOWS.1) || passed(patience.failure)
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const PATIENCE: Patience = Patience {
        exit: Duration::from_secs(10),
        busy: Duration::from_secs(30),
        failure: Duration::from_secs(1),
    };

    fn seen(look: u32, quiet: u32, idle: u32) -> Census {
        Census {
            running: 3,
            present: 4,
            look,
            quiet,
            idle,
        }
    }

    #[test]
    fn a_success_waits_for_those_who_are_busy() {
        let start = Instant::now();
        let mut ending = Ending::new(0, false, start);
        assert!(!ending.is_over(seen(1, 3, 9), PATIENCE, start));
        assert!(ending.is_over(seen(1, 4, 4), PATIENCE, start));
        // Pollers have less time than those who are at work.
        let later = start + PATIENCE.exit;
        assert!(ending.is_over(seen(1, 0, 1), PATIENCE, later) && !ending.is_over(seen(1, 0, 0), PATIENCE, later));
        assert!(ending.is_over(seen(1, 0, 0), PATIENCE, start + PATIENCE.busy));
        // Somebody has arrived: what was seen before does not count.
        assert!(ending.another(0, false));
        assert!(!ending.is_over(seen(1, 4, 4), PATIENCE, start) && !ending.is_over(seen(1, 4, 4), PATIENCE, later));
    }

    #[test]
    fn a_failure_and_a_loss_wait_less() {
        let start = Instant::now();
        let mut ending = Ending::new(0, false, start);
        assert!(ending.another(259, false));
        assert_eq!(ending.code, 3);
        assert!(ending.another(4, false));
        assert_eq!(ending.code, 3);
        assert!(!ending.is_over(seen(3, 0, 0), PATIENCE, start));
        assert!(
            ending.is_over(seen(3, 0, 1), PATIENCE, start) && ending.is_over(seen(3, 0, 0), PATIENCE, start + PATIENCE.failure)
        );
        assert!(ending.another(9, true));
        assert!(ending.is_over(seen(0, 0, 0), PATIENCE, start));
        ending.left = true;
        assert!(!ending.another(5, true));
    }
}
