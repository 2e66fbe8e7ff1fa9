//! A ring of 64-byte units in shared memory: messages from the threads of one process to another
//! process.
//!
//! Producers reserve units by compare-and-swap on a tail that is private to their process, fill the
//! record, and publish it by storing its first word last. The consumer takes records in order,
//! clears the first word of every unit of a record except the first, and releases units by
//! advancing the head. It releases several records at once, since each update of the head moves a
//! cache line both ways. A producer that stops between reservation and publication delays only
//! records of its own process.
//!
//! The first word of a record holds the parity of its lap around the ring. This tells a stale
//! record of the previous lap from a new one without a store by the consumer, so the cache line of
//! a one-unit record travels only once.
//!
//! Invariants: the first word of a unit that is not reserved in this lap is zero (cleared) or of
//! the previous lap (a record began there). A record never crosses the end of the ring; a `SKIP`
//! record fills the rest.
//!
//! Trust: the consumer reads the first word once and checks its length; the producer derives
//! positions only from its own tail. No value written by the other side leads outside the ring.
//!
//! SYNC POINT ring-publish: [`Reservation::publish`] (release) pairs with [`Consumer::peek`]
//! (acquire).
//! SYNC POINT ring-reuse: [`Consumer::advance`] (release) pairs with [`Producer::reserve`]
//! (acquire), directly or through `head_seen` (release, acquire), which another thread of the
//! sending process updated.

use super::memory::RingMemory;
use gasnet_sys::atomic::{AtomicU64, Ordering};

/// Kind of a record that only fills the end of the ring.
pub const SKIP: u8 = 0xff;

/// First word of a record: kind (non-zero), a byte for the kind's use, and the length in units. The
/// length is at most half of the ring, which leaves the top bit for the parity of the lap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Kind of the record.
    pub kind: u8,
    /// For the kind's use (number of arguments).
    pub small: u8,
    /// Length of the record in units.
    pub units: u16,
}

impl Word {
    const fn pack(self, lap: Lap) -> u32 {
        self.kind as u32 | (self.small as u32) << 8 | (self.units as u32) << 16 | lap.0
    }

    /// None if nothing is published here in this lap.
    const fn unpack(raw: u32, lap: Lap) -> Option<Self> {
        if !lap.has(raw) {
            return None;
        }
        Some(Self {
            kind: raw as u8,
            small: (raw >> 8) as u8,
            units: (raw >> 16) as u16 & 0x7fff,
        })
    }
}

/// The parity of a lap, as the top bit of a first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lap(u32);

impl Lap {
    const BIT: u32 = 1 << 31;

    /// That of lap `number`.
    const fn of(number: u64) -> Self {
        Self((number as u32 & 1) << 31)
    }

    /// That of the unit at `position`, counted from the start of the job, in a ring of `capacity`
    /// units.
    const fn at(position: u64, capacity: u64) -> Self {
        Self::of((position & capacity != 0) as u64)
    }

    const fn next(self) -> Self {
        Self(self.0 ^ Self::BIT)
    }

    /// Whether a first word belongs to this lap.
    const fn has(self, raw: u32) -> bool {
        raw != 0 && raw & Self::BIT == self.0
    }
}

/// The consumer orders the reuse of a unit, in a process that `ThreadSanitizer` does not see. For
/// the sanitizer each reservation comes after all that was published before.
const RESERVE: Ordering = if cfg!(gasnet_tsan) {
    Ordering::Acquire
} else {
    Ordering::Relaxed
};

/// The sending side; shared by the threads of the sending process.
#[derive(Debug)]
pub struct Producer {
    memory: RingMemory,
    /// Units reserved so far. Private to this process.
    tail: AtomicU64,
    /// The head as last seen by any thread: a lower bound. A thread that relies on it also acquires
    /// what the thread that stored it acquired from the consumer.
    head_seen: AtomicU64,
}

impl Producer {
    /// The sending side of `memory`.
    pub fn new(memory: RingMemory) -> Self {
        Self {
            memory,
            tail: AtomicU64::new(0),
            head_seen: AtomicU64::new(0),
        }
    }

    /// Maximum units of a record: half of the units that are free in any empty ring, so that a
    /// record always fits into one.
    pub fn max_units(&self) -> usize {
        (self.memory.units() - kept_back(&self.memory)) / 2
    }

    /// Reserves `units` for a record, or returns None while the ring is too full.
    #[inline]
    pub fn reserve(&self, units: usize) -> Option<Reservation<'_>> {
        debug_assert!(units >= 1 && units <= self.max_units());
        let capacity = self.memory.units() as u64;
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let to_end = capacity - self.memory.index(tail) as u64;
            let skip = if (units as u64) <= to_end { 0 } else { to_end };
            let next = tail + skip + units as u64;
            // A stale tail can be behind the head; then the exchange below fails.
            if next.wrapping_sub(self.head_seen.load(Ordering::Acquire)) as i64 > capacity as i64 {
                let head = self.memory.head().load(Ordering::Acquire);
                let now = self.tail.load(Ordering::Relaxed);
                // A head beyond the tail is invalid: no room, ever.
                if head > now || next.wrapping_sub(head) as i64 > capacity as i64 {
                    return None;
                }
                self.head_seen.store(head, Ordering::Release);
            }
            match self.tail.compare_exchange_weak(tail, next, RESERVE, Ordering::Relaxed) {
                Ok(_) => {
                    if skip > 0 {
                        self.skip(tail, skip as u16);
                    }
                    let start = tail + skip;
                    if cfg!(gasnet_tsan) {
                        self.acquire_first_words(start, units);
                    }
                    return Some(Reservation {
                        ring: self,
                        index: self.memory.index(start),
                        lap: Lap::at(start, capacity),
                        units,
                    });
                }
                Err(seen) => tail = seen,
            }
        }
    }

    /// Orders the caller after the stores that published what these units held before.
    fn acquire_first_words(&self, start: u64, units: usize) {
        for index in (self.memory.index(start)..).take(units) {
            let _ = self.memory.first_word(index).load(Ordering::Acquire);
        }
    }

    /// Fills the end of the ring from `tail` on.
    #[cold]
    fn skip(&self, tail: u64, units: u16) {
        let word = Word {
            kind: SKIP,
            small: 0,
            units,
        };
        let raw = word.pack(Lap::at(tail, self.memory.units() as u64));
        self.memory
            .first_word(self.memory.index(tail))
            .store(raw, Ordering::Release);
    }

    /// Whether [`Producer::reserve`] of `units` would succeed now.
    pub fn has_room(&self, units: usize) -> bool {
        let capacity = self.memory.units() as u64;
        let tail = self.tail.load(Ordering::Relaxed);
        let to_end = capacity - self.memory.index(tail) as u64;
        let skip = if (units as u64) <= to_end { 0 } else { to_end };
        let head = self.memory.head().load(Ordering::Acquire);
        head <= tail && tail + skip + units as u64 - head <= capacity
    }
}

/// Units that a producer owns until it publishes them. Must be published.
#[derive(Debug)]
#[must_use]
pub struct Reservation<'a> {
    ring: &'a Producer,
    index: usize,
    lap: Lap,
    units: usize,
}

impl Reservation<'_> {
    /// The bytes of the record. `publish` writes the first four.
    pub fn bytes(&self) -> *mut u8 {
        self.ring.memory.unit(self.index)
    }

    /// Makes the record visible.
    #[inline]
    pub fn publish(self, kind: u8, small: u8) {
        let word = Word {
            kind,
            small,
            units: self.units as u16,
        };
        let raw = word.pack(self.lap);
        let release_to_sanitizer = || {
            if cfg!(gasnet_tsan) {
                self.ring.tail.fetch_or(0, Ordering::Release);
            }
        };
        release_to_sanitizer();
        self.ring.memory.first_word(self.index).store(raw, Ordering::Release);
        release_to_sanitizer();
    }
}

/// The front of a ring and the parity of its lap: for a check without becoming the consumer. The
/// default is that of a new ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Front(pub u64);

impl Front {
    /// Whether a record is published there. A consumer may have taken it already.
    #[inline]
    pub fn is_published(self, memory: &RingMemory) -> bool {
        let raw = memory.first_word((self.0 >> 1) as usize).load(Ordering::Relaxed);
        Lap::of(self.0).has(raw)
    }
}

/// The receiving side; one thread at a time.
#[derive(Debug)]
pub struct Consumer {
    memory: RingMemory,
    /// Units consumed so far.
    head: u64,
    /// Units released so far: the value of the shared head, which this side does not read.
    released: u64,
    /// The unit where the next record begins, and its lap.
    index: usize,
    lap: Lap,
}

/// The other side wrote a record that no correct sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl Consumer {
    /// The receiving side of `memory`.
    pub fn new(memory: RingMemory) -> Self {
        Self {
            memory,
            head: 0,
            released: 0,
            index: 0,
            lap: Lap::of(0),
        }
    }

    /// The front, for [`Front::is_published`].
    #[inline]
    pub fn front(&self) -> Front {
        Front((self.index as u64) << 1 | u64::from(self.lap.0 >> 31))
    }

    /// Whether no record is published at the front.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let raw = self.memory.first_word(self.index).load(Ordering::Relaxed);
        !self.lap.has(raw)
    }

    /// The record at the front, if one is published: its first word and its bytes.
    #[inline]
    pub fn peek(&mut self) -> Result<Option<(Word, *mut u8)>, Corrupt> {
        loop {
            let raw = self.memory.first_word(self.index).load(Ordering::Acquire);
            let Some(word) = Word::unpack(raw, self.lap) else {
                return Ok(None);
            };
            if word.units == 0 || word.units as usize > self.memory.units() - self.index {
                return Err(Corrupt);
            }
            if word.kind != SKIP {
                return Ok(Some((word, self.memory.unit(self.index))));
            }
            self.advance(word.units);
        }
    }

    /// Consumes the record at the front; `units` is the length that `peek` returned. Releases units
    /// once enough are consumed.
    #[inline]
    pub fn advance(&mut self, units: u16) {
        for i in 1..units as usize {
            self.memory.first_word(self.index + i).store(0, Ordering::Relaxed);
        }
        self.index += units as usize;
        if self.index == self.memory.units() {
            self.index = 0;
            self.lap = self.lap.next();
        }
        self.head += u64::from(units);
        if self.head - self.released >= kept_back(&self.memory) as u64 {
            self.released = self.head;
            self.memory.head().store(self.head, Ordering::Release);
        }
    }
}

/// The consumer may hold back fewer consumed units than this.
#[inline]
fn kept_back(memory: &RingMemory) -> usize {
    memory.units() / 8
}

#[cfg(test)]
mod tests {
    use super::super::memory::{ring_bytes, UNIT};
    use super::*;

    #[repr(C, align(64))]
    struct Line([u8; 64]);

    fn memory(units: usize) -> (Vec<Line>, RingMemory) {
        let mut lines: Vec<Line> = (0..ring_bytes(units) / 64).map(|_| Line([0; 64])).collect();
        // SAFETY: the vector is 64-byte aligned, long enough, zero, and outlives the ring in each
        // test.
        let ring = unsafe { RingMemory::new(lines.as_mut_ptr().cast(), units) };
        (lines, ring)
    }

    fn push(producer: &Producer, units: usize, tag: u8) -> bool {
        let Some(r) = producer.reserve(units) else { return false };
        // SAFETY: the reservation covers `units` units.
        unsafe { r.bytes().add(4).write_bytes(tag, units * UNIT - 4) };
        r.publish(1, tag);
        true
    }

    #[test]
    fn records_of_all_sizes_wrap_in_order_and_intact() {
        let (_lines, ring) = memory(16);
        let (producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
        let (mut sent, mut received) = (0u32, 0u32);
        while received < 10_000 {
            while sent < 10_000 && push(&producer, 1 + sent as usize % 7, sent as u8) {
                sent += 1;
            }
            while let Some((word, bytes)) = consumer.peek().unwrap() {
                assert_eq!(
                    (word.small, usize::from(word.units)),
                    (received as u8, 1 + received as usize % 7)
                );
                for i in 4..usize::from(word.units) * UNIT {
                    // SAFETY: inside the record.
                    assert_eq!(unsafe { bytes.add(i).read() }, received as u8);
                }
                consumer.advance(word.units);
                received += 1;
            }
        }
    }

    #[test]
    fn an_empty_ring_takes_the_largest_record_at_any_position() {
        for units in [2, 4, 8, 32, 256] {
            for position in 0..2 * units {
                let (_lines, ring) = memory(units);
                let (producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
                for size in vec![1; position].into_iter().chain([producer.max_units()]) {
                    assert!(push(&producer, size, 1), "{size} units after {position} of {units}");
                    let (word, _) = consumer.peek().unwrap().unwrap();
                    consumer.advance(word.units);
                }
            }
        }
    }

    #[test]
    fn an_unpublished_record_blocks_later_ones() {
        let (_lines, ring) = memory(16);
        let (producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
        let first = producer.reserve(2).unwrap();
        assert!(push(&producer, 1, 7));
        assert!(consumer.peek().unwrap().is_none());
        first.publish(1, 6);
        assert_eq!(consumer.peek().unwrap().unwrap().0.small, 6);
    }

    #[test]
    fn invalid_values_are_rejected() {
        let (_lines, ring) = memory(16);
        let (producer, mut consumer) = (Producer::new(ring), Consumer::new(ring));
        ring.first_word(0).store(
            Word {
                kind: 1,
                small: 0,
                units: 17,
            }
            .pack(Lap::of(0)),
            Ordering::Relaxed,
        );
        assert_eq!(consumer.peek(), Err(Corrupt));
        ring.first_word(0).store(
            Word {
                kind: SKIP,
                small: 0,
                units: 0,
            }
            .pack(Lap::of(0)),
            Ordering::Relaxed,
        );
        assert_eq!(consumer.peek(), Err(Corrupt));
        ring.head().store(u64::MAX, Ordering::Relaxed);
        for _ in 0..16 {
            let _ = push(&producer, 1, 0);
        }
        assert!(producer.reserve(1).is_none());
    }

    #[test]
    fn threads_of_one_process_share_a_producer() {
        let (_lines, ring) = memory(32);
        let producer = Producer::new(ring);
        let mut consumer = Consumer::new(ring);
        std::thread::scope(|s| {
            for t in 0..3u8 {
                let producer = &producer;
                s.spawn(move || {
                    for i in 0..2000 {
                        while !push(producer, 1 + i % 5, t + 1) {
                            std::thread::yield_now();
                        }
                    }
                });
            }
            let mut counts = [0; 4];
            while counts.iter().sum::<i32>() < 6000 {
                match consumer.peek().unwrap() {
                    None => std::thread::yield_now(),
                    Some((word, bytes)) => {
                        for i in 4..usize::from(word.units) * UNIT {
                            // SAFETY: inside the record.
                            assert_eq!(unsafe { bytes.add(i).read() }, word.small);
                        }
                        counts[usize::from(word.small)] += 1;
                        consumer.advance(word.units);
                    }
                }
            }
            assert_eq!(counts, [0, 2000, 2000, 2000]);
        });
    }
}
