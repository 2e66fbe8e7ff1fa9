//! Reductions (`gex_Coll_ReduceToOneNB`, `gex_Coll_ReduceToAllNB`): in shared memory
//! ([`super::pshm::reduce`]), over the network, or hierarchical.
//!
//! To one, over the network: a binomial tree, pipelined in chunks of whole elements. A parent
//! combines its children in rank order, each with the operands of higher ranks, so an operation
//! that does not commute sees its operands in order. For such an operation the tree has rank 0 as
//! its top, which forwards the result to the root.
//!
//! To all: recursive doubling for what fits into one message; for more, recursive halving, or up
//! and down the tree, both pipelined ([`super::choose`]). The order of operations depends only on
//! size, length and layout: results are the same in every run.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::broadcast::{self, parent_and_children, windows_to_grant};
use super::call::{chunk_bytes, join, Call, CLEAR_TO_SEND, WINDOW};
use super::choose::{self, NetworkReduceToAll, Path};
use super::operators::Operator;
use super::p2p::{Buffer, Span};
use super::pshm::reduce as intra_nbrhd;
use crate::runtime;
use crate::types::Rank;

/// Tag of the result from rank 0 to the root.
const RESULT: u32 = 1 << 30;
/// First tag of messages down the tree.
const DOWN: u32 = 1 << 29;
/// First tag of the all-gather phase of recursive halving.
const BACK: u32 = 1 << 28;

/// Bytes per chunk: as many whole elements as fit into one message, at least one.
fn whole_chunk(element: usize) -> usize {
    (chunk_bytes() / element).max(1) * element
}

/// Combines every member's `source` into the root's `target`; other ranks' `target` is unused.
pub fn to_one(
    call: Call,
    root: Rank,
    target: Span,
    source: Span,
    operator: Operator,
) -> impl Future<Output = ()> + Send {
    let team = call.team();
    let path = choose::path(team, source.bytes, operator.element, operator.commutes);
    let pshm = team.groups.pshm.as_ref().filter(|_| !matches!(path, Path::Network));
    let pshm_call = pshm.map(|pshm| intra_nbrhd::begin_to_one(pshm, source.bytes, &operator));
    async move {
        let Path::Hierarchical(groups) = path else {
            return match pshm_call {
                Some(pshm_call) => {
                    intra_nbrhd::to_one(pshm_call, team.groups.member_index(root), target, source, operator).await;
                }
                None => network_to_one(call, root.0, target, source, operator).await,
            };
        };
        let (call, group) = call.among_leaders(root);
        let leader = if group == groups.own { root } else { groups.members[0] };
        let (mut room, mut source) = (Buffer::default(), source);
        if let Some(pshm_call) = pshm_call {
            let mut sum = target;
            if team.rank == leader && leader != root {
                room = Buffer::copy_of(source);
                sum = room.span();
            }
            intra_nbrhd::to_one(pshm_call, groups.member_index(leader), sum, source, operator).await;
            source = sum;
        }
        if team.rank == leader {
            network_to_one(call, group, target, source, operator).await;
        }
        drop(room);
    }
}

/// [`to_one`] over the network.
async fn network_to_one(call: Call, root: u32, target: Span, source: Span, operator: Operator) {
    // Ranks may be rotated only if operands commute; otherwise the top of the tree is rank 0.
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
        up(call, top, source, operator, Arrived { result, done: &done }).await;
        if top != root {
            call.send_rendezvous(root, RESULT, result).await;
        }
        drop(room);
        return;
    }
    let result = Span::EMPTY;
    up(call, top, source, operator, Arrived { result, done: &done }).await;
    if call.rank() == root {
        call.post_rendezvous(top, RESULT, target).await;
        call.wait_receive(top, RESULT, target).await;
    }
}

/// The chunks that have arrived at the top of a tree.
struct Arrived<'a> {
    /// The memory at the top where all chunks arrive, in order. Empty elsewhere.
    result: Span,
    /// Their number.
    done: &'a AtomicUsize,
}

/// Combines chunks up the tree to `top`.
async fn up(call: Call, top: u32, source: Span, operator: Operator, arrived: Arrived<'_>) {
    let (parent, mut children) = parent_and_children(call.rank(), top, call.size());
    // Smallest subtree first: that of the next ranks.
    children.reverse();
    let chunk = whole_chunk(operator.element);
    let count = source.bytes.div_ceil(chunk);
    for i in 0..count {
        if count > 1 {
            for window in windows_to_grant(i, count) {
                for &child in &children {
                    call.signal(child, CLEAR_TO_SEND + window.start as u32).await;
                }
            }
            if let Some(parent) = parent.filter(|_| i % WINDOW == 0) {
                call.receive(parent, CLEAR_TO_SEND + i as u32).await;
            }
        }
        let bytes = chunk.min(source.bytes - i * chunk);
        let mut sum = source.part(i * chunk, bytes);
        let mut holder = Buffer::default();
        for &child in &children {
            let mut right = call.receive(child, i as u32).await;
            operator.combine(sum, right.span());
            sum = right.span();
            // Releases the buffer that `sum` pointed to before.
            holder = right;
        }
        if let Some(parent) = parent {
            call.send(parent, i as u32, sum).await;
        } else {
            arrived.result.part(i * chunk, bytes).copy_from(sum);
            arrived.done.store(i + 1, Ordering::Relaxed);
            super::request_poll();
        }
        drop(holder);
    }
}

/// Combines every member's `source` into every member's `target`.
pub fn to_all(call: Call, target: Span, source: Span, operator: Operator) -> impl Future<Output = ()> + Send {
    let team = call.team();
    let path = choose::path(team, source.bytes, operator.element, operator.commutes);
    let pshm = team.groups.pshm.as_ref();
    let flat = pshm
        .filter(|_| matches!(path, Path::IntraNbrhd(_)))
        .map(|pshm| intra_nbrhd::begin_to_all(pshm, source.bytes, &operator));
    let hierarchical = pshm.filter(|_| matches!(path, Path::Hierarchical(_))).map(|pshm| {
        let to_one = intra_nbrhd::begin_to_one(pshm, source.bytes, &operator);
        (to_one, pshm.begin(source.bytes, 1, 1))
    });
    async move {
        let Path::Hierarchical(groups) = path else {
            return match flat {
                Some(pshm_call) => intra_nbrhd::to_all(pshm_call, target, source, operator).await,
                None => network_to_all(call, target, source, operator).await,
            };
        };
        let mut sum = source;
        if let Some((to_one, _)) = hierarchical {
            intra_nbrhd::to_one(to_one, 0, target, source, operator).await;
            sum = target;
        }
        if team.rank == groups.members[0] {
            network_to_all(call.among_leaders(groups.leaders[0]).0, target, sum, operator).await;
        }
        if let Some((_, to_all)) = hierarchical {
            broadcast::intra_nbrhd(to_all, 0, target, target).await;
        }
    }
}

/// [`to_all`] over the network.
async fn network_to_all(call: Call, target: Span, source: Span, operator: Operator) {
    // Empty messages are not sent, so there is nothing to receive.
    if source.bytes == 0 {
        return;
    }
    match choose::network_to_all(call.size(), source.bytes, operator.element, chunk_bytes()) {
        // Fewer messages, at a longer critical path: less work for shared cores.
        NetworkReduceToAll::Doubling if runtime::get().oversubscribed => {
            up_and_down(call, target, source, operator).await;
        }
        NetworkReduceToAll::Doubling => doubling(call, target, source, operator).await,
        NetworkReduceToAll::Halving => halving(call, target, source, operator).await,
        NetworkReduceToAll::Tree => up_and_down(call, target, source, operator).await,
    }
}

async fn up_and_down(call: Call, target: Span, source: Span, operator: Operator) {
    let (done, chunk) = (AtomicUsize::new(0), whole_chunk(operator.element));
    // Chunks down the tree have the size of a message, which may differ from that of chunks up.
    let ready = |i: usize| {
        let needed = ((i + 1) * chunk_bytes()).min(source.bytes);
        (done.load(Ordering::Relaxed) * chunk).min(source.bytes) >= needed
    };
    let arrived = Arrived {
        result: target,
        done: &done,
    };
    join(
        up(call, 0, source, operator, arrived),
        broadcast::network(call, 0, target, DOWN, ready),
    )
    .await;
}

/// The members of a recursive-doubling exchange among a power of two: of the first `extra` pairs of
/// ranks, the odd rank takes part for both.
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

    /// The rank that takes part for `rank`, if `rank` does not.
    fn proxy(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra && rank % 2 == 0).then_some(rank + 1)
    }

    /// The rank for which `rank` takes part as well.
    fn folded(self, rank: u32) -> Option<u32> {
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

/// Exchanges with partners at distances 1, 2, 4, ….
async fn doubling(call: Call, target: Span, source: Span, operator: Operator) {
    let (rank, rounds) = (call.rank(), Rounds::of(call.size()));
    let mut sum = Buffer::copy_of(source);
    if let Some(proxy) = rounds.proxy(rank) {
        call.send(proxy, 0, sum.span()).await;
        call.post_receive(proxy, RESULT, target);
        call.wait_receive(proxy, RESULT, target).await;
        return;
    }
    let folded = rounds.folded(rank);
    if let Some(folded) = folded {
        let mut left = call.receive(folded, 0).await;
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
    if let Some(folded) = folded {
        call.send(folded, RESULT, target).await;
    }
}

/// Recursive halving: each round exchanges half of the remaining vector; the halves return in
/// opposite order. Distances grow while vectors shrink, so each round combines the operands of
/// consecutive ranks with those of the next ones.
async fn halving(call: Call, target: Span, source: Span, operator: Operator) {
    let (rank, rounds) = (call.rank(), Rounds::of(call.size()));
    if let Some(proxy) = rounds.proxy(rank) {
        call.send_rendezvous(proxy, 0, source).await;
        call.post_rendezvous(proxy, RESULT, target).await;
        return call.wait_receive(proxy, RESULT, target).await;
    }
    target.copy_from(source);
    let folded = rounds.folded(rank);
    if let Some(folded) = folded {
        take_and_combine(call, folded, 0, target, &operator).await;
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
        let (keep, give) = if number & distance == 0 {
            (low, high)
        } else {
            (high, low)
        };
        join(
            call.send_rendezvous(partner, distance, give),
            take_and_combine(call, partner, distance, keep, &operator),
        )
        .await;
        others.push((partner, distance, give));
        mine = keep;
        distance *= 2;
    }
    while let Some((partner, distance, missing)) = others.pop() {
        call.post_rendezvous(partner, BACK + distance, missing).await;
        call.send_rendezvous(partner, BACK + distance, mine).await;
        call.wait_receive(partner, BACK + distance, missing).await;
        let start = if mine.at < missing.at { mine } else { missing };
        mine = Span {
            at: start.at,
            bytes: mine.bytes + missing.bytes,
        };
    }
    if let Some(folded) = folded {
        call.send_rendezvous(folded, RESULT, target).await;
    }
}

/// Receives the operand of `from` and combines it with `own`, in rank order.
async fn take_and_combine(call: Call, from: u32, tag: u32, own: Span, operator: &Operator) {
    let mut other = Buffer::copy_of(own);
    call.post_rendezvous(from, tag, other.span()).await;
    call.wait_receive(from, tag, other.span()).await;
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

    /// A subtree covers consecutive ranks, and the subtrees of children follow each other. This
    /// keeps operands in order.
    #[test]
    fn subtrees_are_rows() {
        fn row(rank: u32, size: u32) -> Vec<u32> {
            let mut all = vec![rank];
            for child in parent_and_children(rank, 0, size).1.into_iter().rev() {
                assert_eq!(parent_and_children(child, 0, size).0, Some(rank));
                all.extend(row(child, size));
            }
            all
        }
        for size in 1..50 {
            assert_eq!(row(0, size), (0..size).collect::<Vec<_>>());
        }
    }
}
