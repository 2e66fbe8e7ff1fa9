//! Deadlines of ranks that must end.
//!
//! The exit timeout counts time in which a rank could run. Not counted:
//!
//! - waiting for a processor, because the machine is busy;
//! - waiting for a disk or a file server;
//! - being frozen or traced, because a user looks at the rank with a debugger;
//! - delays of the agent itself.
//!
//! A rank in exit that computes (an exit handler, a leak checker) has the longer timeout of ranks
//! that compute. When a signal asks for the end, only the first and the last exception apply.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::control_block::ControlBlock;
use super::children::{Activity, Asked, Child, State};
use super::Agent;
use gasnet_sys::process::Pid;
use gasnet_sys::progress::{self, RunTimes};

/// Interval of checks whether ranks are frozen or traced.
const HELD_INTERVAL: Duration = Duration::from_millis(250);
/// From "leave" to SIGQUIT.
const BEFORE_QUIT: Duration = Duration::from_millis(30);
/// Most time between two readings of the clock. The rest is a delay of the agent.
const STEP: Duration = Duration::from_millis(100);
/// Smallest extension of a deadline.
const LEAST: Duration = Duration::from_millis(10);
/// Extension for a rank that waits for a reader or a device.
const PAUSE: Duration = Duration::from_secs(1);

/// A clock that stands still while the agent does not run.
#[derive(Debug)]
pub struct Clock {
    real: Instant,
    now: Instant,
}

impl Clock {
    pub fn start() -> Self {
        let real = Instant::now();
        Self { real, now: real }
    }

    /// The time. Call it at least once every [`STEP`].
    pub fn now(&mut self) -> Instant {
        self.at(Instant::now())
    }

    fn at(&mut self, real: Instant) -> Instant {
        self.now += real.saturating_duration_since(self.real).min(STEP);
        self.real = real;
        self.now
    }
}

/// The time at which a rank is killed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    /// The timeout, also from when the rank is no longer frozen or traced.
    limit: Duration,
    /// The latest time for a rank that computes.
    latest: Instant,
    /// When it was last extended, and the times of the rank then.
    since: Instant,
    times: RunTimes,
}

impl Deadline {
    /// After `limit`, or `longest` if the process computes.
    pub fn new(pid: Pid, now: Instant, limit: Duration, longest: Duration) -> Self {
        Self {
            at: now + limit,
            limit,
            latest: now + longest.max(limit),
            since: now,
            times: progress::run_times(pid),
        }
    }

    fn restart(&mut self, now: Instant) {
        let more = now.saturating_duration_since(self.since);
        (self.at, self.latest, self.since) = (now + self.limit, self.latest + more, now);
    }

    /// Extends it by the time until `now` that does not count. Whether it is still to come.
    fn extend(&mut self, times: RunTimes, now: Instant, may_compute: bool) -> bool {
        let passed = now.saturating_duration_since(self.since);
        let ran = times.ran.saturating_sub(self.times.ran).min(passed);
        let rest = passed.saturating_sub(ran);
        // A wait for a processor is counted once it is over.
        let queued = if times.is_runnable {
            rest
        } else {
            // Less than before: a thread has ended, and its waits are unknown.
            times.queued.checked_sub(self.times.queued).unwrap_or(LEAST).min(rest)
        };
        self.latest += queued;
        let computes = may_compute && now < self.latest;
        let more = queued + if computes { ran } else { Duration::ZERO };
        if more < LEAST {
            return false;
        }
        (self.at, self.since, self.times) = (now + more, now, times);
        true
    }
}

/// Whether a user examines a rank with a debugger, or it waits for one.
fn is_held(child: &Child, control: &ControlBlock) -> bool {
    control.status(child.rank).frozen.load(Ordering::Relaxed) != 0 || progress::is_traced(child.pid)
}

impl Child {
    /// Checks whether it is held, and gives it the whole timeout from then on.
    fn watch_held(&mut self, control: &ControlBlock, now: Instant) {
        self.held = self.state != State::Gone && is_held(self, control);
        if let Some(deadline) = self.deadline.as_mut().filter(|_| self.held) {
            deadline.restart(now);
        }
    }

    /// Kills it after its deadline, unless it `may_wait` for the slow reader of its last output, a
    /// device or a debugger, and does. If it was killed: whether it was writing its last
    /// output.
    fn kill_if_overdue(&mut self, control: &ControlBlock, now: Instant, may_wait: bool) -> Option<bool> {
        let mut deadline = self.deadline.filter(|due| self.state != State::Gone && now >= due.at)?;
        let stalled_flushes = control.status(self.rank).stalled_flushes.load(Ordering::Relaxed);
        let in_exit = self.state == State::InExit;
        let writes = in_exit && stalled_flushes != self.stalled_flushes;
        if may_wait && (writes || progress::waits_for_device(self.pid)) {
            self.stalled_flushes = stalled_flushes;
            deadline.at = now + PAUSE;
            self.deadline = Some(deadline);
            return None;
        }
        let is_held = may_wait && is_held(self, control);
        if is_held {
            deadline.restart(now);
        }
        if is_held || deadline.extend(progress::run_times(self.pid), now, may_wait && in_exit) {
            self.deadline = Some(deadline);
            return None;
        }
        self.signal(libc::SIGKILL);
        (self.deadline, self.is_killed) = (None, true);
        Some(writes)
    }
}

impl Agent<'_> {
    /// Checks whether ranks are frozen or traced.
    pub(super) fn watch_held(&mut self, now: Instant) {
        if self.held_at.is_none_or(|at| now >= at + HELD_INTERVAL) {
            self.held_at = Some(now);
            for child in &mut self.setup.children {
                child.watch_held(&self.setup.control, now);
            }
        }
    }

    /// Asks ranks that must leave to do so, and kills those that are late.
    pub(super) fn enforce_deadlines(&mut self, now: Instant) {
        let may_wait = !self.signals.is_terminating(self.shutdown.code);
        if self.leave_at.is_some_and(|at| now >= at + BEFORE_QUIT) {
            self.send_sigquit(may_wait);
        }
        for child in &mut self.setup.children {
            if child.kill_if_overdue(&self.setup.control, now, may_wait) == Some(true) {
                self.cut_by = self.signals.termination;
            }
        }
    }

    /// Sends SIGQUIT to ranks that have not called exit, once, unless they `may_wait` for a
    /// debugger and do. After a success it names those that compute, because their work is lost.
    fn send_sigquit(&mut self, may_wait: bool) {
        let names_late = self.shutdown.code == 0 && !self.signals.is_terminating(0);
        for i in 0..self.setup.children.len() {
            let child = &mut self.setup.children[i];
            if child.state != State::Running || child.asked != Asked::Not || (child.held && may_wait) {
                continue;
            }
            child.asked = Asked::Quit;
            child.signal(libc::SIGQUIT);
            if names_late && child.activity == Activity::Working {
                child.asked = Asked::Reported;
                let rank = child.rank;
                self.print(format_args!(
                    "rank {rank} has not ended long after the others, and is ended now; its unwritten output \
                     is lost. GASNET_EXITTIMEOUT sets the limit"
                ));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_clock_skips_delays_of_the_agent() {
        let mut clock = Clock::start();
        let start = clock.now;
        assert_eq!(clock.at(start + STEP / 2) - start, STEP / 2);
        assert_eq!(clock.at(start + SECOND * 60) - start, STEP / 2 + STEP);
    }

    /// Life of a rank after its deadline was set, with timeouts of 2 s, and 10 s for computing. It
    /// runs and waits for a processor for these tenths of it.
    fn lifetime(ran: u32, queued: u32, may_compute: bool) -> Duration {
        let start = Instant::now();
        let mut deadline = Deadline::new(0, start, SECOND * 2, SECOND * 10);
        let times = |now: Instant| RunTimes {
            ran: (now - start) * ran / 10,
            queued: (now - start) * queued / 10,
            is_runnable: false,
        };
        while deadline.extend(times(deadline.at), deadline.at, may_compute) {}
        deadline.at - start
    }

    #[test]
    fn only_time_in_which_a_rank_could_run_counts() {
        for (ran, queued, may_compute, least, most) in [
            (0, 0, true, 2.0, 2.0),
            (0, 5, true, 3.9, 4.0),
            (1, 9, true, 10.0, 120.0),
            (10, 0, false, 2.0, 2.0),
            (10, 0, true, 10.0, 16.0),
            (5, 0, true, 3.9, 4.0),
            (5, 5, true, 10.0, 40.0),
        ] {
            let seconds = lifetime(ran, queued, may_compute).as_secs_f64();
            assert!(
                (least..=most).contains(&seconds),
                "{ran} {queued} {may_compute}: {seconds}"
            );
        }
    }

    #[test]
    fn a_rank_that_was_held_has_the_whole_timeout() {
        let start = Instant::now();
        let mut deadline = Deadline::new(0, start, SECOND * 2, SECOND * 10);
        deadline.restart(start + SECOND * 60);
        assert_eq!(deadline.at, start + SECOND * 62);
        assert_eq!(deadline.latest, start + SECOND * 70);
        // It waits for its first tick on a processor.
        let waits = RunTimes {
            is_runnable: true,
            ..RunTimes::default()
        };
        assert!(!deadline.extend(RunTimes::default(), start + SECOND * 62, false));
        assert!(deadline.extend(waits, start + SECOND * 62, false));
        assert_eq!(deadline.at, start + SECOND * 64);
    }
}
