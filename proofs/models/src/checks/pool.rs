//! `src/shm/pool.rs`.

use std::sync::Arc;

use loom::thread;

use super::Data;
use crate::atomic::{AtomicBool, Ordering};
use crate::shm::memory::{payload, BlockMemory};
use crate::shm::pool::{Blocks, Pool};

fn fill(blocks: &Blocks, block: u16, value: u32) {
    // SAFETY: loom checks for concurrent access.
    payload(blocks.payload(block)).with_mut(|p| unsafe { *p = value });
}

/// Two threads take and free blocks, for different targets; then none is left.
/// Catches: take not acquire; free not release; take without an exchange.
pub fn one_owner() {
    let pool = Arc::new(Pool::new(BlockMemory::with_blocks(1), 0, 2));
    let threads = [0, 1].map(|target| {
        let pool = Arc::clone(&pool);
        thread::spawn(move || {
            for _ in 0..2 {
                if let Some(block) = pool.take(target, 64) {
                    fill(pool.blocks(), block, target as u32);
                    pool.blocks().free(block);
                }
            }
        })
    });
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(pool.take(0, 64), Some(0));
    assert_eq!(pool.take(1, 64), None);
}

/// A block goes to a receiver, comes back and is filled again.
/// Catches: free not release; take not acquire.
pub fn receiver_frees() {
    let memory = BlockMemory::with_blocks(1);
    let (owner, receiver) = (Pool::new(memory.clone(), 0, 2), Blocks::new(memory));
    let sent = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Data::default());
    let block = owner.take(1, 64).unwrap();
    fill(owner.blocks(), block, 5);
    let thread = {
        let (sent, seen) = (Arc::clone(&sent), Arc::clone(&seen));
        thread::spawn(move || {
            while !sent.load(Ordering::Acquire) {
                thread::yield_now();
            }
            // SAFETY: loom checks for concurrent writes.
            seen.set(payload(receiver.payload(block)).with(|p| unsafe { *p }));
            receiver.free(block);
        })
    };
    sent.store(true, Ordering::Release);
    while owner.in_transit(1) {
        thread::yield_now();
    }
    assert_eq!(owner.take(1, 64), Some(block));
    fill(owner.blocks(), block, 6);
    thread.join().unwrap();
    assert_eq!(seen.get(), 5);
}
