//! The tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::heap::TOTALS;
use super::model::{Key, Model, Sums};
use super::perfetto::us;

/// Sections in the order of output, with their units.
pub const SECTIONS: [(&str, &str); 10] = [
    ("GET", "bytes"),
    ("PUT", "bytes"),
    ("AM", "bytes"),
    ("ATOMIC", "us"),
    ("BARRIER", "us"),
    ("COLL", "us"),
    ("SYNC", "us"),
    ("HANDLER", "us"),
    ("LOCK", "us"),
    ("MALLOC", "bytes"),
];

pub const FIELDS: [&str; 7] = ["TOTAL", "AVG", "MIN", "MAX", "CALLS", "TYPE", "SRC"];

/// The selection of rows and tables on the command line.
#[derive(Clone, Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // options of a command line
pub struct Selection {
    /// Sections; empty for all.
    pub sections: Vec<String>,
    /// Fields to sort by, the most important first; empty for the source line.
    pub sort: Vec<String>,
    /// Types to omit.
    pub filter: Vec<String>,
    /// Print a row for each peer.
    pub peers: bool,
    /// Print a row for each rank.
    pub threads: bool,
    /// Also print rows without a source line.
    pub internal: bool,
    /// Print source files with their directories.
    pub full: bool,
}

pub fn write(model: &Model, selection: &Selection) -> String {
    let mut out = head(model);
    // Only source lines distinguish internal events.
    let has_sources = model.rows.keys().any(|key| key.source != 0 && key.section != "MALLOC");
    for (section, unit) in SECTIONS {
        if !selection.sections.is_empty() && !selection.sections.iter().any(|s| s == section) {
            continue;
        }
        let mut rows: BTreeMap<Key, Sums> = BTreeMap::new();
        let mut hidden = 0;
        for (key, sums) in model.rows.iter().filter(|(key, _)| key.section == section) {
            if selection.filter.iter().any(|f| key.kind.eq_ignore_ascii_case(f)) {
                continue;
            }
            if key.source == 0 && has_sources && !selection.internal {
                hidden += sums.count;
                continue;
            }
            let key = Key {
                rank: if selection.threads { key.rank } else { u32::MAX },
                peer: key.peer.filter(|_| selection.peers),
                ..key.clone()
            };
            rows.entry(key).or_default().merge(sums);
        }
        if section == "MALLOC" {
            heaps(&mut out, model);
        }
        if rows.is_empty() && hidden == 0 {
            continue;
        }
        table(&mut out, model, selection, (section, unit), rows.into_iter().collect());
        if hidden > 0 {
            let _ = writeln!(
                out,
                "  {hidden} events without a source line are hidden (-internal shows them)"
            );
        }
    }
    out
}

fn head(model: &Model) -> String {
    let mut out = String::new();
    if model.lines == 0 {
        return out;
    }
    let _ = writeln!(
        out,
        "{}: {} ranks, traces of {}, conduit {}, {:.6} s, {} lines",
        if model.program.is_empty() { "?" } else { &model.program },
        model.size,
        model.ranks.len(),
        if model.conduit.is_empty() { "?" } else { &model.conduit },
        seconds(model.span()),
        model.lines
    );
    for warning in &model.warnings {
        let _ = writeln!(out, "note: {warning}");
    }
    out
}

/// Totals of the debug allocator, by process.
fn heaps(out: &mut String, model: &Model) {
    if model.heaps.is_empty() {
        return;
    }
    let _ = write!(out, "\nMALLOC TOTALS (bytes, objects)\n{:>5}", "RANK");
    for name in TOTALS {
        let _ = write!(out, "  {:>14}  {:>9}", name.to_uppercase(), "");
    }
    let _ = writeln!(out, "  {:>14}  {:>9}  {:>12}  PROGRAM", "OF LIBGASNET", "", "GUARDS");
    for heap in &model.heaps {
        let _ = write!(out, "{:>5}", heap.rank);
        for [bytes, objects] in heap.totals.iter().chain([&heap.library]) {
            let _ = write!(out, "  {bytes:>14}  {objects:>9}");
        }
        let _ = writeln!(out, "  {:>12}  {}", heap.guards, heap.program);
    }
}

#[allow(clippy::cast_precision_loss)] // for display
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// `FILE:LINE`, without directories unless `full`.
fn source(model: &Model, number: u32, full: bool) -> &str {
    let text = &model.sources[number as usize];
    if number == 0 {
        return "(none)";
    }
    if full {
        text
    } else {
        text.rsplit('/').next().unwrap_or(text)
    }
}

/// File and number, so that line 9 comes before line 10.
fn place(text: &str) -> (&str, u64) {
    text.rsplit_once(':')
        .and_then(|(file, line)| Some((file, line.parse().ok()?)))
        .unwrap_or((text, 0))
}

fn compare(model: &Model, field: &str, a: &(Key, Sums), b: &(Key, Sums)) -> std::cmp::Ordering {
    match field {
        // Numbers descend.
        "TOTAL" => b.1.total.cmp(&a.1.total),
        "AVG" => b.1.average().total_cmp(&a.1.average()),
        "MIN" => b.1.least.cmp(&a.1.least),
        "MAX" => b.1.most.cmp(&a.1.most),
        "CALLS" => b.1.count.cmp(&a.1.count),
        "TYPE" => a.0.kind.cmp(&b.0.kind),
        _ => place(&model.sources[a.0.source as usize]).cmp(&place(&model.sources[b.0.source as usize])),
    }
}

fn table(
    out: &mut String,
    model: &Model,
    selection: &Selection,
    (section, unit): (&str, &str),
    mut rows: Vec<(Key, Sums)>,
) {
    let default = selection.sort.is_empty().then_some("SRC");
    rows.sort_by(|a, b| {
        let fields = selection.sort.iter().map(String::as_str).chain(default);
        fields
            .map(|field| compare(model, field, a, b))
            .find(|o| o.is_ne())
            .unwrap_or_else(|| a.0.cmp(&b.0))
    });
    let _ = writeln!(out, "\n{section} REPORT ({unit})");
    let names: Vec<&str> = rows
        .iter()
        .map(|(key, _)| source(model, key.source, selection.full))
        .collect();
    let width = |texts: &mut dyn Iterator<Item = usize>, least: usize| texts.max().unwrap_or(0).max(least);
    let source_width = width(&mut names.iter().map(|n| n.chars().count()), 11);
    let kind_width = width(&mut rows.iter().map(|(key, _)| key.kind.chars().count()), 4);
    let mut line = |name: &str, kind: &str, rank: &str, peer: &str, numbers: [String; 5]| {
        let _ = write!(out, "{name:source_width$}  {kind:kind_width$}");
        if selection.threads {
            let _ = write!(out, "  {rank:>5}");
        }
        if selection.peers {
            let _ = write!(out, "  {peer:>5}");
        }
        let [calls, least, average, most, total] = numbers;
        let _ = writeln!(out, "  {calls:>9}  {least:>12}  {average:>12}  {most:>12}  {total:>14}");
    };
    let titles = ["CALLS", "MIN", "AVG", "MAX", "TOTAL"].map(str::to_owned);
    line("SOURCE LINE", "TYPE", "RANK", "PEER", titles);
    for ((key, sums), name) in rows.iter().zip(names) {
        let peer = key.peer.map_or_else(|| "-".into(), |peer| peer.to_string());
        let numbers = [
            sums.count.to_string(),
            number(sums.least, unit),
            average(sums, unit),
            number(sums.most, unit),
            number(sums.total, unit),
        ];
        line(name, &key.kind, &key.rank.to_string(), &peer, numbers);
    }
}

/// Bytes, or nanoseconds as microseconds.
fn number(value: u64, unit: &str) -> String {
    match unit {
        "us" => us(value),
        _ => value.to_string(),
    }
}

fn average(sums: &Sums, unit: &str) -> String {
    match unit {
        "us" => format!("{:.3}", sums.average() / 1000.0),
        _ => format!("{:.1}", sums.average()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_by_number_and_times_are_exact() {
        assert!(place("a.c:9") < place("a.c:10") && place("-") < place("a.c:1"));
        assert_eq!(
            (number(1_234_567, "us"), number(1_234_567, "bytes")),
            ("1234.567".into(), "1234567".into())
        );
    }
}
