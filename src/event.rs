//! Operations and the events that name them (GASNet-EX 0.19, "Events").
//!
//! An [`Op`] counts what is outstanding, per category. NB operations, NBI sets, access regions and
//! collectives are all `Op`s; `thread` opens and closes access regions. A root event is the address
//! of an `Op`; a leaf event is that address with the category bits (the values of `GEX_EC_*`) in
//! the low four bits. Ops live in chunks that are never freed, so that any thread may test, sync
//! and recycle any event, and so that counters outlive the thread that started the operation.
//!
//! SYNC POINT op-complete: [`Op::complete`] (release) pairs with [`Op::is_done`] (acquire): what
//! the completing side wrote is visible after a successful test.

use std::ptr;
use std::sync::atomic::AtomicPtr;

use gasnet_conduit::{Completion, Cookie, JobRank};
use gasnet_sys::atomic::{global, AtomicU32, AtomicU64, Mutex, Ordering};
use gasnet_sys::lock;

/// Category of something outstanding. The discriminant shifts to the `GEX_EC_*` bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Category {
    /// Remote completion of a put (`GEX_EC_PUT` is this bit and `Local`).
    Put = 0,
    /// Local completion of a put or an AM (`GEX_EC_LC`, `GEX_EC_AM`).
    Local = 1,
    /// A get (`GEX_EC_GET`).
    Get = 2,
    /// A remote atomic (`GEX_EC_RMW`).
    Rmw = 3,
    /// A collective: part of the root only.
    Coll = 4,
    /// Local completion of a put for which its initiating thread waits (`GEX_EVENT_NOW`): part of
    /// the root only.
    Source = 5,
}

const CATEGORIES: usize = 6;

/// The counter of a category in an [`Op`]. The counters of a put lie in one word, so that one
/// operation counts them.
#[derive(Clone, Copy)]
struct Lane {
    /// Index in [`Op::pending`].
    word: usize,
    /// First bit.
    shift: u32,
    /// Number of bits. A count of the last lane of a word would overflow into nothing; others are
    /// wide enough for all that can be outstanding.
    bits: u32,
}

/// By category.
const LANES: [Lane; CATEGORIES] = {
    const fn lane(word: usize, shift: u32, bits: u32) -> Lane {
        Lane { word, shift, bits }
    }
    [
        lane(0, 0, 31),
        lane(0, 31, 29),
        lane(1, 0, 64),
        lane(2, 0, 64),
        lane(3, 0, 64),
        // A thread waits for few of its puts at a time: one, and one in each handler around it.
        lane(0, 60, 4),
    ]
};

const WORDS: usize = 4;

impl Category {
    const fn lane(self) -> Lane {
        LANES[self as usize]
    }

    /// One of this category, in its word.
    const fn unit(self) -> u64 {
        1 << self.lane().shift
    }
}

impl Lane {
    const fn mask(self) -> u64 {
        (u64::MAX >> (64 - self.bits)) << self.shift
    }
}

/// For each set of categories (bits as in [`Category`]), what they count in each word.
static MASKS: [[u64; WORDS]; 1 << CATEGORIES] = {
    let mut masks = [[0; WORDS]; 1 << CATEGORIES];
    let mut set = 0;
    while set < masks.len() {
        let mut category = 0;
        while category < CATEGORIES {
            if set >> category & 1 != 0 {
                masks[set][LANES[category].word] |= LANES[category].mask();
            }
            category += 1;
        }
        set += 1;
    }
    masks
};

const LEAF_MASK: usize = 15;
const ALL: usize = (1 << CATEGORIES) - 1;

/// The kind of an operation of the network, and so the counters that its parts complete. The
/// discriminant is part of its [`Cookie`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// A put whose local completion nobody asks for.
    Put = 0,
    /// A put whose local completion is an event or belongs to a group.
    PutWithLocal = 1,
    /// A put whose initiating thread waits for local completion.
    PutNow = 2,
    /// A get.
    Get = 3,
    /// A remote atomic that reads and writes.
    Rmw = 4,
    /// A message whose local completion is an event or belongs to a group. It ends with that.
    Message = 5,
    /// A message whose initiating thread waits for local completion.
    MessageNow = 6,
}

impl OpKind {
    /// In the order of discriminants.
    const ALL: [Self; 7] = [
        Self::Put,
        Self::PutWithLocal,
        Self::PutNow,
        Self::Get,
        Self::Rmw,
        Self::Message,
        Self::MessageNow,
    ];

    /// Whether local completion is counted.
    pub const fn counts_local(self) -> bool {
        self.counts().2 != 0
    }

    /// Index of the word that counts it, and what the whole and local completion count there.
    const fn counts(self) -> (usize, u64, u64) {
        use Category::{Get, Local, Put, Rmw, Source};
        match self {
            Self::Put => (Put.lane().word, Put.unit(), 0),
            Self::PutWithLocal => (Put.lane().word, Put.unit(), Local.unit()),
            Self::PutNow => (Put.lane().word, Put.unit(), Source.unit()),
            Self::Get => (Get.lane().word, Get.unit(), 0),
            Self::Rmw => (Rmw.lane().word, Rmw.unit(), 0),
            Self::Message => (Local.lane().word, 0, Local.unit()),
            Self::MessageNow => (Source.lane().word, 0, Source.unit()),
        }
    }
}

/// The other ranks of what an [`Op`] counts in a word, in place of one rank: several.
const SEVERAL: u32 = u32::MAX;
/// The words of operations of the network, which have a peer.
const WITH_PEER: usize = WORDS - 1;

/// Low bits of a [`Cookie`] that hold the [`OpKind`], or [`NOT_AN_OP`].
const KIND_BITS: u32 = 3;
/// In place of a kind: the rest of the cookie is not the index of an Op.
const NOT_AN_OP: u64 = 7;

/// The cookie of something else than an Op, which has a number of its own.
pub const fn other_cookie(number: u64) -> Cookie {
    Cookie::new(number << KIND_BITS | NOT_AN_OP)
}

/// A part of what `cookie` names is complete. Returns the number of [`other_cookie`] if that made
/// it.
#[inline]
pub fn complete(cookie: Cookie, part: Completion) -> Option<u64> {
    let number = cookie.bits() >> KIND_BITS;
    match OpKind::ALL.get((cookie.bits() & NOT_AN_OP) as usize) {
        Some(&kind) => {
            op_at(number as u32).complete_part(kind, part);
            None
        }
        None => Some(number),
    }
}

/// One operation. See the module documentation.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Op {
    /// Outstanding parts ([`LANES`]). All reach zero exactly once per use of the Op, but for a
    /// thread's NBI set.
    pending: [AtomicU64; WORDS],
    /// For each word, the peer of the operations since it was last 0, or [`SEVERAL`].
    peers: [AtomicU32; WITH_PEER],
    /// Next in a free list (index + 1; 0 ends).
    next: AtomicU32,
    /// Own position in the table; constant.
    index: u32,
    /// In the debug flavour: [`IN_USE`] while an event may name the Op; the bits above it hold the
    /// team number of a collective.
    state: AtomicU32,
}

const CHECKED: bool = cfg!(feature = "debug-checks");
const IN_USE: u32 = 1;

/// A defect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventDefect {
    /// `GEX_EVENT_NO_OP`.
    NoOp,
    /// No operation of ours.
    Unknown,
    /// The operation is over, and its root was synchronised.
    Synchronised,
}

const CHUNK: usize = if cfg!(loom) { 2 } else { 1024 };
const CHUNKS: usize = if cfg!(loom) { 16 } else { 16384 };

struct Table {
    /// Not one of the model's atomics: whoever has an index got it through a lock, or made the
    /// chunk.
    chunks: [AtomicPtr<Op>; CHUNKS],
    /// Chunks made so far; grows under the lock.
    made: Mutex<usize>,
    /// Indices spilled by threads.
    spare: Mutex<Vec<u32>>,
    /// NBI sets of ended threads, with operations outstanding.
    orphans: Mutex<Vec<u32>>,
}

global! {
    static TABLE: Table = Table {
        chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
        made: Mutex::new(0),
        spare: Mutex::new(Vec::new()),
        orphans: Mutex::new(Vec::new()),
    };
}

#[inline]
fn op_at(index: u32) -> &'static Op {
    let chunk = TABLE.chunks[index as usize / CHUNK].load(Ordering::Acquire);
    // SAFETY: indices come from `grow`, whose chunk is initialised, of CHUNK elements, and never
    // freed.
    unsafe { &*chunk.add(index as usize % CHUNK) }
}

impl Op {
    /// Counts one more outstanding part.
    pub fn begin(&self, category: Category) {
        self.pending[category.lane().word].fetch_add(category.unit(), Ordering::Relaxed);
    }

    /// Counts one part as complete (release).
    pub fn complete(&self, category: Category) {
        self.pending[category.lane().word].fetch_sub(category.unit(), Ordering::Release);
    }

    /// Counts one operation of the network, with `peer`.
    #[inline]
    pub fn begin_kind(&self, kind: OpKind, peer: JobRank) {
        let (word, whole, local) = kind.counts();
        let before = self.pending[word].fetch_add(whole + local, Ordering::Relaxed);
        let known = &self.peers[word];
        let is_alone = before == 0 || known.load(Ordering::Relaxed) == peer.0;
        known.store(if is_alone { peer.0 } else { SEVERAL }, Ordering::Relaxed);
    }

    /// Counts a part of such an operation as complete (release). Then another thread may recycle
    /// this Op.
    pub fn complete_part(&self, kind: OpKind, part: Completion) {
        let (word, whole, local) = kind.counts();
        let count = match part {
            Completion::Source => local,
            Completion::Remote => whole,
            Completion::Both => whole + local,
        };
        if count != 0 {
            self.pending[word].fetch_sub(count, Ordering::Release);
        }
    }

    /// Names this Op in calls to the network.
    #[inline]
    pub fn cookie(&self, kind: OpKind) -> Cookie {
        Cookie::new(u64::from(self.index) << KIND_BITS | kind as u64)
    }

    /// Whether the puts are complete locally for which a thread waits. The Op is that thread's.
    pub fn source_is_free(&self) -> bool {
        self.is_done(1 << Category::Source as usize)
    }

    /// Outstanding parts of a category.
    pub fn count(&self, category: Category) -> u64 {
        let lane = category.lane();
        (self.pending[lane.word].load(Ordering::Relaxed) & lane.mask()) >> lane.shift
    }

    /// Reports the outstanding parts of the categories in `mask`: their other side, if that is one
    /// rank, and a bit for each category.
    pub fn outstanding(&self, mask: usize) -> (Option<JobRank>, u8) {
        // A put for whose source its thread waits counts as a put, too.
        let named = 0..Category::Source as usize;
        let open = named.filter(|&n| mask >> n & 1 != 0 && !self.is_done(1 << n));
        let mut peers = open.clone().map(|n| match self.peers.get(LANES[n].word) {
            Some(peer) => peer.load(Ordering::Relaxed),
            None => SEVERAL,
        });
        let first = peers.next().filter(|&rank| rank != SEVERAL);
        let only = first.filter(|&first| peers.all(|rank| rank == first));
        (only.map(JobRank), open.fold(0, |set, n| set | 1 << n))
    }

    /// Whether nothing of the categories in `mask` (bits as in [`Category`]) is outstanding.
    #[inline]
    pub fn is_done(&self, mask: usize) -> bool {
        let ([a, b, c, d], [of_a, of_b, of_c, of_d]) = (self.words(Ordering::Acquire), MASKS[mask & ALL]);
        (a & of_a) | (b & of_b) | (c & of_c) | (d & of_d) == 0
    }

    /// Whether nothing is outstanding: what all events that name this wait for.
    #[inline]
    pub fn is_over(&self) -> bool {
        let [a, b, c, d] = self.words(Ordering::Acquire);
        a | b | c | d == 0
    }

    /// Outstanding parts. Loads one by one: compilers do not unroll a loop of atomics.
    #[inline(always)]
    fn words(&self, order: Ordering) -> [u64; WORDS] {
        let [a, b, c, d] = &self.pending;
        [a.load(order), b.load(order), c.load(order), d.load(order)]
    }

    /// Whether puts, gets or atomics are outstanding, and no collective, whose parts are messages.
    #[inline]
    pub fn has_accesses(&self) -> bool {
        const { assert!(Category::Coll.lane().word == WORDS - 1) };
        let [puts, gets, atomics, collectives] = self.words(Ordering::Relaxed);
        puts | gets | atomics != 0 && collectives == 0
    }

    /// Records the team of this collective, for [`is_open`]. Debug flavour.
    pub fn belongs_to(&self, team: u32) {
        self.state.store(IN_USE | team << 1, Ordering::Relaxed);
    }

    /// The root event.
    pub fn event(&'static self) -> Event {
        Event(ptr::from_ref(self) as usize)
    }
}

/// A value of type `gex_Event_t`: null, `GEX_EVENT_NO_OP` (1), a root, or a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Event(pub usize);

impl Event {
    /// `GEX_EVENT_INVALID`: complete.
    pub const INVALID: Self = Self(0);
    /// `GEX_EVENT_NO_OP`: nothing was started.
    pub const NO_OP: Self = Self(1);

    fn op(self) -> &'static Op {
        // SAFETY: a valid event is the address of an Op in the table (module invariant), with leaf
        // bits below 64.
        unsafe { &*((self.0 & !LEAF_MASK) as *const Op) }
    }

    /// The operation that this names, if it names one.
    pub fn operation(self) -> Option<&'static Op> {
        (self.0 > LEAF_MASK).then(|| self.op())
    }

    /// See [`Op::outstanding`]. Of a root, that is all of its operation.
    pub fn outstanding(self) -> (Option<JobRank>, u8) {
        let mask = Some(self.0 & LEAF_MASK).filter(|&leaf| leaf != 0).unwrap_or(ALL);
        self.operation().map_or((None, 0), |op| op.outstanding(mask))
    }

    /// Detectable defect of this event. Debug flavour.
    pub fn defect(self) -> Option<EventDefect> {
        if self.is_invalid() {
            return None;
        }
        if self == Self::NO_OP {
            return Some(EventDefect::NoOp);
        }
        let address = self.0 & !LEAF_MASK;
        let chunks = TABLE.chunks.iter().map(|chunk| chunk.load(Ordering::Acquire) as usize);
        let known = |start: usize| {
            address.wrapping_sub(start) < CHUNK * size_of::<Op>() && (address - start) % size_of::<Op>() == 0
        };
        if !chunks.take_while(|&start| start != 0).any(known) {
            return Some(EventDefect::Unknown);
        }
        (self.op().state.load(Ordering::Relaxed) & IN_USE == 0).then_some(EventDefect::Synchronised)
    }

    /// Whether this names a leaf.
    pub fn is_leaf(self) -> bool {
        self.0 & LEAF_MASK != 0
    }

    /// Whether this names a leaf of that root.
    pub fn is_leaf_of(self, root: Self) -> bool {
        self.is_leaf() && self.0 & !LEAF_MASK == root.0
    }

    /// Whether this is the null event.
    pub fn is_invalid(self) -> bool {
        self.0 == 0
    }

    /// Whether what the event names is complete; does not consume it.
    pub fn is_done(self) -> bool {
        if self.is_invalid() {
            return true;
        }
        match self.0 & LEAF_MASK {
            0 => self.op().is_over(),
            leaf => self.op().is_done(leaf),
        }
    }

    /// The leaf of this root for the `GEX_EC_*` bits in `mask`.
    #[must_use]
    pub fn leaf(self, mask: usize) -> Self {
        if self.is_invalid() || self.op().is_done(mask) {
            return Self::INVALID;
        }
        Self(self.0 | (mask & LEAF_MASK))
    }

    /// Recycles a root that is complete. Leaves are queries and own nothing.
    pub fn consume(self, free: &mut FreeList) {
        if !self.is_invalid() && !self.is_leaf() {
            free.put(self.op());
        }
    }
}

/// Whether the event of a collective over the team with number `team` has not been synchronised.
/// Debug flavour.
pub fn is_open(team: u32) -> bool {
    collectives_of(team).next().is_some()
}

/// Whether a collective over the team with number `team` is not complete. Debug flavour.
pub fn is_under_way(team: u32) -> bool {
    collectives_of(team).any(|op| !op.is_over())
}

fn collectives_of(team: u32) -> impl Iterator<Item = &'static Op> {
    let made = *lock(&TABLE.made) * CHUNK;
    (0..made as u32)
        .map(op_at)
        .filter(move |op| op.state.load(Ordering::Relaxed) == IN_USE | team << 1)
}

/// A thread's own supply of Ops.
#[derive(Debug)]
pub struct FreeList {
    first: u32,
    count: u32,
}

const SPILL: u32 = 2 * CHUNK as u32;

impl FreeList {
    /// Empty.
    pub const fn new() -> Self {
        Self { first: 0, count: 0 }
    }

    /// An Op with nothing outstanding.
    #[inline]
    pub fn take(&mut self) -> &'static Op {
        if self.first == 0 {
            self.refill();
        }
        let op = op_at(self.first - 1);
        self.first = op.next.load(Ordering::Relaxed);
        self.count -= 1;
        if CHECKED {
            op.state.store(IN_USE, Ordering::Relaxed);
        }
        op
    }

    /// Gives an Op back. Nothing of it may be outstanding.
    pub fn put(&mut self, op: &'static Op) {
        if CHECKED {
            op.state.store(0, Ordering::Relaxed);
        }
        op.next.store(self.first, Ordering::Relaxed);
        self.first = op.index + 1;
        self.count += 1;
        if self.count > SPILL {
            self.spill(CHUNK as u32);
        }
    }

    fn spill(&mut self, keep: u32) {
        let mut spare = lock(&TABLE.spare);
        while self.count > keep {
            let op = op_at(self.first - 1);
            self.first = op.next.load(Ordering::Relaxed);
            self.count -= 1;
            spare.push(op.index);
        }
    }

    #[cold]
    fn refill(&mut self) {
        reclaim_orphans();
        {
            let mut spare = lock(&TABLE.spare);
            let from = spare.len() - spare.len().min(CHUNK);
            for index in spare.drain(from..) {
                op_at(index).next.store(self.first, Ordering::Relaxed);
                self.first = index + 1;
                self.count += 1;
            }
        }
        if self.first == 0 {
            self.grow();
        }
    }

    fn grow(&mut self) {
        let mut made = lock(&TABLE.made);
        assert!(
            *made < CHUNKS,
            "more than {} GASNet operations are outstanding in this process",
            CHUNK * CHUNKS
        );
        let start = (*made * CHUNK) as u32;
        let ops: Vec<Op> = (0..CHUNK as u32)
            .map(|i| Op {
                pending: std::array::from_fn(|_| AtomicU64::new(0)),
                peers: std::array::from_fn(|_| AtomicU32::new(SEVERAL)),
                next: AtomicU32::new(if i + 1 == CHUNK as u32 { 0 } else { start + i + 2 }),
                index: start + i,
                state: AtomicU32::new(0),
            })
            .collect();
        TABLE.chunks[*made].store(Box::leak(ops.into_boxed_slice()).as_mut_ptr(), Ordering::Release);
        *made += 1;
        self.first = start + 1;
        self.count = CHUNK as u32;
    }

    /// No thread will sync `op`: it is recycled when nothing is outstanding.
    pub fn orphan(&mut self, op: &'static Op) {
        if op.is_over() {
            self.put(op);
        } else {
            lock(&TABLE.orphans).push(op.index);
        }
    }

    /// The owning thread ends: other threads inherit its Ops. `set` is its NBI set.
    pub fn retire(&mut self, set: &'static Op) {
        self.orphan(set);
        self.spill(0);
    }
}

impl Default for FreeList {
    fn default() -> Self {
        Self::new()
    }
}

fn reclaim_orphans() {
    let mut orphans = lock(&TABLE.orphans);
    if orphans.is_empty() {
        return;
    }
    let mut spare = lock(&TABLE.spare);
    orphans.retain(|&index| {
        let done = op_at(index).is_over();
        if done {
            spare.push(index);
        }
        !done
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_needs_all_categories_and_leaf_only_its_own() {
        let mut free = FreeList::new();
        let op = free.take();
        op.begin(Category::Put);
        op.begin(Category::Local);
        let root = op.event();
        let leaf = root.leaf(2);
        assert!(!root.is_done() && !leaf.is_done());
        op.complete(Category::Local);
        assert!(!root.is_done() && leaf.is_done());
        op.complete(Category::Put);
        assert!(root.is_done());
        assert_eq!(root.leaf(2), Event::INVALID);
        root.consume(&mut free);
    }

    #[test]
    fn lanes_of_a_word_are_apart_and_cover_it() {
        for word in 0..WORDS {
            let lanes = LANES.iter().filter(|lane| lane.word == word);
            assert_eq!(lanes.clone().map(|lane| lane.bits).sum::<u32>(), 64);
            assert_eq!(lanes.fold(0, |all, lane| all | lane.mask()), u64::MAX);
        }
    }

    #[test]
    fn parts_of_a_put_complete_what_its_kind_counts() {
        use Completion::{Both, Remote, Source};
        let mut free = FreeList::new();
        let (op, local) = (free.take(), 1 << Category::Local as usize);
        for (kind, parts) in [
            (OpKind::Put, &[Source, Remote][..]),
            (OpKind::Put, &[Both]),
            (OpKind::PutWithLocal, &[Source, Remote]),
            (OpKind::PutWithLocal, &[Both]),
            (OpKind::PutNow, &[Source, Remote]),
            (OpKind::PutNow, &[Both]),
            (OpKind::Get, &[Both]),
            (OpKind::Rmw, &[Both]),
        ] {
            op.begin_kind(kind, JobRank(3));
            assert_eq!(op.is_done(local), kind != OpKind::PutWithLocal, "{kind:?}");
            assert_eq!(op.source_is_free(), kind != OpKind::PutNow, "{kind:?}");
            for part in parts {
                assert!(!op.event().is_done(), "{kind:?} {parts:?}");
                assert_eq!(complete(op.cookie(kind), *part), None);
                assert!(op.is_done(local) && op.source_is_free(), "{kind:?} {parts:?}");
            }
            assert!(op.event().is_done(), "{kind:?} {parts:?}");
        }
        assert_eq!(complete(other_cookie(1 << 40), Both), Some(1 << 40));
    }

    #[test]
    fn reports_name_the_peer_of_what_is_outstanding() {
        let mut free = FreeList::new();
        let op = free.take();
        let begin = |kind, rank| op.begin_kind(kind, JobRank(rank));
        let done = |kind| op.complete_part(kind, Completion::Both);
        let reported = |event: Event| {
            let (peer, categories) = event.outstanding();
            (categories, peer.map(|rank| rank.0))
        };
        assert_eq!((reported(op.event()), reported(Event::INVALID)), ((0, None), (0, None)));
        begin(OpKind::Put, 3);
        begin(OpKind::Put, 3);
        assert_eq!(reported(op.event()), (1, Some(3)));
        begin(OpKind::Get, 4);
        assert_eq!(reported(op.event()), (5, None));
        assert_eq!(reported(op.event().leaf(4)), (4, Some(4)));
        begin(OpKind::Put, 0);
        done(OpKind::Get);
        assert_eq!(reported(op.event()), (1, None));
        (0..3).for_each(|_| done(OpKind::Put));
        begin(OpKind::PutWithLocal, 0);
        begin(OpKind::Rmw, 0);
        assert_eq!(reported(op.event()), (0b1011, Some(0)));
        op.begin(Category::Coll);
        assert_eq!(reported(op.event()), (0b1_1011, None));
    }

    #[test]
    fn ops_are_recycled_across_lists() {
        let mut a = FreeList::new();
        let set = a.take();
        let taken: Vec<_> = (0..5000).map(|_| a.take()).collect();
        for op in taken {
            a.put(op);
        }
        set.begin(Category::Get);
        a.retire(set);
        let made = *lock(&TABLE.made);
        let mut b = FreeList::new();
        for _ in 0..3000 {
            b.take();
        }
        assert_eq!(*lock(&TABLE.made), made);
        set.complete(Category::Get);
    }
}
