//! Shared memory whose every access loom sees. A model cannot map atomics over raw memory, so words
//! and bodies are objects.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::layout::{class_index, Layout};
use crate::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::Class;

pub const UNIT: usize = 64;

/// What a payload leaves in the first word of a unit that it covers: it would be a valid record if
/// the consumer read it as one.
const GARBAGE: u32 = 0x0001_6363;

#[derive(Debug, Default)]
struct Unit {
    first_word: AtomicU32,
    body: UnsafeCell<u32>,
}

// SAFETY: loom checks the accesses to the body.
unsafe impl Sync for Unit {}
// SAFETY: as above.
unsafe impl Send for Unit {}

#[derive(Debug)]
struct Ring {
    head: AtomicU64,
    units: Vec<Unit>,
}

#[derive(Clone, Debug)]
pub struct RingMemory(Arc<Ring>);

impl RingMemory {
    pub fn with_units(units: usize) -> Self {
        Self(Arc::new(Ring {
            head: AtomicU64::new(0),
            units: (0..units).map(|_| Unit::default()).collect(),
        }))
    }

    pub fn units(&self) -> usize {
        self.0.units.len()
    }

    pub fn index(&self, position: u64) -> usize {
        (position % self.units() as u64) as usize
    }

    pub fn head(&self) -> &AtomicU64 {
        &self.0.head
    }

    pub fn first_word(&self, index: usize) -> &AtomicU32 {
        &self.0.units[index].first_word
    }

    /// Identifies a unit for [`write_record`] and [`read_record`]; no bytes are behind it.
    pub fn unit(&self, index: usize) -> *mut u8 {
        std::ptr::from_ref(&self.0.units[index]).cast_mut().cast()
    }
}

/// The `units` units from `record` on.
fn units_of<'a>(record: *mut u8, units: usize) -> &'a [Unit] {
    // SAFETY: `record` came from `RingMemory::unit`, and a record never leaves its ring.
    unsafe { std::slice::from_raw_parts(record.cast::<Unit>(), units) }
}

/// Writes `value` over a whole reserved record, as a payload does, including the first words of all
/// units except the first.
pub fn write_record(record: *mut u8, units: usize, value: u32) {
    for (i, unit) in units_of(record, units).iter().enumerate() {
        // SAFETY: loom checks for concurrent access.
        unit.body.with_mut(|body| unsafe { *body = value });
        if i > 0 {
            unit.first_word.store(GARBAGE, Ordering::Relaxed);
        }
    }
}

/// The value of a record, which must be the same in all units.
pub fn read_record(record: *mut u8, units: usize) -> u32 {
    let values: Vec<u32> = units_of(record, units)
        .iter()
        // SAFETY: loom checks for concurrent writes.
        .map(|unit| unit.body.with(|body| unsafe { *body }))
        .collect();
    assert!(values.iter().all(|&v| v == values[0]), "torn record: {values:?}");
    values[0]
}

#[derive(Debug, Default)]
struct Block {
    state: AtomicU32,
    payload: UnsafeCell<u32>,
}

// SAFETY: loom checks the accesses to the payload.
unsafe impl Sync for Block {}
// SAFETY: as above.
unsafe impl Send for Block {}

#[derive(Clone, Debug)]
pub struct BlockMemory(Arc<Vec<Block>>);

impl BlockMemory {
    pub fn with_blocks(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| Block::default()).collect()))
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn payload_bytes(&self) -> usize {
        4
    }

    pub fn state(&self, index: usize) -> &AtomicU32 {
        &self.0[index].state
    }

    /// Identifies a payload for [`payload`].
    pub fn payload(&self, index: usize) -> *mut u8 {
        std::ptr::from_ref(&self.0[index].payload).cast_mut().cast()
    }
}

/// The payload that `BlockMemory::payload` identified.
pub fn payload<'a>(named: *mut u8) -> &'a UnsafeCell<u32> {
    // SAFETY: `named` came from `BlockMemory::payload`, whose memory outlives the model's threads.
    unsafe { &*named.cast() }
}

/// Slots of a collective buffer.
pub const SLOTS: usize = 2;

#[derive(Debug, Default)]
struct Slot {
    published: AtomicU64,
    retired_then: AtomicU64,
    arrivals: AtomicU64,
    last_arrival: AtomicU64,
    data: UnsafeCell<u32>,
}

// SAFETY: loom checks the accesses to the data.
unsafe impl Sync for Slot {}
// SAFETY: as above.
unsafe impl Send for Slot {}

#[derive(Debug, Default)]
struct CollBuffer {
    retired: AtomicU64,
    waits: AtomicU64,
    team_waits: AtomicU64,
    slots: [Slot; SLOTS],
}

/// Clones are views of the same buffer.
#[derive(Clone, Debug, Default)]
pub struct CollBufferMemory(Arc<CollBuffer>);

impl CollBufferMemory {
    pub fn retired(&self) -> &AtomicU64 {
        &self.0.retired
    }

    pub fn waits(&self) -> &AtomicU64 {
        &self.0.waits
    }

    pub fn team_waits(&self) -> &AtomicU64 {
        &self.0.team_waits
    }

    pub fn published(&self, slot: usize) -> &AtomicU64 {
        &self.0.slots[slot].published
    }

    pub fn retired_then(&self, slot: usize) -> &AtomicU64 {
        &self.0.slots[slot].retired_then
    }

    pub fn arrivals(&self, slot: usize) -> &AtomicU64 {
        &self.0.slots[slot].arrivals
    }

    pub fn last_arrival(&self, slot: usize) -> &AtomicU64 {
        &self.0.slots[slot].last_arrival
    }

    /// The data of a slot.
    pub fn data(&self, slot: usize) -> &UnsafeCell<u32> {
        &self.0.slots[slot].data
    }
}

#[derive(Debug)]
struct Neighbourhood {
    layout: Layout,
    rings: Vec<RingMemory>,
    blocks: BlockMemory,
    sleep_words: Vec<AtomicU32>,
    pending_masks: Vec<AtomicU64>,
}

/// Clones are views of the same memory.
#[derive(Clone, Debug)]
pub struct CommMemory(Arc<Neighbourhood>);

impl CommMemory {
    pub fn with_layout(layout: Layout) -> Self {
        let ranks = layout.ranks;
        Self(Arc::new(Neighbourhood {
            layout,
            rings: (0..ranks * ranks * 2)
                .map(|_| RingMemory::with_units(layout.units))
                .collect(),
            blocks: BlockMemory::with_blocks(0),
            sleep_words: (0..ranks).map(|_| AtomicU32::new(0)).collect(),
            pending_masks: (0..ranks * 2).map(|_| AtomicU64::new(0)).collect(),
        }))
    }

    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    pub fn control(&self) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub fn ring(&self, target: usize, source: usize, class: Class) -> RingMemory {
        self.0.rings[(target * self.0.layout.ranks + source) * 2 + class_index(class)].clone()
    }

    pub fn blocks(&self, _: usize, _: Class) -> BlockMemory {
        self.0.blocks.clone()
    }

    pub fn sleep_word(&self, rank: usize) -> &AtomicU32 {
        &self.0.sleep_words[rank]
    }

    pub fn pending_mask(&self, rank: usize, class: Class, _: usize) -> &AtomicU64 {
        &self.0.pending_masks[rank * 2 + class_index(class)]
    }
}
