//! Gather, scatter, all-gather and all-to-all. Equal parts go through shared memory inside a
//! neighbourhood; unequal parts over the network, since not every member knows their lengths.

use std::future::Future;

use super::call::{chunk_bytes, Call};
use super::choose;
use super::p2p::{Buffer, Span};
use super::pshm::pipeline::{Reader, Source};
use super::pshm::{Chunk, PshmCall, Readers};
use crate::types::Rank;

/// A buffer with one part per member.
#[derive(Clone, Debug)]
pub enum Parts {
    /// Equal parts of the given number of bytes, in rank order.
    Equal(Span, usize),
    /// Parts at any address, by rank.
    Listed(Vec<Span>),
}

impl Parts {
    /// The part of a position, which in these collectives is a rank in the team.
    pub fn part(&self, position: u32) -> Span {
        match self {
            Self::Equal(whole, bytes) => whole.part(position as usize * bytes, *bytes),
            Self::Listed(parts) => parts[position as usize],
        }
    }
}

/// Messages that a root receives at the same time: the limit of posted receives.
const AT_ONCE: u32 = 8;

/// Begins the collective in shared memory, or returns None for the network. `bytes` is the length
/// of the data of one member.
fn begin(call: Call, bytes: Option<usize>) -> Option<PshmCall> {
    let bytes = bytes.filter(|&bytes| bytes > 0)?;
    choose::intra_nbrhd(call.team(), bytes, 1).map(|pshm| pshm.begin(bytes, 1, 1))
}

/// Copies the intersection of `chunk` and part number `part` from `data`, the bytes of the chunk,
/// to `target`. All parts are as long as `target`.
fn copy_part(chunk: Chunk, part: usize, data: Span, target: Span) {
    let (start, end) = (part * target.bytes, (part + 1) * target.bytes);
    let (first, last) = (chunk.offset.max(start), (chunk.offset + chunk.bytes).min(end));
    if first < last {
        let bytes = last - first;
        target
            .part(first - start, bytes)
            .copy_from(data.part(first - chunk.offset, bytes));
    }
}

/// Copies `chunk` of each of `others` to its part of `target`.
fn copy_all(chunk: Chunk, reader: &Reader, target: &Parts, others: &[u32]) {
    for &from in others {
        let part = target.part(from).part(chunk.offset, chunk.bytes);
        part.copy_from(reader.of(from as usize, chunk));
    }
}

/// Whether `chunk` intersects part number `part`, of parts of `bytes` bytes.
fn has_part(chunk: Chunk, part: usize, bytes: usize) -> bool {
    chunk.offset < (part + 1) * bytes && chunk.offset + chunk.bytes > part * bytes
}

/// Gathers each member's `source` into its part of the root's `target`; other ranks have no target.
/// `equal`: all parts have the same length.
pub fn to_one(
    call: Call,
    root: Rank,
    target: Option<Parts>,
    source: Span,
    equal: bool,
) -> impl Future<Output = ()> + Send {
    let pshm_call = begin(call, equal.then_some(source.bytes));
    async move {
        match (pshm_call, target) {
            (Some(pshm_call), None) => {
                let readers = Readers::One(root.index());
                pshm_call.produce(Source::stable(source, readers), || ()).await;
            }
            (Some(pshm_call), Some(target)) => {
                target.part(root.0).copy_from(source);
                let others: Vec<u32> = (0..call.size()).filter(|&rank| rank != root.0).collect();
                let visit = |chunk: Chunk, reader: &Reader| copy_all(chunk, reader, &target, &others);
                pshm_call
                    .consume(others.iter().map(|&rank| rank as usize).collect(), |_| true, visit)
                    .await;
            }
            (None, None) => call.send_rendezvous(root.0, 0, source).await,
            (None, Some(target)) => network_to_one(call, root.0, target, source).await,
        }
    }
}

async fn network_to_one(call: Call, root: u32, target: Parts, source: Span) {
    target.part(root).copy_from(source);
    let others: Vec<u32> = (0..call.size()).filter(|&rank| rank != root).collect();
    for group in others.chunks(AT_ONCE as usize) {
        for &from in group {
            call.post_rendezvous(from, 0, target.part(from)).await;
        }
        for &from in group {
            call.wait_receive(from, 0, target.part(from)).await;
        }
    }
}

/// Scatters the parts of the root's `source` to each member's `target`; other ranks have no source.
/// `equal`: all parts have the same length.
pub fn from_one(
    call: Call,
    root: Rank,
    target: Span,
    source: Option<Parts>,
    equal: bool,
) -> impl Future<Output = ()> + Send {
    let pshm_call = begin(call, equal.then(|| target.bytes * call.size() as usize));
    async move {
        match (pshm_call, source) {
            (Some(pshm_call), Some(Parts::Equal(whole, bytes))) => {
                let own = whole.part(root.index() * bytes, bytes);
                pshm_call
                    .produce(Source::stable(whole, Readers::All), || target.copy_from(own))
                    .await;
            }
            (Some(pshm_call), _) => {
                let (me, root) = (call.rank() as usize, root.index());
                let visit = |chunk: Chunk, reader: &Reader| copy_part(chunk, me, reader.of(root, chunk), target);
                pshm_call
                    .consume(vec![root], |chunk| has_part(chunk, me, target.bytes), visit)
                    .await;
            }
            (None, Some(source)) => {
                target.copy_from(source.part(call.rank()));
                for step in 1..call.size() {
                    let to = (root.0 + step) % call.size();
                    call.send_rendezvous(to, 0, source.part(to)).await;
                }
            }
            (None, None) => {
                call.post_rendezvous(root.0, 0, target).await;
                call.wait_receive(root.0, 0, target).await;
            }
        }
    }
}

/// Copies each member's `source` to its part of every member's `target`.
///
/// Over the network: for short equal parts, Bruck's algorithm (Bruck and others 1997), whose rounds
/// double the data at each member; otherwise a ring, in which each member forwards the last part it
/// received.
pub fn to_all(call: Call, target: Parts, source: Span) -> impl Future<Output = ()> + Send {
    let pshm_call = begin(call, matches!(target, Parts::Equal(..)).then_some(source.bytes));
    async move {
        match (pshm_call, target) {
            (Some(pshm_call), target) => {
                target.part(call.rank()).copy_from(source);
                let others: Vec<u32> = (0..call.size()).filter(|&rank| rank != call.rank()).collect();
                let visit = |chunk: Chunk, reader: &Reader| copy_all(chunk, reader, &target, &others);
                let from = others.iter().map(|&rank| rank as usize).collect();
                pshm_call
                    .exchange(Source::stable(source, Readers::All), from, |_| true, visit)
                    .await;
            }
            (None, Parts::Equal(whole, _)) if whole.bytes <= chunk_bytes() => doubling(call, whole, source).await,
            (None, target) => ring(call, &target, source).await,
        }
    }
}

async fn ring(call: Call, target: &Parts, source: Span) {
    let (rank, size) = (call.rank(), call.size());
    target.part(rank).copy_from(source);
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    for step in 0..size - 1 {
        let incoming = target.part((rank + size - step - 1) % size);
        call.post_rendezvous(left, step, incoming).await;
        call.send_rendezvous(right, step, target.part((rank + size - step) % size))
            .await;
        call.wait_receive(left, step, incoming).await;
    }
}

async fn doubling(call: Call, target: Span, source: Span) {
    let (rank, size, bytes) = (call.rank(), call.size(), source.bytes);
    // Rotated: part i is that of rank + i.
    let mut turned = Buffer::copy_of(target);
    let turned = turned.span();
    turned.part(0, bytes).copy_from(source);
    let mut have = 1;
    while have < size {
        let more = have.min(size - have);
        let to_come = turned.part(have as usize * bytes, more as usize * bytes);
        let from = (rank + have) % size;
        call.post_receive(from, have, to_come);
        call.send((rank + size - have) % size, have, turned.part(0, more as usize * bytes))
            .await;
        call.wait_receive(from, have, to_come).await;
        have += more;
    }
    for i in 0..size {
        let owner = (rank + i) % size;
        target
            .part(owner as usize * bytes, bytes)
            .copy_from(turned.part(i as usize * bytes, bytes));
    }
}

/// Copies part `j` of rank `i`'s `source` to part `i` of rank `j`'s `target`. Over the network, by
/// pairwise exchange in one round per other member.
pub fn exchange(call: Call, target: Parts, source: Parts) -> impl Future<Output = ()> + Send {
    let whole = match (&target, &source) {
        (Parts::Equal(..), Parts::Equal(whole, _)) => Some(*whole),
        _ => None,
    };
    let pshm_call = begin(call, whole.map(|whole| whole.bytes)).zip(whole);
    async move {
        let (rank, size) = (call.rank(), call.size());
        target.part(rank).copy_from(source.part(rank));
        if let Some((pshm_call, whole)) = pshm_call {
            let (me, bytes) = (rank as usize, whole.bytes / size as usize);
            let from: Vec<usize> = (0..size as usize).filter(|&member| member != me).collect();
            let visit = |chunk: Chunk, reader: &Reader| {
                for &from in &from {
                    copy_part(chunk, me, reader.of(from, chunk), target.part(from as u32));
                }
            };
            let wants = |chunk| has_part(chunk, me, bytes);
            return pshm_call
                .exchange(Source::stable(whole, Readers::All), from.clone(), wants, visit)
                .await;
        }
        for step in 1..size {
            let (to, from) = ((rank + step) % size, (rank + size - step) % size);
            call.post_rendezvous(from, 0, target.part(from)).await;
            call.send_rendezvous(to, 0, source.part(to)).await;
            call.wait_receive(from, 0, target.part(from)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_in_chunks() {
        const CHUNK: usize = 10;
        for bytes in [1, 3, 10, 17] {
            let whole: Vec<u8> = (0..5 * bytes).map(|i| i as u8).collect();
            for part in 0..5 {
                let mut target = vec![0u8; bytes];
                let to = Span {
                    at: target.as_mut_ptr(),
                    bytes,
                };
                for offset in (0..whole.len()).step_by(CHUNK) {
                    let length = CHUNK.min(whole.len() - offset);
                    let chunk = Chunk {
                        seq: 0,
                        offset,
                        bytes: length,
                    };
                    let data = Span::source(whole[offset..].as_ptr(), length);
                    copy_part(chunk, part, data, to);
                    assert_eq!(
                        has_part(chunk, part, bytes),
                        offset < (part + 1) * bytes && part * bytes < offset + length
                    );
                }
                assert_eq!(target, whole[part * bytes..(part + 1) * bytes]);
            }
        }
    }
}
