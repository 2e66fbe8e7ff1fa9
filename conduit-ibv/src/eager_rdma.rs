//! Rings: memory of a receiver into which one peer writes small messages.
//!
//! Such a message needs neither a receive buffer nor a completion at its receiver, which finds it
//! by reading memory. A process offers a ring to a peer that has sent it many messages, as long as
//! it has few rings. The peer uses it for packets that fit into a slot, while one is free, and
//! sends all others as before; so nobody ever waits for a slot. The receiver reports in its own
//! messages which slots are free again ([`Report`]).
//!
//! The bytes of a write become visible in any order (InfiniBand specification, volume 1, 9.5). So a
//! slot begins with a checksum over all of it and its number: a mismatch means that the
//! slot is incomplete. The message of a Long is never in a ring.
//!
//! A message must not be seen before puts that were complete when it was sent. That is due to the
//! bus, which keeps the order of a device's writes (PCI Express, strong ordering), and to fences
//! where a host has several HCAs. An HCA may be configured to write with relaxed ordering (mlx5:
//! `PCI_WR_ORDERING`), which no call reports; but then it does not promise to write the data of its
//! queue pairs in order, either (ibv_query_qp_data_in_order(3)). Without that promise there are no
//! rings.
//!
//! Words of barriers ([`crate::words`]) are written under the same conditions, so a process offers
//! its memory for them together with a ring, or without one if it has enough rings.
//!
//! Nothing wakes a thread that sleeps when a slot is written, so only jobs whose threads do not
//! sleep have rings.

pub mod inbox;

use crate::buffers::Buffer;
use crate::ffi::{Access, Domain, Errno, Region, Remote};
use gasnet_conduit::{words, JobRank};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::parts::concatenate;
use gasnet_conduit_util::record;
use gasnet_conduit_util::record::Record;
use gasnet_sys::atomic::Ordering;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// Bytes of a slot: a Medium of 1 kB fits, with its arguments.
const SLOT: usize = 1152;
/// Slots of a ring, a power of two.
const SLOTS: u32 = 64;
/// Bytes before the packet: the checksum, and the words of [`SlotHeader`].
const HEAD: usize = 16;
/// Bytes of a ring.
pub const BYTES: usize = SLOT * SLOTS as usize;
/// Bytes of the largest packet.
pub const LARGEST: usize = SLOT - HEAD;
/// Words of a slot.
const WORDS: usize = SLOT / 8;

/// The header of a slot: the word of [`crate::wire`], and the number of messages of the receiver
/// that its sender has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotHeader {
    pub word: u32,
    pub taken: u32,
}

impl SlotHeader {
    fn encode(self) -> u64 {
        u64::from(self.word) | u64::from(self.taken) << 32
    }

    fn decode(bits: u64) -> Self {
        Self {
            word: bits as u32,
            taken: (bits >> 32) as u32,
        }
    }
}

/// The checksum of a message: the low byte of its number, its length, and 40 bits of the sum of its
/// number and its words.
#[inline]
fn checksum(number: u32, bytes: usize, sum: u64) -> u64 {
    u64::from(number & 0xff) | (bytes as u64) << 8 | sum & !0xff_ffff
}

const _: () = assert!(LARGEST <= 0xffff && SLOTS < 0xff);

/// Adds a word to a sum, which depends on the order of words.
#[inline]
fn add(sum: u64, word: u64) -> u64 {
    (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Sums the number of a message and its words, each of which `next` gives by its place. Four sums
/// side by side take less time. The number is a part of it because a byte of the checksum
/// may be seen before the others: the message that was there before would agree with a new number.
#[inline]
fn sum(number: u32, words: usize, mut next: impl FnMut(usize) -> u64) -> u64 {
    let mut sums = [0; 4];
    let whole = words & !3;
    for first in (0..whole).step_by(4) {
        for (lane, sum) in sums.iter_mut().enumerate() {
            *sum = add(*sum, next(first + lane));
        }
    }
    let sum = sums.into_iter().fold(u64::from(number), add);
    (whole..words).fold(sum, |sum, place| add(sum, next(place)))
}

/// The number of the first message. Not 0, with which a slot of zeros would agree.
const FIRST: u32 = SLOTS;

/// A message as it lies in a slot.
#[repr(C, align(64))]
pub struct Slot([MaybeUninit<u64>; WORDS]);

impl Slot {
    /// An empty one.
    #[inline]
    pub const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; WORDS])
    }

    /// The bytes of a message with a packet of `bytes` bytes.
    #[inline]
    pub const fn length(bytes: usize) -> usize {
        (HEAD + bytes).next_multiple_of(8)
    }

    /// One in a buffer.
    #[inline]
    pub fn inside(buffer: &mut Buffer) -> &mut Self {
        let room = buffer.bytes(SLOT).as_mut_ptr().cast();
        // SAFETY: as many bytes, aligned, which the holder of the buffer has alone.
        unsafe { &mut *room }
    }

    /// Lays down a packet of `bytes` bytes, at most [`LARGEST`], from its parts.
    #[inline]
    pub fn fill(&mut self, parts: &[&[u8]], bytes: usize) {
        debug_assert!(bytes <= LARGEST, "defect: {bytes} bytes in a slot");
        // The last word as a whole, so that its last bytes have a value.
        self.0[(HEAD + bytes) / 8 % WORDS].write(0);
        // SAFETY: the parts have `bytes` bytes, for which there is room.
        unsafe { concatenate(parts, self.0[HEAD / 8..].as_mut_ptr().cast()) };
    }

    /// Completes it as the message with this number. Returns the bytes to write.
    #[inline]
    pub fn complete(&mut self, number: u32, bytes: usize, header: SlotHeader) -> &[u8] {
        let words = Self::length(bytes) / 8;
        self.0[1].write(header.encode());
        let rest = &self.0[1..words];
        // SAFETY: `fill` and the line above have written them.
        let sum = sum(number, rest.len(), |place| unsafe { rest[place].assume_init() });
        self.0[0].write(checksum(number, bytes, sum));
        // SAFETY: as many words were written.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), words * 8) }
    }

    /// Copies the message with this number out of a ring. None if it is not there.
    #[inline]
    pub fn load(&mut self, from: &[AtomicU64], number: u32) -> Option<(usize, SlotHeader)> {
        let head = from[0].load(Ordering::Acquire);
        let bytes = (head >> 8 & 0xffff) as usize;
        if head & 0xff != u64::from(number & 0xff) || bytes > LARGEST {
            return None;
        }
        let words = Self::length(bytes) / 8;
        let (to, from) = (&mut self.0[1..words], &from[1..words]);
        let sum = sum(number, words - 1, |place| {
            let word = from[place].load(Ordering::Relaxed);
            to[place].write(word);
            word
        });
        // SAFETY: written above: a slot has two words at least.
        let header = SlotHeader::decode(unsafe { self.0[1].assume_init() });
        (checksum(number, bytes, sum) == head).then_some((bytes, header))
    }

    /// The packet.
    ///
    /// # Safety
    /// `bytes` bytes of it were loaded.
    #[inline]
    pub unsafe fn packet(&mut self, bytes: usize) -> &mut [u8] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast::<u8>().add(HEAD), bytes) }
    }
}

/// A ring of this process.
pub struct Ring {
    /// The peer that writes into it.
    pub source: JobRank,
    /// Number of the next message.
    number: u32,
    // Before the memory that it is of.
    region: Region,
    memory: Mapped,
}

impl Ring {
    /// A ring for a peer, which reaches it through the HCA of `domain`.
    pub fn new(source: JobRank, domain: &Domain) -> Result<Self, Errno> {
        let bytes = BYTES;
        let memory = Mapped::new(bytes)?;
        // SAFETY: unmapped after the region is dropped.
        let region = unsafe { domain.register(memory.address(), bytes, Access::REMOTE)? };
        Ok(Self {
            source,
            number: FIRST,
            region,
            memory,
        })
    }

    /// How the peer reaches it.
    pub fn remote(&self) -> Remote {
        Remote {
            address: self.memory.address(),
            rkey: self.region.rkey,
        }
    }

    /// The slot of the next message.
    #[inline]
    fn next(&self) -> &[AtomicU64] {
        let address = self.memory.address() + (self.number % SLOTS) as usize * SLOT;
        // SAFETY: inside the ring, aligned; the peer's HCA writes words that any value is valid for.
        unsafe { std::slice::from_raw_parts(address as *const AtomicU64, WORDS) }
    }

    /// Whether the next message seems to be there.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.next()[0].load(Ordering::Relaxed) as u8 == self.number as u8
    }

    /// Copies the next message, if it is there. Its slot is free then.
    #[inline]
    pub fn take(&mut self, to: &mut Slot) -> Option<(usize, SlotHeader)> {
        let found = to.load(self.next(), self.number)?;
        self.number = self.number.wrapping_add(1);
        Some(found)
    }

    /// Number of messages that were taken.
    pub fn taken(&self) -> u32 {
        self.number.wrapping_sub(FIRST)
    }
}

/// Memory that a peer offers; address 0: none. Offered once, and read by any thread.
#[derive(Default)]
struct Offered {
    address: AtomicUsize,
    rkey: AtomicU32,
}

impl Offered {
    fn set(&self, memory: Remote) {
        self.rkey.store(memory.rkey, Ordering::Relaxed);
        self.address.store(memory.address, Ordering::Release);
    }

    #[inline]
    fn get(&self) -> Remote {
        let address = self.address.load(Ordering::Acquire);
        let rkey = self.rkey.load(Ordering::Relaxed);
        Remote { address, rkey }
    }
}

/// State of the rings between this process and a peer.
#[derive(Default)]
pub struct Rings {
    /// Messages that came from the peer before it was offered a ring.
    arrivals: AtomicU32,
    /// The peer's ring for this process, and its words.
    ring: Offered,
    words: Offered,
    /// Messages written into it. Under the lock of the queue.
    written: AtomicU32,
    /// Of these, those that the peer says it has taken.
    freed: AtomicU32,
    /// This process's ring for the peer, and its words.
    own_ring: Offered,
    own_words: Offered,
    /// Messages taken from it, and of these, those that were reported to the peer.
    taken: AtomicU32,
    reported: AtomicU32,
}

impl Rings {
    /// Counts a message of the peer. Whether it deserves a ring now.
    #[inline]
    pub fn is_hot(&self) -> bool {
        /// Messages that make a peer hot.
        const HOT: u32 = 64;
        self.arrivals.load(Ordering::Relaxed) < HOT && self.arrivals.fetch_add(1, Ordering::Relaxed) + 1 == HOT
    }

    /// This process has a ring for the peer.
    pub fn offer(&self, ring: Remote) {
        self.own_ring.set(ring);
    }

    /// The peer may write words of this process.
    pub fn offer_words(&self, words: Remote) {
        self.own_words.set(words);
    }

    /// A word of the peer, if it has offered its words.
    #[inline]
    pub fn word(&self, index: usize) -> Option<Remote> {
        assert!(index < words::COUNT, "defect: there is no word {index}");
        let mut words = self.words.get();
        words.address = words.address.checked_add(8 * index).filter(|_| words.address != 0)?;
        Some(words)
    }

    /// Whether the peer has a ring for packets of `bytes` bytes, and probably a free slot.
    #[inline]
    pub fn takes(&self, bytes: usize) -> bool {
        bytes <= LARGEST && self.ring.address.load(Ordering::Relaxed) != 0 && self.has_free_slot()
    }

    #[inline]
    fn has_free_slot(&self) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        written.wrapping_sub(self.freed.load(Ordering::Acquire)) < SLOTS
    }

    /// The number of the next message and where it is written. None if no slot is free. Under the
    /// lock of the queue, as is [`Rings::note_written`].
    #[inline]
    pub fn next(&self) -> Option<(u32, Remote)> {
        if !self.has_free_slot() {
            return None;
        }
        let number = self.written.load(Ordering::Relaxed).wrapping_add(FIRST);
        let mut slot = self.ring.get();
        slot.address += (number % SLOTS) as usize * SLOT;
        Some((number, slot))
    }

    /// The next message was written.
    #[inline]
    pub fn note_written(&self) {
        let written = self.written.load(Ordering::Relaxed);
        self.written.store(written.wrapping_add(1), Ordering::Relaxed);
    }

    /// The peer has taken `freed` messages. Reports may overtake each other.
    #[inline]
    pub fn note_freed(&self, freed: u32) {
        if freed.wrapping_sub(self.freed.load(Ordering::Relaxed)) as i32 > 0 {
            self.freed.store(freed, Ordering::Release);
        }
    }

    /// This process has taken `taken` messages. Whether that should be reported soon.
    #[inline]
    pub fn note_taken(&self, taken: u32) -> bool {
        self.taken.store(taken, Ordering::Relaxed);
        taken.wrapping_sub(self.reported.load(Ordering::Relaxed)) >= SLOTS / 2
    }

    /// Number of messages that this process has taken, for a message that reports it. When that was
    /// posted, and not refused, [`Rings::note_reported`] follows.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// A message reports `taken` messages. Threads may call this in any order.
    #[inline]
    pub fn note_reported(&self, taken: u32) {
        if taken.wrapping_sub(self.reported.load(Ordering::Relaxed)) as i32 > 0 {
            self.reported.store(taken, Ordering::Relaxed);
        }
    }

    /// A report for a message of its own.
    pub fn report(&self) -> Report {
        Report {
            ring: self.own_ring.get(),
            words: self.own_words.get(),
            taken: self.taken(),
        }
    }

    /// A report of the peer. One from before there was a ring may come later.
    pub fn take(&self, report: Report) {
        self.note_freed(report.taken);
        for (memory, offered) in [(report.ring, &self.ring), (report.words, &self.words)] {
            if memory.address != 0 {
                offered.set(memory);
            }
        }
    }
}

record! {
    /// The content of a message that returns credits: the ring of its sender for its receiver, its
    /// words, and the number of messages that were taken from the ring.
    #[derive(Clone, Copy, Debug)]
    pub struct Report {
        ring: Remote,
        words: Remote,
        /// See [`Rings::taken`].
        pub taken: u32,
    }
}

impl Report {
    /// The report in a message. None if these bytes are none: no memory has a ring that ends beyond
    /// all addresses.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let report = (bytes.len() == Self::BYTES).then(|| Self::decode(bytes))?;
        report.ring.address.checked_add(BYTES)?;
        report.words.address.checked_add(8 * words::COUNT).map(|_| report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a slot that a message was written into.
    fn written(number: u32, packet: &[u8], word: u32, taken: u32) -> Vec<u64> {
        let mut slot = Slot::new();
        let (head, tail) = packet.split_at(packet.len() / 3);
        slot.fill(&[head, tail], packet.len());
        let record = slot.complete(number, packet.len(), SlotHeader { word, taken });
        assert!(record.len() <= SLOT && record.len() % 8 == 0);
        let mut words: Vec<u64> = record
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        words.resize(WORDS, 0);
        words
    }

    fn load(words: &[u64], number: u32) -> Option<(Vec<u8>, SlotHeader)> {
        let words: Vec<AtomicU64> = words.iter().map(|word| AtomicU64::new(*word)).collect();
        let mut slot = Slot::new();
        let (bytes, header) = slot.load(&words, number)?;
        // SAFETY: loaded.
        Some((unsafe { slot.packet(bytes) }.to_vec(), header))
    }

    fn packet(bytes: usize, salt: u8) -> Vec<u8> {
        (0..bytes).map(|at| (at as u8).wrapping_mul(7) ^ salt).collect()
    }

    #[test]
    fn packets_of_all_lengths_come_back() {
        for bytes in 0..=LARGEST {
            let packet = packet(bytes, 3);
            let number = FIRST + 70_000 + bytes as u32;
            let words = written(number, &packet, 0xdead_beef, 77);
            let header = SlotHeader {
                word: 0xdead_beef,
                taken: 77,
            };
            assert_eq!(load(&words, number), Some((packet, header)));
            assert_eq!(load(&words, number + SLOTS), None);
        }
    }

    #[test]
    fn an_empty_slot_has_no_message() {
        assert_eq!(load(&[0; WORDS], FIRST), None);
    }

    /// A slot has an older message, or zeros; of a new one some bytes are seen, in any order.
    #[test]
    fn a_message_of_which_any_byte_is_missing_is_not_there() {
        let bytes_of = |words: Vec<u64>| words.into_iter().flat_map(u64::to_ne_bytes).collect::<Vec<u8>>();
        let message = |number, bytes, salt| bytes_of(written(number, &packet(bytes, salt), 1, u32::from(salt)));
        for bytes in [0, 40, 60, 240, LARGEST] {
            let new = message(FIRST + SLOTS, bytes, 2);
            for old in [vec![0; SLOT], message(FIRST, bytes, 1), message(FIRST, 60, 1)] {
                let differ: Vec<usize> = (0..SLOT).filter(|at| old[*at] != new[*at]).collect();
                let check = |seen: &[usize]| {
                    let mut torn = old.clone();
                    for at in seen {
                        torn[*at] = new[*at];
                    }
                    let words = torn
                        .chunks_exact(8)
                        .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
                    load(&words.collect::<Vec<u64>>(), FIRST + SLOTS)
                };
                let needed = differ.partition_point(|at| *at < Slot::length(bytes));
                for place in 0..needed {
                    let all_but_one = [&differ[..place], &differ[place + 1..]].concat();
                    for seen in [&differ[..place], &differ[place + 1..], &all_but_one] {
                        assert_eq!(check(seen), None, "{bytes} bytes without that at {}", differ[place]);
                    }
                }
                assert!(check(&differ[..needed]).is_some());
            }
        }
    }

    #[test]
    fn a_ring_is_used_until_it_is_full() {
        let rings = Rings::default();
        assert!(!rings.takes(0));
        let ring = Remote {
            address: 1 << 20,
            rkey: 5,
        };
        let offered = Rings::default();
        offered.offer(ring);
        let encoded: [u8; Report::BYTES] = offered.report().encode();
        rings.take(Report::read(&encoded).unwrap());
        assert!(rings.takes(LARGEST) && !rings.takes(LARGEST + 1));
        for message in 0..SLOTS {
            let (number, remote) = rings.next().unwrap();
            assert_eq!((number, remote.rkey), (FIRST + message, 5));
            assert_eq!(remote.address, ring.address + message as usize * SLOT);
            rings.note_written();
        }
        assert!(rings.next().is_none());
        rings.note_freed(2);
        rings.note_freed(1);
        assert_eq!(rings.next().unwrap().1.address, ring.address);
        rings.note_written();
        rings.note_written();
        assert!(rings.next().is_none());
    }

    #[test]
    fn reports_of_impossible_rings_are_none() {
        for (address, is_one) in [(1 << 20, true), (usize::MAX - 100, false)] {
            let rings = Rings::default();
            rings.offer(Remote { address, rkey: 5 });
            let encoded: [u8; Report::BYTES] = rings.report().encode();
            assert_eq!(Report::read(&encoded).is_some(), is_one);
        }
        assert!(Report::read(&[0; 15]).is_none());
    }

    #[test]
    fn words_are_used_once_offered() {
        let (rings, offered) = (Rings::default(), Rings::default());
        let words = |address| Remote { address, rkey: 9 };
        rings.take(offered.report());
        assert_eq!(rings.word(0), None);
        offered.offer_words(words(1 << 20));
        let encoded: [u8; Report::BYTES] = offered.report().encode();
        rings.take(Report::read(&encoded).unwrap());
        assert_eq!(rings.word(5), Some(words((1 << 20) + 40)));
        assert!(!rings.takes(0));
        // An older report may come later.
        rings.take(Rings::default().report());
        assert_eq!(rings.word(0), Some(words(1 << 20)));
        offered.offer_words(words(usize::MAX - 100));
        let encoded: [u8; Report::BYTES] = offered.report().encode();
        assert!(Report::read(&encoded).is_none());
    }

    #[test]
    fn every_half_of_a_ring_is_reported() {
        let rings = Rings::default();
        assert!(!rings.note_taken(SLOTS / 2 - 1));
        assert!(rings.note_taken(SLOTS / 2));
        let report = rings.report();
        rings.note_reported(report.taken);
        rings.note_reported(1);
        assert!(!rings.note_taken(SLOTS - 1) && rings.note_taken(SLOTS));
    }

    #[test]
    fn a_report_of_a_refused_message_is_due_still() {
        let rings = Rings::default();
        for taken in 1..SLOTS / 2 {
            assert!(!rings.note_taken(taken));
            let refused = (rings.taken(), rings.report().taken);
            assert_eq!(refused, (taken, taken));
        }
        assert!(rings.note_taken(SLOTS / 2));
    }

    #[test]
    fn a_peer_becomes_hot_once() {
        let rings = Rings::default();
        assert_eq!((0..1000).filter(|_| rings.is_hot()).count(), 1);
    }
}
