//! The summary in the statistics file: a line per kind and per category, and per class of traffic
//! its peers and sizes.

use std::fmt;
use std::io::Write;

use super::counters::{Counters, Sums, CLASSES};
use super::kinds::{TraceCategory, LETTERS};
use super::log;
use super::sink::TraceSink;
use super::{monotonic_ns, write_head};
use gasnet_sys::float;

/// The sum of the counters of all threads. Clears them if `reset`.
fn collect(reset: bool) -> Counters {
    let mut all = Counters::default();
    log::for_each(|state| {
        all.merge(&state.counters);
        if reset {
            state.counters.reset();
        }
    });
    all
}

/// ` key=N` for sum, minimum, maximum and average; empty if the maximum is 0.
struct Spread<'a> {
    key: &'a str,
    values: [u64; 3],
    count: u64,
}

impl fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, [total, least, most]) = (self.key, self.values);
        if most == 0 {
            return Ok(());
        }
        let _held = float::hold();
        // The average has one decimal: 52 bits are enough.
        #[allow(clippy::cast_precision_loss)]
        let average = float::quietly(|| total as f64 / self.count.max(1) as f64);
        write!(
            f,
            " {key}={total} {key}_min={least} {key}_max={most} {key}_avg={average:.1}"
        )
    }
}

/// `from:count` for each size class that occurred, separated by commas.
struct Sizes<'a>(&'a Counters, usize);

impl fmt::Display for Sizes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (from, count)) in self.0.sizes(self.1).enumerate() {
            write!(f, "{}{from}:{count}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

fn spread<'a>(key: &'a str, sums: &Sums) -> Spread<'a> {
    Spread {
        key,
        values: if key == "ns" { sums.ns } else { sums.bytes },
        count: sums.count,
    }
}

/// Writes the number of polls, and of messages that they found.
pub fn write_polls(write: impl FnOnce(fmt::Arguments<'_>)) {
    let all = collect(false);
    let polls = all
        .kinds(TraceCategory::Poll as u32)
        .next()
        .map(|(_, sums)| (sums.count, sums.bytes[0]));
    if let Some((count, found)) = polls {
        write(format_args!(" count={count} found={found}"));
    }
}

/// Writes the summary of the categories in `mask`.
pub fn dump(sink: &TraceSink, mask: u32, reset: bool) {
    let all = collect(reset);
    let now = monotonic_ns();
    let mut out = Vec::new();
    let mut line = |letter: char, name: &str, words: fmt::Arguments<'_>| {
        // Writing to memory cannot fail.
        let _ = write_head(&mut out, None, now, None, (letter, name));
        let _ = writeln!(out, "{words}");
    };
    line('U', "DUMP", format_args!(" reset={}", u8::from(reset)));
    for (letter, category) in LETTERS {
        let mut total = (0, 0, 0);
        for (kind, sums) in all.kinds(mask & category as u32) {
            let (bytes, ns) = (spread("bytes", sums), spread("ns", sums));
            line(
                letter,
                "STAT",
                format_args!(" kind={} count={}{bytes}{ns}", kind.name(), sums.count),
            );
            // An operation with two lines in the trace counts once.
            if !kind.is_echo() {
                total = (total.0 + sums.count, total.1 + sums.bytes[0], total.2);
            }
            total.2 += sums.ns[0];
        }
        if total.0 > 0 {
            line(
                letter,
                "TOTAL",
                format_args!(" count={} bytes={} ns={}", total.0, total.1, total.2),
            );
        }
    }
    for (class, (name, category)) in CLASSES.iter().enumerate() {
        if mask & *category as u32 == 0 {
            continue;
        }
        let letter = category.letter();
        for (peer, cells) in all.peers() {
            let [count, bytes] = cells[class];
            if count > 0 {
                line(
                    letter,
                    "PEER",
                    format_args!(" class={name} peer={peer} count={count} bytes={bytes}"),
                );
            }
        }
        if all.sizes(class).next().is_some() {
            line(
                letter,
                "SIZES",
                format_args!(" class={name} counts={}", Sizes(&all, class)),
            );
        }
    }
    sink.write(&out);
}
