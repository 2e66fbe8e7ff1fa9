//! Collective buffers: members of a team publish data to each other in shared memory, without locks
//! or messages.
//!
//! A team's collectives use sequence numbers, the same ones at every member. For a sequence number
//! `seq`, a member may publish data in slot `seq % SLOTS` of its own buffer; readers poll that
//! slot. A member that needs no slot of any sequence number below `seq` any more retires `seq`. A
//! slot is reused when all members have retired its previous sequence number.
//!
//! Members can also count arrivals at a sequence number ([`CollBuffers::arrive`]): up a tree of
//! counters, in which the last arrival at one counter continues to the next (Yew, Tzeng and Lawrie
//! 1987). No member waits inside the tree. The last arrival of all publishes its index
//! ([`CollBuffers::complete`]).
//!
//! Invariants: only its owner writes to a buffer, except for the counters and the last-arrival
//! words, which hold the sequence number they belong to. A member retires a sequence number once,
//! and does not read anything below.
//!
//! SYNC POINT coll-publish: the store in [`CollBuffers::publish`] (release) pairs with the load in
//! [`CollBuffers::has_published`] (acquire).
//! SYNC POINT coll-reuse: the store in [`CollBuffers::retire`] (release) pairs with the load in
//! [`CollBuffers::has_retired`] and [`CollBuffers::has_room`] (acquire). It pairs directly; or
//! through `room` (release, acquire), which another thread of the owner updated; or through a
//! published slot, which carries what its owner had retired by then (loaded with acquire, since
//! another thread of the owner may have retired it). A reader of all members' slots therefore need
//! not read a second cache line of each.
//! SYNC POINT coll-arrive: each exchange in [`CollBuffers::arrive`] (acquire-release) orders all
//! earlier arrivals before the last one.
//! SYNC POINT coll-complete: the store in [`CollBuffers::complete`] (release) pairs with the load
//! in [`CollBuffers::completed_by`] (acquire).

use super::memory::{CollBufferMemory, SLOTS};
use gasnet_sys::atomic::{light_fence, AtomicU64, Ordering};

/// The collective buffers of a team's members in this neighbourhood, as seen by one member.
#[derive(Debug)]
pub struct CollBuffers {
    all: Box<[CollBufferMemory]>,
    me: usize,
    /// The own slots of all sequence numbers below this may be written: all members have retired
    /// their previous contents.
    room: AtomicU64,
}

impl CollBuffers {
    /// The view of member `me`.
    pub fn new(all: Box<[CollBufferMemory]>, me: usize) -> Self {
        Self {
            all,
            me,
            room: AtomicU64::new(SLOTS as u64),
        }
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Index of this member.
    pub fn me(&self) -> usize {
        self.me
    }

    /// The buffer of `member`, and the slot for `seq`.
    pub fn slot_of(&self, member: usize, seq: u64) -> (&CollBufferMemory, usize) {
        (&self.all[member], slot(seq))
    }

    /// Whether the own slot for `seq` may be written: all members have retired its previous
    /// contents.
    #[inline]
    pub fn has_room(&self, seq: u64) -> bool {
        if self.has_known_room(seq) {
            return true;
        }
        let retired = self.all.iter().map(|buffer| buffer.retired().load(Ordering::Acquire));
        seq < self.set_room(retired.min())
    }

    /// Updates the known room from the published slots of `seq`. All members must have published
    /// it.
    #[inline]
    pub fn learn_room(&self, seq: u64) {
        let retired = self
            .all
            .iter()
            .map(|buffer| buffer.retired_then(slot(seq)).load(Ordering::Relaxed));
        self.set_room(retired.min());
    }

    /// All members have retired this. Another thread may have stored more; a lower value is safe.
    fn set_room(&self, retired: Option<u64>) -> u64 {
        let room = retired.unwrap_or(0) + SLOTS as u64;
        self.room.store(room, Ordering::Release);
        room
    }

    /// As [`CollBuffers::has_room`], without reading the other members' buffers.
    #[inline]
    pub fn has_known_room(&self, seq: u64) -> bool {
        seq < self.room.load(Ordering::Acquire)
    }

    /// Publishes the own slot for `seq`, which had room.
    #[inline]
    pub fn publish(&self, seq: u64) {
        let own = &self.all[self.me];
        own.retired_then(slot(seq))
            .store(own.retired().load(Ordering::Acquire), Ordering::Relaxed);
        own.published(slot(seq)).store(seq + 1, Ordering::Release);
    }

    /// Whether `member` has published `seq`. Only for a sequence number that this member has not
    /// retired.
    #[inline]
    pub fn has_published(&self, member: usize, seq: u64) -> bool {
        self.all[member].published(slot(seq)).load(Ordering::Acquire) == seq + 1
    }

    /// This member needs nothing below `seq` any more. Never decreases; one thread at a time.
    /// Returns the previous value.
    #[inline]
    pub fn retire(&self, seq: u64) -> u64 {
        let retired = self.all[self.me].retired();
        let before = retired.load(Ordering::Relaxed);
        retired.store(seq, Ordering::Release);
        before
    }

    /// Arrives at `seq`, for which there is room. Returns whether this is the last arrival.
    pub fn arrive(&self, seq: u64) -> bool {
        let (mut node, count) = (self.me, self.count());
        loop {
            let children = (node * COUNTER_RADIX + 1..count).take(COUNTER_RADIX).len();
            if children > 0 && self.count_at(node, seq) <= children as u64 {
                return false;
            }
            if node == 0 {
                return true;
            }
            node = (node - 1) / COUNTER_RADIX;
        }
    }

    /// Increments the counter of `node`. Returns the new count.
    fn count_at(&self, node: usize, seq: u64) -> u64 {
        let counter = self.all[node].arrivals(slot(seq));
        let mut made = 0;
        let _ = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| {
            // A count of an earlier sequence number is void.
            made = unpack(old, seq).unwrap_or(0) + 1;
            Some(pack(seq, made))
        });
        made
    }

    /// The last arrival at `seq` publishes its index, and so releases the others.
    pub fn complete(&self, seq: u64) {
        let word = self.all[self.count() - 1].last_arrival(slot(seq));
        word.store(pack(seq, self.me as u64), Ordering::Release);
    }

    /// The index of the last arrival at `seq`, if all members have arrived.
    #[inline]
    pub fn completed_by(&self, seq: u64) -> Option<usize> {
        let word = self.all[self.count() - 1]
            .last_arrival(slot(seq))
            .load(Ordering::Acquire);
        // Another process wrote the word, so it is checked.
        unpack(word, seq)
            .map(|member| member as usize)
            .filter(|&member| member < self.count())
    }

    /// A collective of this member starts or stops waiting for other members to retire slots.
    pub fn set_waiting(&self, begins: bool) {
        for waits in [self.all[self.me].waits(), self.all[0].team_waits()] {
            if begins {
                waits.fetch_add(1, Ordering::Relaxed);
            } else {
                waits.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The other members known to wait for this one to retire slots: to be woken if they sleep. A
    /// member that is about to sleep checks again ([`super::comm::Comm::sleep`]).
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        light_fence(Ordering::SeqCst);
        let none = self.all[0].team_waits().load(Ordering::Relaxed) == 0;
        let waits = |&member: &usize| member != self.me && self.all[member].waits().load(Ordering::Relaxed) != 0;
        (0..if none { 0 } else { self.count() }).filter(waits)
    }

    /// Whether all members except `one` have retired `seq`.
    pub fn all_but_have_retired(&self, one: usize, seq: u64) -> bool {
        (0..self.count()).all(|member| member == one || self.has_retired(member, seq))
    }

    /// Whether `member` has retired `seq`: it needs nothing below.
    #[inline]
    pub fn has_retired(&self, member: usize, seq: u64) -> bool {
        self.all[member].retired().load(Ordering::Acquire) >= seq
    }
}

/// Children of a counter in the tree.
const COUNTER_RADIX: usize = 8;
/// Bits of a packed word that hold a member count or index; the sequence number is above.
const MEMBER_BITS: u32 = 20;

fn pack(seq: u64, number: u64) -> u64 {
    (seq + 1) << MEMBER_BITS | number
}

fn unpack(word: u64, seq: u64) -> Option<u64> {
    (word >> MEMBER_BITS == seq + 1).then_some(word & ((1 << MEMBER_BITS) - 1))
}

fn slot(seq: u64) -> usize {
    seq as usize % SLOTS
}

/// Resets a buffer for a new team. No other member may use it yet.
pub fn clear(buffer: &CollBufferMemory) {
    buffer.retired().store(0, Ordering::Relaxed);
    buffer.waits().store(0, Ordering::Relaxed);
    buffer.team_waits().store(0, Ordering::Relaxed);
    for slot in 0..SLOTS {
        for word in [buffer.published(slot), buffer.arrivals(slot), buffer.last_arrival(slot)] {
            word.store(0, Ordering::Relaxed);
        }
    }
}
