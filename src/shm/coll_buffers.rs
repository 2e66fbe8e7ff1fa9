//! Lanes: how members of a team show each other data in shared memory, without locks and without messages.
//!
//! A team's collectives take *positions*, the same ones at every member. At a position a member may show something in its own lane, in slot
//! `seq % SLOTS`; whoever needs it looks there until it is shown. A member that needs nothing at any position below `p` any more says that it
//! has passed `p`, and a slot is used again when all members have passed the position that it showed last.
//!
//! Members also count each other: at a position each comes once ([`CollBuffers::come`]), up a tree of counters, where the last to come to one goes on to
//! the next (Yew, Tzeng and Lawrie 1987), so that nobody waits on the way; the last of all says who it is ([`CollBuffers::finish`]).
//!
//! Invariants: only its owner writes to a lane, but for the counters and the word of the last, which name the position that they are about;
//! a member passes a position once, and never looks at what is below.
//!
//! SYNC POINT lane-show: the store in [`CollBuffers::show`] (release) pairs with the load in [`CollBuffers::shows`] (acquire).
//! SYNC POINT lane-reuse: the store in [`CollBuffers::pass`] (release) pairs with the load in [`CollBuffers::has_retired`] and [`CollBuffers::has_room`] (acquire),
//! directly, or through `room` (release, acquire), which another thread of the owner refreshed, or through what a member shows: it says beside a
//! position what it has passed (loaded with acquire, since another thread of it may have passed that), so that whoever looks at all
//! members for other reasons need not look at a second line of each.
//! SYNC POINT lane-come: each exchange in [`CollBuffers::come`] (acquire-release) orders what came before it for the last to come.
//! SYNC POINT lane-last: the store in [`CollBuffers::finish`] (release) pairs with the load in [`CollBuffers::finished`] (acquire).

use super::memory::{CollBufferMemory, SLOTS};
use gasnet_sys::atomic::{light_fence, AtomicU64, Ordering};

/// The lanes of a team's members in this neighbourhood, as one of them sees them.
#[derive(Debug)]
pub struct CollBuffers {
    all: Box<[CollBufferMemory]>,
    me: usize,
    /// Positions below this have room in the own lane: all have passed what their slots showed before.
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

    /// Members.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The own place among them.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Where `member` shows `seq`.
    pub fn slot_of(&self, member: usize, seq: u64) -> (&CollBufferMemory, usize) {
        (&self.all[member], slot(seq))
    }

    /// Whether the own slot for `seq` may be written: nobody needs what it showed before.
    #[inline]
    pub fn has_room(&self, seq: u64) -> bool {
        if self.has_known_room(seq) {
            return true;
        }
        let retired = self.all.iter().map(|buffer| buffer.retired().load(Ordering::Acquire));
        seq < self.set_room(retired.min())
    }

    /// All members were seen to show `seq`, and say beside it what they had passed.
    #[inline]
    pub fn learn_room(&self, seq: u64) {
        let retired = self
            .all
            .iter()
            .map(|buffer| buffer.retired_then(slot(seq)).load(Ordering::Relaxed));
        self.set_room(retired.min());
    }

    /// All members have passed this. Other threads may have found more; then less does no harm.
    fn set_room(&self, retired: Option<u64>) -> u64 {
        let room = retired.unwrap_or(0) + SLOTS as u64;
        self.room.store(room, Ordering::Release);
        room
    }

    /// The same, without looking.
    #[inline]
    pub fn has_known_room(&self, seq: u64) -> bool {
        seq < self.room.load(Ordering::Acquire)
    }

    /// Shows what is in the own slot for `seq`, which had room.
    #[inline]
    pub fn publish(&self, seq: u64) {
        let own = &self.all[self.me];
        own.retired_then(slot(seq))
            .store(own.retired().load(Ordering::Acquire), Ordering::Relaxed);
        own.published(slot(seq)).store(seq + 1, Ordering::Release);
    }

    /// Whether `member` shows `seq`. Not to be asked for a position that this member has passed.
    #[inline]
    pub fn has_published(&self, member: usize, seq: u64) -> bool {
        self.all[member].published(slot(seq)).load(Ordering::Acquire) == seq + 1
    }

    /// Says that nothing below `seq` is needed here. Positions only grow, and threads take turns. Returns what was passed before.
    #[inline]
    pub fn retire(&self, seq: u64) -> u64 {
        let retired = self.all[self.me].retired();
        let before = retired.load(Ordering::Relaxed);
        retired.store(seq, Ordering::Release);
        before
    }

    /// This member has come at `seq`, for which there is room. Whether it is the last of all.
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

    /// Counts one more at the counter of `node`. How many that makes.
    fn count_at(&self, node: usize, seq: u64) -> u64 {
        let counter = self.all[node].arrivals(slot(seq));
        let mut made = 0;
        let _ = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| {
            // What it says about an earlier position is over.
            made = unpack(old, seq).unwrap_or(0) + 1;
            Some(pack(seq, made))
        });
        made
    }

    /// This member, which came last at `seq`, tells the others.
    pub fn complete(&self, seq: u64) {
        let word = self.all[self.count() - 1].last_arrival(slot(seq));
        word.store(pack(seq, self.me as u64), Ordering::Release);
    }

    /// Who came last at `seq`, if all have come.
    #[inline]
    pub fn completed_by(&self, seq: u64) -> Option<usize> {
        let word = self.all[self.count() - 1].last_arrival(slot(seq)).load(Ordering::Acquire);
        // Another process wrote that.
        unpack(word, seq)
            .map(|member| member as usize)
            .filter(|&member| member < self.count())
    }

    /// A collective of this member begins (or ceases) to wait for what others pass.
    pub fn set_waiting(&self, begins: bool) {
        for waits in [self.all[self.me].waits(), self.all[0].team_waits()] {
            if begins {
                waits.fetch_add(1, Ordering::Relaxed);
            } else {
                waits.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The other members that wait for what this one passes, as far as that is known: to be woken if they sleep. Who falls asleep meanwhile looks
    /// once more ([`super::comm::Comm::sleep`]).
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        light_fence(Ordering::SeqCst);
        let nobody = self.all[0].team_waits().load(Ordering::Relaxed) == 0;
        let waits = |&member: &usize| member != self.me && self.all[member].waits().load(Ordering::Relaxed) != 0;
        (0..if nobody { 0 } else { self.count() }).filter(waits)
    }

    /// Whether all members but one, who waits for that, need nothing below `seq`.
    pub fn all_but_have_retired(&self, one: usize, seq: u64) -> bool {
        (0..self.count()).all(|member| member == one || self.has_retired(member, seq))
    }

    /// Whether `member` needs nothing below `seq`.
    #[inline]
    pub fn has_retired(&self, member: usize, seq: u64) -> bool {
        self.all[member].retired().load(Ordering::Acquire) >= seq
    }
}

/// Members below a counter of the tree.
const COUNTER_RADIX: usize = 8;
/// Bits of a word about a position that hold a number of members.
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

/// Makes a lane as a new team needs it. Nobody else may know it yet.
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
