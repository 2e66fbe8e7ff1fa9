//! Queues in shared memory. A ring begins with the slot number of each position, so that messages
//! can change places; the slots follow. A slot has a word with sender and length, one with the time
//! from which the message is visible, then the message.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use emulator_common::fabric::{now_ns, Member};
use emulator_common::table::set;

use crate::shm::{Fabric, Queue};

pub const SLOT_WORDS: usize = 2;

/// The words of a ring.
pub struct Ring {
    order: &'static [AtomicU64],
    slots: &'static [AtomicU64],
    slot_words: usize,
}

fn slot_words(bytes: u64) -> usize {
    SLOT_WORDS + bytes.div_ceil(8) as usize
}

/// Bytes of a ring on the heap.
fn ring_bytes(slots: u64, bytes: u64) -> u64 {
    slots * (1 + slot_words(bytes) as u64) * 8
}

impl Ring {
    pub fn of(member: &Member<Fabric>, queue: &Queue) -> Ring {
        let slots = queue.slots.load(Relaxed) as usize;
        let slot_words = slot_words(queue.bytes.load(Relaxed).into());
        let bytes = ring_bytes(slots as u64, queue.bytes.load(Relaxed).into());
        let (order, slots) = member.block(queue.ring.load(Relaxed), bytes).split_at(slots);
        Ring {
            order,
            slots,
            slot_words,
        }
    }

    /// The slot at a position.
    pub fn slot(&self, position: u32) -> &'static [AtomicU64] {
        let slot = self.place(position).load(Relaxed) as usize;
        &self.slots[slot * self.slot_words..(slot + 1) * self.slot_words]
    }

    pub fn place(&self, position: u32) -> &'static AtomicU64 {
        &self.order[position as usize % self.order.len()]
    }

    pub fn sender(&self, position: u32) -> u32 {
        (self.slot(position)[0].load(Relaxed) >> 32) as u32
    }

    pub fn is_visible(&self, position: u32) -> bool {
        self.slot(position)[1].load(Relaxed) <= now_ns()
    }
}

/// Makes a queue of an endpoint, by its key. Returns its index; None: there is no room.
pub fn create(member: &Member<Fabric>, endpoint: u32, slots: u32, bytes: u32) -> Option<u32> {
    let room = ring_bytes(slots.into(), bytes.into());
    let ring = member.take_bytes(room)?;
    let guard = member.allocation();
    let Some(index) = member.fabric.queues.take(member.slot) else {
        member.give_bytes(ring, room);
        return None;
    };
    drop(guard);
    let queue = member.fabric.queues.at(index);
    set([
        (&queue.endpoint, endpoint),
        (&queue.slots, slots),
        (&queue.bytes, bytes),
        (&queue.written, 0),
        (&queue.taken, 0),
    ]);
    queue.ring.store(ring, Release);
    let order = Ring::of(member, queue).order;
    order
        .iter()
        .zip(0..)
        .for_each(|(place, slot)| place.store(slot, Relaxed));
    Some(index)
}

/// Frees a queue.
pub fn destroy(member: &Member<Fabric>, index: u32) {
    let queue = member.fabric.queues.at(index);
    let _lock = queue.entry.lock.lock();
    let _guard = member.allocation();
    let bytes = ring_bytes(queue.slots.load(Relaxed).into(), queue.bytes.load(Relaxed).into());
    member.give_bytes(queue.ring.load(Relaxed), bytes);
    member.fabric.queues.give(index);
}
