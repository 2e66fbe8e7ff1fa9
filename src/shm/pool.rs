//! A sender's payload blocks in shared memory, for payloads that do not fit into a ring record.
//!
//! Invariant: a block is free (state 0) or belongs to the thread that took it, until the receiver
//! of the message that names it (or the sender, on cancel) frees it.
//!
//! SYNC POINT block-reuse: [`Blocks::free`] (release) pairs with [`Blocks::take`] (acquire).

use super::memory::BlockMemory;
use gasnet_sys::atomic::{AtomicUsize, Ordering};

/// Blocks of one owner and one class, as seen by any process of the neighbourhood.
#[derive(Debug)]
pub struct Blocks {
    memory: BlockMemory,
    /// Where the last search ended; a hint.
    cursor: AtomicUsize,
}

impl Blocks {
    /// The blocks in `memory`.
    pub fn new(memory: BlockMemory) -> Self {
        Self {
            memory,
            cursor: AtomicUsize::new(0),
        }
    }

    /// Takes a free block and returns its index.
    pub fn take(&self) -> Option<u16> {
        let from = self.cursor.load(Ordering::Relaxed);
        let count = self.memory.count();
        for i in 0..count {
            let index = (from + i) % count;
            let state = self.memory.state(index);
            if state.load(Ordering::Relaxed) == 0
                && state
                    .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                self.cursor.store(index + 1, Ordering::Relaxed);
                return Some(index as u16);
            }
        }
        None
    }

    /// Whether a block is free now.
    pub fn any_free(&self) -> bool {
        (0..self.memory.count()).any(|i| self.memory.state(i).load(Ordering::Relaxed) == 0)
    }

    /// Whether `index` names a block and `bytes` fit into it.
    pub fn holds(&self, index: u16, bytes: usize) -> bool {
        usize::from(index) < self.memory.count() && bytes <= self.memory.payload_bytes()
    }

    /// First byte of the payload of block `index`.
    pub fn payload(&self, index: u16) -> *mut u8 {
        self.memory.payload(usize::from(index))
    }

    /// Frees block `index`.
    pub fn free(&self, index: u16) {
        self.memory.state(usize::from(index)).store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::blocks_bytes;
    use super::*;

    #[test]
    fn blocks_are_taken_once_and_come_back() {
        let mut memory = vec![0u64; blocks_bytes(3, 128) / 8 + 8];
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: rounding up stays inside the spare 64 bytes.
        let base = unsafe { base.add(base.align_offset(64)) };
        // SAFETY: aligned, long enough, zero.
        let blocks = Blocks::new(unsafe { BlockMemory::new(base, 3, 128) });
        let taken: Vec<_> = (0..3).map(|_| blocks.take().unwrap()).collect();
        assert!(blocks.take().is_none() && !blocks.any_free());
        blocks.free(taken[1]);
        assert_eq!(blocks.take(), Some(taken[1]));
        assert!(blocks.holds(2, 128) && !blocks.holds(3, 1) && !blocks.holds(0, 129));
    }
}
