//! The client segments of a neighbourhood: one memory object, mapped once by each process. Behind
//! them, and a page that nobody can touch, lies the table of the segments of all ranks.

use gasnet_sys::atomic::{AtomicU64, Ordering};
use gasnet_sys::mem;

/// This process's mapping of all segments of its neighbourhood.
#[derive(Debug)]
pub struct Mapping {
    /// Local address of the first byte.
    pub base: usize,
    /// Offset of each neighbour's segment, in rank order.
    pub offsets: Vec<usize>,
    /// Bounds and keys of all ranks.
    pub table: SegmentTable,
}

/// Dimensions of a [`SegmentTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Ranks in the job.
    pub ranks: usize,
    /// Most bytes of a key.
    pub key_bytes: usize,
}

impl TableShape {
    /// Words of an entry: base, length, and, if keys have bytes, length and bytes of the key.
    const fn stride(self) -> usize {
        match self.key_bytes {
            0 => 2,
            bytes => 3 + bytes.div_ceil(8),
        }
    }

    const fn bytes(self) -> usize {
        self.ranks * self.stride() * size_of::<u64>()
    }
}

/// Bounds and keys of the segments of all ranks, shared by a neighbourhood. Its leader writes all
/// entries; a barrier follows; then all read them. Words are atomic because another process may
/// write to them at any time, which must not be undefined behaviour here.
#[derive(Clone, Copy, Debug)]
pub struct SegmentTable {
    words: &'static [AtomicU64],
    shape: TableShape,
    /// Words of an entry.
    stride: usize,
}

impl SegmentTable {
    /// The words of an entry, and of those after it.
    #[inline]
    fn words_from(&self, rank: usize) -> Option<&'static [AtomicU64]> {
        // A rank has 32 bits, so this does not overflow.
        self.words.get(rank * self.stride..)
    }

    /// The words of an entry.
    fn words_of(&self, rank: usize) -> Option<&'static [AtomicU64]> {
        self.words_from(rank)?.get(..self.stride)
    }

    /// Ranks in the job.
    pub fn ranks(&self) -> usize {
        self.shape.ranks
    }

    /// Base and length of the segment of `rank`. None if there is no such rank.
    #[inline]
    pub fn bounds(&self, rank: usize) -> Option<(usize, usize)> {
        let [base, bytes, ..] = self.words_from(rank)? else {
            return None;
        };
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed) as usize;
        Some((word(base), word(bytes)))
    }

    /// The key of the segment of `rank`.
    pub fn key(&self, rank: usize) -> Vec<u8> {
        let Some([_, _, length, key @ ..]) = self.words_of(rank) else {
            return Vec::new();
        };
        let bytes = key.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let length = (length.load(Ordering::Relaxed) as usize).min(self.shape.key_bytes);
        bytes.take(length).collect()
    }

    /// Writes the entry of `rank`.
    pub fn write(&self, rank: usize, base: usize, bytes: usize, key: &[u8]) {
        let Some(words) = self.words_of(rank) else { return };
        let head = [base as u64, bytes as u64, key.len() as u64];
        let tail = key.chunks(8).map(|part| {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            u64::from_ne_bytes(word)
        });
        for (word, value) in words.iter().zip(head.into_iter().chain(tail)) {
            word.store(value, Ordering::Relaxed);
        }
    }
}

/// Aligned offsets of segments of the given sizes, back to back, and the total size.
pub fn offsets(sizes: &[usize]) -> (Vec<usize>, usize) {
    let mut end = 0usize;
    let offsets = sizes
        .iter()
        .map(|&size| {
            let start = end;
            end += size.next_multiple_of(mem::segment_page());
            start
        })
        .collect();
    (offsets, end)
}

/// Bytes of the object with segments of `sizes`.
pub fn total_bytes(sizes: &[usize], shape: TableShape) -> usize {
    offsets(sizes).1 + mem::page_size() + shape.bytes()
}

/// Maps the object `fd` with segments of `sizes`: at `wanted` if that is free, so that addresses
/// agree between neighbours, else anywhere. The error is that of the operating system.
pub fn map(fd: i32, sizes: &[usize], shape: TableShape, wanted: Option<usize>) -> std::io::Result<Mapping> {
    let (offsets, end) = offsets(sizes);
    let base = mem::map_shared_aligned(fd, total_bytes(sizes, shape), mem::segment_page(), wanted)?;
    // A client that writes beyond its segment faults before it reaches the table.
    mem::forbid(base + end, mem::page_size())?;
    let table = (base + end + mem::page_size()) as *const AtomicU64;
    // SAFETY: the object, which is never unmapped, has these words at a page's start. They are
    // accessed as atomics only.
    let words = unsafe { std::slice::from_raw_parts(table, shape.bytes() / size_of::<u64>()) };
    let stride = shape.stride();
    let table = SegmentTable { words, shape, stride };
    Ok(Mapping { base, offsets, table })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_page_multiples() {
        let page = mem::segment_page();
        assert_eq!(offsets(&[page, 1, 3 * page]), (vec![0, page, 2 * page], 5 * page));
        assert_eq!(offsets(&[]), (vec![], 0));
    }

    #[test]
    fn table_entries_are_apart() {
        for key_bytes in [0, 1, 8, 13] {
            let shape = TableShape { ranks: 3, key_bytes };
            let words: Vec<AtomicU64> = (0..shape.bytes() / 8).map(|_| AtomicU64::new(u64::MAX)).collect();
            let table = SegmentTable {
                words: words.leak(),
                shape,
                stride: shape.stride(),
            };
            let key = |rank: usize| vec![rank as u8; key_bytes.saturating_sub(rank)];
            for rank in 0..3 {
                table.write(rank, 4096 * rank, 1 << rank, &key(rank));
            }
            for rank in 0..3 {
                assert_eq!(table.bounds(rank), Some((4096 * rank, 1 << rank)));
                assert_eq!(table.key(rank), key(rank));
            }
            assert!(table.bounds(3).is_none() && table.key(3).is_empty());
        }
    }
}
