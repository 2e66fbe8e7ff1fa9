//! The heap of a fabric: rings of queues, in blocks of powers of two. Offsets, because processes
//! map it at different addresses.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CLASSES: usize = 40;
const SMALLEST: u32 = 6;

/// All zero: empty. Calls are made under the fabric's allocation lock.
#[repr(C)]
pub struct Heap {
    /// Bytes that have ever been given out.
    top: AtomicU64,
    /// First free block + 1 of each class; a free block begins with the next.
    free: [AtomicU64; CLASSES],
}

fn class(bytes: u64) -> u32 {
    bytes.next_power_of_two().trailing_zeros().max(SMALLEST)
}

impl Heap {
    /// The offset of a block of at least `bytes` bytes; its content is arbitrary.
    pub fn take(&self, words: &[AtomicU64], bytes: u64) -> Option<u64> {
        let class = class(bytes);
        let first = self.free[class as usize].load(Relaxed);
        if first != 0 {
            let offset = first - 1;
            self.free[class as usize].store(words[offset as usize / 8].load(Relaxed), Relaxed);
            return Some(offset);
        }
        let offset = self.top.load(Relaxed);
        let end = offset + (1 << class);
        (end <= words.len() as u64 * 8).then(|| {
            self.top.store(end, Relaxed);
            offset
        })
    }

    pub fn give(&self, words: &[AtomicU64], offset: u64, bytes: u64) {
        let class = class(bytes);
        words[offset as usize / 8].store(self.free[class as usize].load(Relaxed), Relaxed);
        self.free[class as usize].store(offset + 1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_again_and_do_not_overlap() {
        let words: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: atomics may be all zero.
        let heap: Heap = unsafe { std::mem::zeroed() };
        let a = heap.take(&words, 100).unwrap();
        let b = heap.take(&words, 128).unwrap();
        assert_eq!(b - a, 128);
        heap.give(&words, a, 100);
        assert_eq!(heap.take(&words, 65), Some(a));
        assert_eq!(heap.take(&words, 512), None, "beyond the end");
    }
}
