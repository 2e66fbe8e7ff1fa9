//! `--attach`: the ranks of this host in a running job, from the counters in its control block
//! (`gasnet_job::counters`). Neither reads nor stops the processes themselves.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::json;
use crate::waits::{seconds, Doing, Sample, State};
use gasnet_job::counters::{Wait, KINDS};
use gasnet_job::view::{JobView, RankView, ThreadView};
use gasnet_sys::clock::monotonic_ns;

/// Time between two readings, by which ranks that poll differ from those that do not.
const STEP: Duration = Duration::from_millis(100);
/// Names of the kinds of messages, in the order of their counts.
const KIND_NAMES: [&str; KINDS] = [
    "request_short",
    "request_medium",
    "request_long",
    "reply_short",
    "reply_medium",
    "reply_long",
];

/// The options.
#[derive(Debug, Default)]
pub struct Request {
    pid: Option<i32>,
    watch: Option<Duration>,
}

impl Request {
    /// Reads `--attach` or `--watch`. The error is a message.
    pub fn add(&mut self, option: &str, value: Option<&str>) -> Result<(), String> {
        if option == "--attach" {
            let pid = value.and_then(|value| value.parse().ok()).filter(|&pid| pid > 0);
            self.pid = Some(pid.ok_or("--attach needs the number of a process")?);
        } else {
            let period = value
                .unwrap_or("2")
                .parse()
                .ok()
                .filter(|&s: &f64| (0.1..1e6).contains(&s));
            let period = period.ok_or("--watch takes a number of seconds, at least 0.1")?;
            self.watch = Some(Duration::from_secs_f64(period));
        }
        Ok(())
    }

    /// Whether there is one.
    pub fn is_made(&self) -> bool {
        self.pid.is_some() || self.watch.is_some()
    }

    /// Prints the report, or reports until the job has ended.
    pub fn run(&self, json: bool) -> ExitCode {
        let Some(pid) = self.pid else {
            eprintln!("gasnet_info: --watch needs --attach PID");
            return ExitCode::from(2);
        };
        let job = match JobView::of(pid) {
            Ok(job) => job,
            Err(why) => {
                eprintln!("gasnet_info: {why}");
                return ExitCode::FAILURE;
            }
        };
        let mut earlier = read(&job);
        sleep(STEP);
        loop {
            let now = read(&job);
            let states = now.states(&earlier);
            let text = if json {
                as_json(&now, &states)
            } else {
                as_text(&now, &states)
            };
            let mut out = io::stdout();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            let is_over = states.iter().all(|state| state.doing == Doing::Ended);
            match self.watch {
                Some(period) if written.is_ok() && !is_over => sleep(period),
                _ => return ExitCode::SUCCESS,
            }
            earlier = now;
        }
    }
}

fn read(job: &JobView) -> Sample {
    Sample {
        at: monotonic_ns(),
        size: job.size(),
        ranks: job.ranks(),
    }
}

/// A word for a state, for tables and programs.
fn word(doing: Doing) -> String {
    match doing {
        Doing::Ended => "ended".into(),
        Doing::Stopped => "stopped".into(),
        Doing::Frozen => "frozen".into(),
        Doing::InExit => "exit".into(),
        Doing::Uncounted => "uncounted".into(),
        Doing::Exchange => "start".into(),
        Doing::Handles(_, handler) => format!("handler {}", handler.index),
        Doing::Waits(wait) | Doing::WaitsInHandler(_, _, wait) => format!("wait: {}", reason(wait.reason)),
        Doing::Receives => "receives".into(),
        Doing::Polls => "polls".into(),
        Doing::Computes => "computes".into(),
    }
}

fn reason(wait: Wait) -> &'static str {
    match wait {
        Wait::Event => "event",
        Wait::SomeEvent => "some event",
        Wait::AllEvents => "all events",
        Wait::Implicit => "implicit",
        Wait::NamedBarrier => "barrier",
        Wait::RequestRoom => "request room",
        Wait::ReplyRoom => "reply room",
        Wait::Conduit => "conduit",
        Wait::Source => "source",
        Wait::Collective => "collective",
        Wait::Condition => "condition",
    }
}

fn total(rank: &RankView, of: impl Fn(&ThreadView) -> u64) -> u64 {
    rank.threads.iter().map(of).sum()
}

fn as_text(now: &Sample, states: &[State]) -> String {
    let here = now.ranks.len();
    let mut out = format!("Job of {} ranks, {here} of them on this host\n\n", now.size);
    let _ = writeln!(
        out,
        "{:>6} {:>8}  {:<18} {:>8} {:>12} {:>12} {:>14}",
        "rank", "pid", "state", "since", "sent", "received", "polls"
    );
    for (index, rank) in now.ranks.iter().enumerate() {
        let state = states.iter().find(|state| state.rank == index);
        let _ = writeln!(
            out,
            "{:>6} {:>8}  {:<18} {:>8} {:>12} {:>12} {:>14}",
            rank.rank,
            rank.pid,
            state.map_or(String::new(), |state| word(state.doing)),
            state.and_then(|state| state.age).map_or("-".into(), seconds),
            total(rank, |thread| thread.sent.iter().sum()),
            total(rank, |thread| thread.received.iter().sum()),
            total(rank, |thread| thread.polls),
        );
    }
    out += "\nWho waits for whom\n";
    for line in now.descriptions(states) {
        let _ = writeln!(out, "  {line}");
    }
    for cycle in now.cycles(states) {
        let _ = writeln!(out, "  CYCLE: {}", path(&cycle));
    }
    out + "\n"
}

/// `rank 0 -> rank 2 -> rank 0`.
fn path(cycle: &[u32]) -> String {
    let ranks = cycle.iter().chain(cycle.first()).map(|rank| format!("rank {rank}"));
    ranks.collect::<Vec<_>>().join(" -> ")
}

fn as_json(now: &Sample, states: &[State]) -> String {
    let ranks = now.ranks.iter().enumerate().map(|(index, rank)| {
        let states = states.iter().filter(|state| state.rank == index).map(|state| {
            json::object([
                ("state", json::string(&word(state.doing))),
                ("thread", or_null(state.thread)),
                ("nanoseconds", or_null(state.age)),
            ])
        });
        json::object([
            ("rank", rank.rank.to_string()),
            ("pid", rank.pid.to_string()),
            ("states", json::array(states)),
            ("segment_bytes", rank.segment_bytes.to_string()),
            ("threads", json::array(rank.threads.iter().map(thread))),
        ])
    });
    let lines = now.descriptions(states);
    let cycles = now.cycles(states);
    let numbers = |cycle: &Vec<u32>| json::array(cycle.iter().map(u32::to_string));
    json::object([
        ("size", now.size.to_string()),
        ("ranks", json::array(ranks)),
        ("waits", json::array(lines.iter().map(|line| json::string(line)))),
        ("cycles", json::array(cycles.iter().map(numbers))),
    ]) + "\n"
}

fn or_null(number: Option<u64>) -> String {
    number.map_or("null".into(), |number| number.to_string())
}

fn thread(thread: &ThreadView) -> String {
    let kinds = |counts: &[u64]| json::object(KIND_NAMES.iter().zip(counts).map(|(name, n)| (*name, n.to_string())));
    let waits = Wait::ALL
        .iter()
        .map(|&wait| (reason(wait), thread.waits[wait as usize].to_string()));
    json::object([
        ("thread", thread.thread.to_string()),
        ("polls", thread.polls.to_string()),
        ("sent", kinds(&thread.sent)),
        ("received", kinds(&thread.received)),
        ("sent_bytes", thread.bytes[0].to_string()),
        ("received_bytes", thread.bytes[1].to_string()),
        ("refused", thread.refused.to_string()),
        ("waits", json::object(waits)),
        ("collectives", thread.collectives.to_string()),
    ])
}
