//! Typed access to shared memory: the only place where offsets in the mapping become references and
//! pointers.
//!
//! SAFETY in this module: the layout's offsets are aligned and inside the mapping (see its tests).
//! Callers check indices against sizes of their own, never against values that a neighbour wrote.

use super::layout::{Layout, MAX_MEDIUM};
use gasnet_conduit::Class;
use gasnet_sys::atomic::{AtomicU32, AtomicU64};
use gasnet_sys::padded::LINE;

/// Bytes of a ring unit: one cache line.
pub const UNIT: usize = 64;
/// Bytes before the units: the head, on cache lines of its own.
const RING_HEADER: usize = LINE;
/// Bytes before each payload block.
const BLOCK_HEADER: usize = UNIT;

/// Bytes of shared memory for a ring of `units`.
pub const fn ring_bytes(units: usize) -> usize {
    RING_HEADER + units * UNIT
}

/// Bytes of shared memory for `count` blocks of `payload_bytes`.
pub const fn blocks_bytes(count: usize, payload_bytes: usize) -> usize {
    count * (BLOCK_HEADER + payload_bytes)
}

/// The memory of a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingMemory {
    base: *mut u8,
    units: usize,
}

// SAFETY: the memory is shared between processes anyway; all access goes through atomics or through
// records that are owned by one side.
unsafe impl Send for RingMemory {}
// SAFETY: as above.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// A ring of `units` (a power of two, 2 to 32,768) at `base`.
    ///
    /// # Safety
    /// `base` is 64-byte aligned and points to [`ring_bytes`]`(units)` bytes that stay mapped and
    /// are zero at first use.
    pub const unsafe fn new(base: *mut u8, units: usize) -> Self {
        assert!(units >= 2 && units <= 32_768 && units.is_power_of_two());
        Self { base, units }
    }

    /// Size in units.
    #[inline]
    pub const fn units(&self) -> usize {
        self.units
    }

    /// Index of the unit at `position`, which counts from the start of the job.
    #[inline]
    pub const fn index(&self, position: u64) -> usize {
        position as usize & (self.units - 1)
    }

    /// The consumer's position, in units since the start of the job.
    #[inline]
    pub fn head(&self) -> &AtomicU64 {
        // SAFETY: the first 8 bytes of the ring, aligned and mapped by the contract of `new`.
        unsafe { &*self.base.cast::<AtomicU64>() }
    }

    /// The bytes of a unit.
    #[inline]
    pub fn unit(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.units);
        // SAFETY: index < units, so the result is inside the ring.
        unsafe { self.base.add(RING_HEADER + index * UNIT) }
    }

    /// The first word of a unit.
    #[inline]
    pub fn first_word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the first 4 bytes of a unit, aligned and mapped.
        unsafe { &*self.unit(index).cast::<AtomicU32>() }
    }
}

/// The memory of the payload blocks of one owner and class.
#[derive(Clone, Copy, Debug)]
pub struct BlockMemory {
    base: *mut u8,
    count: usize,
    payload_bytes: usize,
}

// SAFETY: a block belongs to the thread that took it; its memory is shared between processes
// anyway.
unsafe impl Send for BlockMemory {}
// SAFETY: as above.
unsafe impl Sync for BlockMemory {}

impl BlockMemory {
    /// `count` blocks at `base`.
    ///
    /// # Safety
    /// `base` is 64-byte aligned and points to [`blocks_bytes`] bytes that stay mapped and are zero
    /// at first use; `payload_bytes` is a multiple of 64.
    pub const unsafe fn new(base: *mut u8, count: usize, payload_bytes: usize) -> Self {
        Self {
            base,
            count,
            payload_bytes,
        }
    }

    /// Number of blocks.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Bytes of each payload.
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    fn start(&self, index: usize) -> *mut u8 {
        debug_assert!(index < self.count);
        // SAFETY: index < count.
        unsafe { self.base.add(index * (BLOCK_HEADER + self.payload_bytes)) }
    }

    /// The state word of a block.
    pub fn state(&self, index: usize) -> &AtomicU32 {
        // SAFETY: the first 4 bytes of a block, aligned and mapped.
        unsafe { &*self.start(index).cast::<AtomicU32>() }
    }

    /// The payload of a block.
    pub fn payload(&self, index: usize) -> *mut u8 {
        // SAFETY: the header is part of the block.
        unsafe { self.start(index).add(BLOCK_HEADER) }
    }
}

/// Slots of a collective buffer.
pub const SLOTS: usize = 8;
/// Bytes of a slot in an inline buffer: two cache lines, which the prefetcher fetches together.
const SLOT_BYTES: usize = 128;
/// Data bytes of an inline slot, after its words; aligned for any type.
pub const INLINE_SLOT_BYTES: usize = SLOT_BYTES - 32;
/// Data bytes of a staging slot.
pub const STAGING_SLOT_BYTES: usize = 65_536;
/// Bytes of an inline buffer: a header with the retired and waiting words, and the slots.
pub const INLINE_BUFFER_BYTES: usize = (1 + SLOTS) * SLOT_BYTES;
/// Bytes of a staging buffer.
pub const STAGING_BUFFER_BYTES: usize = SLOTS * STAGING_SLOT_BYTES;

/// The memory of a collective buffer: the slots in which one member of a team publishes.
#[derive(Clone, Copy, Debug)]
pub struct CollBufferMemory {
    inline: *mut u8,
    /// Null if there is no staging buffer.
    staging: *mut u8,
}

// SAFETY: the memory is shared between processes anyway; words are atomics, and bytes change owner
// by them.
unsafe impl Send for CollBufferMemory {}
// SAFETY: as above.
unsafe impl Sync for CollBufferMemory {}

impl CollBufferMemory {
    /// The sequence number that the owner has retired: it needs nothing below.
    #[inline]
    pub fn retired(&self) -> &AtomicU64 {
        // SAFETY: the first 8 bytes of an inline buffer, aligned and mapped.
        unsafe { &*self.inline.cast::<AtomicU64>() }
    }

    /// The owner's collectives that wait for other members to retire slots. On a cache line of its
    /// own, because other members read it often.
    #[inline]
    pub fn waits(&self) -> &AtomicU64 {
        // SAFETY: the second line of an inline buffer, aligned and mapped.
        unsafe { &*self.inline.add(SLOT_BYTES / 2).cast::<AtomicU64>() }
    }

    /// In the buffer of member 0: that number for all members together.
    #[inline]
    pub fn team_waits(&self) -> &AtomicU64 {
        // SAFETY: inside the second line, aligned and mapped.
        unsafe { &*self.inline.add(SLOT_BYTES / 2 + 8).cast::<AtomicU64>() }
    }

    fn slot(&self, slot: usize) -> *mut u8 {
        debug_assert!(slot < SLOTS);
        // SAFETY: slot < SLOTS, so the result is inside the inline buffer.
        unsafe { self.inline.add((1 + slot) * SLOT_BYTES) }
    }

    /// 1 + the sequence number that the slot holds.
    #[inline]
    pub fn published(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: the first 8 bytes of a slot, aligned and mapped.
        unsafe { &*self.slot(slot).cast::<AtomicU64>() }
    }

    /// The owner's retirements up to the time when it published the slot.
    #[inline]
    pub fn retired_then(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: the second 8 bytes of a slot, aligned and mapped.
        unsafe { &*self.slot(slot).add(8).cast::<AtomicU64>() }
    }

    /// Arrivals at the slot's sequence number, packed with it. Written by all members.
    #[inline]
    pub fn arrivals(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: the third 8 bytes of a slot, aligned and mapped.
        unsafe { &*self.slot(slot).add(16).cast::<AtomicU64>() }
    }

    /// The last arrival, packed with the sequence number. Written by that member.
    #[inline]
    pub fn last_arrival(&self, slot: usize) -> &AtomicU64 {
        // SAFETY: the fourth 8 bytes of a slot, aligned and mapped.
        unsafe { &*self.slot(slot).add(24).cast::<AtomicU64>() }
    }

    /// The [`INLINE_SLOT_BYTES`] data bytes of an inline slot.
    #[inline]
    pub fn inline_slot(&self, slot: usize) -> *mut u8 {
        // SAFETY: inside the slot.
        unsafe { self.slot(slot).add(SLOT_BYTES - INLINE_SLOT_BYTES) }
    }

    /// The [`STAGING_SLOT_BYTES`] data bytes of a staging slot. There must be a staging buffer.
    #[inline]
    pub fn staging_slot(&self, slot: usize) -> *mut u8 {
        debug_assert!(slot < SLOTS && !self.staging.is_null());
        // SAFETY: slot < SLOTS, so the result is inside the staging area, which callers know to be
        // there.
        unsafe { self.staging.add(slot * STAGING_SLOT_BYTES) }
    }
}

/// The communication memory of a neighbourhood.
#[derive(Debug)]
pub struct CommMemory {
    base: *mut u8,
    layout: Layout,
}

// SAFETY: `base` is a mapping shared between processes that lives as long as this one; all access
// to it is by atomics or by owned records.
unsafe impl Send for CommMemory {}
// SAFETY: as above.
unsafe impl Sync for CommMemory {}

impl CommMemory {
    /// Memory with this layout.
    ///
    /// # Safety
    /// `base` is page-aligned and points to `layout.bytes()` bytes that stay mapped and were zero
    /// when the first process mapped them.
    pub const unsafe fn new(base: *mut u8, layout: Layout) -> Self {
        Self { base, layout }
    }

    /// The layout.
    #[inline]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.layout.bytes());
        // SAFETY: every position that the layout computes lies inside the mapping.
        unsafe { self.base.add(offset) }
    }

    /// First byte of the control page.
    pub fn control(&self) -> *mut u8 {
        self.base
    }

    /// The ring from `source` to `target`.
    pub fn ring(&self, target: usize, source: usize, class: Class) -> RingMemory {
        // SAFETY: aligned and inside the mapping.
        unsafe {
            RingMemory::new(
                self.at(self.layout.ring(target, source, class)),
                self.layout.ring_units(class),
            )
        }
    }

    /// The payload blocks of `owner`.
    pub fn blocks(&self, owner: usize, class: Class) -> BlockMemory {
        // SAFETY: aligned and inside the mapping.
        unsafe { BlockMemory::new(self.at(self.layout.blocks(owner, class)), self.layout.depth, MAX_MEDIUM) }
    }

    /// The collective buffer of `owner` with these inline and staging buffers, which count from 0.
    pub fn coll_buffer(&self, owner: usize, inline: usize, staging: Option<usize>) -> CollBufferMemory {
        CollBufferMemory {
            inline: self.at(self.layout.inline_buffer(owner, inline)),
            staging: staging.map_or(std::ptr::null_mut(), |number| {
                self.at(self.layout.staging_buffer(owner, number))
            }),
        }
    }

    /// The sleep word of `neighbour`: odd while one of its threads sleeps; see `Comm::sleep`.
    #[inline]
    pub fn sleep_word(&self, neighbour: usize) -> &AtomicU32 {
        // SAFETY: aligned and inside the mapping.
        unsafe { &*self.at(self.layout.line(neighbour)).cast::<AtomicU32>() }
    }

    /// A word of the pending mask of `neighbour`: one bit per sender.
    #[inline]
    pub fn pending_mask(&self, neighbour: usize, class: Class, word: usize) -> &AtomicU64 {
        debug_assert!(word < self.layout.pending_words());
        // SAFETY: aligned and inside the mapping.
        unsafe {
            &*self
                .at(self.layout.pending_mask(neighbour, class) + 8 * word)
                .cast::<AtomicU64>()
        }
    }
}
