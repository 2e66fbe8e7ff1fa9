//! Events. The pointers that the program has are numbers: index and generation, so that an event
//! that is gone is noticed whenever it is used again.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, OnceLock};

use emulator_common::lock::locked;
use gasnet_elan_abi as abi;

/// Slots of the first chunk; each further one has twice as many.
const FIRST_CHUNK: u32 = 1024;
const CHUNKS: usize = 10;
/// Fields of the number: its lowest bits are zero, as in a pointer, then the index, then the
/// generation.
const LOW_BITS: u32 = 4;
const INDEX_BITS: u32 = 20;

/// The operation that an event is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    Transfer = 1,
    Send = 2,
    Offer = 3,
}

/// Bit of `Slot::word` above the kind; the generation is above both.
const DONE: u64 = 1 << 4;
const KIND: u64 = 0xf;
const GENERATION_SHIFT: u32 = 8;

#[derive(Default)]
pub struct Slot {
    /// Generation, state and kind; kind 0: free.
    word: AtomicU64,
    /// Channel of a put, or key of an entry of a port; 0: none.
    pub data: AtomicU64,
}

#[derive(Default)]
struct Free {
    indices: Vec<u32>,
    /// Indices from here on have never been used. Index 0 never is.
    top: u32,
    used: usize,
}

#[derive(Default)]
pub struct Events {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: Mutex<Free>,
}

/// The chunk of an index, and the place there.
fn place(index: u32) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2();
    (chunk as usize, (index + FIRST_CHUNK - (FIRST_CHUNK << chunk)) as usize)
}

/// An event, as the program has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event(u64);

impl Event {
    pub fn handle(self) -> *mut abi::gasnet_elan_event_t {
        self.0 as *mut _
    }
}

impl Events {
    /// Events in use.
    pub fn count(&self) -> usize {
        locked(&self.free).used
    }

    fn slot(&self, index: u32) -> Option<&Slot> {
        let (chunk, at) = place(index);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    fn take(&self) -> Option<u32> {
        let mut free = locked(&self.free);
        free.used += 1;
        if let Some(index) = free.indices.pop() {
            return Some(index);
        }
        free.top += 1;
        let (chunk, _) = place(free.top);
        let slots = (FIRST_CHUNK as usize) << chunk;
        self.chunks
            .get(chunk)?
            .get_or_init(|| std::iter::repeat_with(Slot::default).take(slots).collect());
        Some(free.top)
    }

    /// The slot of an event that is not gone, and its word.
    fn find(&self, event: Event) -> Option<(&Slot, u64)> {
        let number = event.0 >> LOW_BITS;
        let slot = self.slot((number & ((1 << INDEX_BITS) - 1)) as u32)?;
        let word = slot.word.load(Acquire);
        let is_same = word >> GENERATION_SHIFT == number >> INDEX_BITS && word & KIND != 0;
        (is_same && event.0.trailing_zeros() >= LOW_BITS).then_some((slot, word))
    }

    /// A new event. None: all are in use.
    pub fn make(&self, kind: Kind, data: u64) -> Option<Event> {
        let index = self.take()?;
        let slot = self.slot(index)?;
        let generation = slot.word.load(Relaxed) >> GENERATION_SHIFT;
        slot.data.store(data, Relaxed);
        slot.word.store(generation << GENERATION_SHIFT | kind as u64, Release);
        Some(Event((generation << INDEX_BITS | u64::from(index)) << LOW_BITS))
    }

    /// The event of a pointer, which must be of this kind and not be gone, and whether it is done.
    #[inline(always)]
    pub fn of(&self, handle: *mut abi::gasnet_elan_event_t, kind: Kind) -> Result<(Event, &Slot, bool), &'static str> {
        let event = Event(handle as u64);
        match self.find(event) {
            None => Err("the event is gone, and used again"),
            Some((_, word)) if word & KIND != kind as u64 => Err("the event is of another kind"),
            Some((slot, word)) => Ok((event, slot, word & DONE != 0)),
        }
    }

    /// The event occurs.
    pub fn finish(&self, event: Event) {
        if let Some((slot, _)) = self.find(event) {
            slot.word.fetch_or(DONE, Release);
        }
    }

    /// The slot of an event that only the library has so far.
    pub fn slot_of(&self, event: Event) -> Option<&Slot> {
        self.find(event).map(|(slot, _)| slot)
    }

    /// The event is gone.
    pub fn release(&self, event: Event) {
        if let Some((slot, word)) = self.find(event) {
            slot.word
                .store(((word >> GENERATION_SHIFT) + 1) << GENERATION_SHIFT, Release);
            let index = (event.0 >> LOW_BITS) & ((1 << INDEX_BITS) - 1);
            let mut free = locked(&self.free);
            free.used -= 1;
            free.indices.push(index as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_each_other() {
        assert_eq!(place(0), (0, 0));
        assert_eq!(place(1023), (0, 1023));
        assert_eq!(place(1024), (1, 0));
        assert_eq!(place(3071), (1, 2047));
        assert_eq!(place(3072), (2, 0));
    }
}
