//! Tracing and statistics (README, "GASNet tracing & statistical collection"; README-tools,
//! "Trace/Stats support"). `docs/tracing.md` describes the files.
//!
//! Both are in every build, and off unless `GASNET_TRACEFILE` or `GASNET_STATSFILE` names a file. A
//! call that may be recorded first checks [`wants`] or [`clock`], which is one relaxed load;
//! everything else is out of line. While [`is_on`], teams disable the fast path that clients
//! inline, so that its operations are recorded, too.
//!
//! `GASNET_RECORD` has the same calls recorded in a binary form ([`recorder`]).
//!
//! [`kinds`]: categories and kinds of events; [`log`]: the buffer and counters of each thread;
//! [`sink`]: the files; [`stats`]: the summary; [`source`]: source lines of the client;
//! [`interval`]: operations that begin in one call and end in another.

pub mod counters;
pub mod interval;
pub mod kinds;
pub mod log;
pub mod recorder;
pub mod sink;
pub mod source;
pub mod stats;

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use gasnet_conduit::config::{self, Config};
use gasnet_conduit::JobRank;
use gasnet_job::Job;
pub use gasnet_tools::timer::monotonic_ns;
use kinds::parse_mask;
pub use kinds::{EventKind, TraceCategory};
use log::State;
use sink::TraceSink;
use source::Source;

/// Categories that the trace, the statistics or a recording contain. 0 while all are off.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Those of the trace or the statistics.
static LINES: AtomicU32 = AtomicU32::new(0);
/// Categories of a recording.
const RECORDED: u32 = TraceCategory::Get as u32
    | TraceCategory::Put as u32
    | TraceCategory::Atomic as u32
    | TraceCategory::Sync as u32
    | TraceCategory::Collective as u32
    | TraceCategory::Barrier as u32
    | TraceCategory::Message as u32
    | TraceCategory::Poll as u32;
/// Time of an event that only a recording contains, which has a clock of its own.
const UNTIMED: u64 = 1;
/// The masks as the client set them, with or without a file.
static TRACE_MASK: AtomicU32 = AtomicU32::new(0);
static STATS_MASK: AtomicU32 = AtomicU32::new(0);
/// Whether puts and gets of a rank to itself are traced.
static TRACE_LOCAL: AtomicBool = AtomicBool::new(true);
/// Whether every line is written immediately.
static FLUSH: AtomicBool = AtomicBool::new(false);
/// The start of the job on this host's monotonic clock, in nanoseconds.
static EPOCH: AtomicU64 = AtomicU64::new(0);
static RANK: AtomicU32 = AtomicU32::new(0);
static TRACE: OnceLock<TraceSink> = OnceLock::new();
static STATS: OnceLock<TraceSink> = OnceLock::new();
static STOPPED: AtomicBool = AtomicBool::new(false);

/// An event to record.
#[derive(Clone, Copy, Debug)]
pub struct TraceEvent<'a> {
    /// Its kind.
    pub kind: EventKind,
    /// Its start on the monotonic clock, in nanoseconds.
    pub at: u64,
    /// Its duration, in nanoseconds.
    pub ns: Option<u64>,
    /// Job rank of the peer.
    pub peer: Option<JobRank>,
    /// Length of the payload.
    pub bytes: Option<usize>,
    /// Source line of the client, if it is not the current one of the calling thread.
    pub source: Option<Source>,
    /// Further `key=value` fields, each after a space.
    pub words: fmt::Arguments<'a>,
    /// Fields for masks with D.
    pub details: fmt::Arguments<'a>,
}

impl<'a> TraceEvent<'a> {
    /// An event that began at `at`, without further fields.
    pub fn new(kind: EventKind, at: u64) -> Self {
        Self {
            kind,
            at,
            ns: None,
            peer: None,
            bytes: None,
            source: None,
            words: format_args!(""),
            details: format_args!(""),
        }
    }

    /// Adds a peer and a length.
    #[must_use]
    pub fn to(self, peer: JobRank, bytes: usize) -> Self {
        Self {
            peer: Some(peer),
            bytes: Some(bytes),
            ..self
        }
    }

    /// Adds the duration from its start to now.
    #[must_use]
    pub fn until_now(self) -> Self {
        Self {
            ns: Some(monotonic_ns().saturating_sub(self.at)),
            ..self
        }
    }

    /// Adds fields, each after a space.
    #[must_use]
    pub fn with_fields(self, words: fmt::Arguments<'a>) -> Self {
        Self { words, ..self }
    }

    /// Adds fields for masks with D.
    #[must_use]
    pub fn with_details(self, details: fmt::Arguments<'a>) -> Self {
        Self { details, ..self }
    }
}

/// Whether events of `category` are recorded.
#[inline]
pub fn wants(category: TraceCategory) -> bool {
    WANTED.load(Ordering::Relaxed) & category as u32 != 0
}

/// Whether the trace or the statistics contain events of `category`.
pub fn has_lines(category: TraceCategory) -> bool {
    LINES.load(Ordering::Relaxed) & category as u32 != 0
}

/// The time if events of `category` are recorded, otherwise 0.
#[inline]
pub fn clock(category: TraceCategory) -> u64 {
    if wants(category) {
        now(category)
    } else {
        0
    }
}

/// Whether an event that began at `began`, by [`clock`], has a line in the trace or statistics.
#[inline]
pub fn is_timed(began: u64) -> bool {
    began > UNTIMED
}

/// Reads the clock; out of line, because it is rarely needed.
#[cold]
#[inline(never)]
fn now(category: TraceCategory) -> u64 {
    if has_lines(category) {
        monotonic_ns()
    } else {
        UNTIMED
    }
}

/// Whether this rank has a trace or statistics.
fn has_files() -> bool {
    TRACE.get().is_some() || STATS.get().is_some()
}

/// Whether this rank has a trace, statistics or a recording, whatever the masks are: inlined code
/// must then call the library.
pub fn is_on() -> bool {
    has_files() || recorder::is_on()
}

fn update_wanted() {
    let of = |sink: &OnceLock<TraceSink>, mask: &AtomicU32| sink.get().map_or(0, |_| mask.load(Ordering::Relaxed));
    let lines = of(&TRACE, &TRACE_MASK) | of(&STATS, &STATS_MASK);
    LINES.store(lines, Ordering::Relaxed);
    WANTED.store(lines | if recorder::is_on() { RECORDED } else { 0 }, Ordering::Relaxed);
}

/// Starts a recording if the configuration names one, see [`recorder::start`].
pub fn start_recording(config: &Config, job: &Job, conduit: &str, mode: &str) -> Result<(), String> {
    recorder::start(config, job, conduit, mode)?;
    update_wanted();
    Ok(())
}

/// Opens the files that the configuration names. Collective. The error is a message, empty if
/// another rank prints it.
pub fn start(config: &Config, job: &Job, about: fmt::Arguments<'_>) -> Result<(), String> {
    TRACE_MASK.store(parse_mask(&config.get(&config::TRACEMASK)), Ordering::Relaxed);
    STATS_MASK.store(parse_mask(&config.get(&config::STATSMASK)), Ordering::Relaxed);
    TRACE_LOCAL.store(config.get(&config::TRACELOCAL), Ordering::Relaxed);
    let trace = config.get(&config::TRACEFILE).filter(|name| !name.is_empty());
    let stats = config.get(&config::STATSFILE).filter(|name| !name.is_empty());
    if trace.is_none() && stats.is_none() {
        return Ok(());
    }
    FLUSH.store(config.get(&config::TRACEFLUSH), Ordering::Relaxed);
    RANK.store(job.rank(), Ordering::Relaxed);
    let began = agree_on_epoch(job);
    for (place, variable, pattern, ranks) in [
        (&TRACE, "GASNET_TRACEFILE", trace, &config::TRACENODES),
        (&STATS, "GASNET_STATSFILE", stats, &config::STATSNODES),
    ] {
        if let Some(pattern) = pattern {
            open(place, variable, &pattern, job, &config.get(ranks))?;
        }
    }
    gasnet_tools::fatal::set_note(write_end_reason);
    gasnet_tools::backtrace::set_copy(backtrace_line);
    update_wanted();
    for (sink, mask) in [(&TRACE, &TRACE_MASK), (&STATS, &STATS_MASK)] {
        write_line(
            sink,
            EventKind::Start,
            format_args!(
                " format=1 ranks={} {about} pid={} host={} wall={}.{:09} mask={} text={}",
                job.size(),
                gasnet_sys::process::pid(),
                gasnet_tools::system::hostname(),
                began / 1_000_000_000,
                began % 1_000_000_000,
                kinds::format_mask(mask.load(Ordering::Relaxed)),
                OneLine(gasnet_tools::system::exe_name_c().to_bytes()),
            ),
        );
    }
    Ok(())
}

/// Sets the epoch of all ranks to the wall-clock time of rank 0. Returns it, in nanoseconds since
/// 1970.
fn agree_on_epoch(job: &Job) -> u64 {
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    let mut began = wall.to_ne_bytes();
    job.broadcast(0, &mut began);
    let began = u64::from_ne_bytes(began);
    // The wall clock may jump while the job runs; the monotonic clock does not.
    EPOCH.store(monotonic_ns().wrapping_sub(wall.wrapping_sub(began)), Ordering::Relaxed);
    began
}

/// Opens one output on the ranks that record. The first of them empties a shared file. Collective.
fn open(
    place: &OnceLock<TraceSink>,
    variable: &'static str,
    pattern: &str,
    job: &Job,
    ranks: &config::RankSet,
) -> Result<(), String> {
    let first = (0..job.size()).find(|&rank| ranks.contains(rank));
    let takes_part = ranks.contains(job.rank());
    let mut result = Ok(());
    // A shared file must be emptied before other ranks append to it.
    for empties in [true, false] {
        let fresh = !sink::is_shared(pattern) || first == Some(job.rank());
        if takes_part && fresh == empties {
            result = TraceSink::open(variable, pattern, JobRank(job.rank()), fresh).map(|sink| {
                let _ = place.set(sink);
            });
        }
        let failed = job.exchange(&[u8::from(result.is_err())]);
        if let Some(who) = failed.iter().position(|&failed| failed != 0) {
            return Err(result.err().filter(|_| who == job.rank() as usize).unwrap_or_default());
        }
    }
    Ok(())
}

/// Text without line breaks.
struct OneLine<'a>(&'a [u8]);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    c if c.is_control() => f.write_str("?")?,
                    c => fmt::Write::write_char(f, c)?,
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_str("?")?;
            }
        }
        Ok(())
    }
}

/// Text without spaces.
#[derive(Clone, Copy, Debug)]
pub struct OneWord<'a>(pub &'a [u8]);

impl fmt::Display for OneWord<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            fmt::Write::write_char(f, if byte.is_ascii_graphic() { byte as char } else { '_' })?;
        }
        Ok(())
    }
}

/// Numbers separated by commas.
#[derive(Clone, Copy, Debug)]
pub struct NumberList<'a>(pub &'a [i32]);

impl fmt::Display for NumberList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Writes the head of a line: rank and thread, time, source line, category, name.
fn write_head(
    out: &mut impl Write,
    thread: Option<u32>,
    at: u64,
    source: Option<Source>,
    (letter, name): (char, &str),
) -> io::Result<()> {
    let rank = RANK.load(Ordering::Relaxed);
    let time = at.saturating_sub(EPOCH.load(Ordering::Relaxed));
    write!(out, "{rank}:")?;
    match thread {
        Some(thread) => write!(out, "{thread}")?,
        None => write!(out, "*")?,
    }
    write!(out, " {}.{:09} [", time / 1_000_000_000, time % 1_000_000_000)?;
    write!(out, "{}", source.unwrap_or(Source::NONE))?;
    write!(out, "] ({letter}) {name}")
}

fn write_event(out: &mut Vec<u8>, thread: u32, event: &TraceEvent<'_>, mask: u32) -> io::Result<()> {
    let source = (mask & TraceCategory::Source as u32 != 0).then(|| event.source.unwrap_or_else(source::here));
    write_head(out, Some(thread), event.at, source, event.kind.label())?;
    if let Some(peer) = event.peer {
        write!(out, " peer={peer}")?;
    }
    if let Some(bytes) = event.bytes {
        write!(out, " bytes={bytes}")?;
    }
    if let Some(ns) = event.ns {
        write!(out, " ns={ns}")?;
    }
    if mask & TraceCategory::Detail as u32 != 0 {
        out.write_fmt(event.details)?;
    }
    out.write_fmt(event.words)?;
    out.push(b'\n');
    Ok(())
}

/// Records an event in the trace and the statistics, depending on their masks.
#[cold]
pub fn record(event: &TraceEvent<'_>) {
    let bit = event.kind.category() as u32;
    let mask = TRACE_MASK.load(Ordering::Relaxed);
    let to_itself = event.peer == Some(JobRank(RANK.load(Ordering::Relaxed)))
        && bit & (TraceCategory::Put as u32 | TraceCategory::Get as u32) != 0;
    let hidden = to_itself && !TRACE_LOCAL.load(Ordering::Relaxed);
    let trace = TRACE.get().filter(|_| mask & bit != 0 && !hidden);
    let counted = STATS.get().is_some() && STATS_MASK.load(Ordering::Relaxed) & bit != 0;
    if trace.is_none() && !counted {
        return;
    }
    let Some(mut state) = log::mine().lock() else {
        return log::count_lost();
    };
    if counted {
        let bytes = event.bytes.unwrap_or(0) as u64;
        state.counters.add(event.kind, event.peer, bytes, event.ns.unwrap_or(0));
    }
    let Some(sink) = trace else { return };
    let thread = state.thread;
    // Writing to memory cannot fail.
    let _ = write_event(&mut state.text, thread, event, mask);
    write_if_due(sink, state);
}

fn write_if_due(sink: &TraceSink, mut state: gasnet_sys::atomic::MutexGuard<'_, State>) {
    if FLUSH.load(Ordering::Relaxed) || log::is_full(&state) {
        log::write(sink, &mut state);
    }
    drop(state);
    write_old(sink);
}

fn write_old(sink: &TraceSink) {
    if log::is_old(monotonic_ns()) {
        log::write_all(sink);
    }
}

/// Counts a poll. Polls are too frequent for lines.
#[cold]
pub fn count_poll(found: usize) {
    recorder::count_poll();
    if !has_lines(TraceCategory::Poll) {
        return;
    }
    match log::mine().lock() {
        Some(mut state) => state.counters.add(EventKind::Poll, None, found as u64, 0),
        None => log::count_lost(),
    }
}

/// Called by an idle waiter: writes old text, so that the file shows the events before a wait that
/// never ends.
#[inline]
pub fn idle() {
    if WANTED.load(Ordering::Relaxed) != 0 {
        if let Some(sink) = TRACE.get() {
            write_old(sink);
        }
    }
}

/// Bytes of a line that is written without a log.
const LINE_BYTES: usize = 1536;

/// Writes a line about the whole rank to the file, without a log. Does not allocate.
fn write_line(sink: &OnceLock<TraceSink>, kind: EventKind, words: fmt::Arguments<'_>) {
    let Some(sink) = sink.get() else { return };
    let mut line = [0_u8; LINE_BYTES];
    let mut rest = &mut line[..LINE_BYTES - 1];
    // A longer line is truncated.
    let _ = write_head(&mut rest, None, monotonic_ns(), None, kind.label()).and_then(|()| rest.write_fmt(words));
    let used = LINE_BYTES - 1 - rest.len();
    line[..used]
        .iter_mut()
        .filter(|b| b.is_ascii_control())
        .for_each(|b| *b = b' ');
    line[used] = b'\n';
    sink.write(&line[..=used]);
}

/// Writes the logs, and why the process is about to end. Async-signal-safe.
pub fn write_end_reason(words: fmt::Arguments<'_>) {
    if let Some(sink) = TRACE.get() {
        log::write_all(sink);
        write_line(&TRACE, EventKind::Fatal, format_args!(" text={words}"));
    }
}

/// Writes a line of a backtrace. Async-signal-safe.
fn backtrace_line(line: &[u8]) {
    write_line(&TRACE, EventKind::Backtrace, format_args!(" text={}", OneLine(line)));
}

/// Completes the files of an ending rank: the logs, the statistics, the last line.
pub fn stop() {
    recorder::stop();
    if !has_files() || STOPPED.swap(true, Ordering::AcqRel) {
        return;
    }
    if let Some(sink) = TRACE.get() {
        log::write_all(sink);
        if TRACE_MASK.load(Ordering::Relaxed) & TraceCategory::Poll as u32 != 0 {
            stats::write_polls(|words| write_line(&TRACE, EventKind::Poll, words));
        }
        write_line(&TRACE, EventKind::End, format_args!(" lost={}", log::lost()));
    }
    dump(false);
    write_line(&STATS, EventKind::End, format_args!(" lost={}", log::lost()));
}

/// Writes the statistics so far, and clears them if `reset`.
pub fn dump(reset: bool) {
    if let Some(sink) = STATS.get() {
        stats::dump(sink, STATS_MASK.load(Ordering::Relaxed), reset);
    }
}

/// Called when the calling thread ends: writes and releases its log.
pub fn retire() {
    log::retire(TRACE.get());
}

/// Registers the function that a thread calls at its first event; it must arrange that the thread
/// calls [`retire`].
pub fn on_first_record(hook: fn()) {
    log::on_first(hook);
}

/// One of the two outputs, for the calls of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// `GASNET_TRACEFILE`.
    Trace,
    /// `GASNET_STATSFILE`.
    Stats,
}

impl Output {
    fn parts(self) -> (&'static OnceLock<TraceSink>, &'static AtomicU32) {
        match self {
            Self::Trace => (&TRACE, &TRACE_MASK),
            Self::Stats => (&STATS, &STATS_MASK),
        }
    }

    /// The current mask, with or without a file.
    pub fn mask(self) -> u32 {
        self.parts().1.load(Ordering::Relaxed)
    }

    /// Sets the mask.
    pub fn set_mask(self, mask: u32) {
        self.parts().1.store(mask, Ordering::Relaxed);
        update_wanted();
    }

    /// Whether a note of the client would be written.
    pub fn accepts_notes(self, forced: bool) -> bool {
        let (sink, mask) = self.parts();
        sink.get().is_some() && (forced || mask.load(Ordering::Relaxed) & TraceCategory::Client as u32 != 0)
    }

    /// Writes a note of the client.
    pub fn note(self, text: &[u8], forced: bool) {
        if !self.accepts_notes(forced) {
            return;
        }
        let kind = if forced { EventKind::ForcedNote } else { EventKind::Note };
        let text = OneLine(text);
        match self {
            Self::Trace => record(&TraceEvent::new(kind, monotonic_ns()).with_fields(format_args!(" text={text}"))),
            Self::Stats => write_line(&STATS, kind, format_args!(" text={text}")),
        }
    }
}

/// Whether puts and gets of a rank to itself are traced.
pub fn traces_local() -> bool {
    TRACE_LOCAL.load(Ordering::Relaxed)
}

/// Sets whether puts and gets of a rank to itself are traced.
pub fn set_traces_local(on: bool) {
    TRACE_LOCAL.store(on, Ordering::Relaxed);
}

/// Records a remark of the library.
pub fn remark(words: fmt::Arguments<'_>) {
    if wants(TraceCategory::Info) {
        record(&TraceEvent::new(EventKind::Remark, monotonic_ns()).with_fields(format_args!(" text={words}")));
    }
}

/// Records that an object was created.
pub fn created(words: fmt::Arguments<'_>) {
    if wants(TraceCategory::Object) {
        record(&TraceEvent::new(EventKind::Create, monotonic_ns()).with_fields(words));
    }
}

/// Records that an object was destroyed.
pub fn destroyed(words: fmt::Arguments<'_>) {
    if wants(TraceCategory::Object) {
        record(&TraceEvent::new(EventKind::Destroy, monotonic_ns()).with_fields(words));
    }
}
