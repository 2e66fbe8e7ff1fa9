//! Lanes: how members of a team show each other data in shared memory, without locks and without messages.
//!
//! A team's collectives take *positions*, the same ones at every member. At a position a member may show something in its own lane, in slot
//! `position % SLOTS`; whoever needs it looks there until it is shown. A member that needs nothing at any position below `p` any more says that it
//! has passed `p`, and a slot is used again when all members have passed the position that it showed last.
//!
//! Members also count each other: at a position each comes once ([`Lanes::come`]), up a tree of counters, where the last to come to one goes on to
//! the next (Yew, Tzeng and Lawrie 1987), so that nobody waits on the way; the last of all says who it is ([`Lanes::finish`]).
//!
//! Invariants: only its owner writes to a lane, but for the counters and the word of the last, which name the position that they are about;
//! a member passes a position once, and never looks at what is below.
//!
//! SYNC POINT lane-show: the store in [`Lanes::show`] (release) pairs with the load in [`Lanes::shows`] (acquire).
//! SYNC POINT lane-reuse: the store in [`Lanes::pass`] (release) pairs with the load in [`Lanes::has_passed`] and [`Lanes::has_room`] (acquire),
//! directly, or through `room` (release, acquire), which another thread of the owner refreshed, or through what a member shows: it says beside a
//! position what it has passed (loaded with acquire, since another thread of it may have passed that), so that whoever looks at all
//! members for other reasons need not look at a second line of each.
//! SYNC POINT lane-come: each exchange in [`Lanes::come`] (acquire-release) orders what came before it for the last to come.
//! SYNC POINT lane-last: the store in [`Lanes::finish`] (release) pairs with the load in [`Lanes::finished`] (acquire).

use super::memory::{LaneMemory, SLOTS};
use gasnet_sys::atomic::{light_fence, AtomicU64, Ordering};

/// The lanes of a team's members in this neighbourhood, as one of them sees them.
#[derive(Debug)]
pub struct Lanes {
    all: Box<[LaneMemory]>,
    me: usize,
    /// Positions below this have room in the own lane: all have passed what their slots showed before.
    room: AtomicU64,
}

impl Lanes {
    /// The view of member `me`.
    pub fn new(all: Box<[LaneMemory]>, me: usize) -> Self {
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

    /// Where `member` shows `position`.
    pub fn place(&self, member: usize, position: u64) -> (&LaneMemory, usize) {
        (&self.all[member], slot(position))
    }

    /// Whether the own slot for `position` may be written: nobody needs what it showed before.
    #[inline]
    pub fn has_room(&self, position: u64) -> bool {
        if self.knows_room(position) {
            return true;
        }
        let passed = self.all.iter().map(|lane| lane.passed().load(Ordering::Acquire));
        position < self.found(passed.min())
    }

    /// All members were seen to show `position`, and say beside it what they had passed.
    #[inline]
    pub fn learn(&self, position: u64) {
        let passed = self
            .all
            .iter()
            .map(|lane| lane.passed_then(slot(position)).load(Ordering::Relaxed));
        self.found(passed.min());
    }

    /// All members have passed this. Other threads may have found more; then less does no harm.
    fn found(&self, passed: Option<u64>) -> u64 {
        let room = passed.unwrap_or(0) + SLOTS as u64;
        self.room.store(room, Ordering::Release);
        room
    }

    /// The same, without looking.
    #[inline]
    pub fn knows_room(&self, position: u64) -> bool {
        position < self.room.load(Ordering::Acquire)
    }

    /// Shows what is in the own slot for `position`, which had room.
    #[inline]
    pub fn show(&self, position: u64) {
        let own = &self.all[self.me];
        own.passed_then(slot(position))
            .store(own.passed().load(Ordering::Acquire), Ordering::Relaxed);
        own.shown(slot(position)).store(position + 1, Ordering::Release);
    }

    /// Whether `member` shows `position`. Not to be asked for a position that this member has passed.
    #[inline]
    pub fn shows(&self, member: usize, position: u64) -> bool {
        self.all[member].shown(slot(position)).load(Ordering::Acquire) == position + 1
    }

    /// Says that nothing below `position` is needed here. Positions only grow, and threads take turns. Returns what was passed before.
    #[inline]
    pub fn pass(&self, position: u64) -> u64 {
        let passed = self.all[self.me].passed();
        let before = passed.load(Ordering::Relaxed);
        passed.store(position, Ordering::Release);
        before
    }

    /// This member has come at `position`, for which there is room. Whether it is the last of all.
    pub fn come(&self, position: u64) -> bool {
        let (mut node, count) = (self.me, self.count());
        loop {
            let children = (node * COUNTER_RADIX + 1..count).take(COUNTER_RADIX).len();
            if children > 0 && self.count_at(node, position) <= children as u64 {
                return false;
            }
            if node == 0 {
                return true;
            }
            node = (node - 1) / COUNTER_RADIX;
        }
    }

    /// Counts one more at the counter of `node`. How many that makes.
    fn count_at(&self, node: usize, position: u64) -> u64 {
        let counter = self.all[node].come(slot(position));
        let mut made = 0;
        let _ = counter.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |old| {
            // What it says about an earlier position is over.
            made = told(old, position).unwrap_or(0) + 1;
            Some(tell(position, made))
        });
        made
    }

    /// This member, which came last at `position`, tells the others.
    pub fn finish(&self, position: u64) {
        let word = self.all[self.count() - 1].last(slot(position));
        word.store(tell(position, self.me as u64), Ordering::Release);
    }

    /// Who came last at `position`, if all have come.
    #[inline]
    pub fn finished(&self, position: u64) -> Option<usize> {
        let word = self.all[self.count() - 1].last(slot(position)).load(Ordering::Acquire);
        // Another process wrote that.
        told(word, position)
            .map(|member| member as usize)
            .filter(|&member| member < self.count())
    }

    /// A collective of this member begins (or ceases) to wait for what others pass.
    pub fn wait(&self, begins: bool) {
        for waits in [self.all[self.me].waits(), self.all[0].waits_of_all()] {
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
        let nobody = self.all[0].waits_of_all().load(Ordering::Relaxed) == 0;
        let waits = |&member: &usize| member != self.me && self.all[member].waits().load(Ordering::Relaxed) != 0;
        (0..if nobody { 0 } else { self.count() }).filter(waits)
    }

    /// Whether all members but one, who waits for that, need nothing below `position`.
    pub fn all_but_have_passed(&self, one: usize, position: u64) -> bool {
        (0..self.count()).all(|member| member == one || self.has_passed(member, position))
    }

    /// Whether `member` needs nothing below `position`.
    #[inline]
    pub fn has_passed(&self, member: usize, position: u64) -> bool {
        self.all[member].passed().load(Ordering::Acquire) >= position
    }
}

/// Members below a counter of the tree.
const COUNTER_RADIX: usize = 8;
/// Bits of a word about a position that hold a number of members.
const TOLD_BITS: u32 = 20;

fn tell(position: u64, number: u64) -> u64 {
    (position + 1) << TOLD_BITS | number
}

fn told(word: u64, position: u64) -> Option<u64> {
    (word >> TOLD_BITS == position + 1).then_some(word & ((1 << TOLD_BITS) - 1))
}

fn slot(position: u64) -> usize {
    position as usize % SLOTS
}

/// Makes a lane as a new team needs it. Nobody else may know it yet.
pub fn clear(lane: &LaneMemory) {
    lane.passed().store(0, Ordering::Relaxed);
    lane.waits().store(0, Ordering::Relaxed);
    lane.waits_of_all().store(0, Ordering::Relaxed);
    for slot in 0..SLOTS {
        for word in [lane.shown(slot), lane.come(slot), lane.last(slot)] {
            word.store(0, Ordering::Relaxed);
        }
    }
}
