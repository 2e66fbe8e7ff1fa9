//! The stall watchdog (`GASNET_STALL_TIMEOUT`). A rank that waits inside GASNet for longer than
//! that without progress reports, once, what it waits for, and reports when it makes progress
//! again.
//!
//! There is no watchdog thread: every blocking loop goes through [`crate::wait`], which calls
//! [`Watch::idle`]. Time counts in steps of at most [`MAX_STEP`], so a stopped process does not
//! count as waiting. While another rank of the job is stopped, or frozen for a debugger, no rank is
//! stalled.
//!
//! A report takes two idle iterations. In the first, pending operations that are polled add notes
//! about what they miss ([`note`]); the second prints them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use gasnet_tools::process::{print_line, Label};

use crate::event::{Event, Op};
use gasnet_conduit::{Class, JobRank};
use gasnet_job::counters::{Wait, WaitWord};
use gasnet_job::{waits, Job};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::process::pid;

/// The reason for a wait.
#[derive(Clone, Copy, Debug)]
pub enum Reason {
    /// Completion of an event.
    Event(Event),
    /// Completion of one of an array of this many events, the first open one of which is this.
    SomeEvent(usize, Event),
    /// Completion of all of an array of this many events, the first open one of which is this.
    AllEvents(usize, Event),
    /// Completion of this thread's implicit operations of these categories.
    Implicit(&'static Op, usize),
    /// The GASNet-1 barrier.
    NamedBarrier,
    /// Room for a message.
    Room(Class, JobRank),
    /// Room for a transfer or an atomic in the conduit.
    Conduit(JobRank),
    /// Local completion of a put.
    Source(JobRank),
    /// A blocking collective; the type name of its algorithm.
    Collective(&'static str),
    /// A client's condition (`GASNET_BLOCKUNTIL`).
    Condition,
}

impl Reason {
    /// Its kind, which is counted.
    #[inline]
    pub fn kind(&self) -> Wait {
        match self {
            Self::Event(_) => Wait::Event,
            Self::SomeEvent(..) => Wait::SomeEvent,
            Self::AllEvents(..) => Wait::AllEvents,
            Self::Implicit(..) => Wait::Implicit,
            Self::NamedBarrier => Wait::NamedBarrier,
            Self::Room(Class::Request, _) => Wait::RequestRoom,
            Self::Room(Class::Reply, _) => Wait::ReplyRoom,
            Self::Conduit(_) => Wait::Conduit,
            Self::Source(_) => Wait::Source,
            Self::Collective(_) => Wait::Collective,
            Self::Condition => Wait::Condition,
        }
    }

    /// The reason as other processes read it. `in_handler`: of a thread that runs a handler.
    pub fn word(&self, in_handler: bool) -> WaitWord {
        let (peer, work) = match *self {
            Self::Room(_, rank) | Self::Conduit(rank) | Self::Source(rank) => (Some(rank), 0),
            Self::Event(event) | Self::SomeEvent(_, event) | Self::AllEvents(_, event) => event.outstanding(),
            Self::Implicit(op, mask) => op.outstanding(mask),
            Self::NamedBarrier | Self::Collective(_) | Self::Condition => (None, 0),
        };
        WaitWord {
            reason: self.kind(),
            in_handler,
            peer: peer.map(|rank| rank.0),
            work,
        }
    }
}

/// The timeout in nanoseconds; 0 for none.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// Whether notes are collected in this iteration.
static COLLECTING: AtomicBool = AtomicBool::new(false);
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Maximum time that one iteration counts. A longer gap means that the process was stopped.
const MAX_STEP: Duration = Duration::from_millis(100);
/// Checks per timeout for stopped ranks. If a rank was stopped and is running again, at most one
/// such part of the timeout counts.
const STOP_CHECKS: u32 = 8;
/// Maximum notes in a report.
const MAX_NOTES: usize = 8;

/// Functions of higher modules that a report needs.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Describes the reason for a wait.
    pub describe: fn(Reason) -> String,
    /// Makes the next poll run everything that adds notes.
    pub request_poll: fn(),
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Registers the hooks, when the runtime is complete. Before that, waits are not watched.
pub fn set_hooks(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
}

/// Sets the timeout in seconds; 0 for none.
pub fn set_limit(seconds: f64) {
    LIMIT.store(Duration::from_secs_f64(seconds).as_nanos() as u64, Ordering::Relaxed);
}

/// Whether waits are watched. Costs one load.
#[inline]
pub fn is_watching() -> bool {
    LIMIT.load(Ordering::Relaxed) != 0
}

/// Whether pending operations should add notes.
#[inline]
pub fn is_collecting() -> bool {
    COLLECTING.load(Ordering::Relaxed)
}

/// Adds a note about what is missing, if notes are collected.
pub fn note(text: impl FnOnce() -> String) {
    if is_collecting() {
        let text = text();
        let mut notes = gasnet_sys::lock(&NOTES);
        if notes.len() < MAX_NOTES && !notes.contains(&text) {
            notes.push(text);
        }
    }
}

/// The state of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Below the timeout.
    Quiet,
    /// At the timeout: notes are collected.
    Collecting,
    /// Reported.
    Reported,
}

/// The current wait of a thread.
#[derive(Debug)]
pub struct Watch {
    /// The last iteration of the wait, if there is one.
    last: Cell<Option<Instant>>,
    waited: Cell<Duration>,
    /// The value of `waited` at the last check for stopped ranks.
    checked: Cell<Duration>,
    state: Cell<State>,
}

impl Watch {
    /// Not waiting.
    pub const fn new() -> Self {
        Self {
            last: Cell::new(None),
            waited: Cell::new(Duration::ZERO),
            checked: Cell::new(Duration::ZERO),
            state: Cell::new(State::Quiet),
        }
    }

    /// The wait has ended or made progress: restarts the clock.
    pub fn progress(&self) {
        if self.state.get() == State::Reported {
            if let Some(job) = gasnet_job::current() {
                job.end_report();
            }
            let _held = gasnet_sys::float::hold();
            print_line(format_args!(
                "*** STALL ({Label}): resumed after {:.1} s",
                self.waited.get().as_secs_f64()
            ));
        }
        self.last.set(None);
        self.restart();
        self.state.set(State::Quiet);
    }

    fn restart(&self) {
        self.waited.set(Duration::ZERO);
        self.checked.set(Duration::ZERO);
    }

    /// Counts an idle iteration. Returns whether to report now.
    fn tick(&self, limit: Duration) -> bool {
        let now = Instant::now();
        let step = self.last.replace(Some(now)).map_or(Duration::ZERO, |last| now - last);
        self.waited.set(self.waited.get() + step.min(MAX_STEP));
        match self.state.get() {
            State::Quiet if self.waited.get() >= self.checked.get() + limit / STOP_CHECKS => {
                self.checked.set(self.waited.get());
                if somebody_is_stopped() {
                    self.restart();
                } else if self.waited.get() >= limit {
                    self.state.set(State::Collecting);
                    gasnet_sys::lock(&NOTES).clear();
                    COLLECTING.store(true, Ordering::Relaxed);
                    if let Some(hooks) = HOOKS.get() {
                        (hooks.request_poll)();
                    }
                }
                false
            }
            State::Collecting => {
                COLLECTING.store(false, Ordering::Relaxed);
                self.state.set(State::Reported);
                true
            }
            State::Quiet | State::Reported => false,
        }
    }

    /// An idle iteration of a wait inside GASNet.
    #[cold]
    pub fn idle(&self, reason: Reason) {
        let Some(hooks) = HOOKS.get() else { return };
        if self.tick(Duration::from_nanos(LIMIT.load(Ordering::Relaxed))) {
            self.report(&(hooks.describe)(reason));
        }
    }

    /// An idle iteration of a rank that has called exit.
    #[cold]
    fn idle_in_exit(&self, job: &Job) {
        if self.tick(Duration::from_nanos(LIMIT.load(Ordering::Relaxed))) {
            let ranks: Vec<JobRank> = job.not_in_exit().into_iter().map(JobRank).collect();
            let missing = list(&ranks);
            self.report(&format!("the end of the job: {missing} not called gasnet_exit"));
        }
    }

    /// Prints what this rank waits for. One rank of the host adds the waits of all.
    fn report(&self, waits_for: &str) {
        let all = gasnet_job::current()
            .filter(|job| job.begin_report())
            .map(waits::of_this_job);
        let _held = gasnet_sys::float::hold();
        print_line(format_args!(
            "*** STALL ({Label}): no progress for {:.1} s. Waits for {waits_for}. Other ranks: gasnet_info --attach {}",
            self.waited.get().as_secs_f64(),
            pid()
        ));
        gasnet_tools::backtrace::print_if_enabled(2);
        for line in all.into_iter().flatten() {
            print_line(format_args!("*** STALL ({Label}): {line}"));
        }
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

/// Called when a rank that has called exit finds that others have not. Only by the last thread of
/// the process.
pub fn waits_in_exit(job: &Job) {
    thread_local! {
        static WATCH: Watch = const { Watch::new() };
    }
    if is_watching() {
        WATCH.with(|watch| watch.idle_in_exit(job));
    }
}

fn somebody_is_stopped() -> bool {
    gasnet_job::current().is_some_and(Job::any_rank_is_stopped)
}

/// `rank 3 has`, `ranks 1, 3-5 have`, `no rank has`.
pub fn list(ranks: &[JobRank]) -> String {
    let mut parts: Vec<(JobRank, JobRank)> = Vec::new();
    for &rank in ranks {
        match parts.last_mut() {
            Some((_, last)) if last.0 + 1 == rank.0 => *last = rank,
            _ => parts.push((rank, rank)),
        }
    }
    let parts: Vec<String> = parts
        .iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    match ranks {
        [] => "no rank has".into(),
        [one] => format!("rank {one} has"),
        _ => format!("ranks {} have", parts.join(", ")),
    }
}

/// Takes the collected notes, each with a leading separator.
pub fn notes() -> String {
    let notes = std::mem::take(&mut *gasnet_sys::lock(&NOTES));
    notes.iter().fold(String::new(), |text, note| text + "; " + note)
}

/// The name of an algorithm, from its type name: `gasnet::coll::reduce::to_all::{{closure}}` is
/// `reduce::to_all`.
pub fn algorithm(type_name: &str) -> &str {
    let path = type_name.split("::{{").next().unwrap_or(type_name);
    path.rsplit_once("coll::").map_or(path, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranks() {
        assert_eq!(list(&[]), "no rank has");
        assert_eq!(list(&[JobRank(3)]), "rank 3 has");
        assert_eq!(list(&[1, 3, 4, 5, 9].map(JobRank)), "ranks 1, 3-5, 9 have");
    }

    #[test]
    fn names_of_algorithms() {
        assert_eq!(algorithm("gasnet::coll::reduce::to_all::{{closure}}"), "reduce::to_all");
        assert_eq!(
            algorithm("gasnet::coll::team_barrier::barrier::{{closure}}"),
            "team_barrier::barrier"
        );
        assert_eq!(algorithm("x"), "x");
    }

    #[test]
    fn time_counts_in_short_steps_and_restarts() {
        let watch = Watch::new();
        let limit = Duration::from_millis(250);
        let long_ago = || watch.last.set(Instant::now().checked_sub(Duration::from_secs(2)));
        assert!(!watch.tick(limit) && watch.waited.get() < limit);
        for _ in 0..2 {
            long_ago();
            assert!(!watch.tick(limit) && watch.state.get() == State::Quiet);
        }
        watch.progress();
        assert_eq!(watch.waited.get(), Duration::ZERO);
        for _ in 0..3 {
            long_ago();
            assert!(!watch.tick(limit));
        }
        assert_eq!(watch.state.get(), State::Collecting);
        assert!(watch.tick(limit) && !watch.tick(limit));
    }
}
