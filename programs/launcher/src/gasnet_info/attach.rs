//! `--attach`: the ranks of a running job, from the counters in its control blocks
//! (`gasnet_job::counters`). Neither reads nor stops the processes themselves.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::waits::{named, seconds, Doing, Sample, State};
use crate::{json, metrics};
use gasnet_job::attach::JobView;
use gasnet_job::counters::{Wait, KINDS, ONE_SIDED};
use gasnet_job::view::{RankView, ThreadView};

/// Time between two readings, by which ranks that poll differ from those that do not.
const STEP: Duration = Duration::from_millis(100);
/// Names of the kinds of messages, in the order of their counts.
pub const KIND_NAMES: [&str; KINDS] = [
    "request_short",
    "request_medium",
    "request_long",
    "reply_short",
    "reply_medium",
    "reply_long",
];

/// Names of the kinds of one-sided operations, likewise.
pub const ONE_SIDED_NAMES: [&str; ONE_SIDED] = ["put", "get", "atomic"];

/// The options.
#[derive(Debug, Default)]
pub struct Request {
    pid: Option<i32>,
    watch: Option<Duration>,
}

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Prometheus,
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
    pub fn run(&self, form: Form) -> ExitCode {
        let Some(pid) = self.pid else {
            let option = if form == Form::Prometheus {
                "--prometheus"
            } else {
                "--watch"
            };
            eprintln!("gasnet_info: {option} needs --attach PID");
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
            let text = match form {
                Form::Text => as_text(&now, &states),
                Form::Json => as_json(&now, &states),
                Form::Prometheus => metrics::of(&now, &states),
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
        size: job.size(),
        reading: job.read(),
    }
}

/// A word for a state, for tables and programs.
pub fn word(doing: Doing) -> String {
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

pub fn reason(wait: Wait) -> &'static str {
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

pub fn total(rank: &RankView, of: impl Fn(&ThreadView) -> u64) -> u64 {
    rank.threads.iter().map(of).sum()
}

fn as_text(now: &Sample, states: &[State]) -> String {
    let ranks = &now.reading.ranks;
    let hosts: BTreeSet<_> = ranks.iter().map(|rank| &rank.host).collect();
    let mut out = format!("Job of {} ranks", now.size);
    let _ = match (hosts.len(), now.reading.is_of_all) {
        (count, true) => writeln!(out, " on {count} hosts\n"),
        _ => writeln!(out, ", {} of them on this host\n", ranks.len()),
    };
    let longest = hosts.iter().map(|host| host.len()).max().unwrap_or(0).max(4);
    // The hosts are a column if there are several.
    let host = |name: &str| {
        if hosts.len() > 1 {
            format!("{name:<longest$}  ")
        } else {
            String::new()
        }
    };
    let _ = writeln!(
        out,
        "{:>6}  {}{:>8}  {:<18} {:>8} {:>12} {:>12} {:>14}",
        "rank",
        host("host"),
        "pid",
        "state",
        "since",
        "sent",
        "received",
        "polls"
    );
    for (index, rank) in ranks.iter().enumerate() {
        let state = states.iter().find(|state| state.rank == index);
        let _ = writeln!(
            out,
            "{:>6}  {}{:>8}  {:<18} {:>8} {:>12} {:>12} {:>14}",
            rank.rank,
            host(&rank.host),
            rank.pid,
            state.map_or(String::new(), |state| word(state.doing)),
            state.and_then(|state| state.age).map_or("-".into(), seconds),
            total(rank, |thread| thread.sent.iter().sum()),
            total(rank, |thread| thread.received.iter().sum()),
            total(rank, |thread| thread.polls),
        );
    }
    let silent = now.silent();
    if !silent.is_empty() {
        let _ = writeln!(out, "\nNo answer from the hosts of {}", named(&silent));
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
    let ranks = now.reading.ranks.iter().enumerate().map(|(index, rank)| {
        let states = states.iter().filter(|state| state.rank == index).map(|state| {
            json::object([
                ("state", json::string(&word(state.doing))),
                ("thread", or_null(state.thread)),
                ("nanoseconds", or_null(state.age)),
            ])
        });
        json::object([
            ("rank", rank.rank.to_string()),
            ("host", json::string(&rank.host)),
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
        ("silent", json::array(now.silent().iter().map(u32::to_string))),
        ("ranks", json::array(ranks)),
        ("waits", json::array(lines.iter().map(|line| json::string(line)))),
        ("cycles", json::array(cycles.iter().map(numbers))),
    ]) + "\n"
}

fn or_null(number: Option<u64>) -> String {
    number.map_or("null".into(), |number| number.to_string())
}

fn thread(thread: &ThreadView) -> String {
    let named = |names: &[&'static str], counts: &[u64]| {
        json::object(names.iter().zip(counts).map(|(name, n)| (*name, n.to_string())))
    };
    let waits = Wait::ALL
        .iter()
        .map(|&wait| (reason(wait), thread.waits[wait as usize].to_string()));
    json::object([
        ("thread", thread.thread.to_string()),
        ("polls", thread.polls.to_string()),
        ("sent", named(&KIND_NAMES, &thread.sent)),
        ("received", named(&KIND_NAMES, &thread.received)),
        ("sent_bytes", thread.bytes[0].to_string()),
        ("received_bytes", thread.bytes[1].to_string()),
        ("one_sided", named(&ONE_SIDED_NAMES, &thread.one_sided)),
        ("one_sided_bytes", named(&ONE_SIDED_NAMES, &thread.one_sided_bytes)),
        ("refused", thread.refused.to_string()),
        ("waits", json::object(waits)),
        ("collectives", thread.collectives.to_string()),
    ])
}
