//! Reductions in shared memory.
//!
//! Operands are combined from the highest rank to the lowest, so that the left one is only read, where its owner shows it, and operations that do not
//! commute see their order. To one: up a tree of small depth, whose root looks at all others when they are few. To all: everybody, or with many members
//! the last to come, combines everything while that is little; else everybody a part of every chunk, which the others then fetch (reduce-scatter and
//! all-gather, as Rabenseifner's algorithm has them, without its log N rounds; Thakur, Rabenseifner and Gropp 2005, section 4.5).

use super::pipeline::{Shower, Shown, Source};
use super::{Chunk, Near, Passage, Readers};
use crate::coll::choose::{near_to_all, to_one_is_flat, NearToAll, TO_ONE_RADIX};
use crate::coll::operators::Operator;
use crate::coll::p2p::Span;
use crate::coll::until;
use crate::wait;

/// Takes the positions of a reduction to one.
pub fn enter_to_one(near: &'static Near, bytes: usize, operator: &Operator) -> Passage {
    near.enter(bytes, operator.element, 1)
}

/// Takes the positions of a reduction to all.
pub fn enter_to_all(near: &'static Near, bytes: usize, operator: &Operator) -> Passage {
    let stride = match near_to_all(near.count(), bytes, wait::is_crowded()) {
        NearToAll::Flat => 1,
        NearToAll::Last | NearToAll::Parts => 2,
    };
    near.enter(bytes, operator.element, stride)
}

/// `operands` in the order of their ranks, combined into `out`, which may be the last of them and none of the others.
fn fold(operator: &Operator, operands: impl DoubleEndedIterator<Item = Span>, out: Span) {
    let mut lower = operands.rev();
    let Some(last) = lower.next() else { return };
    match lower.next() {
        Some(left) => operator.combine_into(left, last, out),
        None => out.copy_from(last),
    }
    lower.for_each(|left| operator.combine(left, out));
}

/// Whose operands `me` combines, in order and its own among them, and who reads the result.
fn place(me: usize, root: usize, count: usize, commutes: bool) -> (Option<usize>, Vec<usize>) {
    if to_one_is_flat(count, root, commutes) {
        return if me == root {
            (None, (0..count).collect())
        } else {
            (Some(root), vec![me])
        };
    }
    let (relative, absolute) = ((me + count - root) % count, |relative: usize| (relative + root) % count);
    let (mut parent, mut operands, mut step) = (None, vec![me], 1);
    while step < count && parent.is_none() {
        let digit = relative / step % TO_ONE_RADIX;
        if digit == 0 {
            let children = (1..TO_ONE_RADIX).map(|i| relative + i * step).filter(|&child| child < count);
            operands.extend(children.map(absolute));
        } else {
            parent = Some(absolute(relative - digit * step));
        }
        step *= TO_ONE_RADIX;
    }
    (parent, operands)
}

/// Combines everybody's `source` into the `target` of member `root`, which counts there only.
pub async fn to_one(passage: Passage, root: usize, target: Span, source: Span, operator: Operator) {
    let near = passage.near;
    let me = near.me();
    let (parent, operands) = place(me, root, near.count(), operator.commutes);
    if let (Some(parent), 1) = (parent, operands.len()) {
        let readers = Readers::One(parent);
        let steady = true;
        let source = Source {
            data: source,
            steady,
            readers,
        };
        return passage.give(source, || ()).await;
    }
    // The target can be where operands are combined unless the own one lies there and is needed later.
    let in_place = target.at == source.at && operands.last() != Some(&me);
    let mut shown = Shown::new(passage, operands.iter().copied().filter(|&member| member != me).collect());
    for number in 0..passage.chunks {
        let chunk = passage.chunk(number);
        shown.wait(chunk).await;
        let out = if parent.is_some() || in_place {
            passage.room(chunk.position, chunk.bytes).await
        } else {
            target.part(chunk.offset, chunk.bytes)
        };
        let operand = |&member: &usize| {
            if member == me {
                source.part(chunk.offset, chunk.bytes)
            } else {
                shown.of(member, chunk)
            }
        };
        fold(&operator, operands.iter().map(operand), out);
        if let Some(parent) = parent {
            if passage.is_long() && number == 0 {
                passage.announce(0);
            }
            passage.show(chunk.position, Readers::One(parent));
        } else {
            target.part(chunk.offset, chunk.bytes).copy_from(out);
        }
        passage.pass(chunk.position + 1);
    }
}

/// Combines everybody's `source` into everybody's `target`.
pub async fn to_all(passage: Passage, target: Span, source: Span, operator: Operator) {
    let count = passage.near.count();
    match near_to_all(count, passage.bytes, wait::is_crowded()) {
        NearToAll::Flat => up_to(passage, count, target, source, operator).await,
        NearToAll::Last => by_last(passage, target, source, operator).await,
        NearToAll::Parts => parts(passage, target, source, operator).await,
    }
}

/// A `source` that others read while `target`, which may be the same memory, gets the result.
fn shown_to_all(source: Span, target: Span) -> Source {
    Source {
        data: source,
        steady: source.at != target.at,
        readers: Readers::All,
    }
}

/// Combines what the first `count` members show into `target`; nothing is done with that if there are none.
pub async fn up_to(passage: Passage, count: usize, target: Span, source: Span, operator: Operator) {
    let source = shown_to_all(source, target);
    let visit = |chunk: Chunk, shown: &Shown| {
        let operands = (0..count).map(|member| shown.of(member, chunk));
        fold(&operator, operands, target.part(chunk.offset, chunk.bytes));
    };
    passage.share(source, (0..count).collect(), |_| true, visit).await;
}

/// In one chunk: at the first position members show their operands, at the second the last to come shows the result.
async fn by_last(passage: Passage, target: Span, source: Span, operator: Operator) {
    debug_assert!(passage.chunks == 1);
    let (near, chunk) = (passage.near, passage.chunk(0));
    let result = chunk.position + 1;
    passage.room(chunk.position, chunk.bytes).await.copy_from(source);
    if passage.come() {
        let out = passage.room(result, chunk.bytes).await;
        let operands = (0..near.count()).map(|member| passage.slot(member, chunk.position, chunk.bytes));
        fold(&operator, operands, out);
        near.lanes.show(result);
        passage.finish();
        target.copy_from(out);
    } else {
        until(|| passage.finished().is_some()).await;
        // It is finished, so this asks for no wait.
        let last = passage.finished().unwrap_or_else(|| near.me());
        target.copy_from(passage.slot(last, result, chunk.bytes));
    }
    passage.leave();
}

/// Each chunk takes two positions: at the first, members show their operands, at the second, what each has combined of it.
async fn parts(passage: Passage, target: Span, source: Span, operator: Operator) {
    let source = shown_to_all(source, target);
    let (me, count) = (passage.near.me(), passage.near.count());
    let part = |member: usize, whole: Span| {
        let elements = whole.bytes / operator.element;
        let (first, end) = (elements * member / count, elements * (member + 1) / count);
        whole.part(first * operator.element, (end - first) * operator.element)
    };
    let (mut shower, mut shown) = (Shower::new(passage, source, true), Shown::new(passage, (0..count).collect()));
    for step in 0..passage.chunks + 2 {
        if step < passage.chunks {
            shower.chunk(passage.chunk(step)).await;
        }
        if (1..=passage.chunks).contains(&step) {
            let chunk = passage.chunk(step - 1);
            shown.wait(chunk).await;
            let slot = passage.room(chunk.position + 1, chunk.bytes).await;
            let operands = (0..count).map(|member| part(me, shown.of(member, chunk)));
            fold(&operator, operands, part(me, slot));
            passage.show_among_all(chunk.position + 1);
        }
        if step >= 2 {
            let chunk = passage.chunk(step - 2);
            for member in 0..count {
                passage.shown(member, chunk.position + 1).await;
                let combined = passage.slot(member, chunk.position + 1, chunk.bytes);
                part(member, target.part(chunk.offset, chunk.bytes)).copy_from(part(member, combined));
            }
            passage.pass(chunk.position + 2);
        }
    }
    shower.end().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everybody's operand reaches the root once, and in order where that counts.
    #[test]
    fn trees_reach_everybody_in_order() {
        fn row(me: usize, root: usize, count: usize, commutes: bool) -> Vec<usize> {
            let mut all = Vec::new();
            for member in place(me, root, count, commutes).1 {
                if member == me {
                    all.push(me);
                } else {
                    assert_eq!(place(member, root, count, commutes).0, Some(me));
                    all.extend(row(member, root, count, commutes));
                }
            }
            all
        }
        for count in 1..70 {
            for root in [0, 1 % count, count / 2, count - 1] {
                assert_eq!(row(root, root, count, false), (0..count).collect::<Vec<_>>());
                let mut any = row(root, root, count, true);
                any.sort_unstable();
                assert_eq!(any, (0..count).collect::<Vec<_>>());
            }
        }
    }
}
