//! A pool of memory of an attachment: first fit, so that equal calls give equal offsets.

use std::collections::BTreeMap;
use std::sync::Mutex;

use emulator_common::lock::locked;

/// Bytes of a new block that are made unlike zero, because libelan's pools are used again.
const SPOILT: usize = 1 << 16;
/// Unit of blocks.
const GRANULE: usize = 64;
/// Alignment of the pool, and so the largest of a block.
const ALIGN: usize = 1 << 21;

pub struct Pool {
    mapping: usize,
    pub base: usize,
    pub bytes: usize,
    /// Lengths of the blocks that are in use, by offset.
    blocks: Mutex<BTreeMap<usize, usize>>,
}

impl Pool {
    pub fn new(bytes: u64) -> Option<Pool> {
        let bytes = (bytes as usize).next_multiple_of(4096);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), bytes + ALIGN, rights, flags, -1, 0) };
        (mapping != libc::MAP_FAILED).then(|| Pool {
            mapping: mapping as usize,
            base: (mapping as usize).next_multiple_of(ALIGN),
            bytes,
            blocks: Mutex::default(),
        })
    }

    /// The offset of a new block.
    pub fn take(&self, align: usize, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULE)?;
        let align = align.max(GRANULE);
        if align > ALIGN || !align.is_power_of_two() {
            return None;
        }
        let mut blocks = locked(&self.blocks);
        let mut start = 0;
        for (&offset, &length) in blocks.iter() {
            if start + bytes <= offset {
                break;
            }
            start = (offset + length).next_multiple_of(align);
        }
        if start.checked_add(bytes)? > self.bytes {
            return None;
        }
        blocks.insert(start, bytes);
        // SAFETY: the block lies in the mapping, and nobody else has it.
        unsafe { std::ptr::write_bytes((self.base + start) as *mut u8, 0xa5, bytes.min(SPOILT)) };
        Some(start)
    }

    /// Whether the address was that of a block.
    pub fn give(&self, address: usize) -> bool {
        let offset = address.wrapping_sub(self.base);
        locked(&self.blocks).remove(&offset).is_some()
    }

    /// The offset of a range that lies in one block.
    pub fn find(&self, address: usize, bytes: usize) -> Option<usize> {
        let offset = address.wrapping_sub(self.base);
        self.holds(offset, bytes).then_some(offset)
    }

    /// Whether a range of offsets lies in one block.
    pub fn holds(&self, offset: usize, bytes: usize) -> bool {
        if offset >= self.bytes || bytes > self.bytes {
            return false;
        }
        let blocks = locked(&self.blocks);
        let block = blocks.range(..=offset).next_back();
        block.is_some_and(|(start, length)| offset + bytes <= start + length)
    }

    /// Blocks in use.
    pub fn count(&self) -> usize {
        locked(&self.blocks).len()
    }

    /// Unmaps all of it. Nobody may use it any more.
    pub fn discard(&self) {
        locked(&self.blocks).clear();
        // SAFETY: the mapping is this pool's own, and the caller vouches that nobody uses it.
        unsafe { libc::munmap(self.mapping as *mut _, self.bytes + ALIGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_and_used_again() {
        let pool = Pool::new(8192).unwrap();
        let a = pool.take(1, 100).unwrap();
        let b = pool.take(4096, 4096).unwrap();
        assert_eq!((a, b), (0, 4096));
        assert_eq!(pool.take(1, 4096), None);
        assert_eq!(pool.take(1, 3000), Some(128), "between them");
        assert!(pool.holds(100, 28) && !pool.holds(100, 29));
        assert!(pool.give(pool.base + a) && !pool.give(pool.base + a));
        assert_eq!(pool.take(1, 1), Some(0));
        pool.discard();
    }
}
