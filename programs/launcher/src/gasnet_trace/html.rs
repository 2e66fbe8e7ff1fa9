//! The page of a trace.

use std::collections::BTreeMap;

use super::json;
use super::model::{Model, Sums, CLASSES, STATES};
use super::page::{self, cell, numbers, strings, Member};
use super::states::{self, States};

/// Maximum rows and columns of the matrix. With more ranks, consecutive ranks share a row.
const MATRIX_SIDE: u32 = 128;
/// Maximum slices of the timeline: per lane, and in total.
const SLICES: (usize, usize) = (900, 40_000);
/// Maximum lanes of the timeline.
const LANES: usize = 256;
/// Rows of the list of source lines.
const SOURCES: usize = 25;

/// The data of the page, as JSON.
pub fn data(model: &Model) -> String {
    let mut data = members(model);
    data.push(("title", json::string(&title(model))));
    json::object(data)
}

/// The page.
pub fn page(model: &Model) -> String {
    page::page(&title(model), members(model))
}

fn members(model: &Model) -> Vec<Member> {
    let states = states::of(model);
    let mut data = about(model);
    data.extend(matrix(model));
    data.push(("sizes", sizes(model)));
    data.push(("times", times(model, &states)));
    data.extend(timeline(model, &states));
    data.extend(tables(model));
    data
}

fn title(model: &Model) -> String {
    let program = model.program.rsplit('/').next().unwrap_or("");
    format!(
        "{} on {} ranks",
        if program.is_empty() { "trace" } else { program },
        model.size
    )
}

fn about(model: &Model) -> Vec<Member> {
    let mut hosts: Vec<&str> = model
        .ranks
        .values()
        .map(|r| r.host.as_str())
        .filter(|h| !h.is_empty())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    vec![
        ("program", json::string(&model.program)),
        ("size", model.size.to_string()),
        ("traced", model.ranks.len().to_string()),
        ("conduit", json::string(&model.conduit)),
        ("wall", json::string(&model.wall)),
        ("span", model.span().to_string()),
        ("lines", model.lines.to_string()),
        ("hosts", strings(hosts)),
        ("warnings", strings(&model.warnings)),
        ("classes", strings(CLASSES)),
        ("states", strings(STATES)),
    ]
}

/// Sparse: `[class, from, to, count, bytes]`, in units of `group` ranks.
fn matrix(model: &Model) -> [Member; 2] {
    let group = model.size.div_ceil(MATRIX_SIDE).max(1);
    let mut cells: BTreeMap<(usize, u32, u32), [u64; 2]> = BTreeMap::new();
    for (&(class, from, to), cell) in &model.matrix {
        let own = cells.entry((class, from / group, to / group)).or_default();
        *own = [own[0] + cell[0], own[1].saturating_add(cell[1])];
    }
    let rows = cells
        .into_iter()
        .map(|((class, from, to), [count, bytes])| cell(class, from, to, count, bytes));
    [("group", group.to_string()), ("matrix", json::array(rows))]
}

fn sizes(model: &Model) -> String {
    let bars = model.sizes.iter();
    json::array(bars.map(|((class, from), [count, bytes])| format!("[{class},{from},{count},{bytes}]")))
}

/// Nanoseconds by rank and state, and the number of threads of each rank.
fn times(model: &Model, all: &[((u32, u32), States)]) -> String {
    let mut ranks: BTreeMap<u32, ([u64; STATES.len()], u64)> =
        model.ranks.keys().map(|&rank| (rank, Default::default())).collect();
    for ((rank, _), states) in all {
        let own = ranks.entry(*rank).or_default();
        own.1 += 1;
        for (sum, ns) in own.0.iter_mut().zip(states::totals(states)) {
            *sum += ns;
        }
    }
    let row = |(rank, (sums, threads)): (u32, ([u64; STATES.len()], u64))| {
        json::object([
            ("rank", rank.to_string()),
            ("threads", threads.to_string()),
            ("ns", numbers(sums)),
        ])
    };
    json::array(ranks.into_iter().map(row))
}

fn timeline(model: &Model, all: &[((u32, u32), States)]) -> [Member; 3] {
    let lanes = &all[..all.len().min(LANES)];
    let count = (SLICES.1 / lanes.len().max(1)).min(SLICES.0);
    let lane = |((rank, thread), states): &((u32, u32), States)| {
        let slices = states::slices(states, model.span(), count);
        let slices = slices
            .iter()
            .map(|(first, length, state, percent)| format!("[{first},{length},{state},{percent}]"));
        json::object([
            ("rank", rank.to_string()),
            ("thread", thread.to_string()),
            ("slices", json::array(slices)),
        ])
    };
    [
        ("slices", count.to_string()),
        ("lanes", json::array(lanes.iter().map(lane))),
        ("hiddenLanes", (all.len() - lanes.len()).to_string()),
    ]
}

/// Barriers and collectives by name, with the ranks that spent most and least time in them; source
/// lines by time.
fn tables(model: &Model) -> [Member; 2] {
    let mut names: BTreeMap<(&str, &str), BTreeMap<u32, Sums>> = BTreeMap::new();
    let mut places: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
    for (key, sums) in &model.rows {
        if matches!(key.section, "BARRIER" | "COLL") {
            let ranks = names.entry((key.section, &key.kind)).or_default();
            ranks.entry(key.rank).or_default().merge(sums);
        }
        if key.source == 0 || key.section == "MALLOC" {
            continue;
        }
        let place = places.entry(key.source).or_default();
        place[0] += sums.count;
        match key.section {
            "PUT" | "GET" | "AM" => place[1] = place[1].saturating_add(sums.total),
            "HANDLER" => {}
            _ => place[2] = place[2].saturating_add(sums.total),
        }
    }
    for (key, sums) in model.times.iter().filter(|(key, _)| key.source != 0) {
        let place = places.entry(key.source).or_default();
        place[2] = place[2].saturating_add(sums.total);
    }
    let row = |((section, kind), ranks): (&(&str, &str), &BTreeMap<u32, Sums>)| {
        let mut all = Sums::default();
        for sums in ranks.values() {
            all.merge(sums);
        }
        let most = ranks.iter().max_by_key(|(_, sums)| sums.total);
        let least = ranks.iter().min_by_key(|(_, sums)| sums.total);
        let pair =
            |found: Option<(&u32, &Sums)>| numbers(found.map_or([0, 0], |(rank, sums)| [u64::from(*rank), sums.total]));
        let name = match (*section, *kind) {
            ("BARRIER", "WAIT") => "gasnet_barrier_wait",
            ("BARRIER", "WAITNOTIFY") => "from notify to wait",
            ("BARRIER", "TEAM") => "gex_Coll_BarrierNB",
            (_, kind) => kind,
        };
        json::object([
            ("name", json::string(name)),
            ("calls", all.count.to_string()),
            ("total", all.total.to_string()),
            ("most", all.most.to_string()),
            ("mostRank", pair(most)),
            ("leastRank", pair(least)),
        ])
    };
    let mut places: Vec<(u32, [u64; 3])> = places.into_iter().collect();
    places.sort_by_key(|(source, [_, bytes, ns])| (std::cmp::Reverse((*ns, *bytes)), *source));
    let line = |(source, sums): &(u32, [u64; 3])| {
        let name = json::string(&model.sources[*source as usize]);
        json::object([("name", name), ("sums", numbers(sums))])
    };
    [
        ("collectives", json::array(names.iter().map(row))),
        ("sources", json::array(places.iter().take(SOURCES).map(line))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_complete_and_has_no_external_references() {
        let mut model = Model::new(false);
        model.program = "<b>".into();
        model.warnings.push("</script><script>".into());
        model.size = 2;
        let page = page(&model);
        assert!(!page.contains("/*DATA*/") && !page.contains("/*STYLE*/") && !page.contains("/*HELPERS*/"));
        assert!(
            page.contains("function element(")
                && page.contains("--accent:")
                && page.contains("<title>&lt;b&gt; on 2 ranks</title>")
        );
        assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
        // A namespace is not a reference.
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!outside.contains(word), "{word}");
        }
    }
}
