//! `--prometheus`: the counters and states of a running job in Prometheus's text format 0.0.4, for
//! the text file collector of a node exporter.

use std::fmt::Write as _;

use crate::attach::{reason, total, word, KIND_NAMES, ONE_SIDED_NAMES};
use crate::waits::{Sample, State};
use gasnet_job::counters::Wait;
use gasnet_job::view::{RankView, ThreadView};

/// The series of a metric for one rank: labels beside `rank` and `host`, and a value.
type Series = Vec<(String, u64)>;

/// Text that grows by metrics.
struct Metrics<'a> {
    ranks: &'a [RankView],
    text: String,
}

impl Metrics<'_> {
    /// Adds a metric. `series` gets the rank's index, too.
    fn add(&mut self, name: &str, kind: &str, help: &str, series: impl Fn(usize, &RankView) -> Series) {
        let _ = writeln!(self.text, "# HELP gasnet_{name} {help}\n# TYPE gasnet_{name} {kind}");
        for (index, rank) in self.ranks.iter().enumerate() {
            let place = format!("rank=\"{}\"{}", rank.rank, label("host", &rank.host));
            for (labels, value) in series(index, rank) {
                let _ = writeln!(self.text, "gasnet_{name}{{{place}{labels}}} {value}");
            }
        }
    }

    /// Adds a counter, the sum of `of` over threads.
    fn count(&mut self, name: &str, help: &str, of: impl Fn(&ThreadView) -> u64) {
        self.add(name, "counter", help, |_, rank| vec![(String::new(), total(rank, &of))]);
    }

    /// Adds counters that a label tells apart: its values, and where their counts are.
    fn count_each(&mut self, name: &str, help: &str, by: &str, values: &[(String, Count)]) {
        self.add(name, "counter", help, |_, rank| {
            let series = |(value, count): &(String, Count)| (label(by, value), total(rank, count));
            values.iter().map(series).collect()
        });
    }
}

/// The place of a count in a thread.
type Count = Box<dyn Fn(&ThreadView) -> u64>;

/// Names, and the counts that `of` finds at their index.
fn each<'a>(
    names: impl IntoIterator<Item = &'a str>,
    of: impl Fn(&ThreadView, usize) -> u64 + Copy + 'static,
) -> Vec<(String, Count)> {
    let count = |index| Box::new(move |thread: &ThreadView| of(thread, index)) as Count;
    names
        .into_iter()
        .enumerate()
        .map(|(index, name)| (name.into(), count(index)))
        .collect()
}

/// All metrics.
pub fn of(now: &Sample, states: &[State]) -> String {
    let mut all = Metrics {
        ranks: &now.reading.ranks,
        text: String::new(),
    };
    let kinds = |of: fn(&ThreadView, usize) -> u64| each(KIND_NAMES, of);
    let sent = kinds(|thread, kind| thread.sent[kind]);
    all.count_each("sent_total", "Active Messages that the client has sent.", "kind", &sent);
    let received = kinds(|thread, kind| thread.received[kind]);
    all.count_each("received_total", "Active Messages to its handlers.", "kind", &received);
    all.count("sent_bytes_total", "Bytes of the payloads sent.", |thread| {
        thread.bytes[0]
    });
    all.count("received_bytes_total", "Bytes of the payloads received.", |thread| {
        thread.bytes[1]
    });
    let one_sided = |of: fn(&ThreadView, usize) -> u64| each(ONE_SIDED_NAMES, of);
    let operations = one_sided(|thread, kind| thread.one_sided[kind]);
    all.count_each(
        "one_sided_total",
        "Puts, gets and atomics over a network.",
        "kind",
        &operations,
    );
    let bytes = one_sided(|thread, kind| thread.one_sided_bytes[kind]);
    all.count_each("one_sided_bytes_total", "Their bytes.", "kind", &bytes);
    let help = "Messages refused to a client that does not wait.";
    all.count("refused_total", help, |thread| thread.refused);
    all.count("polls_total", "Polls.", |thread| thread.polls);
    let waits = each(Wait::ALL.map(reason), |thread, index| {
        thread.waits[Wait::ALL[index] as usize]
    });
    all.count_each("waits_total", "Waits.", "reason", &waits);
    all.count("collectives_total", "Collectives begun.", |thread| thread.collectives);
    let segment = |_, rank: &RankView| vec![(String::new(), rank.segment_bytes)];
    all.add("segment_bytes", "gauge", "Size of the attached segment.", segment);
    let help = "Seconds for which the rank is in this state; 0 if unknown.";
    all.add("state_seconds", "gauge", help, |index, _| {
        let mine = states.iter().find(|state| state.rank == index);
        let series = |state: &State| {
            let seconds = state.age.unwrap_or(0) / 1_000_000_000;
            (label("state", &word(state.doing)), seconds)
        };
        mine.map(series).into_iter().collect()
    });
    all.text
}

/// A label, behind others.
fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!(",{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped() {
        assert_eq!(label("x", "a\\b\"c\nd"), r#",x="a\\b\"c\nd""#);
    }
}
