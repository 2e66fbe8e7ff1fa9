//! Broadcast over the primordial team: a binomial tree of Mediums.
//!
//! Broadcasts are numbered in the order of the calls, which is the same everywhere. Pieces that come before the local call are kept.
//! A rank passes the data on when it has all of it; sending happens in [`progress`], never in a handler.

use std::collections::HashMap;
use std::ptr;
use std::sync::Mutex;

use super::{activate, deactivate};
use crate::am::{inject, internal, max_medium, Arg, Location, Message};
use crate::conduit::Class;
use crate::event::{Category, Op};
use crate::runtime;

/// One broadcast, as far as this rank knows.
#[derive(Debug, Default)]
struct Broadcast {
    /// Bytes that have arrived.
    received: usize,
    /// Pieces that came before the call.
    early: Vec<u8>,
    /// After the call.
    call: Option<Call>,
}

/// The local call.
#[derive(Debug)]
struct Call {
    op: &'static Op,
    /// Where the data is, or will be.
    data: *mut u8,
    bytes: usize,
    /// Ranks to pass it on to, and how far that is.
    children: Vec<u32>,
    child: usize,
    offset: usize,
    is_root: bool,
}

// SAFETY: `data` is the client's buffer, which it leaves to the collective until the operation is complete.
unsafe impl Send for Call {}

#[derive(Debug)]
struct Table {
    active: Option<HashMap<u32, Broadcast>>,
    next: u32,
}

static TABLE: Mutex<Table> = Mutex::new(Table { active: None, next: 0 });

fn table() -> std::sync::MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The children of `rank` in the binomial tree with `root`, the largest subtree first.
fn children(rank: u32, root: u32, size: u32) -> Vec<u32> {
    let relative = (rank + size - root) % size;
    let lowest = if relative == 0 {
        size.next_power_of_two()
    } else {
        relative & relative.wrapping_neg()
    };
    let mut children = Vec::new();
    let mut step = lowest / 2;
    while step > 0 {
        if relative + step < size {
            children.push((relative + step + root) % size);
        }
        step /= 2;
    }
    children
}

/// Starts a broadcast of `bytes` (> 0) at `data`, which holds them at the root. `op` counts it.
pub fn start(root: u32, data: *mut u8, bytes: usize, op: &'static Op) {
    let rt = runtime::get();
    let mut table = table();
    let number = table.next;
    table.next = number.wrapping_add(1);
    op.begin(Category::Coll);
    let broadcast = table.active.get_or_insert_with(HashMap::new).entry(number).or_default();
    if !broadcast.early.is_empty() {
        let early = std::mem::take(&mut broadcast.early);
        // SAFETY: `on_piece` made `early` as long as the broadcast; a root in disagreement with us about the length breaks its contract.
        unsafe { ptr::copy_nonoverlapping(early.as_ptr(), data, early.len().min(bytes)) };
    }
    broadcast.call = Some(Call {
        op,
        data,
        bytes,
        children: children(rt.rank, root, rt.size),
        child: 0,
        offset: 0,
        is_root: rt.rank == root,
    });
    activate();
    drop(table);
    progress();
}

/// Sends what can be sent; completes what is complete.
pub fn progress() -> usize {
    let Ok(mut table) = TABLE.try_lock() else { return 0 };
    let Some(active) = &mut table.active else { return 0 };
    let mut count = 0;
    active.retain(|&number, broadcast| {
        let received = broadcast.received;
        let Some(call) = &mut broadcast.call else { return true };
        if !call.is_root && received < call.bytes {
            return true;
        }
        while call.child < call.children.len() {
            if !send_piece(number, call) {
                return true;
            }
            count += 1;
        }
        deactivate();
        call.op.complete(Category::Coll);
        count += 1;
        false
    });
    count
}

fn send_piece(number: u32, call: &mut Call) -> bool {
    let to = call.children[call.child];
    let bytes = max_medium(Some(to)).min(call.bytes - call.offset);
    let args = [
        number as Arg,
        (call.bytes >> 32) as Arg,
        call.bytes as Arg,
        (call.offset >> 32) as Arg,
        call.offset as Arg,
    ];
    let payload = call.data.wrapping_add(call.offset).cast_const();
    let to = Location { rank: to, ep: 0 };
    let message = Message::internal(Class::Request, to, internal::BROADCAST, &args, Some((payload, bytes)));
    if inject::try_send(&message).is_err() {
        return false;
    }
    call.offset += bytes;
    if call.offset == call.bytes {
        call.offset = 0;
        call.child += 1;
    }
    true
}

/// A piece from the parent. False if it makes no sense.
pub fn on_piece(args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[number, total_high, total_low, high, low] = args else {
        return false;
    };
    let join = |high: Arg, low: Arg| (u64::from(high as u32) << 32 | u64::from(low as u32)) as usize;
    let (total, offset) = (join(total_high, total_low), join(high, low));
    if offset > total || bytes > total - offset {
        return false;
    }
    let mut table = table();
    let broadcast = table
        .active
        .get_or_insert_with(HashMap::new)
        .entry(number as u32)
        .or_default();
    let to = match &broadcast.call {
        Some(call) if call.bytes != total => return false,
        Some(call) => call.data.wrapping_add(offset),
        None => {
            if broadcast.early.is_empty() {
                broadcast.early = vec![0; total];
            }
            if broadcast.early.len() != total {
                return false;
            }
            broadcast.early.as_mut_ptr().wrapping_add(offset)
        }
    };
    // SAFETY: the range was checked against the buffer it goes to; the payload lies in the message.
    unsafe { ptr::copy_nonoverlapping(payload, to, bytes) };
    broadcast.received += bytes;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_reaches_everyone_once() {
        for size in 1..40 {
            for root in 0..size {
                let mut reached = vec![0; size as usize];
                reached[root as usize] = 1;
                for rank in 0..size {
                    for child in children(rank, root, size) {
                        reached[child as usize] += 1;
                    }
                }
                assert!(reached.iter().all(|&n| n == 1), "size {size} root {root}: {reached:?}");
            }
        }
    }
}
