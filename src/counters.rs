//! The counters and states of this rank ([`gasnet_job::counters`]), as its threads write them.
//!
//! Each thread has a [`Recorder`], which writes to the job control block; before the job has
//! started, and with `GASNET_COUNTERS=0`, to memory of this process, so that no path needs a
//! check.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::types::AmCategory;
use gasnet_conduit::{connections, Class, JobRank};
use gasnet_job::counters::{add, group_shift, words};
use gasnet_job::counters::{HandlerWord, Lane, OneSided, RankCounters, Traffic, Wait, WaitWord, GROUPS, LANES};
use gasnet_job::Job;
use gasnet_sys::process;

static PRIVATE: RankCounters = RankCounters::new();
static NO_CLOCK: AtomicU64 = AtomicU64::new(0);
static SHARED: OnceLock<Shared> = OnceLock::new();
/// A bit for each lane that a thread has to itself; the last one is shared.
static TAKEN: AtomicU32 = AtomicU32::new(0);
const SHARED_LANE: usize = LANES - 1;

/// Counters that others may read.
#[derive(Clone, Copy, Debug)]
struct Shared {
    counters: &'static RankCounters,
    clock: &'static AtomicU64,
    /// See [`group_shift`].
    shift: u32,
}

/// Moves the counters to the control block. Threads that have a recorder need another one.
pub fn start(job: &'static Job) {
    let counters = job.counters();
    let _ = SHARED.set(Shared {
        counters,
        clock: job.coarse_clock(),
        shift: group_shift(job.size()),
    });
    connections::show(&counters.connections);
    counters.is_on.store(1, Ordering::Relaxed);
}

/// Shows the size of the client's segment.
pub fn segment(bytes: usize) {
    if let Some(shared) = SHARED.get() {
        shared.counters.segment_bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

/// The wait, if any, in which another one has begun.
#[derive(Clone, Copy, Debug)]
pub struct Outer {
    word: u64,
    since: u64,
}

/// Writes to the lane of one thread.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    lane: &'static Lane,
    traffic: &'static [Traffic; GROUPS],
    clock: &'static AtomicU64,
    shift: u32,
    number: usize,
}

impl Recorder {
    /// For the calling thread: a lane of its own, if one is free.
    pub fn claim() -> Self {
        let claim = |taken: u32| {
            let free = taken.trailing_ones();
            ((free as usize) < SHARED_LANE).then_some(taken | 1 << free)
        };
        let number = TAKEN
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim)
            .map_or(SHARED_LANE, |taken| taken.trailing_ones() as usize);
        // One group, so that less memory is written.
        let private = Shared {
            counters: &PRIVATE,
            clock: &NO_CLOCK,
            shift: u32::BITS - 1,
        };
        let recorder = Self::on(SHARED.get().copied().unwrap_or(private), number);
        recorder.lane.thread.store(process::thread() as u64, Ordering::Relaxed);
        recorder
    }

    fn on(shared: Shared, number: usize) -> Self {
        Self {
            lane: &shared.counters.lanes[number],
            traffic: &shared.counters.traffic[number],
            clock: shared.clock,
            shift: shared.shift,
            number,
        }
    }

    /// At the end of the thread.
    pub fn release(self) {
        if self.number == SHARED_LANE {
            return;
        }
        for word in [&self.lane.thread, &self.lane.wait] {
            word.store(0, Ordering::Relaxed);
        }
        TAKEN.fetch_and(!(1 << self.number), Ordering::Relaxed);
    }

    /// The counts of a peer. The modulus, a power of two, spares a check.
    #[inline(always)]
    fn with(&self, peer: JobRank) -> &'static [AtomicU64; words::COUNT] {
        &self.traffic[(peer.0 >> self.shift) as usize % GROUPS].0
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// A poll begins.
    #[inline(always)]
    pub fn polls(&self) {
        add(&self.lane.polls, 1);
        self.lane.polled.store(self.now(), Ordering::Relaxed);
    }

    /// It has found something.
    #[inline(always)]
    pub fn found(&self) {
        self.lane.found.store(self.now(), Ordering::Relaxed);
    }

    /// The client sends a message.
    #[inline(always)]
    pub fn sends(&self, class: Class, category: AmCategory, peer: JobRank, bytes: usize) {
        let counts = self.with(peer);
        add(&counts[words::SENT.start + kind(class, category)], 1);
        if category != AmCategory::Short {
            add(&counts[words::SENT_BYTES.start + payload(category)], bytes as u64);
        }
    }

    /// A one-sided operation over a network begins.
    #[inline(always)]
    pub fn accesses(&self, what: OneSided, peer: JobRank, bytes: usize) {
        let counts = self.with(peer);
        add(&counts[words::ACCESSES.start + what as usize], 1);
        add(&counts[words::ACCESS_BYTES.start + what as usize], bytes as u64);
    }

    /// A message of a client that does not wait was refused.
    #[cold]
    pub fn refused(&self) {
        add(&self.lane.refused, 1);
    }

    /// A handler of the client begins. `bytes` is 0 for a Short.
    #[inline(always)]
    pub fn handles(&self, class: Class, category: AmCategory, bytes: u32, handler: HandlerWord) {
        let counts = self.with(JobRank(handler.source));
        add(&counts[words::RECEIVED.start + kind(class, category)], 1);
        if category != AmCategory::Short {
            add(
                &counts[words::RECEIVED_BYTES.start + payload(category)],
                u64::from(bytes),
            );
        }
        self.lane.handlers[class as usize].store(handler.encode(), Ordering::Relaxed);
        self.lane.handlers_since[class as usize].store(self.now(), Ordering::Relaxed);
    }

    /// It has ended.
    #[inline(always)]
    pub fn handled(&self, class: Class) {
        self.lane.handlers[class as usize].store(0, Ordering::Relaxed);
    }

    /// A wait begins, which may be over soon.
    #[inline(always)]
    pub fn wait_begins(&self, reason: Wait) {
        add(&self.lane.waits[reason as usize], 1);
    }

    /// A wait takes longer. Returns what [`Recorder::waited`] needs.
    pub fn waits(&self, word: WaitWord, since: u64) -> Outer {
        let outer = Outer {
            word: self.lane.wait.load(Ordering::Relaxed),
            since: self.lane.wait_since.load(Ordering::Relaxed),
        };
        self.waited(Outer {
            word: word.encode(),
            since,
        });
        outer
    }

    /// Whether this wait is shown.
    pub fn shows(&self, word: WaitWord) -> bool {
        self.lane.wait.load(Ordering::Relaxed) == word.encode()
    }

    /// It is over.
    pub fn waited(&self, outer: Outer) {
        self.lane.wait.store(outer.word, Ordering::Relaxed);
        self.lane.wait_since.store(outer.since, Ordering::Relaxed);
    }

    /// A wait that is inside no other is over.
    pub fn waits_no_more(&self) {
        self.waited(Outer { word: 0, since: 0 });
    }

    /// A collective begins.
    #[inline(always)]
    pub fn collective(&self) {
        add(&self.lane.collectives, 1);
    }
}

#[inline(always)]
fn kind(class: Class, category: AmCategory) -> usize {
    class as usize * 3 + category as usize - 1
}

/// The place of a payload among the bytes.
#[inline(always)]
fn payload(category: AmCategory) -> usize {
    usize::from(category == AmCategory::Long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All threads of this process, so other tests may hold lanes, too.
    #[test]
    fn threads_have_lanes_of_their_own_while_there_are_some() {
        let many: Vec<_> = (0..LANES + 2).map(|_| Recorder::claim()).collect();
        let mut own: Vec<_> = many.iter().map(|r| r.number).filter(|&n| n != SHARED_LANE).collect();
        own.sort_unstable();
        let count = own.len();
        own.dedup();
        assert!(count == own.len() && count < LANES);
        assert_eq!(many.last().map(|recorder| recorder.number), Some(SHARED_LANE));
        let freed = many[0];
        for recorder in &many {
            recorder.release();
        }
        assert!(freed.number == SHARED_LANE || freed.lane.thread.load(Ordering::Relaxed) == 0);
    }

    fn recorder(counters: &'static RankCounters, size: u32) -> Recorder {
        let shared = Shared {
            counters,
            clock: Box::leak(Box::default()),
            shift: group_shift(size),
        };
        Recorder::on(shared, 0)
    }

    #[test]
    fn peers_have_counts_of_their_own() {
        static COUNTERS: RankCounters = RankCounters::new();
        // Two ranks in a group.
        let recorder = recorder(&COUNTERS, 128);
        let handler = |source| HandlerWord { index: 200, source };
        recorder.sends(Class::Request, AmCategory::Short, JobRank(0), 9);
        recorder.sends(Class::Request, AmCategory::Medium, JobRank(1), 10);
        recorder.sends(Class::Reply, AmCategory::Long, JobRank(1), 11);
        recorder.handles(Class::Reply, AmCategory::Medium, 12, handler(127));
        recorder.handles(Class::Request, AmCategory::Short, 0, handler(127));
        recorder.accesses(OneSided::Get, JobRank(126), 13);
        let counts = |group: usize| {
            recorder.traffic[group]
                .0
                .each_ref()
                .map(|count| count.load(Ordering::Relaxed))
        };
        let sent = [1, 1, 0, 0, 0, 1, 10, 11];
        let received = [1, 0, 0, 0, 1, 0, 12, 0];
        assert_eq!((&counts(0)[..8], counts(0)[8..].iter().sum()), (&sent[..], 0));
        assert_eq!((counts(1), &counts(63)[8..16]), ([0; words::COUNT], &received[..]));
        assert_eq!(counts(63)[16..], [0, 1, 0, 0, 13, 0, 0, 0]);
    }

    #[test]
    fn nested_states_come_back() {
        static COUNTERS: RankCounters = RankCounters::new();
        let recorder = recorder(&COUNTERS, 2);
        recorder.clock.store(5, Ordering::Relaxed);
        let running = || {
            let words = recorder
                .lane
                .handlers
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed));
            words.map(|word| HandlerWord::decode(word).map(|word| word.index))
        };
        let handler = |index| HandlerWord { index, source: 1 };
        recorder.handles(Class::Request, AmCategory::Medium, 30, handler(200));
        recorder.clock.store(9, Ordering::Relaxed);
        recorder.handles(Class::Reply, AmCategory::Short, 0, handler(201));
        assert_eq!(running(), [Some(200), Some(201)]);
        let since = recorder
            .lane
            .handlers_since
            .each_ref()
            .map(|time| time.load(Ordering::Relaxed));
        assert_eq!(since, [5, 9]);
        recorder.handled(Class::Reply);
        assert_eq!(running(), [Some(200), None]);
        recorder.handled(Class::Request);
        assert_eq!(running(), [None, None]);
        let wait = WaitWord {
            reason: Wait::Event,
            in_handler: false,
            peer: None,
            work: 1,
        };
        let outer = recorder.waits(wait, 3);
        let room = WaitWord {
            reason: Wait::ReplyRoom,
            in_handler: true,
            peer: Some(1),
            work: 0,
        };
        let inner = recorder.waits(room, 4);
        assert!(recorder.shows(room) && !recorder.shows(wait));
        recorder.waited(inner);
        assert!(recorder.shows(wait));
        recorder.waited(outer);
        assert_eq!(recorder.lane.wait.load(Ordering::Relaxed), 0);
    }
}
