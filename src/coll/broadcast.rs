//! Broadcast (`gex_Coll_BroadcastNB`): through shared memory inside a neighbourhood, down a
//! binomial tree over the network, pipelined in chunks.
//!
//! A member forwards each chunk as soon as it has received it. Data of more than one chunk waits
//! for clear-to-send, which a receiver grants one window ahead. A late member therefore causes at
//! most one unexpected chunk.

use std::future::Future;
use std::ops::Range;

use super::call::{chunk_bytes, Call, CLEAR_TO_SEND, WINDOW};
use super::choose::{self, Path};
use super::p2p::Span;
use super::pshm::pipeline::{Reader, Source};
use super::pshm::{Chunk, PshmCall, Readers};
use crate::types::Rank;

/// The parent in the binomial tree (none at the root) and the children, largest subtree first. With
/// root 0, a child's subtree is the ranks that follow it.
pub fn parent_and_children(rank: u32, root: u32, size: u32) -> (Option<u32>, Vec<u32>) {
    let relative = (rank + size - root) % size;
    let absolute = |relative: u32| (relative + root) % size;
    let lowest = if relative == 0 {
        size.next_power_of_two()
    } else {
        relative & relative.wrapping_neg()
    };
    let steps = (0..lowest.trailing_zeros()).rev().map(|bit| 1 << bit);
    let children = steps
        .filter(|step| relative + step < size)
        .map(|step| absolute(relative + step));
    ((relative != 0).then(|| absolute(relative - lowest)), children.collect())
}

/// Copies the root's `source` to the `target` of all members. At the root both may be the same
/// memory.
pub fn broadcast(call: Call, root: Rank, target: Span, source: Span) -> impl Future<Output = ()> + Send {
    let path = choose::path(call.team(), target.bytes, 1, true);
    let pshm = match path {
        _ if target.bytes == 0 => None,
        Path::IntraNbrhd(pshm) => Some(pshm),
        Path::Hierarchical(groups) => groups.pshm.as_ref(),
        Path::Network => None,
    };
    let pshm_call = pshm.map(|pshm| pshm.begin(target.bytes, 1, 1));
    async move {
        let (team, mut leader, mut source) = (call.team(), root, source);
        if !matches!(path, Path::IntraNbrhd(_)) {
            let (mut call, mut top) = (call, root.0);
            if let Path::Hierarchical(groups) = path {
                (call, top) = call.among_leaders(root);
                if top != groups.own {
                    leader = groups.members[0];
                }
            }
            if team.rank == leader || matches!(path, Path::Network) {
                if call.rank() == top {
                    target.copy_from(source);
                }
                network(call, top, target, 0, |_| true).await;
                source = target;
            }
        }
        if let Some(pshm_call) = pshm_call {
            intra_nbrhd(pshm_call, team.groups.member_index(leader), target, source).await;
        }
    }
}

/// Copies the `source` of member `root` to the `target` of all members of the neighbourhood.
pub async fn intra_nbrhd(pshm_call: PshmCall, root: usize, target: Span, source: Span) {
    if pshm_call.is_member(root) {
        let from = Source::stable(source, Readers::All);
        pshm_call.produce(from, || target.copy_from(source)).await;
    } else {
        let visit = |chunk: Chunk, reader: &Reader| {
            target.part(chunk.offset, chunk.bytes).copy_from(reader.of(root, chunk));
        };
        pshm_call.consume(vec![root], |_| true, visit).await;
    }
}

/// Broadcasts over the network, with tags from `base` on. The root sends chunk `i` once `ready(i)`.
pub async fn network(call: Call, root: u32, data: Span, base: u32, mut ready: impl FnMut(usize) -> bool) {
    let (parent, children) = parent_and_children(call.rank(), root, call.size());
    let chunk = chunk_bytes();
    let count = data.bytes.div_ceil(chunk);
    let part = |i: usize| data.part(i * chunk, chunk.min(data.bytes - i * chunk));
    for i in 0..count {
        if let Some(parent) = parent {
            for window in windows_to_grant(i, count) {
                window
                    .clone()
                    .for_each(|j| call.post_receive(parent, base + j as u32, part(j)));
                if count > 1 {
                    call.signal(parent, CLEAR_TO_SEND + base + window.start as u32).await;
                }
            }
        }
        if i % WINDOW == 0 && count > 1 {
            for &child in &children {
                call.receive(child, CLEAR_TO_SEND + base + i as u32).await;
            }
        }
        match parent {
            Some(parent) => call.wait_receive(parent, base + i as u32, part(i)).await,
            None => super::until(|| ready(i)).await,
        }
        for &child in &children {
            call.send(child, base + i as u32, part(i)).await;
        }
    }
}

/// The windows to grant before receiving chunk `i` of `count`: one window ahead, and the first one.
pub fn windows_to_grant(i: usize, count: usize) -> impl Iterator<Item = Range<usize>> {
    let first = if i == 0 { 0 } else { i + WINDOW };
    let end = if i % WINDOW == 0 { i + 2 * WINDOW } else { 0 };
    (first..end.min(count))
        .step_by(WINDOW)
        .map(move |start| start..count.min(start + WINDOW))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_reaches_everyone_once() {
        for size in 1..40 {
            for root in 0..size {
                let mut parents = vec![None; size as usize];
                for rank in 0..size {
                    for child in parent_and_children(rank, root, size).1 {
                        assert_eq!(parents[child as usize].replace(rank), None, "size {size} root {root}");
                    }
                }
                for rank in 0..size {
                    assert_eq!(parents[rank as usize], parent_and_children(rank, root, size).0);
                    assert_eq!(parents[rank as usize].is_none(), rank == root);
                }
            }
        }
    }

    #[test]
    fn every_window_is_granted_once_and_ahead() {
        for count in [1, 2, WINDOW, WINDOW + 1, 2 * WINDOW, 5 * WINDOW + 3] {
            let mut granted = 0;
            for i in 0..count {
                for window in windows_to_grant(i, count) {
                    assert_eq!(window.start, granted);
                    granted = window.end;
                }
                assert!(granted >= count.min(i + WINDOW));
            }
            assert_eq!(granted, count);
        }
    }
}
