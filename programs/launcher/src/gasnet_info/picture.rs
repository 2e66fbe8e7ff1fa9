//! `--html`: a running job as a page, with its traffic between ranks as a picture.

use std::collections::BTreeSet;

use crate::attach::{share, total, word};
use crate::json;
use crate::page::{self, cell, strings};
use gasnet_job::counters::{group_shift, words};
use gasnet_job::view::PeerView;
use gasnet_job::waits::{path, seconds, Sample, State};

/// Titles of the table of ranks.
const COLUMNS: &str = "rank host pid state since sent received polls/s handlers waits";

/// The page.
pub fn of(now: &Sample, states: &[State], earlier: &Sample) -> String {
    let ranks = &now.reading.ranks;
    let shift = group_shift(now.size);
    let mut cells = Vec::new();
    let mut rows = Vec::new();
    for (index, rank) in ranks.iter().enumerate() {
        for peer in &rank.peers {
            cells.extend(classes(peer).map(|(class, count, bytes)| {
                (count > 0).then(|| cell(class, rank.rank >> shift, peer.group, count, bytes))
            }));
        }
        let state = states.iter().find(|state| state.rank == index);
        rows.push(strings([
            rank.rank.to_string(),
            rank.host.clone(),
            rank.pid.to_string(),
            state.map_or(String::new(), |state| word(state.doing)),
            state.and_then(|state| state.age).map_or("-".into(), seconds),
            total(rank, |thread| thread.traffic.sum(words::SENT)).to_string(),
            total(rank, |thread| thread.traffic.sum(words::RECEIVED)).to_string(),
            now.poll_rate(earlier, rank).to_string(),
            share(rank, 0),
            share(rank, 1),
        ]));
    }
    let waits: BTreeSet<[u32; 2]> = states
        .iter()
        .flat_map(|state| {
            let from = ranks[state.rank].rank >> shift;
            now.waited_for(state).into_iter().map(move |to| [from, to >> shift])
        })
        .collect();
    let mut lines = now.descriptions(states);
    lines.extend(now.cycles(states).iter().map(|cycle| format!("CYCLE: {}", path(cycle))));
    let hosts: BTreeSet<&str> = ranks.iter().map(|rank| rank.host.as_str()).collect();
    let data = vec![
        ("size", now.size.to_string()),
        ("traced", ranks.len().to_string()),
        ("hosts", strings(hosts)),
        ("classes", strings(["put", "get", "atomic", "am"])),
        ("group", (1 << shift).to_string()),
        ("matrix", json::array(cells.into_iter().flatten())),
        ("waitLines", strings(lines)),
        ("waits", json::array(waits.into_iter().map(page::numbers))),
        ("columns", strings(COLUMNS.split(' '))),
        ("ranks", json::array(rows)),
    ];
    page::page(&format!("running job of {} ranks", now.size), data)
}

/// Class, operations and bytes of the traffic to a peer.
fn classes(peer: &PeerView) -> [(usize, u64, u64); 4] {
    let one_sided = |kind: usize| {
        let of = |words: std::ops::Range<usize>| peer.traffic.0[words][kind];
        (kind, of(words::ACCESSES), of(words::ACCESS_BYTES))
    };
    let messages = (3, peer.traffic.sum(words::SENT), peer.traffic.sum(words::SENT_BYTES));
    [one_sided(0), one_sided(1), one_sided(2), messages]
}
