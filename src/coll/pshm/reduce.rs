//! Reductions in shared memory.
//!
//! Operands are combined from the highest rank down, so the left operand is only read, in its
//! owner's slot, and operations that do not commute see their order.
//!
//! - To one: up a shallow tree. With few members the root reads all others.
//! - To all, little data: every member combines everything, or with many members the last to
//!   arrive.
//! - To all, more data: each member combines one part of every chunk, which the others then read.
//!   This is Rabenseifner's reduce-scatter and all-gather without its log N rounds (Thakur,
//!   Rabenseifner and Gropp 2005, section 4.5).

use super::pipeline::{Publisher, Reader, Source};
use super::{Chunk, PshmCall, PshmTeam, Readers};
use crate::coll::choose::{pshm_to_all, to_one_is_flat, PshmReduceToAll, TO_ONE_RADIX};
use crate::coll::operators::Operator;
use crate::coll::p2p::Span;
use crate::coll::until;
use crate::wait;

/// Reserves the sequence numbers of a reduction to one.
pub fn begin_to_one(team: &'static PshmTeam, bytes: usize, operator: &Operator) -> PshmCall {
    team.begin(bytes, operator.element, 1)
}

/// Reserves the sequence numbers of a reduction to all.
pub fn begin_to_all(team: &'static PshmTeam, bytes: usize, operator: &Operator) -> PshmCall {
    let stride = match pshm_to_all(team.count(), bytes, wait::is_oversubscribed()) {
        PshmReduceToAll::Flat => 1,
        PshmReduceToAll::Last | PshmReduceToAll::ReduceScatter => 2,
    };
    team.begin(bytes, operator.element, stride)
}

/// Combines `operands`, in rank order, into `out`, which may be the last operand but no other.
fn fold(operator: &Operator, operands: impl DoubleEndedIterator<Item = Span>, out: Span) {
    let mut lower = operands.rev();
    let Some(last) = lower.next() else { return };
    match lower.next() {
        Some(left) => operator.combine_into(left, last, out),
        None => out.copy_from(last),
    }
    lower.for_each(|left| operator.combine(left, out));
}

/// The reader of the result of `me`, and the members whose operands it combines, in order and
/// including its own.
fn parent_and_operands(me: usize, root: usize, count: usize, commutes: bool) -> (Option<usize>, Vec<usize>) {
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
            let children = (1..TO_ONE_RADIX)
                .map(|i| relative + i * step)
                .filter(|&child| child < count);
            operands.extend(children.map(absolute));
        } else {
            parent = Some(absolute(relative - digit * step));
        }
        step *= TO_ONE_RADIX;
    }
    (parent, operands)
}

/// Combines every member's `source` into the `target` of member `root`; other targets are unused.
pub async fn to_one(pshm_call: PshmCall, root: usize, target: Span, source: Span, operator: Operator) {
    let team = pshm_call.team;
    let me = team.me();
    let (parent, operands) = parent_and_operands(me, root, team.count(), operator.commutes);
    if let (Some(parent), 1) = (parent, operands.len()) {
        let source = Source::stable(source, Readers::One(parent));
        return pshm_call.produce(source, || ()).await;
    }
    // Operands can be combined in the target, unless it holds the own operand and that is needed
    // later.
    let in_place = target.at == source.at && operands.last() != Some(&me);
    let mut reader = Reader::new(
        pshm_call,
        operands.iter().copied().filter(|&member| member != me).collect(),
    );
    for number in 0..pshm_call.chunks {
        let chunk = pshm_call.chunk(number);
        reader.wait(chunk).await;
        let out = if parent.is_some() || in_place {
            pshm_call.wait_room(chunk.seq, chunk.bytes).await
        } else {
            target.part(chunk.offset, chunk.bytes)
        };
        let operand = |&member: &usize| {
            if member == me {
                source.part(chunk.offset, chunk.bytes)
            } else {
                reader.of(member, chunk)
            }
        };
        fold(&operator, operands.iter().map(operand), out);
        if let Some(parent) = parent {
            if pshm_call.is_long() && number == 0 {
                pshm_call.publish_address(0);
            }
            pshm_call.publish(chunk.seq, Readers::One(parent));
        } else {
            target.part(chunk.offset, chunk.bytes).copy_from(out);
        }
        pshm_call.retire(chunk.seq + 1);
    }
}

/// Combines every member's `source` into every member's `target`.
pub async fn to_all(pshm_call: PshmCall, target: Span, source: Span, operator: Operator) {
    let count = pshm_call.team.count();
    match pshm_to_all(count, pshm_call.bytes, wait::is_oversubscribed()) {
        PshmReduceToAll::Flat => up_to(pshm_call, count, target, source, operator).await,
        PshmReduceToAll::Last => by_last(pshm_call, target, source, operator).await,
        PshmReduceToAll::ReduceScatter => reduce_scatter(pshm_call, target, source, operator).await,
    }
}

/// The own operand, which others read while `target` receives the result. Both may be the same
/// memory.
fn source_to_all(source: Span, target: Span) -> Source {
    Source {
        data: source,
        stable: source.at != target.at,
        readers: Readers::All,
    }
}

/// Combines the operands of the first `count` members into `target`, unless `count` is 0.
pub async fn up_to(pshm_call: PshmCall, count: usize, target: Span, source: Span, operator: Operator) {
    let source = source_to_all(source, target);
    let visit = |chunk: Chunk, reader: &Reader| {
        let operands = (0..count).map(|member| reader.of(member, chunk));
        fold(&operator, operands, target.part(chunk.offset, chunk.bytes));
    };
    pshm_call.exchange(source, (0..count).collect(), |_| true, visit).await;
}

/// One chunk, two sequence numbers: members publish their operands at the first, the last to arrive
/// publishes the result at the second.
async fn by_last(pshm_call: PshmCall, target: Span, source: Span, operator: Operator) {
    debug_assert!(pshm_call.chunks == 1);
    let (team, chunk) = (pshm_call.team, pshm_call.chunk(0));
    let result = chunk.seq + 1;
    pshm_call.wait_room(chunk.seq, chunk.bytes).await.copy_from(source);
    if pshm_call.arrive() {
        let out = pshm_call.wait_room(result, chunk.bytes).await;
        let operands = (0..team.count()).map(|member| pshm_call.slot(member, chunk.seq, chunk.bytes));
        fold(&operator, operands, out);
        team.buffers().publish(result);
        pshm_call.complete();
        target.copy_from(out);
    } else {
        until(|| pshm_call.completed_by().is_some()).await;
        // Complete, so this does not wait.
        let last = pshm_call.completed_by().unwrap_or_else(|| team.me());
        target.copy_from(pshm_call.slot(last, result, chunk.bytes));
    }
    pshm_call.retire_all();
}

/// Each chunk takes two sequence numbers: members publish their operands at the first, and the part
/// of it that they combined at the second.
async fn reduce_scatter(pshm_call: PshmCall, target: Span, source: Span, operator: Operator) {
    let source = source_to_all(source, target);
    let (me, count) = (pshm_call.team.me(), pshm_call.team.count());
    let part = |member: usize, whole: Span| {
        let elements = whole.bytes / operator.element;
        let (first, end) = (elements * member / count, elements * (member + 1) / count);
        whole.part(first * operator.element, (end - first) * operator.element)
    };
    let (mut publisher, mut reader) = (
        Publisher::new(pshm_call, source, true),
        Reader::new(pshm_call, (0..count).collect()),
    );
    for step in 0..pshm_call.chunks + 2 {
        if step < pshm_call.chunks {
            publisher.publish_chunk(pshm_call.chunk(step)).await;
        }
        if (1..=pshm_call.chunks).contains(&step) {
            let chunk = pshm_call.chunk(step - 1);
            reader.wait(chunk).await;
            let slot = pshm_call.wait_room(chunk.seq + 1, chunk.bytes).await;
            let operands = (0..count).map(|member| part(me, reader.of(member, chunk)));
            fold(&operator, operands, part(me, slot));
            pshm_call.publish_to_all(chunk.seq + 1);
        }
        if step >= 2 {
            let chunk = pshm_call.chunk(step - 2);
            for member in 0..count {
                pshm_call.wait_published(member, chunk.seq + 1).await;
                let combined = pshm_call.slot(member, chunk.seq + 1, chunk.bytes);
                part(member, target.part(chunk.offset, chunk.bytes)).copy_from(part(member, combined));
            }
            pshm_call.retire(chunk.seq + 2);
        }
    }
    publisher.wait_readers().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operand reaches the root once, and in order where that matters.
    #[test]
    fn trees_cover_all_members_in_order() {
        fn row(me: usize, root: usize, count: usize, commutes: bool) -> Vec<usize> {
            let mut all = Vec::new();
            for member in parent_and_operands(me, root, count, commutes).1 {
                if member == me {
                    all.push(me);
                } else {
                    assert_eq!(parent_and_operands(member, root, count, commutes).0, Some(me));
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
