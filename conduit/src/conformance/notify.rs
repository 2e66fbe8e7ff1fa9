//! Checks of puts with notification: `notify_conformance_tests!`, called as `conformance_tests!`.

use super::payload::{buffers, fill};
use super::rma::{expose, host, until_taken, Parts};
use super::{Job, Make, Watchdog};
use crate::{
    Busy, Class, Completion, Cookie, JobRank, LocalCompletion, Network, PollScope, Put, RemoteMemory, SegmentMemory,
    SourceUse, Upcalls,
};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};

/// Bytes of target memory for one put.
const SLOT: usize = 70_000;

/// Size of the put of this number: all magnitudes, odd ones too.
fn size(number: usize) -> usize {
    match number % 4 {
        0 => 1 + number * 7 % 600,
        1 => 1 + number * 97 % 5000,
        2 => 1 + number * 1009 % 30_000,
        _ => 1 + number * 40_009 % SLOT,
    }
}

/// Byte `i` of the put of this number. Never zero.
fn byte(number: usize, i: usize) -> u8 {
    ((number * 31 + i * 7 + i / 256) % 255 + 1) as u8
}

fn payload(number: usize) -> Vec<u8> {
    (0..size(number)).map(|i| byte(number, i)).collect()
}

/// Starts a put from memory outside all segments, whose packet is its number in two parts.
fn put_and_notify(
    network: &dyn Network,
    to: RemoteMemory,
    from: &[u8],
    (source, class): (SourceUse, Class),
    number: usize,
) -> Result<LocalCompletion, Busy> {
    let put = Put {
        to,
        from: host(from.as_ptr() as usize),
        bytes: from.len(),
        source,
        cookie: Cookie::new(number as u64),
    };
    let packet = (number as u64).to_le_bytes();
    let notify = network.abilities().put_notify.expect("puts with notification");
    notify.put_and_notify(&put, None, class, &[&packet[..3], &packet[3..]])
}

/// Puts and notifications that a target has received.
#[derive(Default)]
struct Received {
    /// By number of the put.
    packets: Vec<bool>,
    count: usize,
}

/// The upcalls of a rank that is initiator, target or both.
struct Rank<'a> {
    /// This rank's memory, in slots of [`SLOT`] bytes.
    memory: &'a [AtomicU8],
    received: &'a Mutex<Received>,
    /// The class of every packet.
    class: fn(usize) -> Class,
    own: Parts,
}

impl Upcalls for Rank<'_> {
    fn packet(&mut self, _: JobRank, class: Class, packet: &mut [u8]) {
        let number = usize::from_le_bytes((*packet).try_into().expect("a packet of other length"));
        let mut received = self.received.lock().unwrap();
        assert!(!received.packets[number], "packet {number} arrived twice");
        received.packets[number] = true;
        received.count += 1;
        assert_eq!(
            class,
            (self.class)(number),
            "packet {number} arrived in the wrong class"
        );
        let slot = &self.memory[number * SLOT..][..SLOT];
        let bytes = size(number);
        let differs = |(i, memory): (usize, &AtomicU8)| memory.load(SeqCst) != byte(number, i);
        let first = slot[..bytes].iter().enumerate().position(differs);
        assert_eq!(first, None, "packet {number} arrived before its {bytes} bytes");
        let is_clean = slot[bytes..].iter().all(|memory| memory.load(SeqCst) == 0);
        assert!(is_clean, "bytes after put {number} were written");
    }

    fn done(&mut self, cookie: Cookie, part: Completion) {
        assert_eq!(part, Completion::Source, "of {cookie:?}, a put with notification");
        self.own.done(cookie, part);
    }

    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl<'a> Rank<'a> {
    fn new(memory: &'a [AtomicU8], received: &'a Mutex<Received>, class: fn(usize) -> Class) -> Self {
        Self {
            memory,
            received,
            class,
            own: Parts::default(),
        }
    }

    fn poll_until(&mut self, network: &dyn Network, what: &str, mut done: impl FnMut(&mut Self) -> bool) {
        let watchdog = Watchdog::new();
        while !done(self) {
            network.poll(PollScope::All, self);
            watchdog.check(what);
        }
    }

    fn count(&self) -> usize {
        self.received.lock().unwrap().count
    }
}

fn memory(slots: usize) -> Vec<AtomicU8> {
    std::iter::repeat_with(|| AtomicU8::new(0)).take(slots * SLOT).collect()
}

fn received(slots: usize) -> Mutex<Received> {
    Mutex::new(Received {
        packets: vec![false; slots],
        count: 0,
    })
}

fn segment(memory: &[AtomicU8]) -> SegmentMemory {
    SegmentMemory::host(memory.as_ptr() as usize, memory.len())
}

/// Requests and replies in turn.
fn by_turns(number: usize) -> Class {
    [Class::Request, Class::Reply][number % 2]
}

/// The bytes of a put are visible when its packet is delivered. Of the put only local completion is
/// reported, once, and then the source may be overwritten.
pub fn notified_after_data(make: Make<'_>) {
    const COUNT: usize = 120;
    let job = Job::start(make, 2);
    let (target, received) = (memory(COUNT), received(COUNT));
    let (own, names) = expose((JobRank(1), job.of(1)), &segment(&target), &[job.of(0)]);
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut me = Rank::new(&target, &received, by_turns);
        if rank == JobRank(1) {
            me.poll_until(network, "the packets", |me| me.count() == COUNT);
            return over.store(true, SeqCst);
        }
        let mut sources: Vec<_> = (0..COUNT).map(payload).collect();
        for (number, source) in sources.iter().enumerate() {
            let how = ([SourceUse::Later, SourceUse::Now][number / 2 % 2], by_turns(number));
            let to = names[0].plus(number * SLOT);
            let local = until_taken(network, &mut me, || put_and_notify(network, to, source, how, number));
            if local == LocalCompletion::AtReturn {
                me.own.source_at_return(Cookie::new(number as u64));
            }
            // A conduit may treat the first messages to a peer differently.
            if number % 20 == 19 {
                me.poll_until(network, "the packets so far", |me| me.count() == number + 1);
            }
        }
        for (number, source) in sources.iter_mut().enumerate() {
            let cookie = Cookie::new(number as u64);
            me.poll_until(network, "local completion", |me| me.own.source(cookie));
            source.fill(0xee);
        }
        me.poll_until(network, "the target", |_| over.load(SeqCst));
        // A second report would come now, or would have come.
        for _ in 0..1000 {
            network.poll(PollScope::All, &mut me);
        }
    });
    job.of(0)
        .abilities()
        .segments
        .unwrap()
        .forget(JobRank(1), names[0].segment);
    job.of(1).abilities().segments.unwrap().deregister(own);
    job.stop();
}

/// The source of a put may be a send buffer, which is then the conduit's: of the put nothing is
/// reported, and the buffer can be reserved again.
pub fn notified_from_send_buffers(make: Make<'_>) {
    const COUNT: usize = 90;
    let job = Job::start(make, 2);
    let (target, received) = (memory(COUNT), received(COUNT));
    let (_, names) = expose((JobRank(1), job.of(1)), &segment(&target), &[job.of(0)]);
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut me = Rank::new(&target, &received, by_turns);
        if rank == JobRank(1) {
            me.poll_until(network, "the packets", |me| me.count() == numbers(network).count());
            return over.store(true, SeqCst);
        }
        let notify = network.abilities().put_notify.expect("puts with notification");
        let pool = buffers(network);
        for number in numbers(network) {
            let (source, class) = (payload(number), by_turns(number));
            let buffer = until_taken(network, &mut me, || pool.reserve(JobRank(1), class, source.len()));
            fill(buffer, &source);
            let put = Put {
                to: names[0].plus(number * SLOT),
                from: host(buffer.0 as usize),
                bytes: source.len(),
                source: SourceUse::Later,
                cookie: Cookie::new(0),
            };
            let packet = (number as u64).to_le_bytes();
            let local = until_taken(network, &mut me, || {
                notify.put_and_notify(&put, Some(buffer), class, &[&packet])
            });
            assert_eq!(local, LocalCompletion::AtReturn, "of a put from a send buffer");
        }
        me.poll_until(network, "the target", |_| over.load(SeqCst));
        assert!(
            !me.own.source(Cookie::new(0)),
            "of a put from a send buffer something was reported"
        );
    });
    job.stop();

    /// The puts that fit in a buffer.
    fn numbers(network: &dyn Network) -> impl Iterator<Item = usize> {
        let most = buffers(network).max_bytes();
        (0..COUNT).filter(move |&number| size(number) <= most)
    }
}

/// The source may be overwritten at return or from local completion on, while the put is under way.
pub fn notified_source_is_free(make: Make<'_>) {
    const COUNT: usize = 64;
    let job = Job::start(make, 2);
    let (target, received) = (memory(COUNT), received(COUNT));
    let (_, names) = expose((JobRank(1), job.of(1)), &segment(&target), &[job.of(0)]);
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut me = Rank::new(&target, &received, by_turns);
        if rank == JobRank(1) {
            me.poll_until(network, "the packets", |me| me.count() == COUNT);
            return over.store(true, SeqCst);
        }
        for number in 0..COUNT {
            let mut source = payload(number);
            let (cookie, to) = (Cookie::new(number as u64), names[0].plus(number * SLOT));
            let how = ([SourceUse::Now, SourceUse::Later][number / 2 % 2], by_turns(number));
            match until_taken(network, &mut me, || put_and_notify(network, to, &source, how, number)) {
                LocalCompletion::AtReturn => me.own.source_at_return(cookie),
                LocalCompletion::Later => me.poll_until(network, "local completion", |me| me.own.source(cookie)),
            }
            source.fill(0xbb);
        }
        me.poll_until(network, "the target", |_| over.load(SeqCst));
    });
    job.stop();
}

/// A target that does not poll makes the conduit busy, which sends nothing. Replies then still
/// arrive, and requests when it polls.
pub fn notified_busy_recovers(make: Make<'_>) {
    const MOST: usize = 400;
    const REPLY: usize = MOST;
    const LAST: usize = MOST + 1;
    let class: fn(usize) -> Class = |number| [Class::Request, Class::Reply][usize::from(number == REPLY)];
    let job = Job::start(make, 2);
    let (target, received) = (memory(MOST + 2), received(MOST + 2));
    let (_, names) = expose((JobRank(1), job.of(1)), &segment(&target), &[job.of(0)]);
    let (full, sent, over) = (Barrier::new(2), AtomicUsize::new(0), AtomicBool::new(false));
    job.run(|rank, network| {
        let mut me = Rank::new(&target, &received, class);
        let start = |number: usize, source: &[u8]| {
            let (to, how) = (names[0].plus(number * SLOT), (SourceUse::Later, class(number)));
            put_and_notify(network, to, source, how, number)
        };
        if rank == JobRank(1) {
            full.wait();
            let watchdog = Watchdog::new();
            while !me.received.lock().unwrap().packets[REPLY] {
                network.poll(PollScope::Replies, &mut me);
                watchdog.check("a reply beside full requests");
            }
            me.poll_until(network, "all requests", |me| me.count() == sent.load(SeqCst));
            return over.store(true, SeqCst);
        }
        let sources: Vec<_> = (0..MOST + 2).map(payload).collect();
        let mut taken = 0;
        for (number, source) in sources[..MOST].iter().enumerate() {
            match start(number, source) {
                Ok(LocalCompletion::AtReturn) => me.own.source_at_return(Cookie::new(number as u64)),
                Ok(LocalCompletion::Later) => {}
                Err(Busy) => break,
            }
            taken += 1;
        }
        sent.store(taken + 2, SeqCst);
        full.wait();
        for number in [REPLY, LAST] {
            if until_taken(network, &mut me, || start(number, &sources[number])) == LocalCompletion::AtReturn {
                me.own.source_at_return(Cookie::new(number as u64));
            }
        }
        for number in (0..taken).chain([REPLY, LAST]) {
            let cookie = Cookie::new(number as u64);
            me.poll_until(network, "local completion", |me| me.own.source(cookie));
        }
        me.poll_until(network, "the target", |_| over.load(SeqCst));
    });
    job.stop();
}

/// Puts with notification of several threads and ranks, all under way at once, arrive once each.
pub fn notified_many_at_once(make: Make<'_>) {
    const RANKS: usize = 3;
    const THREADS: usize = 2;
    const EACH: usize = 24;
    const SLOTS: usize = RANKS * THREADS * EACH;
    let job = Job::start(make, RANKS as u32);
    let memories: Vec<_> = (0..RANKS).map(|_| memory(SLOTS)).collect();
    let received: Vec<_> = (0..RANKS).map(|_| received(SLOTS)).collect();
    let users: Vec<&dyn Network> = (0..RANKS).map(|rank| job.of(rank)).collect();
    let exposed: Vec<_> = memories
        .iter()
        .enumerate()
        .map(|(rank, memory)| expose((JobRank(rank as u32), job.of(rank)), &segment(memory), &users).1)
        .collect();
    let completed: Vec<Mutex<Parts>> = (0..RANKS).map(|_| Mutex::default()).collect();
    let done = AtomicUsize::new(0);
    job.run_threads(THREADS as u32, |rank, thread, network| {
        let me = rank.index();
        let completed = &completed[me];
        let mut upcalls = Shared {
            rank: Rank::new(&memories[me], &received[me], by_turns),
            completed,
        };
        let numbers = ((me * THREADS + thread as usize) * EACH..).take(EACH);
        let sources: Vec<_> = numbers.clone().map(payload).collect();
        let mut poll_until = |what: &str, ready: &mut dyn FnMut() -> bool| {
            let watchdog = Watchdog::new();
            while !ready() {
                network.poll(PollScope::All, &mut upcalls);
                watchdog.check(what);
            }
        };
        for (number, source) in numbers.clone().zip(&sources) {
            let to = exposed[(me + 1 + number % 2) % RANKS][me].plus(number * SLOT);
            let how = ([SourceUse::Later, SourceUse::Now][number / 4 % 2], by_turns(number));
            poll_until("room for a put", &mut || {
                // Locked, so that another thread does not report completion before the result.
                let mut completed = completed.lock().unwrap();
                let local = put_and_notify(network, to, source, how, number);
                if local == Ok(LocalCompletion::AtReturn) {
                    completed.source_at_return(Cookie::new(number as u64));
                }
                local.is_ok()
            });
        }
        poll_until("local completion", &mut || {
            let completed = completed.lock().unwrap();
            numbers
                .clone()
                .all(|number| completed.source(Cookie::new(number as u64)))
        });
        // Each rank is the target of half of what each other rank sends.
        poll_until("packets", &mut || received[me].lock().unwrap().count == SLOTS / RANKS);
        done.fetch_add(1, SeqCst);
        poll_until("the other ranks", &mut || done.load(SeqCst) == RANKS * THREADS);
    });
    job.stop();
}

/// Threads that put with notification, and find no room much of the time, hold one another up for a
/// moment only.
pub fn notified_by_threads(make: Make<'_>) {
    const THREADS: usize = 6;
    const EACH: usize = 400;
    let sources = [[1; 200], [2; 200]];
    let job = Job::start(make, 2);
    let memories: [_; 2] = std::array::from_fn(|_| memory(THREADS));
    let exposed = [0, 1].map(|rank| {
        let users = [job.of(1 - rank)];
        expose((JobRank(rank as u32), job.of(rank)), &segment(&memories[rank]), &users).1[0]
    });
    let (arrived, over) = ([0; 2].map(AtomicUsize::new), AtomicUsize::new(0));
    job.run_threads(THREADS as u32, |rank, thread, network| {
        let (me, peer) = (rank.index(), 1 - rank.index());
        let mut counter = Counter(&arrived[me]);
        let to = exposed[peer].plus(thread as usize * SLOT);
        for number in 0..EACH {
            let how = (SourceUse::Now, Class::Request);
            // It may be in use after this thread has gone on.
            let source = &sources[number % 2];
            until_taken(network, &mut counter, || {
                put_and_notify(network, to, source, how, number)
            });
        }
        let watchdog = Watchdog::new();
        while arrived[me].load(SeqCst) < THREADS * EACH {
            network.poll(PollScope::All, &mut counter);
            watchdog.check("packets");
        }
        over.fetch_add(1, SeqCst);
        while over.load(SeqCst) < 2 * THREADS {
            network.poll(PollScope::All, &mut counter);
            watchdog.check("the other threads");
        }
    });
    job.stop();
}

/// Counts packets.
struct Counter<'a>(&'a AtomicUsize);

impl Upcalls for Counter<'_> {
    fn packet(&mut self, _: JobRank, class: Class, _: &mut [u8]) {
        assert_eq!(class, Class::Request);
        self.0.fetch_add(1, SeqCst);
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        assert_eq!(part, Completion::Source, "of a put with notification");
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// A rank with several threads, one of which may receive the completion of another's put.
struct Shared<'a> {
    rank: Rank<'a>,
    completed: &'a Mutex<Parts>,
}

impl Upcalls for Shared<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        self.rank.packet(source, class, packet);
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        assert_eq!(part, Completion::Source, "of {cookie:?}, a put with notification");
        self.completed.lock().unwrap().done(cookie, part);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.rank.peer_lost(peer, why);
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}
