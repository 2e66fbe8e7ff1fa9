//! This process's view of the communication memory of its neighbourhood: send, poll, sleep, wake.
//!
//! In a small neighbourhood a poll reads every ring. A larger one has a pending mask per rank and
//! class: one bit per sender, set after publication and cleared before the ring is drained. A poll
//! clears the bit of one sender at a time: while it runs that sender's handlers, other threads see
//! the bits of the other senders.
//!
//! SYNC POINT pending: in [`Comm::set_pending`] a fence separates publication from the load of the
//! pending mask; in [`Comm::drain_pending`] a fence separates the exchange of the mask from the
//! load of the ring. Either the sender sees the bit cleared, or the receiver sees the record.
//! SYNC POINT sleep: [`Comm::sleep`] announces the sleep, issues a memory barrier in all processes
//! and checks again. In [`Comm::wake`] a light fence (compiler only) separates publication from the
//! load of the sleep word. Either the sender sees the announcement, or the sleeper sees the record.
//! Where the kernel refuses `membarrier`, the sleep is short.

use std::time::Duration;

use super::layout::class_index;
use super::memory::{CommMemory, RingMemory, UNIT};
use super::pool::{Blocks, Pool};
use super::ring::{Consumer, Corrupt, Front, Producer, Word};
use crate::sync::TryLock;
use gasnet_conduit::{Busy, Class, PollScope};
use gasnet_sys::atomic::{fence, fence_after_exchange, light_fence, AtomicU32, AtomicU64, Ordering};
use gasnet_sys::padded::Padded;
use gasnet_sys::{futex, membarrier};

/// Neighbourhoods of up to this many ranks poll every ring, without pending masks.
const MAX_SCANNED_RINGS: usize = if cfg!(loom) { 1 } else { 4 };
/// Largest inline record in bytes. The receiver clears the first word of every unit, and each cache
/// line travels back to the sender; a payload block is only read by the receiver.
pub const MAX_INLINE: usize = 384;
/// Maximum records taken from one ring before the next ring.
const BATCH: usize = if cfg!(test) { 8 } else { 64 };

/// Receives the records that [`Comm::poll`] finds.
pub trait Sink {
    /// Handles a record of neighbour `source` (index in the neighbourhood). `record` points to
    /// `word.units` units. Returns whether the record was copied out; if so, `run` follows.
    fn record(&mut self, source: usize, class: Class, word: Word, record: *mut u8) -> Disposal;
    /// Runs what the last `record` copied out. The units of the record may be reused already.
    fn run(&mut self);
    /// Neighbour `source` wrote an invalid record.
    fn corrupt(&mut self, source: usize) -> !;
}

/// A record to send.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Its class.
    pub class: Class,
    /// The kind in its first word.
    pub kind: u8,
    /// The byte for the kind's use in its first word.
    pub small: u8,
    /// Length in bytes.
    pub bytes: usize,
}

/// How a record was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposal {
    /// In place.
    Done,
    /// Copied out, to run after the units are released.
    RunAfterwards,
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slept {
    /// The thread did not sleep, since there may be something to do. It must yield instead: the
    /// reason may last, such as a handler that runs in another thread.
    Refused,
    /// It slept, and nobody woke the process.
    Ended,
    /// A neighbour woke the process.
    Woken,
}

/// State by which a poll checks a ring without its lock.
#[derive(Debug)]
struct RingPeek {
    ring: RingMemory,
    /// The consumer's [`Front`], as the last lock holder left it.
    front: AtomicU64,
}

impl RingPeek {
    /// Whether a record seems to be published.
    #[inline]
    fn has_record(&self) -> bool {
        Front(self.front.load(Ordering::Relaxed)).is_published(&self.ring)
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct Comm {
    memory: CommMemory,
    me: usize,
    producers: Vec<Padded<[Producer; 2]>>,
    /// The receiving ends of the rings, by class and source.
    peeks: [Box<[RingPeek]>; 2],
    consumers: Vec<Padded<[TryLock<Consumer>; 2]>>,
    /// The payload blocks of each neighbour, for messages from it.
    blocks: Vec<[Blocks; 2]>,
    /// Own payload blocks, for messages to others.
    pools: [Pool; 2],
    barrier: bool,
}

const CLASSES: [Class; 2] = [Class::Request, Class::Reply];

impl Comm {
    /// The view of neighbour `me`.
    pub fn new(memory: CommMemory, me: usize) -> Self {
        let ranks = 0..memory.layout().ranks;
        let producers = ranks
            .clone()
            .map(|r| Padded(CLASSES.map(|c| Producer::new(memory.ring(r, me, c)))))
            .collect();
        let peeks = CLASSES.map(|c| {
            ranks
                .clone()
                .map(|r| RingPeek {
                    ring: memory.ring(me, r, c),
                    front: AtomicU64::new(Front::default().0),
                })
                .collect()
        });
        let consumers = ranks
            .clone()
            .map(|r| Padded(CLASSES.map(|c| TryLock::new(Consumer::new(memory.ring(me, r, c))))))
            .collect();
        let blocks = ranks
            .map(|r| CLASSES.map(|c| Blocks::new(memory.blocks(r, c))))
            .collect();
        let pools = CLASSES.map(|c| Pool::new(memory.blocks(me, c), me, memory.layout().ranks));
        Self {
            memory,
            me,
            producers,
            peeks,
            consumers,
            blocks,
            pools,
            barrier: membarrier::register(),
        }
    }

    /// First byte of the control page, which holds the barrier words.
    pub fn control(&self) -> *mut u8 {
        self.memory.control()
    }

    /// The communication memory.
    pub fn memory(&self) -> &CommMemory {
        &self.memory
    }

    /// Ranks in the neighbourhood.
    pub fn ranks(&self) -> usize {
        self.memory.layout().ranks
    }

    /// Own index in the neighbourhood.
    pub fn me(&self) -> usize {
        self.me
    }

    fn scans(&self) -> bool {
        self.memory.layout().ranks <= MAX_SCANNED_RINGS
    }

    /// Largest record of `class` in bytes: a quarter of the ring, so that several fit.
    pub fn max_record(&self, class: Class) -> usize {
        self.memory.layout().ring_units(class) / 4 * UNIT
    }

    /// Largest inline record of `class` in bytes: at most [`MAX_INLINE`], above which a payload
    /// block is faster.
    pub fn inline_bytes(&self, class: Class) -> usize {
        self.max_record(class).min(MAX_INLINE)
    }

    /// Payload blocks of neighbour `owner`, who alone allocates them.
    pub fn blocks(&self, owner: usize, class: Class) -> &Blocks {
        &self.blocks[owner][class_index(class)]
    }

    /// Own payload blocks.
    pub fn pool(&self, class: Class) -> &Pool {
        &self.pools[class_index(class)]
    }

    /// Sends `record` to neighbour `target`. `fill` writes its bytes, except for the first four.
    #[inline]
    pub fn send(&self, target: usize, record: Record, fill: impl FnOnce(*mut u8)) -> Result<(), Busy> {
        let reservation = self.producers[target][class_index(record.class)]
            .reserve(record.bytes.div_ceil(UNIT))
            .ok_or(Busy)?;
        fill(reservation.bytes());
        reservation.publish(record.kind, record.small);
        if !self.scans() {
            self.set_pending(target, record.class);
        }
        self.wake(target);
        Ok(())
    }

    /// Whether [`Comm::send`] of `bytes` to `target` would succeed now.
    pub fn has_room(&self, target: usize, class: Class, bytes: usize) -> bool {
        self.producers[target][class_index(class)].has_room(bytes.div_ceil(UNIT))
    }

    fn set_pending(&self, target: usize, class: Class) {
        let mask = self.memory.pending_mask(target, class, self.me / 64);
        let bit = 1u64 << (self.me % 64);
        fence(Ordering::SeqCst);
        if mask.load(Ordering::Relaxed) & bit == 0 {
            mask.fetch_or(bit, Ordering::Release);
        }
    }

    /// Takes records from all neighbours, a bounded number from each. Returns how many.
    #[inline(always)]
    pub fn poll(&self, scope: PollScope, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        if self.has_records(Class::Reply) {
            count += self.poll_class(Class::Reply, sink);
        }
        if scope == PollScope::All && self.has_records(Class::Request) {
            count += self.poll_class(Class::Request, sink);
        }
        count
    }

    /// Whether there seem to be records.
    #[inline(always)]
    fn has_records(&self, class: Class) -> bool {
        if self.scans() {
            return self.peeks[class_index(class)].iter().any(RingPeek::has_record);
        }
        (0..self.memory.layout().pending_words())
            .any(|word| self.memory.pending_mask(self.me, class, word).load(Ordering::Relaxed) != 0)
    }

    #[inline(never)]
    fn poll_class(&self, class: Class, sink: &mut impl Sink) -> usize {
        if self.scans() {
            let mut count = 0;
            for (source, peek) in self.peeks[class_index(class)].iter().enumerate() {
                if peek.has_record() {
                    count += self.drain(source, class, sink).0;
                }
            }
            count
        } else {
            self.drain_pending(class, sink)
        }
    }

    fn drain_pending(&self, class: Class, sink: &mut impl Sink) -> usize {
        let mut count = 0;
        for word in 0..self.memory.layout().pending_words() {
            let mask = self.memory.pending_mask(self.me, class, word);
            let mut bits = mask.load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                bits &= !bit;
                if mask.fetch_and(!bit, Ordering::Acquire) & bit == 0 {
                    // Another thread took it.
                    continue;
                }
                fence_after_exchange();
                let source = word * 64 + bit.trailing_zeros() as usize;
                if source >= self.memory.layout().ranks {
                    continue;
                }
                let (taken, empty) = self.drain(source, class, sink);
                count += taken;
                if !empty {
                    mask.fetch_or(bit, Ordering::Relaxed);
                }
            }
        }
        count
    }

    /// Takes up to [`BATCH`] records from one ring. Returns how many, and whether the ring was
    /// empty then.
    fn drain(&self, source: usize, class: Class, sink: &mut impl Sink) -> (usize, bool) {
        let Some(mut consumer) = self.consumers[source][class_index(class)].try_lock() else {
            return (0, false);
        };
        let (mut taken, mut empty) = (0, false);
        while taken < BATCH {
            match consumer.peek() {
                Ok(None) => {
                    empty = true;
                    break;
                }
                Ok(Some((word, record))) => {
                    let disposal = sink.record(source, class, word, record);
                    consumer.advance(word.units);
                    if disposal == Disposal::RunAfterwards {
                        sink.run();
                    }
                    taken += 1;
                }
                Err(Corrupt) => sink.corrupt(source),
            }
        }
        self.peeks[class_index(class)][source]
            .front
            .store(consumer.front().0, Ordering::Relaxed);
        (taken, empty)
    }

    /// Whether a poll of `scope` would find a record, or another thread is polling.
    pub fn pending(&self, scope: PollScope) -> bool {
        let in_scope = |class: &&Class| scope == PollScope::All || **class == Class::Reply;
        CLASSES.iter().filter(in_scope).any(|&class| {
            if self.scans() {
                self.consumers
                    .iter()
                    .any(|consumers| consumers[class_index(class)].try_lock().is_none_or(|c| !c.is_empty()))
            } else {
                (0..self.memory.layout().pending_words())
                    .any(|w| self.memory.pending_mask(self.me, class, w).load(Ordering::Relaxed) != 0)
            }
        })
    }

    /// Wakes `neighbour` if it sleeps.
    #[inline]
    pub fn wake(&self, neighbour: usize) {
        let word = self.memory.sleep_word(neighbour);
        light_fence(Ordering::SeqCst);
        let seen = word.load(Ordering::Relaxed);
        if seen & 1 != 0 {
            Self::wake_announced(word, seen);
        }
    }

    /// Ends the round of sleep `seen`. If the exchange fails, another waker has ended the round
    /// already.
    #[cold]
    fn wake_announced(word: &AtomicU32, seen: u32) {
        let next = seen.wrapping_add(1);
        if word
            .compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            futex::wake_all(word);
        }
    }

    /// Wakes all sleeping neighbours.
    pub fn wake_all(&self) {
        (0..self.memory.layout().ranks).for_each(|r| self.wake(r));
    }

    /// Sleeps until a neighbour sends or wakes, or until `limit`; not at all if a poll of `scope`
    /// may find something or `also` holds.
    ///
    /// The lowest bit of the sleep word announces a sleeper; the other bits count rounds of sleep.
    /// Several threads may sleep at once. Without rounds, the announcement of one could hide from
    /// another that its waker has come. For the same reason no thread withdraws an announcement: a
    /// stale one costs the next sender one futile system call.
    pub fn sleep(&self, limit: Duration, scope: PollScope, also: impl Fn() -> bool) -> Slept {
        let may_not_sleep = || self.pending(scope) || also();
        // A reason that lasts must not cost a memory barrier in all processes each time.
        if may_not_sleep() {
            return Slept::Refused;
        }
        let word = self.memory.sleep_word(self.me);
        let announced = word.fetch_or(1, Ordering::Relaxed) | 1;
        let limit = if self.barrier && membarrier::global() {
            limit
        } else {
            limit.min(Duration::from_micros(200))
        };
        let refused = may_not_sleep();
        if !refused {
            futex::wait(word, announced, limit);
        }
        if word.load(Ordering::Relaxed) != announced {
            Slept::Woken
        } else if refused {
            Slept::Refused
        } else {
            Slept::Ended
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Layout, MIN_RING as MIN};
    use super::*;

    struct Count {
        seen: Vec<(usize, Class, u8)>,
        copied: Option<u8>,
    }

    impl Sink for Count {
        fn record(&mut self, source: usize, class: Class, word: Word, _: *mut u8) -> Disposal {
            if word.small % 2 == 0 {
                self.copied = Some(word.small);
                self.seen.push((source, class, word.small));
                return Disposal::RunAfterwards;
            }
            self.seen.push((source, class, word.small));
            Disposal::Done
        }
        fn run(&mut self) {
            assert!(self.copied.take().is_some());
        }
        fn corrupt(&mut self, _: usize) -> ! {
            panic!("corrupt")
        }
    }

    const fn record(class: Class, small: u8, bytes: usize) -> Record {
        Record {
            class,
            kind: 1,
            small,
            bytes,
        }
    }

    fn neighbourhood(ranks: usize) -> (Vec<u64>, Vec<Comm>) {
        let layout = Layout::new(ranks, MIN, 4, 0);
        let mut memory = vec![0u64; layout.bytes() / 8 + 512];
        let base = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: rounding up stays inside the spare page.
        let base = unsafe { base.add(base.align_offset(4096)) };
        // SAFETY: aligned, long enough, zero, kept by the caller.
        let memory_of = || unsafe { CommMemory::new(base, layout) };
        let views = (0..ranks).map(|r| Comm::new(memory_of(), r)).collect();
        (memory, views)
    }

    #[test]
    fn every_record_arrives_once_with_and_without_pending_masks() {
        for ranks in [1, 2, 4, 5, 70] {
            let (_memory, views) = neighbourhood(ranks);
            for to in [0, ranks - 1] {
                for view in &views {
                    for class in CLASSES {
                        for i in 0..20 {
                            view.send(to, record(class, i, 70), |_| ()).unwrap();
                        }
                    }
                }
                let mut sink = Count {
                    seen: vec![],
                    copied: None,
                };
                while views[to].poll(PollScope::Replies, &mut sink) > 0 {}
                assert!(sink.seen.iter().all(|s| s.1 == Class::Reply));
                assert_eq!(sink.seen.len(), 20 * ranks);
                while views[to].poll(PollScope::All, &mut sink) > 0 {}
                sink.seen.sort_by_key(|s| (s.0, class_index(s.1), s.2));
                sink.seen.dedup();
                assert_eq!(sink.seen.len(), 40 * ranks);
                assert!(!views[to].pending(PollScope::All));
                if ranks == 1 {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_full_ring_is_busy_and_recovers() {
        let (_memory, views) = neighbourhood(2);
        let mut sent = 0;
        while views[0].send(1, record(Class::Request, 1, 64), |_| ()).is_ok() {
            sent += 1;
        }
        assert_eq!(sent, MIN / 64);
        assert!(!views[0].has_room(1, Class::Request, 64));
        assert!(views[0].send(1, record(Class::Reply, 1, 64), |_| ()).is_ok());
        let mut sink = Count {
            seen: vec![],
            copied: None,
        };
        while views[1].poll(PollScope::All, &mut sink) > 0 {}
        assert_eq!(sink.seen.len(), sent + 1);
        assert!(views[0].has_room(1, Class::Request, 64));
    }

    #[test]
    fn a_sleep_is_refused_while_its_poll_may_find_something() {
        const SHORT: Duration = Duration::from_millis(1);
        for ranks in [2, 5] {
            let (_memory, views) = neighbourhood(ranks);
            let sleep = |scope| views[1].sleep(SHORT, scope, || false);
            assert_eq!(sleep(PollScope::All), Slept::Ended);
            assert_eq!(views[1].sleep(SHORT, PollScope::All, || true), Slept::Refused);
            views[0].send(1, record(Class::Request, 1, 64), |_| ()).unwrap();
            assert_eq!(sleep(PollScope::All), Slept::Refused);
            // A reply that waits for room leaves requests where they are.
            assert_eq!(sleep(PollScope::Replies), Slept::Ended);
            views[0].send(1, record(Class::Reply, 1, 64), |_| ()).unwrap();
            assert_eq!(sleep(PollScope::Replies), Slept::Refused);
        }
        let (_memory, views) = neighbourhood(2);
        let _polls = views[1].consumers[0][class_index(Class::Request)].try_lock();
        assert_eq!(views[1].sleep(SHORT, PollScope::All, || false), Slept::Refused);
        assert_eq!(views[1].sleep(SHORT, PollScope::Replies, || false), Slept::Ended);
    }

    #[test]
    fn a_sleeper_is_woken_by_a_message() {
        let (_memory, views) = neighbourhood(2);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !views[1].pending(PollScope::All) {
                    views[1].sleep(Duration::from_millis(50), PollScope::All, || false);
                }
            });
            std::thread::sleep(Duration::from_millis(10));
            views[0].send(1, record(Class::Request, 1, 64), |_| ()).unwrap();
        });
    }
}
