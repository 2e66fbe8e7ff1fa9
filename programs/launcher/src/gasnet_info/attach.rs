//! `--attach`: the ranks of a running job, from the counters in its control blocks
//! (`gasnet_job::counters`). Neither reads nor stops the processes themselves.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::ops::Range;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use crate::{json, metrics, picture};
use gasnet_job::attach::JobView;
use gasnet_job::counters::{group_shift, words, Wait, KINDS, ONE_SIDED};
use gasnet_job::view::{RankView, ThreadView, TrafficView};
use gasnet_job::waits::{named, path, seconds, Doing, Sample, State};

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

/// Those with payloads.
const PAYLOAD_NAMES: [&str; 2] = ["medium", "long"];
/// Names of the kinds of one-sided operations, likewise.
const ONE_SIDED_NAMES: [&str; ONE_SIDED] = ["put", "get", "atomic"];
/// Counts of traffic: name, names of their kinds, and where they are.
pub const TRAFFIC: [(&str, &[&str], Range<usize>); 6] = [
    ("sent", &KIND_NAMES, words::SENT),
    ("sent_bytes", &PAYLOAD_NAMES, words::SENT_BYTES),
    ("received", &KIND_NAMES, words::RECEIVED),
    ("received_bytes", &PAYLOAD_NAMES, words::RECEIVED_BYTES),
    ("one_sided", &ONE_SIDED_NAMES, words::ACCESSES),
    ("one_sided_bytes", &ONE_SIDED_NAMES, words::ACCESS_BYTES),
];
/// Names of the samples of a thread, in their order.
pub const SAMPLE_NAMES: [&str; 3] = ["handler", "wait", "other"];
/// Pairs of ranks with most messages that the report lists.
const PAIRS: usize = 10;

/// The options.
#[derive(Debug, Default)]
pub struct Request {
    job: Option<Wanted>,
    watch: Option<Duration>,
}

/// A job.
#[derive(Debug)]
enum Wanted {
    /// Of this process, or one below it.
    Process(i32),
    /// Of the program with this name.
    Program(String),
}

/// The form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Json,
    Prometheus,
    Html,
}

impl Request {
    /// Reads `--attach` or `--watch`. The error is a message.
    pub fn add(&mut self, option: &str, value: Option<&str>) -> Result<(), String> {
        if option == "--attach" {
            let value = value.unwrap_or_default();
            let name = value.rsplit('/').next().unwrap_or_default();
            self.job = Some(match value.parse::<i32>() {
                Ok(pid) if pid > 0 => Wanted::Process(pid),
                Err(_) if !name.is_empty() => Wanted::Program(name.into()),
                _ => return Err("--attach needs the number of a process, or the name of a program".into()),
            });
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
        self.job.is_some() || self.watch.is_some()
    }

    /// Prints the report, or reports until the job has ended.
    pub fn run(&self, form: Form) -> ExitCode {
        let Some(wanted) = &self.job else {
            let option = match form {
                Form::Prometheus => "--prometheus",
                Form::Html => "--html",
                Form::Text | Form::Json => "--watch",
            };
            eprintln!("gasnet_info: {option} needs --attach PID or PROGRAM");
            return ExitCode::from(2);
        };
        let found = match wanted {
            Wanted::Process(pid) => JobView::of(*pid),
            Wanted::Program(name) => JobView::of_program(name),
        };
        let job = match found {
            Ok(job) => job,
            Err(why) => {
                eprintln!("gasnet_info: {why}");
                return ExitCode::FAILURE;
            }
        };
        let mut earlier = Sample::read(&job);
        sleep(STEP);
        loop {
            let now = Sample::read(&job);
            let states = now.states(&earlier);
            let text = match form {
                Form::Text => as_text(&now, &states, &earlier),
                Form::Json => as_json(&now, &states, &earlier),
                Form::Prometheus => metrics::of(&now, &states),
                Form::Html => picture::of(&now, &states, &earlier),
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

/// The share of seconds in which the threads of a rank were seen doing this, an index in
/// [`SAMPLE_NAMES`].
pub fn share(rank: &RankView, doing: usize) -> String {
    match total(rank, |thread| thread.samples.iter().sum()) {
        0 => "-".into(),
        all => format!("{} %", total(rank, |thread| thread.samples[doing]) * 100 / all),
    }
}

fn as_text(now: &Sample, states: &[State], earlier: &Sample) -> String {
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
        "{:>6}  {}{:>8}  {:<18} {:>8} {:>12} {:>12} {:>10} {:>8} {:>6}",
        "rank",
        host("host"),
        "pid",
        "state",
        "since",
        "sent",
        "received",
        "polls/s",
        "handlers",
        "waits"
    );
    for (index, rank) in ranks.iter().enumerate() {
        let state = states.iter().find(|state| state.rank == index);
        let _ = writeln!(
            out,
            "{:>6}  {}{:>8}  {:<18} {:>8} {:>12} {:>12} {:>10} {:>8} {:>6}",
            rank.rank,
            host(&rank.host),
            rank.pid,
            state.map_or(String::new(), |state| word(state.doing)),
            state.and_then(|state| state.age).map_or("-".into(), seconds),
            total(rank, |thread| thread.traffic.sum(words::SENT)),
            total(rank, |thread| thread.traffic.sum(words::RECEIVED)),
            now.poll_rate(earlier, rank),
            share(rank, 0),
            share(rank, 1),
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
    let unhandled = now.unhandled();
    if !unhandled.is_empty() {
        out += "\nMessages sent and not yet handled\n";
    }
    for (from, to, count) in unhandled.iter().take(PAIRS) {
        let _ = writeln!(out, "  rank {from} -> rank {to}: {count}");
    }
    out + "\n"
}

fn as_json(now: &Sample, states: &[State], earlier: &Sample) -> String {
    let ranks = now.reading.ranks.iter().enumerate().map(|(index, rank)| {
        let states = states.iter().filter(|state| state.rank == index).map(|state| {
            json::object([
                ("state", json::string(&word(state.doing))),
                ("thread", or_null(state.thread)),
                ("nanoseconds", or_null(state.age)),
                ("waits_for", numbers(&now.waited_for(state))),
            ])
        });
        json::object([
            ("rank", rank.rank.to_string()),
            ("host", json::string(&rank.host)),
            ("pid", rank.pid.to_string()),
            ("states", json::array(states)),
            ("polls_per_second", now.poll_rate(earlier, rank).to_string()),
            ("segment_bytes", rank.segment_bytes.to_string()),
            ("connections", rank.connections.to_string()),
            ("retransmissions", rank.retransmissions.to_string()),
            (
                "connecting",
                rank.connecting.map_or("null".into(), |to| connecting(now, to)),
            ),
            (
                "memory",
                json::object(rank.memory.iter().map(|(name, bytes)| (name, bytes.to_string()))),
            ),
            ("threads", json::array(rank.threads.iter().map(thread))),
            ("peers", json::array(peers(now.size, rank))),
        ])
    });
    let lines = now.descriptions(states);
    let cycles = now.cycles(states);
    let unhandled = now.unhandled().into_iter().map(|(from, to, count)| {
        json::object([
            ("from", from.to_string()),
            ("to", to.to_string()),
            ("messages", count.to_string()),
        ])
    });
    json::object([
        ("size", now.size.to_string()),
        ("silent", numbers(&now.silent())),
        ("ranks", json::array(ranks)),
        ("waits", json::array(lines.iter().map(|line| json::string(line)))),
        ("cycles", json::array(cycles.iter().map(|cycle| numbers(cycle)))),
        ("unhandled", json::array(unhandled)),
    ]) + "\n"
}

fn numbers(ranks: &[u32]) -> String {
    json::array(ranks.iter().map(u32::to_string))
}

fn connecting(now: &Sample, (peer, since): (u32, u64)) -> String {
    json::object([("to", peer.to_string()), ("nanoseconds", or_null(now.age(since)))])
}

fn or_null(number: Option<u64>) -> String {
    number.map_or("null".into(), |number| number.to_string())
}

fn counted(names: &[&'static str], counts: &[u64]) -> String {
    json::object(names.iter().zip(counts).map(|(name, n)| (*name, n.to_string())))
}

fn traffic(traffic: &TrafficView) -> [(&'static str, String); 6] {
    TRAFFIC.map(|(name, kinds, counts)| (name, counted(kinds, &traffic.0[counts])))
}

/// The peers of a rank: each has the first and last rank of its group.
fn peers(size: u32, rank: &RankView) -> impl Iterator<Item = String> + '_ {
    rank.peers.iter().map(move |peer| {
        let ranks = json::array(group(size, peer.group).map(|rank| rank.to_string()));
        json::object([("ranks", ranks)].into_iter().chain(traffic(&peer.traffic)))
    })
}

/// The first and the last rank of a group of peers.
pub fn group(size: u32, group: u32) -> [u32; 2] {
    let shift = group_shift(size);
    let first = group << shift;
    [first, (first | ((1 << shift) - 1)).min(size - 1)]
}

fn thread(thread: &ThreadView) -> String {
    let waits = Wait::ALL
        .iter()
        .map(|&wait| (reason(wait), thread.waits[wait as usize].to_string()));
    let own = [
        ("thread", thread.thread.to_string()),
        ("polls", thread.polls.to_string()),
        ("refused", thread.refused.to_string()),
        ("waits", json::object(waits)),
        ("collectives", thread.collectives.to_string()),
        ("samples", counted(&SAMPLE_NAMES, &thread.samples)),
    ];
    json::object(own.into_iter().chain(traffic(&thread.traffic)))
}
