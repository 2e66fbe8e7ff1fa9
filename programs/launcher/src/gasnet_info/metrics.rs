//! `--prometheus`: the counters and states of a running job in Prometheus's text format 0.0.4, for
//! the text file collector of a node exporter.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::attach::{group, reason, total, word, SAMPLE_NAMES, TRAFFIC};
use gasnet_job::counters::Wait;
use gasnet_job::view::{PeerView, RankView, ThreadView};
use gasnet_job::waits::{Sample, State};

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
}

/// All metrics.
pub fn of(now: &Sample, states: &[State]) -> String {
    let mut all = Metrics {
        ranks: &now.reading.ranks,
        text: String::new(),
    };
    for (name, kinds, counts) in TRAFFIC {
        let help = "Client messages, and puts, gets and atomics over a network, or their bytes.";
        all.add(&format!("{name}_total"), "counter", help, |_, rank| {
            let series = |(kind, at): (&str, usize)| (label("kind", kind), total(rank, |thread| thread.traffic.0[at]));
            kinds.iter().copied().zip(counts.clone()).map(series).collect()
        });
        all.add(&format!("peer_{name}_total"), "counter", help, |_, rank| {
            let series = |peer: &PeerView| {
                let ranks = label("peer", &ranks(now.size, peer.group));
                (ranks, peer.traffic.sum(counts.clone()))
            };
            rank.peers.iter().map(series).filter(|&(_, count)| count > 0).collect()
        });
    }
    let help = "Messages refused to a client that does not wait.";
    all.count("refused_total", help, |thread| thread.refused);
    all.count("polls_total", "Polls.", |thread| thread.polls);
    all.add("waits_total", "counter", "Waits.", |_, rank| {
        let series = |&wait: &Wait| {
            let reason = label("reason", reason(wait));
            (reason, total(rank, |thread| thread.waits[wait as usize]))
        };
        Wait::ALL.iter().map(series).collect()
    });
    all.count("collectives_total", "Collectives begun.", |thread| thread.collectives);
    let help = "Seconds in which threads were seen in a handler, in a wait, or elsewhere.";
    all.add("sampled_seconds_total", "counter", help, |_, rank| {
        let series = |(at, name): (usize, _)| (label("doing", name), total(rank, |thread| thread.samples[at]));
        SAMPLE_NAMES.into_iter().enumerate().map(series).collect()
    });
    all.add("memory_bytes", "gauge", "Shared memory in use.", |_, rank| {
        let series = |(name, bytes): &(String, u64)| (label("use", name), *bytes);
        rank.memory.iter().map(series).collect()
    });
    let segment = |_, rank: &RankView| vec![(String::new(), rank.segment_bytes)];
    all.add("segment_bytes", "gauge", "Size of the attached segment.", segment);
    let connections = |_, rank: &RankView| vec![(String::new(), u64::from(rank.connections))];
    all.add("connections", "gauge", "Connections that are up.", connections);
    let again = |_, rank: &RankView| vec![(String::new(), rank.retransmissions)];
    all.add("retransmissions_total", "counter", "Datagrams sent again.", again);
    let help = "Seconds for which a connection has been made, of the oldest one.";
    all.add("connecting_seconds", "gauge", help, |_, rank| {
        let series = |(peer, since): (u32, u64)| {
            let ns = now.age(since).unwrap_or(0);
            (label("peer", &peer.to_string()), ns / 1_000_000_000)
        };
        rank.connecting.map(series).into_iter().collect()
    });
    let help = "Seconds for which a thread of the rank is in this state, the most of all; 0 if unknown.";
    all.add("state_seconds", "gauge", help, |index, _| {
        let mut ages: BTreeMap<String, u64> = BTreeMap::new();
        for state in states.iter().filter(|state| state.rank == index) {
            let age = ages.entry(label("state", &word(state.doing))).or_default();
            *age = state.age.map_or(0, |ns| ns / 1_000_000_000).max(*age);
        }
        ages.into_iter().collect()
    });
    all.text
}

/// `3`, or `4-7` for a group of several ranks.
fn ranks(size: u32, number: u32) -> String {
    match group(size, number) {
        [first, last] if first == last => first.to_string(),
        [first, last] => format!("{first}-{last}"),
    }
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

    #[test]
    fn groups_are_named_by_their_ranks() {
        assert_eq!(
            [(64, 63), (65, 0), (65, 32)].map(|(size, group)| ranks(size, group)),
            ["63", "0-1", "64"]
        );
    }
}
