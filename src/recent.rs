//! The attached segments that a thread has reached last over the network: most operations find
//! theirs here, in a few loads. An attached segment lives as long as the process.

use std::cell::Cell;

use gasnet_conduit::{JobRank, RemoteSegment};

/// A power of two.
const ENTRIES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Entry {
    rank: JobRank,
    segment: RemoteSegment,
    base: usize,
    bytes: usize,
}

/// By the low bits of a rank, one segment.
#[derive(Debug)]
pub struct Recent([Cell<Entry>; ENTRIES]);

impl Default for Recent {
    fn default() -> Self {
        const NONE: Entry = Entry {
            rank: JobRank(u32::MAX),
            segment: RemoteSegment(0),
            base: 0,
            bytes: 0,
        };
        Self([const { Cell::new(NONE) }; ENTRIES])
    }
}

impl Recent {
    fn entry(&self, rank: JobRank) -> &Cell<Entry> {
        &self.0[rank.index() % ENTRIES]
    }

    /// The conduit's number for the segment of `rank`, if it is known here and has the range.
    #[inline(always)]
    pub fn find(&self, rank: JobRank, address: usize, bytes: usize) -> Option<RemoteSegment> {
        let entry = self.entry(rank).get();
        let offset = address.wrapping_sub(entry.base);
        let is_inside = offset <= entry.bytes && bytes <= entry.bytes - offset;
        (entry.rank == rank && is_inside).then_some(entry.segment)
    }

    /// Notes the segment of `rank`, with its base and length.
    pub fn note(&self, rank: JobRank, (base, bytes): (usize, usize), segment: RemoteSegment) {
        self.entry(rank).set(Entry {
            rank,
            segment,
            base,
            bytes,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_found_for_its_rank_and_range_only() {
        let recent = Recent::default();
        let (near, far) = (JobRank(3), JobRank(3 + ENTRIES as u32));
        let find = |rank, address, bytes| recent.find(rank, address, bytes);
        assert_eq!(find(near, 0, 0), None);
        recent.note(near, (100, 10), RemoteSegment(7));
        assert_eq!(find(near, 100, 10), Some(RemoteSegment(7)));
        assert!([
            find(near, 99, 1),
            find(near, 100, 11),
            find(near, 111, 0),
            find(far, 100, 1)
        ]
        .iter()
        .all(Option::is_none));
        recent.note(far, (100, 10), RemoteSegment(8));
        assert_eq!((find(near, 100, 1), find(far, 100, 1)), (None, Some(RemoteSegment(8))));
    }
}
