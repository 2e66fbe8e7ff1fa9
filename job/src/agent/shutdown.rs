//! How the job ends. The root of the tree of agents decides it, from the state of all ranks: it
//! lets ranks that have not called exit join for a time. The other agents apply its decisions.
//!
//! The caller passes the time, so that tests need not wait.
#![forbid(unsafe_code)]

use std::time::Instant;

use super::super::control_block::Phase;
use super::super::options::ExitTimeouts;
use super::super::tree::message::{AgentMessage, RankCounts};

/// Windows in a row in which all running ranks only waited, after which they will not join: after a
/// success, after a failure.
const WINDOWS: (u32, u32) = (4, 1);

/// The last decision, and at the root what the next one follows from.
#[derive(Debug)]
pub struct Shutdown {
    pub phase: Phase,
    /// Exit code of the job, 0 to 255.
    pub code: i32,
    /// Incremented when a rank arrives. Windows observed before do not count then, because others
    /// may follow.
    pub epoch: u32,
    /// When the first rank arrived. At the root only.
    since: Option<Instant>,
    /// A rank was lost: the others get no time to arrive.
    lost: bool,
}

impl Shutdown {
    pub fn new() -> Self {
        Self {
            phase: Phase::Running,
            code: 0,
            epoch: 0,
            since: None,
            lost: false,
        }
    }

    /// The decision, for the agents below.
    pub fn message(&self) -> AgentMessage {
        let Self { phase, code, epoch, .. } = *self;
        AgentMessage::Phase { phase, code, epoch }
    }

    /// A rank is in exit with `code`, or is `lost`. The first code counts, except that a failure
    /// replaces a success until ranks must leave. Whether this is a new decision.
    pub fn arrive(&mut self, code: i32, lost: bool, now: Instant) -> bool {
        if self.phase >= Phase::Leave {
            return false;
        }
        self.phase = Phase::Announced;
        self.since.get_or_insert(now);
        if self.code == 0 {
            self.code = code & 0xff;
        }
        self.lost |= lost;
        self.epoch += 1;
        true
    }

    /// A rank that had announced another code has ended with `code`. At any time, also when ranks
    /// may go: a failure replaces a success.
    pub fn worsen(&mut self, code: i32) {
        if self.code == 0 {
            self.code = code & 0xff;
        }
    }

    /// Decides what follows from the state of `all` ranks. Whether this is a new decision.
    pub fn advance(&mut self, all: RankCounts, timeouts: ExitTimeouts, now: Instant) -> bool {
        // A user examines a rank with a debugger: the others have all their time afterwards.
        if all.held > 0 {
            self.since = self.since.map(|_| now);
        }
        let next = match self.since {
            Some(_) if all.running == 0 => Phase::Go,
            Some(since) if self.lost || self.is_over(all, timeouts, since, now) => Phase::Leave,
            _ => return false,
        };
        let is_new = next > self.phase;
        self.phase = next.max(self.phase);
        is_new
    }

    /// Whether ranks that are not in exit have had enough time.
    ///
    /// A progress thread polls while other threads work. So after a success, a rank that polls and
    /// does not wait has the exit timeout; one that does neither is computing and has more.
    fn is_over(&self, all: RankCounts, timeouts: ExitTimeouts, since: Instant, now: Instant) -> bool {
        let passed = |time| now >= since + time;
        let seen = |times, windows| all.epoch == self.epoch && times >= windows;
        if self.code == 0 {
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

    /// The state of the ranks after these windows of waiting and of idling.
    fn seen(epoch: u32, waiting: u32, idle: u32) -> RankCounts {
        RankCounts {
            running: 3,
            held: 0,
            present: 4,
            epoch,
            waiting,
            idle,
        }
    }

    /// The phase after these arrivals (code, lost), and then this state of the ranks after this
    /// many seconds.
    fn phase(arrivals: &[(i32, bool)], seconds: u64, all: RankCounts) -> Phase {
        let start = Instant::now();
        let mut shutdown = Shutdown::new();
        for &(code, lost) in arrivals {
            assert!(shutdown.arrive(code, lost, start));
        }
        let is_new = shutdown.advance(all, TIMEOUTS, start + Duration::from_secs(seconds));
        assert_eq!(is_new, shutdown.phase == Phase::Leave);
        assert!(!shutdown.advance(all, TIMEOUTS, start) && shutdown.arrive(9, true, start) != is_new);
        shutdown.phase
    }

    #[test]
    fn ranks_have_time_to_join() {
        use Phase::{Announced, Leave};
        let (success, failure, loss) = ((0, false), (4, false), (9, true));
        for (arrivals, seconds, ranks, wanted) in [
            // A success waits for ranks that are busy; pollers have less time than those.
            (&[success][..], 0, seen(1, 3, 9), Announced),
            (&[success], 0, seen(1, 4, 4), Leave),
            (&[success], 10, seen(1, 0, 1), Leave),
            (&[success], 10, seen(1, 0, 0), Announced),
            (&[success], 30, seen(1, 0, 0), Leave),
            // Windows before the last arrival do not count.
            (&[success, success], 10, seen(1, 4, 4), Announced),
            // A failure and a loss wait less.
            (&[success, failure], 0, seen(2, 0, 0), Announced),
            (&[success, failure], 0, seen(2, 0, 1), Leave),
            (&[failure], 1, seen(1, 0, 0), Leave),
            (&[success, loss], 0, seen(0, 0, 0), Leave),
        ] {
            assert_eq!(
                phase(arrivals, seconds, ranks),
                wanted,
                "{arrivals:?} {seconds} {ranks:?}"
            );
        }
    }

    #[test]
    fn ranks_have_all_their_time_after_the_debugger() {
        let (mut shutdown, start) = (Shutdown::new(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let held = |held| RankCounts {
            running: 1,
            held,
            ..RankCounts::default()
        };
        shutdown.arrive(0, false, start);
        assert!(!shutdown.advance(held(1), TIMEOUTS, at(3600)));
        assert!(!shutdown.advance(held(0), TIMEOUTS, at(3629)));
        assert!(shutdown.advance(held(0), TIMEOUTS, at(3630)));
    }

    #[test]
    fn the_first_failure_is_the_code() {
        let (mut shutdown, now) = (Shutdown::new(), Instant::now());
        assert!(!shutdown.advance(RankCounts::default(), TIMEOUTS, now));
        for (code, wanted) in [(0, 0), (259, 3), (4, 3)] {
            assert!(shutdown.arrive(code, false, now));
            assert_eq!(shutdown.code, wanted);
        }
        assert!(shutdown.advance(RankCounts::default(), TIMEOUTS, now));
        assert_eq!(shutdown.phase, Phase::Go);
        assert!(!shutdown.arrive(5, true, now) && shutdown.code == 3);
    }

    #[test]
    fn the_status_of_a_rank_replaces_a_success_at_any_time() {
        for (announced, status, wanted) in [(0, 134, 134), (0, 0, 0), (3, 134, 3)] {
            let (mut shutdown, now) = (Shutdown::new(), Instant::now());
            shutdown.arrive(announced, false, now);
            shutdown.advance(RankCounts::default(), TIMEOUTS, now);
            assert_eq!(shutdown.phase, Phase::Go);
            shutdown.worsen(status);
            assert_eq!(shutdown.code, wanted);
        }
    }
}
