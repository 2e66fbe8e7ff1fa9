//! The time of each thread by activity.
//!
//! The calls of a thread nest: a wait runs handlers, which send replies. Each instant belongs to
//! the innermost call. A wait while a barrier or another collective of the rank is in progress
//! counts as time in that.

use super::model::{Model, Rank, Span, BARRIER, COLLECTIVE, STATES, WAIT};

/// Time spans of a thread in order, without overlap, and their states.
pub type States = Vec<(Span, u8)>;

/// Attributes each instant to the innermost of nested calls.
fn innermost(calls: &[(Span, u8)]) -> States {
    let mut calls: Vec<(Span, u8)> = calls.to_vec();
    // Outer calls first.
    calls.sort_by(|((a, b), _), ((c, d), _)| a.cmp(c).then(d.cmp(b)));
    let mut out = States::new();
    let mut open: Vec<(Span, u8)> = Vec::new();
    let mut now = 0;
    let emit = |from: u64, to: u64, state: u8, out: &mut States| {
        if to > from {
            out.push(((from, to), state));
        }
    };
    let close_until = |limit: u64, open: &mut Vec<(Span, u8)>, now: &mut u64, out: &mut States| {
        while let Some(&((_, end), state)) = open.last() {
            if end > limit {
                break;
            }
            emit(*now, end, state, out);
            *now = (*now).max(end);
            open.pop();
        }
    };
    for ((start, end), state) in calls {
        close_until(start, &mut open, &mut now, &mut out);
        if let Some(&(_, outer)) = open.last() {
            emit(now, start, outer, &mut out);
        }
        now = now.max(start);
        // Time stamps are inexact: a call cannot end after the one that contains it.
        let end = open.last().map_or(end, |((_, limit), _)| end.min(*limit));
        open.push(((start, end), state));
    }
    close_until(u64::MAX, &mut open, &mut now, &mut out);
    out
}

/// The union of time spans, in order.
fn union(spans: &[Span]) -> Vec<Span> {
    let mut spans = spans.to_vec();
    spans.sort_unstable();
    let mut out: Vec<Span> = Vec::new();
    for (start, end) in spans {
        match out.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// Changes waits inside `spans` to `state`.
fn attribute(states: &States, spans: &[Span], state: u8) -> States {
    let mut out = States::with_capacity(states.len());
    let mut next = 0;
    for &((start, end), own) in states {
        if usize::from(own) != WAIT {
            out.push(((start, end), own));
            continue;
        }
        while next < spans.len() && spans[next].1 <= start {
            next += 1;
        }
        let (mut now, mut i) = (start, next);
        while now < end {
            let (from, to) = spans.get(i).copied().unwrap_or((u64::MAX, u64::MAX));
            if from > now {
                out.push(((now, from.min(end)), own));
                now = from.min(end);
            } else {
                out.push(((now, to.min(end)), state));
                now = to.min(end);
                i += 1;
            }
        }
    }
    out
}

/// The states of every thread, by rank and thread.
pub fn of(model: &Model) -> Vec<((u32, u32), States)> {
    model
        .lanes
        .iter()
        .map(|(&(rank, thread), calls)| {
            let about = model.ranks.get(&rank);
            let states = innermost(calls);
            let spans = |of: fn(&Rank) -> &[Span]| about.map_or_else(Vec::new, |rank| union(of(rank)));
            let states = attribute(&states, &spans(|rank| &rank.barriers), BARRIER as u8);
            let states = attribute(&states, &spans(|rank| &rank.collectives), COLLECTIVE as u8);
            ((rank, thread), states)
        })
        .collect()
}

/// Nanoseconds in each state.
pub fn totals(states: &States) -> [u64; STATES.len()] {
    let mut totals = [0; STATES.len()];
    for ((start, end), state) in states {
        totals[usize::from(*state)] += end - start;
    }
    totals
}

/// Divides `[0, span)` into `count` equal slices. Returns for each the state that has most of its
/// time, and the percentage of the slice inside GASNet: (first slice, slices, state, percent).
/// Equal neighbours are joined; slices with less than one percent are omitted.
pub fn slices(states: &States, span: u64, count: usize) -> Vec<(usize, usize, u8, u8)> {
    let width = (span / count as u64).max(1);
    let mut out: Vec<(usize, usize, u8, u8)> = Vec::new();
    let mut shares = [0_u64; STATES.len()];
    let mut slice = 0;
    let mut finish = |slice: usize, shares: &mut [u64; STATES.len()]| {
        let most = (0..STATES.len())
            .max_by_key(|&i| (shares[i], usize::MAX - i))
            .unwrap_or(0);
        let all: u64 = shares.iter().sum();
        let percent = (all.min(width) * 100 / width) as u8;
        *shares = [0; STATES.len()];
        // Steps of ten, so that neighbours are often equal.
        let percent = if percent >= 10 { percent / 10 * 10 } else { percent };
        if percent == 0 {
            return;
        }
        match out.last_mut() {
            Some((first, length, state, share))
                if *first + *length == slice && usize::from(*state) == most && *share == percent =>
            {
                *length += 1;
            }
            _ => out.push((slice, 1, most as u8, percent)),
        }
    };
    for &((start, end), state) in states {
        let mut now = start;
        while now < end {
            let at = ((now / width) as usize).min(count - 1);
            if at != slice {
                finish(slice, &mut shares);
                slice = at;
            }
            let limit = if at == count - 1 {
                end
            } else {
                end.min((at as u64 + 1) * width)
            };
            shares[usize::from(state)] += limit - now;
            now = limit;
        }
    }
    finish(slice, &mut shares);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_belongs_to_the_innermost_call() {
        let calls = [
            ((10, 20), 8),
            ((12, 15), 4),
            ((13, 14), 3),
            ((30, 31), 0),
            ((15, 18), 4),
        ];
        assert_eq!(
            innermost(&calls),
            [
                ((10, 12), 8),
                ((12, 13), 4),
                ((13, 14), 3),
                ((14, 15), 4),
                ((15, 18), 4),
                ((18, 20), 8),
                ((30, 31), 0)
            ]
        );
        assert_eq!(totals(&innermost(&calls))[8], 4);
    }

    #[test]
    fn waits_count_as_the_collective_in_progress() {
        let states = vec![((0, 10), 8), ((10, 12), 0), ((12, 20), 8)];
        let spans = union(&[(13, 15), (5, 8), (7, 9), (9, 11)]);
        assert_eq!(spans, [(5, 11), (13, 15)]);
        assert_eq!(
            attribute(&states, &spans, 6),
            [
                ((0, 5), 8),
                ((5, 10), 6),
                ((10, 12), 0),
                ((12, 13), 8),
                ((13, 15), 6),
                ((15, 20), 8)
            ]
        );
    }

    #[test]
    fn slices_are_joined_and_empty_ones_omitted() {
        let states = vec![((0, 20), 1), ((20, 25), 2), ((90, 100), 1)];
        assert_eq!(
            slices(&states, 100, 10),
            [(0, 2, 1, 100), (2, 1, 2, 50), (9, 1, 1, 100)]
        );
        assert_eq!(slices(&Vec::new(), 100, 10), []);
    }
}
