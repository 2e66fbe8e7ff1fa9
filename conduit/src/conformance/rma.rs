//! Checks of puts, gets, keys and atomics, for conduits that offer them: `rma_conformance_tests!`
//! and `atomics_conformance_tests!`, called as `conformance_tests!`.

use super::{Inbox, Job, Make, Watchdog};
use crate::{
    atomic_codes as codes, Atomic, Busy, Class, Completion, Cookie, Get, JobRank, LocalCompletion, LocalMemory,
    LocalSegment, Network, PollScope, Put, RemoteMemory, SegmentMemory, SourceUse, Upcalls,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex};

/// Registers memory of the conduit of `owner`, and announces it to the conduits of `users`: what
/// they name its first byte.
pub fn expose(
    owner: (JobRank, &dyn Network),
    memory: &SegmentMemory,
    users: &[&dyn Network],
) -> (LocalSegment, Vec<RemoteMemory>) {
    let segments = owner.1.abilities().segments.expect("registered memory");
    let registration = segments.register(memory).expect("a registration");
    assert!(
        registration.key.len() <= segments.max_key_bytes(),
        "a key beyond the limit"
    );
    let learn = |user: &&dyn Network| {
        let segments = user.abilities().segments.expect("registered memory");
        let segment = segments.learn(owner.0, memory, &registration.key).expect("a segment");
        RemoteMemory {
            peer: owner.0,
            segment,
            address: memory.base,
        }
    };
    (registration.segment, users.iter().map(learn).collect())
}

impl RemoteMemory {
    /// The memory `bytes` further.
    #[must_use]
    pub const fn plus(self, bytes: usize) -> Self {
        Self {
            address: self.address + bytes,
            ..self
        }
    }
}

/// Host memory outside all segments.
pub(super) const fn host(address: usize) -> LocalMemory {
    LocalMemory {
        address,
        segment: LocalSegment::NONE,
        device: None,
    }
}

/// Starts a put from memory outside all segments.
pub fn put(
    network: &dyn Network,
    to: RemoteMemory,
    from: &[u8],
    source: SourceUse,
    cookie: Cookie,
) -> Result<LocalCompletion, Busy> {
    let put = Put {
        to,
        from: host(from.as_ptr() as usize),
        bytes: from.len(),
        source,
        cookie,
    };
    network.abilities().rma.expect("RMA").put(&put)
}

/// Starts a get to memory outside all segments.
pub fn get(network: &dyn Network, from: RemoteMemory, to: &mut [u8], cookie: Cookie) -> Result<(), Busy> {
    let get = Get {
        from,
        to: host(to.as_mut_ptr() as usize),
        bytes: to.len(),
        cookie,
    };
    network.abilities().rma.expect("RMA").get(&get)
}

/// Whether an operation, the only one under way, is complete. A lost peer fails the test.
#[derive(Debug, Default)]
pub struct Completed(pub bool);

impl Upcalls for Completed {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
    fn done(&mut self, _: Cookie, part: Completion) {
        self.0 |= part != Completion::Source;
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("the network failed: {why}");
    }
}

/// Parts that completed, by cookie: checks that each is reported once and in order.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// By cookie: whether the source is free, and whether the whole is complete.
    done: HashMap<u64, (bool, bool)>,
    /// Several threads poll, so remote completion may be seen first.
    any_order: bool,
}

impl Upcalls for Parts {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}

    fn done(&mut self, cookie: Cookie, part: Completion) {
        assert_eq!(cookie.tag(), 0, "{cookie:?} was returned with the conduit's tag");
        let any_order = self.any_order;
        let (source, remote) = self.done.entry(cookie.bits()).or_default();
        let expected = match part {
            Completion::Source => !*source && (any_order || !*remote),
            Completion::Both => !*source && !*remote,
            Completion::Remote => !*remote && (any_order || *source),
        };
        assert!(expected, "{part:?} of {cookie:?} after {source} and {remote}");
        *source |= part != Completion::Remote;
        *remote |= part != Completion::Source;
    }

    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl Parts {
    /// The source of a put was free at return.
    pub(super) fn source_at_return(&mut self, cookie: Cookie) {
        self.done.entry(cookie.bits()).or_default().0 = true;
    }

    pub(super) fn wait(&mut self, network: &dyn Network, what: &str, done: impl Fn(&Self) -> bool) {
        let watchdog = Watchdog::new();
        while !done(self) {
            network.poll(PollScope::All, self);
            watchdog.check(what);
        }
    }

    pub(super) fn source(&self, cookie: Cookie) -> bool {
        self.done.get(&cookie.bits()).is_some_and(|parts| parts.0)
    }

    pub(super) fn whole(&self, cookie: Cookie) -> bool {
        self.done.get(&cookie.bits()).is_some_and(|parts| parts.1)
    }
}

/// Bytes that depend on the seed, and each on its position and that of its block of 256.
fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    // In a block each byte is the sum of its first one and a multiple of 7. Each block is a copy of
    // part of a table, from the block's first byte on.
    const TABLE: [u8; 512] = {
        let mut table = [0; 512];
        let mut i = 0;
        while i < table.len() {
            table[i] = (i * 7) as u8;
            i += 1;
        }
        table
    };
    /// Times 7, modulo 256: 1.
    const INVERSE: usize = 183;
    let mut pattern = Vec::with_capacity(bytes);
    for block in 0..bytes.div_ceil(256) {
        let start = (seed * 31 + block) * INVERSE % 256;
        let length = (bytes - block * 256).min(256);
        pattern.extend_from_slice(&TABLE[start..start + length]);
    }
    pattern
}

/// Tries until the conduit takes an operation.
pub(super) fn until_taken<T>(
    network: &dyn Network,
    upcalls: &mut dyn Upcalls,
    mut attempt: impl FnMut() -> Result<T, Busy>,
) -> T {
    let watchdog = Watchdog::new();
    loop {
        if let Ok(taken) = attempt() {
            return taken;
        }
        network.poll(PollScope::All, upcalls);
        watchdog.check("room for an operation");
    }
}

/// Two ranks, of which rank 1 has exposed `bytes` bytes to both; `body` runs on rank 0 while rank 1
/// polls.
pub(super) fn with_target(make: Make<'_>, bytes: usize, body: impl Fn(&dyn Network, RemoteMemory, &mut Parts) + Sync) {
    let job = Job::start(make, 2);
    let mut memory = vec![0u64; bytes.div_ceil(8)];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, bytes);
    let (own, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut parts = Parts::default();
        if rank == JobRank(0) {
            body(network, targets[0], &mut parts);
            over.store(true, SeqCst);
        } else {
            parts.wait(network, "the initiator", |_| over.load(SeqCst));
        }
    });
    job.of(0)
        .abilities()
        .segments
        .unwrap()
        .forget(JobRank(1), targets[0].segment);
    job.of(1).abilities().segments.unwrap().deregister(own);
    job.stop();
}

/// Puts and gets of any size and alignment move exactly their bytes, and complete part by part.
pub fn every_put_and_get(make: Make<'_>) {
    const SEGMENT: usize = 1 << 20;
    with_target(make, SEGMENT, |network, target, parts| {
        let sizes = (1..40).chain([63, 64, 65, 127, 1023, 4096, 4097, 65_535, 65_536, 65_537, 300_001]);
        for (i, bytes) in sizes.enumerate() {
            let at = 16 + (i * 37) % 100;
            let [before, put_cookie, get_cookie] = [0, 1, 2].map(|j| Cookie::new(3 * i as u64 + j));
            let clean = vec![0xee; bytes + 32];
            let local = until_taken(network, parts, || {
                put(network, target.plus(at - 16), &clean, SourceUse::Later, before)
            });
            if local == LocalCompletion::AtReturn {
                parts.source_at_return(before);
            }
            parts.wait(network, "a put", |parts| parts.whole(before));
            let data = pattern(i, bytes);
            let source = [SourceUse::Later, SourceUse::Now][i % 2];
            let local = until_taken(network, parts, || {
                put(network, target.plus(at), &data, source, put_cookie)
            });
            if local == LocalCompletion::AtReturn {
                parts.source_at_return(put_cookie);
            }
            parts.wait(network, "a put", |parts| parts.whole(put_cookie));
            let mut back = vec![0; bytes + 32];
            until_taken(network, parts, || {
                get(network, target.plus(at - 16), &mut back, get_cookie)
            });
            parts.wait(network, "a get", |parts| parts.whole(get_cookie));
            assert!(back[16..16 + bytes] == data, "{bytes} bytes at {at}");
            let around = back[..16].iter().chain(&back[16 + bytes..]);
            assert!(around.eq(&[0xee; 32]), "bytes beside {bytes} at {at} were changed");
        }
    });
}

/// Small puts of every size move exactly their bytes; many at once. Few may be left to the general
/// call.
pub fn small_puts(make: Make<'_>) {
    /// From one put to the next.
    const STRIDE: usize = 2048;
    const COUNT: usize = 1000;
    with_target(make, STRIDE * COUNT, |network, target, parts| {
        let rma = network.abilities().rma.expect("RMA");
        let most = rma.small_put().min(STRIDE - 32);
        let sizes = |i: usize| 1 + i % most;
        let count = COUNT.min(2 * most);
        let mut refused = 0;
        for i in 0..count {
            let cookie = Cookie::new(i as u64);
            let mut data = pattern(i, sizes(i));
            let to = target.plus(STRIDE * i + 16 + i % 9);
            let taken = until_taken(network, parts, || rma.put_small(to, data.as_ptr(), data.len(), cookie));
            if taken.is_none() {
                refused += 1;
                let local = until_taken(network, parts, || put(network, to, &data, SourceUse::Now, cookie));
                if local == LocalCompletion::Later {
                    parts.wait(network, "local completion", |parts| parts.source(cookie));
                }
            }
            parts.source_at_return(cookie);
            data.fill(0xbb);
        }
        assert!(4 * refused <= count, "{refused} small puts of {count} were refused");
        for i in 0..count {
            let cookie = Cookie::new(i as u64);
            parts.wait(network, "a small put", |parts| parts.whole(cookie));
            let mut back = vec![0xee; STRIDE];
            let again = Cookie::new((COUNT + i) as u64);
            until_taken(network, parts, || {
                get(network, target.plus(STRIDE * i), &mut back, again)
            });
            parts.wait(network, "a get", |parts| parts.whole(again));
            let (at, bytes) = (16 + i % 9, sizes(i));
            assert!(back[at..at + bytes] == pattern(i, bytes), "{bytes} bytes at {i}");
            let mut around = back[..at].iter().chain(&back[at + bytes..]);
            assert!(
                around.all(|&byte| byte == 0),
                "bytes beside {bytes} at {i} were changed"
            );
        }
    });
}

/// The source of a put may be overwritten as soon as local completion is reported.
pub fn source_is_free(make: Make<'_>) {
    const EACH: usize = 20_000;
    const COUNT: usize = 16;
    with_target(make, EACH * COUNT, |network, target, parts| {
        for round in 0..8 {
            let mut data = vec![0; EACH];
            for i in 0..COUNT {
                data.copy_from_slice(&pattern(round * COUNT + i, EACH));
                let cookie = Cookie::new((round * COUNT + i) as u64);
                let source = [SourceUse::Now, SourceUse::Later][i % 2];
                match until_taken(network, parts, || {
                    put(network, target.plus(EACH * i), &data, source, cookie)
                }) {
                    LocalCompletion::AtReturn => parts.source_at_return(cookie),
                    LocalCompletion::Later => parts.wait(network, "local completion", |parts| parts.source(cookie)),
                }
                data.fill(0xbb);
            }
            for i in 0..COUNT {
                let cookie = Cookie::new((round * COUNT + i) as u64);
                parts.wait(network, "remote completion", |parts| parts.whole(cookie));
                let mut back = vec![0; EACH];
                let again = Cookie::new((1000 + round * COUNT + i) as u64);
                until_taken(network, parts, || get(network, target.plus(EACH * i), &mut back, again));
                parts.wait(network, "a get", |parts| parts.whole(again));
                assert!(back == pattern(round * COUNT + i, EACH), "put {i} of round {round}");
            }
        }
    });
}

/// After remote completion the bytes are visible at the target to everything sent afterwards.
pub fn before_packets(make: Make<'_>) {
    const ROUNDS: u64 = 300;
    let job = Job::start(make, 2);
    let memory: Vec<AtomicU64> = (0..ROUNDS).map(|_| AtomicU64::new(0)).collect();
    let segment = SegmentMemory::host(memory.as_ptr() as usize, 8 * ROUNDS as usize);
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let done = AtomicBool::new(false);
    job.run(|rank, network| {
        if rank == JobRank(1) {
            let seen = Mutex::default();
            let mut inbox = Inbox::new(network, rank, &seen);
            for round in 0..ROUNDS {
                inbox.poll_until("a packet", |inbox| inbox.count(Class::Request) > round as usize);
                assert_eq!(
                    memory[round as usize].load(SeqCst),
                    round + 1,
                    "a packet overtook a put"
                );
            }
            return done.store(true, SeqCst);
        }
        let mut parts = Parts::default();
        for round in 0..ROUNDS {
            let (cookie, value) = (Cookie::new(round), (round + 1).to_ne_bytes());
            let to = targets[0].plus(8 * round as usize);
            if until_taken(network, &mut parts, || put(network, to, &value, SourceUse::Now, cookie))
                == LocalCompletion::AtReturn
            {
                parts.source_at_return(cookie);
            }
            parts.wait(network, "a put", |parts| parts.whole(cookie));
            let packet = super::packet(rank, round, 16);
            until_taken(network, &mut parts, || {
                network.send(JobRank(1), Class::Request, &[&packet])
            });
        }
        parts.wait(network, "the target", |_| done.load(SeqCst));
    });
    job.stop();
}

/// Many puts and gets of several threads and ranks, of all sizes and all under way at once,
/// complete once each.
pub fn many_at_once(make: Make<'_>) {
    const RANKS: u32 = 3;
    const THREADS: u32 = 2;
    const EACH: usize = 60;
    const SLOT: usize = 100_000;
    let size = |i: usize| match i % 4 {
        0 => 1 << (i % 5),
        1 => 1 + i * 97 % 5000,
        2 => 1 + i * 1009 % 30_000,
        _ => 1 + i * 40_009 % SLOT,
    };
    let job = Job::start(make, RANKS);
    let slots = (RANKS * THREADS) as usize * EACH;
    let mut memories = vec![vec![0u64; slots * SLOT / 8]; RANKS as usize];
    let users: Vec<&dyn Network> = (0..RANKS as usize).map(|rank| job.of(rank)).collect();
    let exposed: Vec<_> = memories
        .iter_mut()
        .enumerate()
        .map(|(rank, memory)| {
            let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, slots * SLOT);
            expose((JobRank(rank as u32), job.of(rank)), &segment, &users).1
        })
        .collect();
    let unordered = || Parts {
        any_order: true,
        ..Parts::default()
    };
    let parts: Vec<Mutex<Parts>> = (0..RANKS).map(|_| Mutex::new(unordered())).collect();
    let done = AtomicUsize::new(0);
    job.run_threads(THREADS, |rank, thread, network| {
        let known = &parts[rank.index()];
        let mut upcalls = SharedParts(known);
        let mut poll_until = |what: &str, ready: &mut dyn FnMut() -> bool| {
            let watchdog = Watchdog::new();
            while !ready() {
                network.poll(PollScope::All, &mut upcalls);
                watchdog.check(what);
            }
        };
        let me = (rank.0 * THREADS + thread) as usize;
        let data: Vec<Vec<u8>> = (0..EACH).map(|i| pattern(me * EACH + i, size(i))).collect();
        let mut back: Vec<Vec<u8>> = data.iter().map(|data| vec![0; data.len()]).collect();
        let target = |i: usize| {
            let owner = (rank.index() + 1 + i % 2) % RANKS as usize;
            exposed[owner][rank.index()].plus((me * EACH + i) * SLOT)
        };
        let cookie = |phase: usize, i: usize| Cookie::new(((2 * me + phase) * EACH + i) as u64);
        let all_whole = |phase: usize| (0..EACH).all(|i| known.lock().unwrap().whole(cookie(phase, i)));
        for (i, data) in data.iter().enumerate() {
            let source = [SourceUse::Later, SourceUse::Now][i / 4 % 2];
            poll_until("room for a put", &mut || {
                // Locked, so that remote completion is not seen before the result.
                let mut known = known.lock().unwrap();
                let local = put(network, target(i), data, source, cookie(0, i));
                if local == Ok(LocalCompletion::AtReturn) {
                    known.source_at_return(cookie(0, i));
                }
                local.is_ok()
            });
        }
        poll_until("puts", &mut || all_whole(0));
        for (i, back) in back.iter_mut().enumerate() {
            poll_until("room for a get", &mut || {
                get(network, target(i), back, cookie(1, i)).is_ok()
            });
        }
        poll_until("gets", &mut || all_whole(1));
        assert!(back == data, "gets do not return what puts wrote");
        done.fetch_add(1, SeqCst);
        poll_until("the other ranks", &mut || {
            done.load(SeqCst) == (RANKS * THREADS) as usize
        });
    });
    job.stop();
}

/// The parts of a rank, for several threads.
struct SharedParts<'a>(&'a Mutex<Parts>);

impl Upcalls for SharedParts<'_> {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
    fn done(&mut self, cookie: Cookie, part: Completion) {
        self.0.lock().unwrap().done(cookie, part);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// Bytes of the largest page. Segments consist of pages, and networks may check only those.
const PAGE: usize = 64 << 10;

/// Access to memory that is not registered, or no longer, is a lost peer or an error at its owner,
/// never a write.
pub fn keys_are_checked(make: Make<'_>) {
    for stale in [false, true] {
        let job = Job::start(make, 2);
        // Two pages, wherever they begin.
        let mut memory = vec![0_u64; 3 * PAGE / 8];
        let segment = SegmentMemory::host((memory.as_mut_ptr() as usize).next_multiple_of(PAGE), PAGE);
        let (own, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
        let target = if stale {
            job.of(1).abilities().segments.unwrap().deregister(own);
            targets[0]
        } else {
            // Beyond the end of the segment, but still memory of the process.
            targets[0].plus(PAGE - 6)
        };
        let lost = AtomicBool::new(false);
        job.run(|_, network| {
            let mut upcalls = Lost(&lost);
            // Either side may notice, as the conduit chooses.
            let start = || put(network, target, &[0xff; 16], SourceUse::Now, Cookie::new(1));
            if std::ptr::eq(network, job.of(0)) {
                let _ = until_taken(network, &mut upcalls, start);
            }
            let watchdog = Watchdog::new();
            while !lost.load(SeqCst) {
                network.poll(PollScope::All, &mut upcalls);
                watchdog.check("the report of a bad access");
            }
        });
        job.stop();
        drop(job);
        assert!(
            memory.iter().all(|&word| word == 0),
            "an access without a valid key wrote (stale: {stale})"
        );
    }
}

struct Lost<'a>(&'a AtomicBool);

impl Upcalls for Lost<'_> {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
    fn done(&mut self, _: Cookie, _: Completion) {
        panic!("a bad access was reported as complete");
    }
    fn peer_lost(&mut self, _: JobRank, _: &str) {
        self.0.store(true, SeqCst);
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// Atomics of all ranks on one word lose no update, and fetch each old value once.
pub fn atomics_lose_nothing(make: Make<'_>) {
    const RANKS: u32 = 3;
    const EACH: usize = 200;
    let job = Job::start(make, RANKS);
    let add = codes::fetch(codes::ADD);
    assert!(job
        .of(0)
        .abilities()
        .atomics
        .expect("atomics")
        .supports(codes::U64, add));
    let word = AtomicU64::new(0);
    let segment = SegmentMemory::host(word.as_ptr() as usize, 8);
    let users: Vec<&dyn Network> = (0..RANKS as usize).map(|rank| job.of(rank)).collect();
    let (_, targets) = expose((JobRank(0), job.of(0)), &segment, &users);
    let (all, finished) = (Mutex::new(Vec::new()), Barrier::new(RANKS as usize));
    let done = AtomicUsize::new(0);
    job.run(|rank, network| {
        let mut parts = Parts::default();
        let mut fetched = vec![u64::MAX; EACH];
        for (i, old) in fetched.iter_mut().enumerate() {
            let atomic = Atomic {
                target: targets[rank.index()],
                dt: codes::U64,
                op: add,
                operands: [1, 0],
                fetched: std::ptr::from_mut(old).cast(),
                cookie: Cookie::new(i as u64),
            };
            let start = || network.abilities().atomics.expect("atomics").atomic(&atomic);
            until_taken(network, &mut parts, start);
        }
        parts.wait(network, "atomics", |parts| {
            (0..EACH).all(|i| parts.whole(Cookie::new(i as u64)))
        });
        all.lock().unwrap().extend(fetched);
        done.fetch_add(1, SeqCst);
        parts.wait(network, "the other ranks", |_| done.load(SeqCst) == RANKS as usize);
        finished.wait();
    });
    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    assert!(
        all.into_iter().eq(0..u64::from(RANKS) * EACH as u64),
        "an update was lost"
    );
    assert_eq!(word.load(SeqCst), u64::from(RANKS) * EACH as u64);
    job.stop();
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn patterns_are_sums() {
        for (seed, bytes) in [(0, 0), (1, 1), (3, 256), (77, 70_001)] {
            let sums: Vec<u8> = (0..bytes).map(|i| (seed * 31 + i * 7 + i / 256) as u8).collect();
            assert!(pattern(seed, bytes) == sums);
        }
    }
}
