//! Reductions (`gex_Coll_ReduceToOneNB`, `gex_Coll_ReduceToAllNB`): in shared memory ([`super::pshm::reduce`]), in messages, or both.
//!
//! In messages, to one: a binomial tree, in chunks of whole elements that go up one after the other. A parent combines its children in the order
//! of their ranks, each with what stands for the ranks above it, so that an operation that does not commute sees its operands in order; then
//! the tree has rank 0 as root, which passes the result on. To all: recursive doubling for what fits a chunk; for more, recursive halving, or
//! up the tree and down again, both pipelined ([`super::choose`]). The order of operations depends on size, length and layout only: results
//! are the same in every run.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::broadcast::{self, windows_to_permit};
use super::call::{chunk_bytes, join, Call, GO, WINDOW};
use super::choose::{self, FarToAll, Way};
use super::operators::Operator;
use super::p2p::{Buffer, Span};
use super::pshm::reduce as near;
use crate::runtime;

/// Slot of the result on its way from rank 0 to the root.
const RESULT: u32 = 1 << 30;
/// First slot of what goes down again.
const DOWN: u32 = 1 << 29;
/// First slot of halves on their way back.
const BACK: u32 = 1 << 28;

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
pub fn to_one(call: Call, root: u32, target: Span, source: Span, operator: Operator) -> impl Future<Output = ()> + Send {
    let team = call.team();
    let way = choose::way(team, source.bytes, operator.element, operator.commutes);
    let lanes = team.groups.near.as_ref().filter(|_| !matches!(way, Way::Far));
    let passage = lanes.map(|lanes| near::enter_to_one(lanes, source.bytes, &operator));
    async move {
        let Way::Layered(groups) = way else {
            return match passage {
                Some(passage) => near::to_one(passage, team.groups.place(root), target, source, operator).await,
                None => far_to_one(call, root, target, source, operator).await,
            };
        };
        let (call, group) = call.among_speakers(root);
        let speaker = if group == groups.own { root } else { groups.members[0] };
        let (mut room, mut source) = (Buffer::default(), source);
        if let Some(passage) = passage {
            let mut sum = target;
            if team.rank == speaker && speaker != root {
                room = Buffer::copy_of(source);
                sum = room.span();
            }
            near::to_one(passage, groups.place(speaker), sum, source, operator).await;
            source = sum;
        }
        if team.rank == speaker {
            far_to_one(call, group, target, source, operator).await;
        }
        drop(room);
    }
}

/// The same in messages.
async fn far_to_one(call: Call, root: u32, target: Span, source: Span, operator: Operator) {
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
        if count > 1 {
            for window in windows_to_permit(i, count) {
                for &child in &children {
                    call.signal(absolute(child), GO + window.start as u32).await;
                }
            }
            if let Some(parent) = parent.filter(|_| i % WINDOW == 0) {
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
pub fn to_all(call: Call, target: Span, source: Span, operator: Operator) -> impl Future<Output = ()> + Send {
    let team = call.team();
    let way = choose::way(team, source.bytes, operator.element, operator.commutes);
    let lanes = team.groups.near.as_ref();
    let whole = lanes
        .filter(|_| matches!(way, Way::Near(_)))
        .map(|lanes| near::enter_to_all(lanes, source.bytes, &operator));
    let layers = lanes.filter(|_| matches!(way, Way::Layered(_))).map(|lanes| {
        let to_one = near::enter_to_one(lanes, source.bytes, &operator);
        (to_one, lanes.enter(source.bytes, 1, 1))
    });
    async move {
        let Way::Layered(groups) = way else {
            return match whole {
                Some(passage) => near::to_all(passage, target, source, operator).await,
                None => far_to_all(call, target, source, operator).await,
            };
        };
        let mut sum = source;
        if let Some((to_one, _)) = layers {
            near::to_one(to_one, 0, target, source, operator).await;
            sum = target;
        }
        if team.rank == groups.members[0] {
            far_to_all(call.among_speakers(groups.speakers[0]).0, target, sum, operator).await;
        }
        if let Some((_, to_all)) = layers {
            broadcast::near_to(to_all, 0, target, target).await;
        }
    }
}

/// The same in messages.
async fn far_to_all(call: Call, target: Span, source: Span, operator: Operator) {
    // Nothing is sent for no elements, so there is nothing to wait for.
    if source.bytes == 0 {
        return;
    }
    match choose::far_to_all(call.size(), source.bytes, operator.element, chunk_bytes()) {
        // Fewer messages, more of them one after the other.
        FarToAll::Doubling if runtime::get().crowded => up_and_down(call, target, source, operator).await,
        FarToAll::Doubling => doubling(call, target, source, operator).await,
        FarToAll::Halving => halving(call, target, source, operator).await,
        FarToAll::Tree => up_and_down(call, target, source, operator).await,
    }
}

async fn up_and_down(call: Call, target: Span, source: Span, operator: Operator) {
    let (done, chunk) = (AtomicUsize::new(0), whole_chunk(operator.element));
    // A chunk of the way down is as long as a message carries, which may be more or less than one of the way up.
    let ready = |i: usize| {
        let needed = ((i + 1) * chunk_bytes()).min(source.bytes);
        (done.load(Ordering::Relaxed) * chunk).min(source.bytes) >= needed
    };
    join(
        up(call, 0, target, source, operator, &done),
        broadcast::far(call, 0, target, DOWN, ready),
    )
    .await;
}

/// Who takes part in rounds that double the distance, where the size is no power of two: of the first pairs of neighbouring ranks the second member
/// speaks for both.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    power: u32,
    extra: u32,
}

impl Rounds {
    fn of(size: u32) -> Self {
        let power = 1 << size.ilog2();
        Self {
            power,
            extra: size - power,
        }
    }

    /// Who speaks for `rank`, if it does not speak itself.
    fn speaker(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra && rank % 2 == 0).then_some(rank + 1)
    }

    /// For whom `rank` speaks, too.
    fn ward(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra && rank % 2 == 1).then(|| rank - 1)
    }

    fn number(self, rank: u32) -> u32 {
        if rank < 2 * self.extra {
            rank / 2
        } else {
            rank - self.extra
        }
    }

    fn member(self, number: u32) -> u32 {
        if number < self.extra {
            2 * number + 1
        } else {
            number + self.extra
        }
    }
}

/// Everybody exchanges with partners at distances 1, 2, 4, ….
async fn doubling(call: Call, target: Span, source: Span, operator: Operator) {
    let (rank, rounds) = (call.rank(), Rounds::of(call.size()));
    let mut sum = Buffer::copy_of(source);
    if let Some(speaker) = rounds.speaker(rank) {
        call.send(speaker, 0, sum.span()).await;
        call.post(speaker, RESULT, target);
        call.landed(speaker, RESULT, target).await;
        return;
    }
    let ward = rounds.ward(rank);
    if let Some(ward) = ward {
        let mut left = call.receive(ward, 0).await;
        operator.combine(left.span(), sum.span());
    }
    let number = rounds.number(rank);
    let mut distance = 1;
    while distance < rounds.power {
        let partner = rounds.member(number ^ distance);
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
    if let Some(ward) = ward {
        call.send(ward, RESULT, target).await;
    }
}

/// The same with half of what is left of the vector in each round, and the halves back in opposite order. Distances grow while vectors shrink, so
/// that what stands for a row of ranks meets what stands for the next row.
async fn halving(call: Call, target: Span, source: Span, operator: Operator) {
    let (rank, rounds) = (call.rank(), Rounds::of(call.size()));
    if let Some(speaker) = rounds.speaker(rank) {
        call.deliver(speaker, 0, source).await;
        call.grant(speaker, RESULT, target).await;
        return call.landed(speaker, RESULT, target).await;
    }
    target.copy_from(source);
    let ward = rounds.ward(rank);
    if let Some(ward) = ward {
        take_and_combine(call, ward, 0, target, &operator).await;
    }
    let number = rounds.number(rank);
    let split = |whole: Span| {
        let low = whole.bytes / operator.element / 2 * operator.element;
        (whole.part(0, low), whole.part(low, whole.bytes - low))
    };
    let (mut mine, mut others, mut distance) = (target, Vec::new(), 1);
    while distance < rounds.power {
        let partner = rounds.member(number ^ distance);
        let (low, high) = split(mine);
        let (keep, give) = if number & distance == 0 { (low, high) } else { (high, low) };
        join(
            call.deliver(partner, distance, give),
            take_and_combine(call, partner, distance, keep, &operator),
        )
        .await;
        others.push((partner, distance, give));
        mine = keep;
        distance *= 2;
    }
    while let Some((partner, distance, missing)) = others.pop() {
        call.grant(partner, BACK + distance, missing).await;
        call.deliver(partner, BACK + distance, mine).await;
        call.landed(partner, BACK + distance, missing).await;
        let start = if mine.at < missing.at { mine } else { missing };
        mine = Span {
            at: start.at,
            bytes: mine.bytes + missing.bytes,
        };
    }
    if let Some(ward) = ward {
        call.deliver(ward, RESULT, target).await;
    }
}

/// Takes what `from` delivers, and combines it with `own` in the order of ranks.
async fn take_and_combine(call: Call, from: u32, slot: u32, own: Span, operator: &Operator) {
    let mut other = Buffer::copy_of(own);
    call.grant(from, slot, other.span()).await;
    call.landed(from, slot, other.span()).await;
    if from < call.rank() {
        operator.combine(other.span(), own);
    } else {
        operator.combine(own, other.span());
        own.copy_from(other.span());
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
