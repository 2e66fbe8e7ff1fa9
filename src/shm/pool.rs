//! A sender's payload blocks in shared memory, for payloads that do not fit into a ring record.
//!
//! Invariant: a block is free (state 0) or belongs to the thread that took it, until the receiver
//! of the message that names it (or the sender, on cancel) frees it.
//!
//! The owner notes the target of each block, and whether the block is prepared: then it waits for a
//! thread of the owner's rather than for that target.
//!
//! SYNC POINT block-reuse: [`Blocks::free`] (release) pairs with [`Pool::take`] (acquire). What the
//! owner notes of a block is written by the block's holder, so it is ordered likewise.

use super::memory::BlockMemory;
use gasnet_sys::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Blocks of one owner and one class, as seen by any process of the neighbourhood.
#[derive(Debug)]
pub struct Blocks(BlockMemory);

impl Blocks {
    /// The blocks in `memory`.
    pub fn new(memory: BlockMemory) -> Self {
        Self(memory)
    }

    /// Whether `index` names a block and `bytes` fit into it.
    pub fn holds(&self, index: u16, bytes: usize) -> bool {
        usize::from(index) < self.0.count() && bytes <= self.0.payload_bytes()
    }

    /// First byte of the payload of block `index`.
    pub fn payload(&self, index: u16) -> *mut u8 {
        self.0.payload(usize::from(index))
    }

    /// Frees block `index`.
    pub fn free(&self, index: u16) {
        self.0.state(usize::from(index)).store(0, Ordering::Release);
    }

    fn is_free(&self, index: usize) -> bool {
        self.0.state(index).load(Ordering::Relaxed) == 0
    }

    /// Takes block `index` if it is free.
    fn take(&self, index: usize) -> bool {
        self.is_free(index)
            && self
                .0
                .state(index)
                .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }
}

/// The target that a block was last taken for, as a number that is never 0; twice that number, plus 1
/// while the block is prepared. 0: no target yet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Use(u32);

impl Use {
    const fn of(target: usize) -> Self {
        Self((target as u32 + 1) << 1)
    }

    const fn prepared(self) -> Self {
        Self(self.0 | 1)
    }

    const fn in_transit(self) -> Self {
        Self(self.0 & !1)
    }
}

/// The owner's side of its blocks of one class.
#[derive(Debug)]
pub struct Pool {
    blocks: Blocks,
    /// Where the last search ended; a hint.
    cursor: AtomicUsize,
    /// The [`Use`] of each block. Only the holder of a block changes it.
    uses: Box<[AtomicU32]>,
}

impl Pool {
    /// The owner's side of the blocks in `memory`.
    pub fn new(memory: BlockMemory) -> Self {
        Self {
            cursor: AtomicUsize::new(0),
            uses: (0..memory.count()).map(|_| AtomicU32::new(0)).collect(),
            blocks: Blocks::new(memory),
        }
    }

    /// The blocks themselves.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Takes a free block for a message to `target`.
    pub fn take(&self, target: usize) -> Option<u16> {
        let uses = &*self.uses;
        let from = self.cursor.load(Ordering::Relaxed).min(uses.len());
        let index = (from..uses.len())
            .chain(0..from)
            .find(|&index| self.blocks.take(index))?;
        self.cursor.store(index + 1, Ordering::Relaxed);
        uses[index].store(Use::of(target).0, Ordering::Relaxed);
        Some(index as u16)
    }

    /// Notes whether `block`, which the calling thread holds, is prepared: it is freed only after
    /// something that a thread of this process does.
    pub fn set_prepared(&self, block: u16, prepared: bool) {
        let word = &self.uses[usize::from(block)];
        let now = Use(word.load(Ordering::Relaxed));
        let then = if prepared { now.prepared() } else { now.in_transit() };
        word.store(then.0, Ordering::Relaxed);
    }

    /// Whether a block is in transit to `target`: in use by a message to it, and not prepared. The
    /// target frees it by polling.
    pub fn in_transit(&self, target: usize) -> bool {
        let to_target = Use::of(target).0;
        let mut uses = self.uses.iter().enumerate();
        uses.any(|(index, word)| word.load(Ordering::Relaxed) == to_target && !self.blocks.is_free(index))
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::blocks_bytes;
    use super::*;

    /// A pool of `count` blocks, and its memory.
    fn pool(count: usize) -> (Vec<u64>, Pool) {
        let mut memory = vec![0u64; blocks_bytes(count, 128) / 8 + 8];
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: rounding up stays inside the spare 64 bytes.
        let base = unsafe { base.add(base.align_offset(64)) };
        // SAFETY: aligned, long enough, zero.
        let blocks = unsafe { BlockMemory::new(base, count, 128) };
        (memory, Pool::new(blocks))
    }

    #[test]
    fn blocks_are_taken_once_and_come_back() {
        let (_memory, pool) = pool(3);
        let taken: Vec<_> = (0..3).map(|_| pool.take(1).unwrap()).collect();
        assert!(pool.take(1).is_none() && pool.take(0).is_none());
        pool.blocks().free(taken[1]);
        assert_eq!(pool.take(1), Some(taken[1]));
        pool.blocks().free(taken[0]);
        assert_eq!(pool.take(0), Some(taken[0]));
        let blocks = pool.blocks();
        assert!(blocks.holds(2, 128) && !blocks.holds(3, 1) && !blocks.holds(0, 129));
    }

    #[test]
    fn a_prepared_block_is_not_in_transit() {
        let (_memory, pool) = pool(4);
        let (first, second) = (pool.take(1).unwrap(), pool.take(1).unwrap());
        assert!(pool.in_transit(1) && !pool.in_transit(2));
        pool.set_prepared(first, true);
        assert!(pool.in_transit(1));
        pool.set_prepared(second, true);
        assert!(!pool.in_transit(1));
        pool.set_prepared(second, false);
        assert!(pool.in_transit(1));
        pool.blocks().free(second);
        assert!(!pool.in_transit(1));
    }
}
