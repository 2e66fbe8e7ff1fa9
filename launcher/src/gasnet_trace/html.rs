//! A self-contained HTML page: `page.html` with the data as JSON, which its script draws. It has no
//! external references.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gasnet_conduit::config::report::json_string;

use super::model::{Model, Sums, CLASSES, STATES};
use super::states::{self, States};

const PAGE: &str = include_str!("page.html");
/// Maximum rows and columns of the matrix. With more ranks, consecutive ranks share a row.
const MATRIX_SIDE: u32 = 128;
/// Maximum slices of the timeline: per lane, and in total.
const SLICES: (usize, usize) = (900, 40_000);
/// Maximum lanes of the timeline.
const LANES: usize = 256;
/// Rows of the list of source lines.
const SOURCES: usize = 25;

/// The page.
pub fn page(model: &Model) -> String {
    let states = states::of(model);
    let mut data = String::from("{");
    about(&mut data, model);
    matrix(&mut data, model);
    sizes(&mut data, model);
    times(&mut data, model, &states);
    timeline(&mut data, model, &states);
    tables(&mut data, model);
    data.push('}');
    // In a script element only the end tag and comments are special; both begin with <.
    PAGE.replace("/*DATA*/null", &data.replace('<', "\\u003c"))
        .replace("<!--TITLE-->", &escape(&title(model)))
}

fn title(model: &Model) -> String {
    let program = model.program.rsplit('/').next().unwrap_or("");
    format!(
        "{} on {} ranks",
        if program.is_empty() { "trace" } else { program },
        model.size
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// `[a,b,…]`.
fn array<T>(items: impl Iterator<Item = T>, mut write: impl FnMut(&mut String, T)) -> String {
    let mut out = String::from("[");
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        write(&mut out, item);
    }
    out.push(']');
    out
}

fn numbers<'a>(items: impl Iterator<Item = &'a u64>) -> String {
    array(items, |out, n| {
        let _ = write!(out, "{n}");
    })
}

fn strings<'a>(items: impl Iterator<Item = &'a str>) -> String {
    array(items, |out, s| out.push_str(&json_string(s)))
}

fn about(data: &mut String, model: &Model) {
    let mut hosts: Vec<&str> = model
        .ranks
        .values()
        .map(|r| r.host.as_str())
        .filter(|h| !h.is_empty())
        .collect();
    hosts.sort_unstable();
    hosts.dedup();
    let _ = write!(
        data,
        "\"title\":{},\"program\":{},\"size\":{},\"traced\":{},\"conduit\":{},\"wall\":{},\"span\":{},\"lines\":{},\
         \"hosts\":{},\"warnings\":{},\"classes\":{},\"states\":{}",
        json_string(&title(model)),
        json_string(&model.program),
        model.size,
        model.ranks.len(),
        json_string(&model.conduit),
        json_string(&model.wall),
        model.span(),
        model.lines,
        strings(hosts.into_iter()),
        strings(model.warnings.iter().map(String::as_str)),
        strings(CLASSES.into_iter()),
        strings(STATES.into_iter())
    );
}

/// Sparse: `[class, from, to, count, bytes]`, in units of `group` ranks.
fn matrix(data: &mut String, model: &Model) {
    let group = model.size.div_ceil(MATRIX_SIDE).max(1);
    let mut cells: BTreeMap<(usize, u32, u32), [u64; 2]> = BTreeMap::new();
    for (&(class, from, to), cell) in &model.matrix {
        let own = cells.entry((class, from / group, to / group)).or_default();
        *own = [own[0] + cell[0], own[1].saturating_add(cell[1])];
    }
    let cells = array(cells.iter(), |out, (&(class, from, to), [count, bytes])| {
        let _ = write!(out, "[{class},{from},{to},{count},{bytes}]");
    });
    let _ = write!(data, ",\"group\":{group},\"matrix\":{cells}");
}

fn sizes(data: &mut String, model: &Model) {
    let bars = array(model.sizes.iter(), |out, (&(class, from), [count, bytes])| {
        let _ = write!(out, "[{class},{from},{count},{bytes}]");
    });
    let _ = write!(data, ",\"sizes\":{bars}");
}

/// Nanoseconds by rank and state, and the number of threads of each rank.
fn times(data: &mut String, model: &Model, all: &[((u32, u32), States)]) {
    let mut ranks: BTreeMap<u32, ([u64; STATES.len()], u64)> =
        model.ranks.keys().map(|&rank| (rank, Default::default())).collect();
    for ((rank, _), states) in all {
        let own = ranks.entry(*rank).or_default();
        own.1 += 1;
        for (sum, ns) in own.0.iter_mut().zip(states::totals(states)) {
            *sum += ns;
        }
    }
    let rows = array(ranks.iter(), |out, (rank, (sums, threads))| {
        let _ = write!(
            out,
            "{{\"rank\":{rank},\"threads\":{threads},\"ns\":{}}}",
            numbers(sums.iter())
        );
    });
    let _ = write!(data, ",\"times\":{rows}");
}

fn timeline(data: &mut String, model: &Model, all: &[((u32, u32), States)]) {
    let lanes = &all[..all.len().min(LANES)];
    let count = (SLICES.1 / lanes.len().max(1)).min(SLICES.0);
    let rows = array(lanes.iter(), |out, ((rank, thread), states)| {
        let slices = states::slices(states, model.span(), count);
        let slices = array(slices.iter(), |out, (first, length, state, percent)| {
            let _ = write!(out, "[{first},{length},{state},{percent}]");
        });
        let _ = write!(out, "{{\"rank\":{rank},\"thread\":{thread},\"slices\":{slices}}}");
    });
    let hidden = all.len() - lanes.len();
    let _ = write!(data, ",\"slices\":{count},\"lanes\":{rows},\"hiddenLanes\":{hidden}");
}

/// Barriers and collectives by name, with the ranks that spent most and least time in them; source
/// lines by time.
fn tables(data: &mut String, model: &Model) {
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
    let rows = array(names.iter(), |out, ((section, kind), ranks)| {
        let mut all = Sums::default();
        for sums in ranks.values() {
            all.merge(sums);
        }
        let most = ranks
            .iter()
            .max_by_key(|(_, s)| s.total)
            .map_or((0, 0), |(r, s)| (*r, s.total));
        let least = ranks
            .iter()
            .min_by_key(|(_, s)| s.total)
            .map_or((0, 0), |(r, s)| (*r, s.total));
        let name = match (*section, *kind) {
            ("BARRIER", "WAIT") => "gasnet_barrier_wait",
            ("BARRIER", "WAITNOTIFY") => "from notify to wait",
            ("BARRIER", "TEAM") => "gex_Coll_BarrierNB",
            (_, kind) => kind,
        };
        let _ = write!(
            out,
            "{{\"name\":{},\"calls\":{},\"total\":{},\"most\":{},\"mostRank\":[{},{}],\"leastRank\":[{},{}]}}",
            json_string(name),
            all.count,
            all.total,
            all.most,
            most.0,
            most.1,
            least.0,
            least.1
        );
    });
    let mut places: Vec<(u32, [u64; 3])> = places.into_iter().collect();
    places.sort_by_key(|(source, [_, bytes, ns])| (std::cmp::Reverse((*ns, *bytes)), *source));
    let lines = array(places.iter().take(SOURCES), |out, (source, sums)| {
        let name = json_string(&model.sources[*source as usize]);
        let _ = write!(out, "{{\"name\":{name},\"sums\":{}}}", numbers(sums.iter()));
    });
    let _ = write!(data, ",\"collectives\":{rows},\"sources\":{lines}");
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
        assert!(!page.contains("/*DATA*/null") && page.contains("<title>&lt;b&gt; on 2 ranks</title>"));
        assert_eq!(page.matches("<script").count(), page.matches("</script>").count());
        // A namespace is not a reference.
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!outside.contains(word), "{word}");
        }
    }
}
