//! The layout of the communication memory of a neighbourhood.
//!
//! ```text
//! control page
//! per rank: line, pending masks
//! per rank: request rings, reply rings (one of each from every rank)
//! per rank: blocks
//! per rank: inline buffers of teams
//! per rank: staging buffers of teams
//! ```
//!
//! The memory is sparse: an untouched page takes no memory. Rings shrink as the neighbourhood
//! grows, so an inbox has a fixed size until each ring is at its minimum; from there on it grows
//! linearly with the number of ranks.

use super::memory::{blocks_bytes, ring_bytes, INLINE_BUFFER_BYTES, STAGING_BUFFER_BYTES, UNIT};
use gasnet_conduit::Class;
use gasnet_sys::padded::LINE;

/// Largest payload of a Medium inside a neighbourhood, in bytes; also the payload size of a block.
pub const MAX_MEDIUM: usize = 65_536;
/// Smallest request ring in bytes.
pub const MIN_RING: usize = 4096;
/// Largest automatic request ring in bytes, and largest request ring at all.
const MAX_RING: usize = 65_536;
const MOST_RING: usize = 2 << 20;
const INBOX: usize = 1 << 20;
/// Areas begin at multiples of the smallest page. Where pages are larger, they share some.
const PAGE: usize = 4096;
/// Bytes of the control page, which has words of up to 16 ranks on lines of their own.
pub const CONTROL: usize = 32 * LINE;
/// Maximum collective buffers per rank.
pub const MAX_COLL_BUFFERS: usize = 65_535;

/// The sizes from which all offsets follow. Equal in all processes of a neighbourhood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Ranks in the neighbourhood.
    pub ranks: usize,
    request_units: usize,
    reply_units: usize,
    /// Bytes of a rank's line and its pending masks.
    line: usize,
    /// Payload blocks per rank and class.
    pub depth: usize,
    /// Collective buffers per rank: limits the teams whose collectives use shared memory.
    pub coll_buffers: usize,
}

/// Collective buffers per staging buffer, which is some hundred times as large as an inline buffer.
const COLL_BUFFERS_PER_STAGING: usize = 16;

const fn pending_words(ranks: usize) -> usize {
    ranks.div_ceil(64)
}

const fn pending_mask_bytes(ranks: usize) -> usize {
    (pending_words(ranks) * 8).next_multiple_of(LINE)
}

impl Layout {
    /// The layout for `ranks` processes.
    ///
    /// - `ring`: bytes of a request ring, rounded down to a power of two; 0: automatic.
    /// - `depth`: payload blocks per rank and class (`GASNET_PSHM_NETWORK_DEPTH`).
    /// - `coll_buffers`: collective buffers per rank (`GASNET_PSHM_COLL_TEAMS`).
    pub fn new(ranks: usize, ring: usize, depth: usize, coll_buffers: usize) -> Self {
        let automatic = (INBOX / ranks).clamp(MIN_RING, MAX_RING);
        let bytes = if ring == 0 {
            automatic
        } else {
            ring.clamp(MIN_RING, MOST_RING)
        };
        let units = 1 << (bytes / UNIT).ilog2();
        Self {
            ranks,
            request_units: units,
            reply_units: (units / 2).max(MIN_RING / UNIT),
            line: LINE + 2 * pending_mask_bytes(ranks),
            // The highest block number means "in place" in a message.
            depth: depth.min(usize::from(u16::MAX)),
            coll_buffers: coll_buffers.min(MAX_COLL_BUFFERS),
        }
    }

    /// Staging buffers per rank.
    pub const fn staging_buffers(&self) -> usize {
        self.coll_buffers.div_ceil(COLL_BUFFERS_PER_STAGING)
    }

    /// Units of a ring of `class`.
    pub const fn ring_units(&self, class: Class) -> usize {
        match class {
            Class::Request => self.request_units,
            Class::Reply => self.reply_units,
        }
    }

    /// 64-bit words of a rank's pending mask for one class: one bit per sender.
    pub const fn pending_words(&self) -> usize {
        pending_words(self.ranks)
    }

    /// Offset of a neighbour's line: its sleep word.
    pub const fn line(&self, neighbour: usize) -> usize {
        CONTROL + neighbour * self.line
    }

    /// Offset of a neighbour's pending mask for `class`.
    pub const fn pending_mask(&self, neighbour: usize, class: Class) -> usize {
        self.line(neighbour) + LINE + class_index(class) * pending_mask_bytes(self.ranks)
    }

    const fn rings_start(&self) -> usize {
        self.line(self.ranks).next_multiple_of(PAGE)
    }

    const fn inbox_bytes(&self) -> usize {
        (self.ranks * (ring_bytes(self.request_units) + ring_bytes(self.reply_units))).next_multiple_of(PAGE)
    }

    /// Offset of the ring from `source` in the inbox of `target`.
    pub const fn ring(&self, target: usize, source: usize, class: Class) -> usize {
        let inbox = self.rings_start() + target * self.inbox_bytes();
        match class {
            Class::Request => inbox + source * ring_bytes(self.request_units),
            Class::Reply => inbox + self.ranks * ring_bytes(self.request_units) + source * ring_bytes(self.reply_units),
        }
    }

    const fn pool_bytes(&self) -> usize {
        blocks_bytes(self.depth, MAX_MEDIUM).next_multiple_of(PAGE)
    }

    /// Offset of the payload blocks of `owner` for `class`.
    pub const fn blocks(&self, owner: usize, class: Class) -> usize {
        let pools = self.rings_start() + self.ranks * self.inbox_bytes();
        pools + (2 * owner + class_index(class)) * self.pool_bytes()
    }

    const fn inline_buffers_bytes(&self) -> usize {
        (self.coll_buffers * INLINE_BUFFER_BYTES).next_multiple_of(PAGE)
    }

    /// Offset of an inline buffer of `owner`.
    pub const fn inline_buffer(&self, owner: usize, number: usize) -> usize {
        self.blocks(self.ranks, Class::Request) + owner * self.inline_buffers_bytes() + number * INLINE_BUFFER_BYTES
    }

    /// Offset of a staging buffer of `owner`.
    pub const fn staging_buffer(&self, owner: usize, number: usize) -> usize {
        self.inline_buffer(self.ranks, 0) + (owner * self.staging_buffers() + number) * STAGING_BUFFER_BYTES
    }

    /// Total size in bytes.
    pub const fn bytes(&self) -> usize {
        self.staging_buffer(self.ranks, 0)
    }
}

/// 0 for requests, 1 for replies.
pub const fn class_index(class: Class) -> usize {
    match class {
        Class::Request => 0,
        Class::Reply => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_everything_is_aligned() {
        for ranks in [1, 2, 3, 16, 65, 256, 1000] {
            let l = Layout::new(ranks, 0, 4, 20);
            let mut regions = vec![(0, CONTROL)];
            for r in 0..ranks {
                regions.push((l.line(r), LINE));
                regions.extend([0, 7, 19].map(|i| (l.inline_buffer(r, i), INLINE_BUFFER_BYTES)));
                regions.extend([0, 1].map(|i| (l.staging_buffer(r, i), STAGING_BUFFER_BYTES)));
                for class in [Class::Request, Class::Reply] {
                    regions.push((l.pending_mask(r, class), l.pending_words() * 8));
                    for s in 0..ranks.min(20) {
                        regions.push((l.ring(r, s, class), ring_bytes(l.ring_units(class))));
                    }
                    regions.push((l.blocks(r, class), blocks_bytes(4, MAX_MEDIUM)));
                }
            }
            regions.sort_unstable();
            for pair in regions.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{ranks} ranks: {pair:?}");
            }
            assert!(regions.iter().all(|r| r.0 % 64 == 0));
            let last = regions.last().unwrap();
            assert!(last.0 + last.1 <= l.bytes());
        }
    }

    #[test]
    fn every_block_has_a_number_of_its_own() {
        assert_eq!(Layout::new(2, 0, 65_536, 0).depth, 65_535);
    }

    #[test]
    fn inbox_memory_is_bounded_until_rings_are_smallest() {
        for ranks in [16, 64, 128, 256] {
            assert!(
                Layout::new(ranks, 0, 4, 0).inbox_bytes() <= 2 * INBOX + ranks * 2 * LINE + PAGE + ranks * MIN_RING / 2
            );
        }
    }
}
