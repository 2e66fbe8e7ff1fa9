//! The contents of the files, added up.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};

use super::heap::Heap;
use super::line::{self, Line};
use super::statistics::Statistics;

/// Sums of sizes or times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub count: u64,
    pub total: u64,
    pub least: u64,
    pub most: u64,
}

impl Sums {
    pub fn add(&mut self, value: u64) {
        self.merge(&Self {
            count: 1,
            total: value,
            least: value,
            most: value,
        });
    }

    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.least = if self.count == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.count += other.count;
        self.total = self.total.saturating_add(other.total);
        self.most = self.most.max(other.most);
    }

    #[allow(clippy::cast_precision_loss)] // for display
    pub fn average(&self) -> f64 {
        self.total as f64 / self.count.max(1) as f64
    }
}

/// Classes of traffic, in the order of their numbers.
pub const CLASSES: [&str; 4] = ["put", "get", "am", "atomic"];
const PUT: usize = 0;
const GET: usize = 1;
const AM: usize = 2;
const ATOMIC: usize = 3;

/// Activities of a thread, in the order of their numbers.
pub const STATES: [&str; 9] = [
    "put",
    "get",
    "atomic",
    "message",
    "handler",
    "lock",
    "barrier",
    "collective",
    "wait",
];
/// Waits while a barrier is in progress.
pub const BARRIER: usize = 6;
/// Waits while a collective is in progress.
pub const COLLECTIVE: usize = 7;
pub const WAIT: usize = 8;

/// Identifies a row of a report.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Section: PUT, GET, BARRIER and so on.
    pub section: &'static str,
    /// Index of the source line in [`Model::sources`].
    pub source: u32,
    pub kind: String,
    pub rank: u32,
    /// The peer, for operations that have one.
    pub peer: Option<u32>,
}

/// Start and end, in nanoseconds since the start of the job.
pub type Span = (u64, u64);

#[derive(Debug, Default)]
pub struct Rank {
    /// Whether its START line was read.
    pub started: bool,
    /// Whether its END line was read.
    pub ended: bool,
    pub host: String,
    /// Text of its FATAL line.
    pub fatal: Option<String>,
    /// Events that it could not record.
    pub lost: u64,
    /// When barriers were in progress.
    pub barriers: Vec<Span>,
    /// When other collectives were in progress.
    pub collectives: Vec<Span>,
    /// The end of its last event.
    pub last: u64,
}

/// An event for the Perfetto export.
#[derive(Debug)]
pub struct TraceEvent {
    pub rank: u32,
    /// Thread; 0 for lines about the whole rank.
    pub thread: u32,
    pub at: u64,
    /// Its duration, if it has one.
    pub ns: Option<u64>,
    /// Letter of the category.
    pub letter: char,
    pub name: String,
    /// Number that a _START and its _DONE line share.
    pub id: Option<u64>,
    /// The fields after the name.
    pub words: String,
    /// Index of the source line in [`Model::sources`].
    pub source: u32,
}

/// The contents of all files.
#[derive(Debug, Default)]
pub struct Model {
    /// Ranks that have lines in the files.
    pub ranks: BTreeMap<u32, Rank>,
    pub size: u32,
    pub program: String,
    pub conduit: String,
    /// Wall-clock time of the job's start, in seconds since 1970.
    pub wall: String,
    /// Texts of source lines; index 0 stands for none.
    pub sources: Vec<String>,
    source_numbers: HashMap<String, u32>,
    /// Rows of reports: bytes for transfers and messages, nanoseconds for all others.
    pub rows: HashMap<Key, Sums>,
    /// Duration of transfers and messages, by the same keys.
    pub times: HashMap<Key, Sums>,
    /// Messages and bytes by class, sender and receiver.
    pub matrix: BTreeMap<(usize, u32, u32), [u64; 2]>,
    /// Messages and bytes by class and the lower bound of the size.
    pub sizes: BTreeMap<(usize, u64), [u64; 2]>,
    /// Calls that have a duration, by rank and thread: time spans, and their indices in [`STATES`].
    pub lanes: BTreeMap<(u32, u32), Vec<(Span, u8)>>,
    /// All events, for Perfetto only.
    pub events: Option<Vec<TraceEvent>>,
    /// Whether every skipped line is reported, not only the first ones of a file.
    pub all_warnings: bool,
    /// Lines that were accepted.
    pub lines: u64,
    pub warnings: Vec<String>,
    /// Reports of the debug allocator.
    pub heaps: Vec<Heap>,
    stats: BTreeMap<u32, Statistics>,
}

/// Skipped lines per file that are reported one by one.
const MAX_WARNINGS: u64 = 5;

impl Model {
    /// Empty. Keeps all events if `keep`.
    pub fn new(keep: bool) -> Self {
        let mut model = Self {
            events: keep.then(Vec::new),
            ..Self::default()
        };
        model.source_number("-");
        model
    }

    fn source_number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.source_numbers.get(text) {
            return number;
        }
        let number = self.sources.len() as u32;
        self.sources.push(text.to_owned());
        self.source_numbers.insert(text.to_owned(), number);
        number
    }

    /// Adds a file. The error is a message about the file.
    pub fn read(&mut self, path: &str) -> Result<(), String> {
        let file = File::open(path).map_err(|why| format!("{path}: {why}"))?;
        let mut input = BufReader::with_capacity(1 << 20, file);
        let mut bytes = Vec::new();
        let (mut number, mut bad) = (0_u64, 0_u64);
        let mut in_heap = false;
        loop {
            bytes.clear();
            if input
                .read_until(b'\n', &mut bytes)
                .map_err(|why| format!("{path}: {why}"))?
                == 0
            {
                break;
            }
            number += 1;
            let whole = bytes.last() == Some(&b'\n');
            let text = String::from_utf8_lossy(if whole { &bytes[..bytes.len() - 1] } else { &bytes });
            let read = if whole {
                self.take(&text, &mut in_heap)
            } else {
                Err("it is cut off")
            };
            if let Err(why) = read {
                bad += 1;
                if bad <= MAX_WARNINGS || self.all_warnings {
                    self.warnings.push(format!("{path}:{number}: line skipped: {why}"));
                }
            }
        }
        if bad > MAX_WARNINGS && !self.all_warnings {
            self.warnings
                .push(format!("{path}: {} more lines skipped", bad - MAX_WARNINGS));
        }
        if number == 0 {
            self.warnings.push(format!("{path}: the file is empty"));
        }
        Ok(())
    }

    /// A line of a trace, of statistics, or of a report of the debug allocator. `in_heap`: inside
    /// such a report.
    fn take(&mut self, text: &str, in_heap: &mut bool) -> Result<(), &'static str> {
        if let Some(heap) = Heap::begin(text) {
            self.heaps.push(heap);
            *in_heap = true;
            return Ok(());
        }
        if *in_heap && self.heaps.last_mut().is_some_and(|heap| heap.take(text)) {
            return Ok(());
        }
        line::parse(text).and_then(|line| self.add(&line))
    }

    fn add(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        let ns = line.number("ns");
        self.rank_line(line)?;
        let rank = self.ranks.entry(line.rank).or_default();
        rank.last = rank.last.max(line.at.saturating_add(if line.name.ends_with("_DONE") {
            0
        } else {
            ns.unwrap_or(0)
        }));
        self.lines += 1;
        match line.name {
            "PEER" | "SIZES" | "DUMP" | "STAT" => return self.statistics(line),
            "TOTAL" => return Ok(()),
            _ => {}
        }
        match line.letter {
            'P' => self.transfer(line, PUT, "PUT")?,
            'G' => self.transfer(line, GET, "GET")?,
            'A' => self.message(line)?,
            'R' => self.atomic(line)?,
            'B' => self.barrier(line)?,
            'W' => self.collective(line)?,
            'S' | 'L' => self.sync(line)?,
            _ => {}
        }
        let source = self.source_number(line.source);
        if let Some(events) = &mut self.events {
            events.push(TraceEvent {
                rank: line.rank,
                thread: line.thread.unwrap_or(0),
                at: line.at,
                ns,
                letter: line.letter,
                name: line.name.to_owned(),
                id: line
                    .number("id")
                    .filter(|_| line.name.ends_with("_START") || line.name.ends_with("_DONE")),
                words: line.words().to_owned(),
                source,
            });
        }
        Ok(())
    }

    fn rank_line(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        let ranks = line.number("ranks");
        let rank = self.ranks.entry(line.rank).or_default();
        self.size = self.size.max(line.rank.saturating_add(1));
        match line.name {
            "START" => {
                if line.number("format") != Some(1) {
                    return Err("unknown format number of the file");
                }
                rank.started = true;
                line.get("host").unwrap_or("?").clone_into(&mut rank.host);
                self.size = self.size.max(ranks.and_then(|n| u32::try_from(n).ok()).unwrap_or(0));
                line.get("text").unwrap_or("?").clone_into(&mut self.program);
                line.get("conduit").unwrap_or("?").clone_into(&mut self.conduit);
                line.get("wall").unwrap_or("").clone_into(&mut self.wall);
            }
            "END" => {
                rank.ended = true;
                rank.lost = rank.lost.max(line.number("lost").unwrap_or(0));
            }
            "FATAL" => rank.fatal = line.get("text").map(str::to_owned),
            _ => {}
        }
        Ok(())
    }

    fn row(&mut self, line: &Line<'_>, section: &'static str, kind: &str, peer: Option<u32>) -> Key {
        Key {
            section,
            source: self.source_number(line.source),
            kind: kind.to_owned(),
            rank: line.rank,
            peer,
        }
    }

    fn call(&mut self, line: &Line<'_>, state: usize) {
        if let (Some(ns), Some(thread)) = (line.number("ns"), line.thread) {
            let lane = self.lanes.entry((line.rank, thread)).or_default();
            lane.push(((line.at, line.at.saturating_add(ns)), state as u8));
        }
    }

    fn traffic(&mut self, line: &Line<'_>, class: usize) -> Result<(u32, u64), &'static str> {
        let peer = line.peer()?;
        let bytes = line.number("bytes").ok_or("it has no length")?;
        self.size = self.size.max(peer.saturating_add(1));
        let cell = self.matrix.entry((class, line.rank, peer)).or_default();
        *cell = [cell[0] + 1, cell[1].saturating_add(bytes)];
        let least = if bytes == 0 { 0 } else { 1 << bytes.ilog2() };
        let bar = self.sizes.entry((class, least)).or_default();
        *bar = [bar[0] + 1, bar[1].saturating_add(bytes)];
        Ok((peer, bytes))
    }

    /// Adds a number of bytes, or a time, to a row. `ns`: the time that goes with bytes.
    fn count(&mut self, key: Key, value: u64, ns: Option<u64>) {
        if let Some(ns) = ns {
            self.times.entry(key.clone()).or_default().add(ns);
        }
        self.rows.entry(key).or_default().add(value);
    }

    fn transfer(&mut self, line: &Line<'_>, class: usize, section: &'static str) -> Result<(), &'static str> {
        let (peer, bytes) = self.traffic(line, class)?;
        self.call(line, class);
        let kind = if peer == line.rank { "LOCAL" } else { "GLOBAL" };
        let key = self.row(line, section, kind, Some(peer));
        self.count(key, bytes, line.number("ns"));
        Ok(())
    }

    fn message(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        if line.name.starts_with("RAN_") {
            self.call(line, 4);
            let name = line.get("name").filter(|n| *n != "unnamed");
            let kind = name.map_or_else(
                || format!("handler {}", line.get("handler").unwrap_or("?")),
                str::to_owned,
            );
            let key = self.row(line, "HANDLER", &kind, None);
            self.count(key, line.time()?, None);
            return Ok(());
        }
        let (peer, bytes) = self.traffic(line, AM)?;
        self.call(line, 3);
        let key = self.row(line, "AM", line.name, Some(peer));
        self.count(key, bytes, line.number("ns"));
        Ok(())
    }

    fn atomic(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        let (peer, _) = self.traffic(line, ATOMIC)?;
        self.call(line, 2);
        let kind = format!("{} {}", line.get("op").unwrap_or("?"), line.get("type").unwrap_or("?"));
        let key = self.row(line, "ATOMIC", &kind, Some(peer));
        self.count(key, line.time()?, None);
        Ok(())
    }

    fn barrier(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        match line.name {
            "BARRIER_START" => {}
            "BARRIER_DONE" => {
                let ns = line.time()?;
                let rank = self.ranks.entry(line.rank).or_default();
                rank.barriers.push((line.at.saturating_sub(ns), line.at));
                let key = self.row(line, "BARRIER", "TEAM", None);
                self.count(key, ns, None);
            }
            "BARRIER_WAIT" | "BARRIER_TRY" => {
                let ns = line.time()?;
                self.call(line, BARRIER);
                if line.get("done") == Some("1") {
                    let key = self.row(line, "BARRIER", "WAIT", None);
                    self.count(key, ns, None);
                    let key = self.row(line, "BARRIER", "WAITNOTIFY", None);
                    self.count(key, line.number("since").unwrap_or(0), None);
                }
            }
            _ => self.call(line, BARRIER),
        }
        Ok(())
    }

    fn collective(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        if line.name != "COLL_DONE" {
            return Ok(());
        }
        let ns = line.time()?;
        let rank = self.ranks.entry(line.rank).or_default();
        rank.collectives.push((line.at.saturating_sub(ns), line.at));
        let key = self.row(line, "COLL", line.get("name").unwrap_or("?"), None);
        self.count(key, ns, None);
        Ok(())
    }

    fn sync(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        let ns = line.time()?;
        let (section, state) = if line.letter == 'S' {
            ("SYNC", WAIT)
        } else {
            ("LOCK", 5)
        };
        self.call(line, state);
        let key = self.row(line, section, line.name, None);
        self.count(key, ns, None);
        Ok(())
    }

    fn statistics(&mut self, line: &Line<'_>) -> Result<(), &'static str> {
        if let Some(peer) = self.stats.entry(line.rank).or_default().take(line)? {
            self.size = self.size.max(peer.saturating_add(1));
        }
        Ok(())
    }

    /// Completes the model after the last file. Ranks without traced traffic get it from their
    /// statistics; incomplete ranks get a warning.
    pub fn finish(&mut self) {
        let traced: BTreeSet<u32> = self.rows.keys().map(|key| key.rank).collect();
        self.count_objects();
        for (&rank, statistics) in &self.stats {
            let all = statistics.all();
            if !traced.contains(&rank) {
                for (section, kind, sums) in all.rows() {
                    let key = Key {
                        section,
                        source: 0,
                        kind: kind.to_owned(),
                        rank,
                        peer: None,
                    };
                    self.rows.entry(key).or_default().merge(sums);
                }
            }
            if self.matrix.keys().any(|&(_, from, _)| from == rank) {
                continue;
            }
            for (&(class, peer), &cell) in &all.peers {
                self.matrix.insert((class, rank, peer), cell);
            }
            for (&(class, from), count) in &all.sizes {
                self.sizes.entry((class, from)).or_default()[0] += count;
            }
        }
        for (rank, about) in &self.ranks {
            if let Some(why) = &about.fatal {
                self.warnings.push(format!("rank {rank} ended with an error: {why}"));
            } else if !about.ended {
                self.warnings.push(format!(
                    "rank {rank} has no END line: it was killed, and its last events may be missing"
                ));
            }
            if about.lost > 0 {
                self.warnings
                    .push(format!("rank {rank} could not record {} events", about.lost));
            }
            if !about.started {
                self.warnings.push(format!(
                    "rank {rank} has no START line: the beginning of its trace is missing"
                ));
            }
        }
    }

    /// Makes a row of the memory in use at the end of a process, for each line that allocated it.
    fn count_objects(&mut self) {
        let heaps = std::mem::take(&mut self.heaps);
        for heap in &heaps {
            for (place, sums) in &heap.in_use {
                let key = Key {
                    section: "MALLOC",
                    source: self.source_number(place),
                    kind: "IN_USE".to_owned(),
                    rank: heap.rank,
                    peer: None,
                };
                self.rows.entry(key).or_default().merge(sums);
            }
        }
        self.heaps = heaps;
    }

    /// The time of the last event.
    pub fn span(&self) -> u64 {
        self.ranks.values().map(|r| r.last).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Model {
        let mut model = Model::new(true);
        for line in lines {
            model.add(&line::parse(line).unwrap()).unwrap();
        }
        model.finish();
        model
    }

    #[test]
    fn transfers_fill_matrix_sizes_and_rows() {
        let model = read(&[
            "0:0 0.000000001 [a.c:1] (P) PUT peer=1 bytes=100 ns=5",
            "0:0 0.000000002 [a.c:1] (P) PUT_NB peer=1 bytes=64 ns=7",
            "0:0 0.000000003 [-] (G) GET peer=0 bytes=0 ns=7",
        ]);
        assert_eq!(model.matrix[&(PUT, 0, 1)], [2, 164]);
        assert_eq!(model.matrix[&(GET, 0, 0)], [1, 0]);
        assert_eq!((model.sizes[&(PUT, 64)], model.sizes[&(GET, 0)]), ([2, 164], [1, 0]));
        let row = model.rows.iter().find(|(k, _)| k.section == "PUT").unwrap();
        assert_eq!(
            (row.0.kind.as_str(), row.1.count, row.1.least, row.1.most),
            ("GLOBAL", 2, 64, 100)
        );
        assert_eq!(model.sources[row.0.source as usize], "a.c:1");
        assert_eq!((model.size, model.span()), (2, 10));
    }

    #[test]
    fn statistics_are_added_over_resets_and_not_over_repeats() {
        let dump = |reset: u32, count: u32| {
            [
                format!("3:* 0.000000001 [-] (U) DUMP reset={reset}"),
                format!("3:* 0.000000001 [-] (P) PEER class=put peer=0 count={count} bytes={count}"),
                format!("3:* 0.000000001 [-] (P) SIZES class=put counts=1:{count}"),
            ]
        };
        let lines: Vec<String> = [dump(0, 1), dump(1, 2), dump(0, 10), dump(0, 30)].concat();
        let model = read(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(model.matrix[&(PUT, 3, 0)], [32, 32]);
        assert_eq!(model.sizes[&(PUT, 1)][0], 32);
    }

    #[test]
    fn tables_come_from_statistics_where_nothing_was_traced() {
        let lines = |rank: u32| {
            [
                format!("{rank}:* 0.000000001 [-] (U) DUMP reset=0"),
                format!(
                    "{rank}:* 0.000000001 [-] (P) STAT kind=PUT_NB count=3 bytes=12 bytes_min=2 bytes_max=6 \
                     bytes_avg=4.0 ns=9 ns_min=1 ns_max=5"
                ),
                format!("{rank}:* 0.000000001 [-] (W) STAT kind=COLL_START count=2"),
                format!(
                    "{rank}:* 0.000000001 [-] (W) STAT kind=COLL_DONE count=2 ns=30 ns_min=10 ns_max=20 ns_avg=15.0"
                ),
                format!(
                    "{rank}:* 0.000000001 [-] (A) STAT kind=RAN_REQUEST_SHORT count=1 ns=7 ns_min=7 ns_max=7 ns_avg=7.0"
                ),
            ]
        };
        let mut all: Vec<String> = [lines(0), lines(1)].concat();
        all.push("1:0 0.000000002 [-] (P) PUT peer=0 bytes=5 ns=1".to_owned());
        let model = read(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let mut rows: Vec<_> = model
            .rows
            .iter()
            .map(|(k, s)| (k.rank, k.section, k.kind.as_str(), s.count, s.least, s.most, s.total))
            .collect();
        rows.sort_unstable();
        assert_eq!(
            rows,
            [
                (0, "COLL", "COLL_DONE", 2, 10, 20, 30),
                (0, "HANDLER", "RAN_REQUEST_SHORT", 1, 7, 7, 7),
                (0, "PUT", "PUT_NB", 3, 2, 6, 12),
                (1, "PUT", "GLOBAL", 1, 5, 5, 5),
            ]
        );
    }

    #[test]
    fn killed_ranks_get_a_warning() {
        let model = read(&[
            "1:* 0.000000001 [-] (U) START format=1 ranks=2 text=x",
            "1:0 0.000000002 [-] (S) WAIT ns=4",
        ]);
        assert!(
            model.warnings[0].contains("rank 1 has no END line"),
            "{:?}",
            model.warnings
        );
        assert!(model.ranks[&1].started && model.size == 2);
    }
}
