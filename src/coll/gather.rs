//! Gather, scatter, all-gather and all-to-all, of equal or unequal parts.

use super::call::{chunk_bytes, Call};
use super::mail::{Buffer, Span};

/// A buffer with a part for every member.
#[derive(Clone, Debug)]
pub enum Parts {
    /// Equal parts in the order of the ranks, of so many bytes.
    Equal(Span, usize),
    /// Anywhere.
    Listed(Vec<Span>),
}

impl Parts {
    /// The part of `rank`.
    pub fn part(&self, rank: u32) -> Span {
        match self {
            Self::Equal(whole, bytes) => whole.part(rank as usize * bytes, *bytes),
            Self::Listed(parts) => parts[rank as usize],
        }
    }
}

/// Parts that a receiver allows to come at the same time.
const AT_ONCE: u32 = 8;

/// Everybody's `source` arrives in its part of the root's `target`, which counts there only.
pub async fn to_one(call: Call, root: u32, target: Option<Parts>, source: Span) {
    let Some(target) = target else {
        return call.deliver(root, 0, source).await;
    };
    target.part(root).copy_from(source);
    let others: Vec<u32> = (0..call.size()).filter(|&rank| rank != root).collect();
    for group in others.chunks(AT_ONCE as usize) {
        for &from in group {
            call.grant(from, 0, target.part(from)).await;
        }
        for &from in group {
            call.landed(from, 0, target.part(from)).await;
        }
    }
}

/// Everybody's part of the root's `source`, which counts there only, arrives in its `target`.
pub async fn from_one(call: Call, root: u32, target: Span, source: Option<Parts>) {
    let Some(source) = source else {
        call.grant(root, 0, target).await;
        return call.landed(root, 0, target).await;
    };
    target.copy_from(source.part(root));
    for step in 1..call.size() {
        let to = (root + step) % call.size();
        call.deliver(to, 0, source.part(to)).await;
    }
}

/// Everybody's `source` arrives in its part of everybody's `target`.
///
/// Short equal parts: Bruck's algorithm (Bruck and others 1997), in rounds that double what each has. Otherwise a ring: each passes on what it
/// got last.
pub async fn to_all(call: Call, target: Parts, source: Span) {
    match target {
        Parts::Equal(whole, _) if whole.bytes <= chunk_bytes() => doubling(call, whole, source).await,
        _ => ring(call, &target, source).await,
    }
}

async fn ring(call: Call, target: &Parts, source: Span) {
    let (rank, size) = (call.rank(), call.size());
    target.part(rank).copy_from(source);
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    for step in 0..size - 1 {
        let incoming = target.part((rank + size - step - 1) % size);
        call.grant(left, step, incoming).await;
        call.deliver(right, step, target.part((rank + size - step) % size)).await;
        call.landed(left, step, incoming).await;
    }
}

async fn doubling(call: Call, target: Span, source: Span) {
    let (rank, size, bytes) = (call.rank(), call.size(), source.bytes);
    // Part i belongs to rank + i.
    let mut turned = Buffer::copy_of(target);
    let turned = turned.span();
    turned.part(0, bytes).copy_from(source);
    let mut have = 1;
    while have < size {
        let more = have.min(size - have);
        let to_come = turned.part(have as usize * bytes, more as usize * bytes);
        let from = (rank + have) % size;
        call.post(from, have, to_come);
        call.send((rank + size - have) % size, have, turned.part(0, more as usize * bytes))
            .await;
        call.landed(from, have, to_come).await;
        have += more;
    }
    for i in 0..size {
        let owner = (rank + i) % size;
        target
            .part(owner as usize * bytes, bytes)
            .copy_from(turned.part(i as usize * bytes, bytes));
    }
}

/// Part `j` of rank `i`'s `source` arrives in part `i` of rank `j`'s `target`: by pairs, in as many rounds as there are others.
pub async fn exchange(call: Call, target: Parts, source: Parts) {
    let (rank, size) = (call.rank(), call.size());
    target.part(rank).copy_from(source.part(rank));
    for step in 1..size {
        let (to, from) = ((rank + step) % size, (rank + size - step) % size);
        call.grant(from, 0, target.part(from)).await;
        call.deliver(to, 0, source.part(to)).await;
        call.landed(from, 0, target.part(from)).await;
    }
}
