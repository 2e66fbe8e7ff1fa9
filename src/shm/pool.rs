//! A sender's payload blocks in shared memory, for payloads that do not fit into a ring record.
//!
//! Invariant: a block is free (state 0) or belongs to the thread that took it, until the receiver
//! of the message that names it (or the sender, on cancel) frees it.
//!
//! The owner takes a block for one target, and notes whether it is prepared: then it waits for a
//! thread of the owner's rather than for the target. A quarter of the blocks is reserved for the
//! targets in equal parts, so that a receiver that computes leaves blocks for the others. A block
//! stays assigned to its last target while it is free: nobody counts frees, and the same target
//! takes it again without accounting.
//!
//! SYNC POINT block-reuse: [`Blocks::free`] (release) pairs with [`Pool::take`] (acquire). The
//! owner's notes on a block are written by the block's holder, so they are ordered likewise.

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

    /// Tells `ThreadSanitizer`, which sees no other process, that the caller has written block
    /// `index` for the last time: whoever takes it next is ordered after this.
    #[inline]
    pub fn hand_over(&self, index: u16) {
        if cfg!(gasnet_tsan) {
            self.0.state(usize::from(index)).fetch_or(0, Ordering::Release);
        }
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

/// The target that a block is assigned to, as a number that is never 0; twice that number, plus 1
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

    fn target(self) -> Option<usize> {
        (self.0 >> 1).checked_sub(1).map(|target| target as usize)
    }
}

/// Payloads up to this begin with the pair of blocks that was used last: messages that alternate
/// with answers need two blocks (the receiver is often about to free the last one), which stay in
/// the nearest cache. Larger ones go round: lines that are changed in another core's second cache
/// take longer to fetch than those that it has given up.
const HOT: usize = 8192;

/// The owner's side of its blocks of one class.
#[derive(Debug)]
pub struct Pool {
    blocks: Blocks,
    /// The block that was taken last; a hint.
    latest: AtomicUsize,
    /// The [`Use`] of each block. Only the holder of a block changes it.
    uses: Box<[AtomicU32]>,
    /// Blocks assigned to each target, in use or free: from `reserved` to `most`.
    assigned: Box<[AtomicU32]>,
    reserved: u32,
    most: u32,
}

impl Pool {
    /// The owner's side of the blocks in `memory`, for messages of rank `me` to all `ranks`.
    pub fn new(memory: BlockMemory, me: usize, ranks: usize) -> Self {
        let (count, others) = (memory.count(), ranks - 1);
        // Of several targets none gets everything, even if there are too many for a reserve.
        let (reserved, most) = if others > 1 {
            (count / 4 / others, count - count.div_ceil(8))
        } else {
            (0, count)
        };
        let targets = (0..ranks).filter(|&rank| rank != me);
        let uses = targets.flat_map(|target| std::iter::repeat_n(Use::of(target).0, reserved));
        let assigned = |rank| if rank == me { 0 } else { reserved as u32 };
        Self {
            latest: AtomicUsize::new(0),
            uses: uses
                .chain(std::iter::repeat(0))
                .take(count)
                .map(AtomicU32::new)
                .collect(),
            assigned: (0..ranks).map(|rank| AtomicU32::new(assigned(rank))).collect(),
            reserved: reserved as u32,
            most: most as u32,
            blocks: Blocks::new(memory),
        }
    }

    /// The blocks themselves.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Takes a block for `bytes` to `target`. None while no block that it may have is free.
    pub fn take(&self, target: usize, bytes: usize) -> Option<u16> {
        let (uses, wanted) = (&*self.uses, Use::of(target));
        let latest = self.latest.load(Ordering::Relaxed);
        let from = if bytes <= HOT {
            latest & !1
        } else {
            (latest + 1).min(uses.len())
        };
        let may_grow = self.assigned[target].load(Ordering::Relaxed) < self.most;
        for index in (from..uses.len()).chain(0..from) {
            let last = Use(uses[index].load(Ordering::Relaxed));
            if (last.in_transit() == wanted || may_grow && self.may_lose(last)) && self.blocks.take(index) {
                if self.assign(index, target) {
                    self.latest.store(index, Ordering::Relaxed);
                    return Some(index as u16);
                }
                self.blocks.free(index as u16);
            }
        }
        None
    }

    /// Whether the target of `last` has a block to spare.
    fn may_lose(&self, last: Use) -> bool {
        last.target()
            .is_none_or(|other| self.assigned[other].load(Ordering::Relaxed) > self.reserved)
    }

    /// Assigns block `index`, which the caller has just taken. False, with no effect, if another
    /// thread has changed what the targets have, so that `target` may not have it.
    #[inline]
    fn assign(&self, index: usize, target: usize) -> bool {
        let (last, wanted) = (Use(self.uses[index].load(Ordering::Relaxed)), Use::of(target));
        if last == wanted {
            return true;
        }
        if last.in_transit() != wanted && !self.reassign(last, target) {
            return false;
        }
        self.uses[index].store(wanted.0, Ordering::Relaxed);
        true
    }

    /// Counts a block of `last` for `target`, within the limits of both.
    fn reassign(&self, last: Use, target: usize) -> bool {
        let change = |rank: usize, step: fn(u32) -> u32, limit: u32| {
            self.assigned[rank]
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                    (count != limit).then_some(step(count))
                })
                .is_ok()
        };
        if !change(target, |count| count + 1, self.most) {
            return false;
        }
        if last
            .target()
            .is_some_and(|other| !change(other, |count| count - 1, self.reserved))
        {
            self.assigned[target].fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        true
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
        self.are_in_transit(target, 1)
    }

    /// Whether half of all blocks are.
    pub fn half_in_transit(&self, target: usize) -> bool {
        self.are_in_transit(target, self.uses.len().div_ceil(2))
    }

    fn are_in_transit(&self, target: usize, wanted: usize) -> bool {
        let to_target = Use::of(target).0;
        let uses = self.uses.iter().enumerate();
        uses.filter(|&(index, word)| word.load(Ordering::Relaxed) == to_target && !self.blocks.is_free(index))
            .nth(wanted - 1)
            .is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::blocks_bytes;
    use super::*;

    /// The pool of rank 0 of `ranks`, with `count` blocks, and its memory.
    fn pool(count: usize, ranks: usize) -> (Vec<u64>, Pool) {
        let mut memory = vec![0u64; blocks_bytes(count, 128) / 8 + 8];
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: rounding up stays inside the spare 64 bytes.
        let base = unsafe { base.add(base.align_offset(64)) };
        // SAFETY: aligned, long enough, zero.
        let blocks = unsafe { BlockMemory::new(base, count, 128) };
        (memory, Pool::new(blocks, 0, ranks))
    }

    #[test]
    fn blocks_are_taken_once_and_come_back() {
        let (_memory, pool) = pool(3, 2);
        let taken: Vec<_> = (0..3).map(|_| pool.take(1, 64).unwrap()).collect();
        assert!(pool.take(1, 64).is_none() && pool.take(0, 64).is_none());
        pool.blocks().free(taken[1]);
        assert_eq!(pool.take(1, 64), Some(taken[1]));
        pool.blocks().free(taken[0]);
        assert_eq!(pool.take(0, 64), Some(taken[0]));
        let blocks = pool.blocks();
        assert!(blocks.holds(2, 128) && !blocks.holds(3, 1) && !blocks.holds(0, 129));
    }

    #[test]
    fn small_payloads_stay_in_a_pair_of_blocks() {
        let (_memory, pool) = pool(8, 2);
        let take_and_free = |bytes, freed| {
            let taken = pool.take(1, bytes).unwrap();
            pool.blocks().free(freed);
            taken
        };
        // Each message finds the block of the last one in use.
        let first = pool.take(1, HOT).unwrap();
        let second = take_and_free(HOT, first);
        assert_eq!(take_and_free(HOT, second), first);
        assert_eq!(take_and_free(HOT, first), second);
        let third = take_and_free(HOT + 1, second);
        assert!(third != first && third != second);
    }

    #[test]
    fn one_target_leaves_blocks_for_the_others() {
        for (count, ranks, most, reserved) in [(32, 2, 32, 0), (32, 3, 28, 4), (32, 4, 28, 2), (32, 9, 25, 1)] {
            let (_memory, pool) = pool(count, ranks);
            let all_for = |target| std::iter::from_fn(|| pool.take(target, 64)).collect::<Vec<_>>();
            let first = all_for(1);
            assert_eq!(first.len(), most, "{count} blocks, {ranks} ranks");
            for target in 2..ranks {
                assert_eq!(all_for(target).len(), reserved, "{count} blocks, {ranks} ranks");
            }
            // A block that one target frees goes to another, but for the reserve.
            for &block in &first {
                pool.blocks().free(block);
            }
            let last = all_for(ranks - 1).len();
            assert_eq!(last, if ranks == 2 { count } else { most - reserved });
        }
        // Too few blocks for a reserve.
        for (count, ranks, most) in [(32, 64, 28), (4, 9, 3)] {
            let (_memory, pool) = pool(count, ranks);
            for wanted in [most, count - most, 0] {
                let target = 1 + wanted % (ranks - 1);
                assert_eq!(std::iter::from_fn(|| pool.take(target, 64)).count(), wanted);
            }
        }
    }

    #[test]
    fn a_prepared_block_is_not_in_transit() {
        let (_memory, pool) = pool(4, 3);
        let (first, second) = (pool.take(1, 64).unwrap(), pool.take(1, 64).unwrap());
        assert!(pool.in_transit(1) && !pool.in_transit(2));
        pool.set_prepared(first, true);
        assert!(pool.in_transit(1));
        pool.set_prepared(second, true);
        assert!(!pool.in_transit(1));
        pool.set_prepared(second, false);
        assert!(pool.in_transit(1));
        pool.blocks().free(second);
        assert!(!pool.in_transit(1));
        // A prepared block counts: three of four are the most for one target.
        let more = std::iter::from_fn(|| pool.take(1, 64)).count();
        assert_eq!(more, 2);
    }
}
