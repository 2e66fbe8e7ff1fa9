//! Broadcast (`gex_Coll_BroadcastNB`): a binomial tree, pipelined in chunks.
//!
//! A member passes a chunk on as soon as it has it. Data of more than one chunk waits for permission, a window at a time, so that a member that is
//! late keeps no more than one chunk for others.

use super::call::{chunk_bytes, Call, GO, WINDOW};
use super::mail::Span;

/// Where a member is in the tree: its parent (none at the root) and its children, the largest subtree first.
fn place(rank: u32, root: u32, size: u32) -> (Option<u32>, Vec<u32>) {
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

/// Gives all members what `data` holds at the root.
pub async fn over(call: Call, root: u32, data: Span) {
    whole(call, root, data, 0, |_| true).await;
}

/// The same, with slots from `base` on; at the root a chunk goes out when it is `ready`.
pub async fn whole(call: Call, root: u32, data: Span, base: u32, mut ready: impl FnMut(usize) -> bool) {
    let (parent, children) = place(call.rank(), root, call.size());
    let chunk = chunk_bytes();
    let count = data.bytes.div_ceil(chunk);
    let part = |i: usize| data.part(i * chunk, chunk.min(data.bytes - i * chunk));
    for i in 0..count {
        if i % WINDOW == 0 {
            let window = i..count.min(i + WINDOW);
            if let Some(parent) = parent {
                window.for_each(|j| call.post(parent, base + j as u32, part(j)));
                if count > 1 {
                    call.signal(parent, GO + base + i as u32).await;
                }
            }
            if count > 1 {
                for &child in &children {
                    call.receive(child, GO + base + i as u32).await;
                }
            }
        }
        match parent {
            Some(parent) => call.landed(parent, base + i as u32, part(i)).await,
            None => super::until(|| ready(i)).await,
        }
        for &child in &children {
            call.send(child, base + i as u32, part(i)).await;
        }
    }
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
                    for child in place(rank, root, size).1 {
                        assert_eq!(parents[child as usize].replace(rank), None, "size {size} root {root}");
                    }
                }
                for rank in 0..size {
                    assert_eq!(parents[rank as usize], place(rank, root, size).0);
                    assert_eq!(parents[rank as usize].is_none(), rank == root);
                }
            }
        }
    }
}
