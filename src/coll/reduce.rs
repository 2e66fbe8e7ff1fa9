//! Reductions (`gex_Coll_ReduceToOneNB`, `gex_Coll_ReduceToAllNB`).
//!
//! To one: a binomial tree, in chunks of whole elements that go up one after the other. A parent combines its children in the order of their
//! ranks, each with what stands for the ranks above it, so that an operation that does not commute sees its operands in order; then the tree has
//! rank 0 as root, which passes the result on. To all: recursive doubling for what fits a chunk (Thakur, Rabenseifner and Gropp 2005, section
//! 4.5, with pairs of neighbouring ranks merged first where the size is no power of two), otherwise up the tree and down again, both pipelined.
//! The order of operations depends on size and length only: results are the same in every run.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::broadcast;
use super::call::{chunk_bytes, join, Call, GO, WINDOW};
use super::mail::{Buffer, Span};
use super::operators::Operator;

/// Slot of the result on its way from rank 0 to the root.
const RESULT: u32 = 1 << 30;
/// First slot of what goes down again.
const DOWN: u32 = 1 << 29;

/// Bytes of a chunk: as many whole elements as fit one, at least one.
fn whole_chunk(element: usize) -> usize {
    (chunk_bytes() / element).max(1) * element
}

/// The children of `rank` in the binomial tree with root 0, the smallest subtree first, and the parent.
fn place(rank: u32, size: u32) -> (Option<u32>, Vec<u32>) {
    let lowest = if rank == 0 {
        size.next_power_of_two()
    } else {
        rank & rank.wrapping_neg()
    };
    let steps = (0..lowest.trailing_zeros()).map(|bit| rank + (1 << bit));
    (
        (rank != 0).then(|| rank - lowest),
        steps.filter(|&child| child < size).collect(),
    )
}

/// Combines everybody's `source` into the root's `target`, which counts there only.
pub async fn to_one(call: Call, root: u32, target: Span, source: Span, operator: Operator) {
    // The tree's root is rank 0, unless ranks may be renumbered.
    let top = if operator.commutes { root } else { 0 };
    let done = AtomicUsize::new(0);
    if call.rank() == top {
        let mut room = Buffer::default();
        let result = if top == root {
            target
        } else {
            room = Buffer::copy_of(source);
            room.span()
        };
        up(call, top, result, source, operator, &done).await;
        if top != root {
            call.deliver(root, RESULT, result).await;
        }
        drop(room);
        return;
    }
    up(call, top, Span::EMPTY, source, operator, &done).await;
    if call.rank() == root {
        call.grant(top, RESULT, target).await;
        call.landed(top, RESULT, target).await;
    }
}

/// The way up to `top`. At `top` the chunks arrive in `result` one by one; `done` counts them.
async fn up(call: Call, top: u32, result: Span, source: Span, operator: Operator, done: &AtomicUsize) {
    let size = call.size();
    let absolute = |relative: u32| (relative + top) % size;
    let (parent, children) = place((call.rank() + size - top) % size, size);
    let chunk = whole_chunk(operator.element);
    let count = source.bytes.div_ceil(chunk);
    for i in 0..count {
        if i % WINDOW == 0 && count > 1 {
            for &child in &children {
                call.signal(absolute(child), GO + i as u32).await;
            }
            if let Some(parent) = parent {
                call.receive(absolute(parent), GO + i as u32).await;
            }
        }
        let bytes = chunk.min(source.bytes - i * chunk);
        let mut sum = source.part(i * chunk, bytes);
        let mut kept = Buffer::default();
        for &child in &children {
            let mut right = call.receive(absolute(child), i as u32).await;
            operator.combine(sum, right.span());
            sum = right.span();
            // What `sum` pointed to before may go now.
            kept = right;
        }
        if let Some(parent) = parent {
            call.send(absolute(parent), i as u32, sum).await;
        } else {
            result.part(i * chunk, bytes).copy_from(sum);
            done.store(i + 1, Ordering::Relaxed);
            super::look_again();
        }
        drop(kept);
    }
}

/// Combines everybody's `source` into everybody's `target`.
pub async fn to_all(call: Call, target: Span, source: Span, operator: Operator) {
    if source.bytes <= chunk_bytes() {
        return doubling(call, target, source, operator).await;
    }
    let (done, chunk) = (AtomicUsize::new(0), whole_chunk(operator.element));
    // A chunk of the way down is as long as a message carries, which may be more or less than one of the way up.
    let ready = |i: usize| {
        let needed = ((i + 1) * chunk_bytes()).min(source.bytes);
        (done.load(Ordering::Relaxed) * chunk).min(source.bytes) >= needed
    };
    join(
        up(call, 0, target, source, operator, &done),
        broadcast::whole(call, 0, target, DOWN, ready),
    )
    .await;
}

/// Everybody exchanges with partners at distances 1, 2, 4, …; ranks beyond the largest power of two are merged with a neighbour first.
async fn doubling(call: Call, target: Span, source: Span, operator: Operator) {
    let (rank, size) = (call.rank(), call.size());
    let power = 1 << size.ilog2();
    let extra = size - power;
    let mut sum = Buffer::copy_of(source);
    // The first 2 × extra ranks are pairs, of which the second speaks for both.
    if rank < 2 * extra && rank % 2 == 0 {
        call.send(rank + 1, 0, sum.span()).await;
        call.post(rank + 1, RESULT, target);
        call.landed(rank + 1, RESULT, target).await;
        return;
    }
    let in_pair = rank < 2 * extra;
    if in_pair {
        let mut left = call.receive(rank - 1, 0).await;
        operator.combine(left.span(), sum.span());
    }
    let number = if in_pair { rank / 2 } else { rank - extra };
    let member = |number: u32| if number < extra { 2 * number + 1 } else { number + extra };
    let mut distance = 1;
    while distance < power {
        let partner = member(number ^ distance);
        call.send(partner, distance, sum.span()).await;
        let mut other = call.receive(partner, distance).await;
        if partner > rank {
            operator.combine(sum.span(), other.span());
            sum = other;
        } else {
            operator.combine(other.span(), sum.span());
        }
        distance *= 2;
    }
    target.copy_from(sum.span());
    if in_pair {
        call.send(rank - 1, RESULT, target).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ranks that a subtree stands for are a row, and children's rows follow on each other: what keeps operands in order.
    #[test]
    fn subtrees_are_rows() {
        fn row(rank: u32, size: u32) -> Vec<u32> {
            let mut all = vec![rank];
            for child in place(rank, size).1 {
                assert_eq!(place(child, size).0, Some(rank));
                all.extend(row(child, size));
            }
            all
        }
        for size in 1..50 {
            assert_eq!(row(0, size), (0..size).collect::<Vec<_>>());
        }
    }
}
