//! The JSON of Perfetto and Chrome's tracing page ("Trace Event Format"): a process per rank, a
//! thread per thread, complete events for calls, asynchronous pairs for collectives and barriers,
//! instants for the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::json;
use super::model::{Model, TraceEvent};

fn category(letter: char) -> &'static str {
    match letter {
        'G' => "get",
        'P' => "put",
        'R' => "atomic",
        'S' => "sync",
        'W' => "collective",
        'B' => "barrier",
        'L' => "lock",
        'A' => "message",
        'X' => "poll",
        'I' => "information",
        'O' => "object",
        'C' => "internal",
        'H' | 'U' => "note",
        _ => "other",
    }
}

/// Microseconds with three decimals.
pub fn us(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn write_event(out: &mut impl Write, model: &Model, event: &TraceEvent, phase: &str) -> io::Result<()> {
    let name = event
        .words
        .split(' ')
        .find_map(|w| w.strip_prefix("name="))
        .filter(|_| event.id.is_some());
    write!(
        out,
        ",\n{{\"name\":{},\"cat\":\"{}\",\"ph\":\"{phase}\",\"ts\":{},\"pid\":{},\"tid\":{}",
        json::string(name.unwrap_or(&event.name)),
        category(event.letter),
        us(event.at),
        event.rank,
        event.thread
    )?;
    match (phase, event.ns) {
        ("X", Some(ns)) => write!(out, ",\"dur\":{}", us(ns))?,
        ("i", _) => write!(out, ",\"s\":\"t\"")?,
        _ => {}
    }
    if let Some(id) = event.id {
        write!(out, ",\"id\":\"{}.{id}\"", event.rank)?;
    }
    let source = &model.sources[event.source as usize];
    write!(
        out,
        ",\"args\":{{\"source\":{},\"words\":{}}}}}",
        json::string(source),
        json::string(&event.words)
    )
}

pub fn write(out: &mut impl Write, model: &Model) -> io::Result<()> {
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":{},\"ranks\":{}}},\n\"traceEvents\":[\n",
        json::string(&model.program),
        model.size
    )?;
    write!(out, r#"{{"name":"trace","ph":"M","pid":0,"tid":0,"args":{{}}}}"#)?;
    for (rank, about) in &model.ranks {
        let name = json::string(&format!("rank {rank} ({})", about.host));
        write!(
            out,
            ",\n{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{rank},\"tid\":0,\"args\":{{\"name\":{name}}}}}"
        )?;
        write!(
            out,
            ",\n{{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{rank},\"tid\":0,\
             \"args\":{{\"sort_index\":{rank}}}}}"
        )?;
    }
    let mut events: Vec<&TraceEvent> = model.events.iter().flatten().collect();
    events.sort_by_key(|e| e.at);
    // The viewer does not show half of a pair. Events without their partner are written as
    // instants.
    let mut seen: BTreeMap<(u32, u64), u8> = BTreeMap::new();
    for event in &events {
        if let Some(id) = event.id {
            *seen.entry((event.rank, id)).or_default() |= if event.name.ends_with("_START") { 1 } else { 2 };
        }
    }
    let whole: BTreeSet<(u32, u64)> = seen
        .into_iter()
        .filter(|(_, halves)| *halves == 3)
        .map(|(key, _)| key)
        .collect();
    for event in events {
        let phase = match event.id {
            Some(id) if whole.contains(&(event.rank, id)) => {
                if event.name.ends_with("_START") {
                    "b"
                } else {
                    "e"
                }
            }
            None if event.ns.is_some() => "X",
            _ => "i",
        };
        write_event(out, model, event, phase)?;
    }
    writeln!(out, "\n]}}")
}
