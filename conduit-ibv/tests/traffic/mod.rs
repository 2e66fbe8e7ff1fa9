//! Traffic between two ranks over an emulator with faults, and what they print.

use crate::emulated::{self, run_again};
use gasnet_conduit::conformance::{expose, get, put, Job};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Busy, Class, Completion, Cookie, JobRank, Network, PollScope, RemoteMemory,
    SegmentMemory, SourceUse, Upcalls,
};
use gasnet_conduit_ibv::Ibv;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Prints losses, and counts messages.
struct Losses<'a> {
    rank: JobRank,
    any: &'a AtomicBool,
    messages: &'a AtomicU64,
}

impl Upcalls for Losses<'_> {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
        self.messages.fetch_add(1, SeqCst);
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        eprintln!("rank {} lost rank {peer}: {why}", self.rank);
        self.any.store(true, SeqCst);
    }
    fn network_lost(&mut self, why: &str) {
        eprintln!("rank {} lost the network: {why}", self.rank);
        self.any.store(true, SeqCst);
    }
}

/// Whether a rank loses another within this time. If not, messages must arrive.
pub fn is_lost(limit: Duration) -> bool {
    is_lost_before(1, |time, _| time >= limit)
}

/// The same within this time, and before this number of messages has arrived.
#[allow(dead_code, reason = "not every test program calls it")]
pub fn is_lost_among(least: u64, time: Duration) -> bool {
    const LIMIT: Duration = Duration::from_secs(30);
    is_lost_before(least, |passed, messages| {
        passed >= time && messages >= least || passed >= LIMIT
    })
}

/// Whether a rank loses another before `is_over`, which gets the time and the messages so far. If
/// not, at least this number must have arrived.
fn is_lost_before(least: u64, is_over: impl Fn(Duration, u64) -> bool + Sync) -> bool {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let word = AtomicU64::new(0);
    let mut memory = vec![0_u64; 8192];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, 65536);
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let counter = SegmentMemory::host(word.as_ptr() as usize, 8);
    let (_, counters) = expose((JobRank(1), job.of(1)), &counter, &[job.of(0)]);
    let (any, messages, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    job.run(|rank, network: &dyn Network| {
        let mut losses = Losses {
            rank,
            any: &any,
            messages: &messages,
        };
        let (source, mut destination, mut old) = (vec![7; 20_000], vec![0; 20_000], 0_u64);
        while !is_over(begun.elapsed(), messages.load(SeqCst)) && !any.load(SeqCst) {
            let _ = network.send(JobRank(1 - rank.0), Class::Request, &[&[1; 100]]);
            if rank == JobRank(0) {
                let cookie = Cookie::new(1);
                let _ = put(network, targets[0], &source, SourceUse::Now, cookie);
                let _ = get(network, targets[0], &mut destination, cookie);
                let add = Atomic {
                    target: counters[0],
                    dt: codes::U64,
                    op: codes::ADD,
                    operands: [1, 0],
                    fetched: (&raw mut old).cast(),
                    cookie,
                };
                let _ = network.abilities().atomics.unwrap().atomic(&add);
            }
            for _ in 0..100 {
                network.poll(PollScope::All, &mut losses);
            }
        }
        // The destination of a get is written until the conduit has stopped.
        network.stop(gasnet_conduit::Stop::Orderly);
    });
    let is_lost = any.load(SeqCst);
    let messages = messages.load(SeqCst);
    assert!(is_lost || messages >= least, "{messages} messages have arrived");
    is_lost
}

/// Notes the end of a put, and prints losses.
struct End(bool);

impl Upcalls for End {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
    fn done(&mut self, _: Cookie, part: Completion) {
        self.0 |= part != Completion::Source;
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        eprintln!("lost rank {peer}: {why}");
        self.0 = true;
    }
    fn network_lost(&mut self, why: &str) {
        panic!("lost the network: {why}");
    }
}

/// Rank 0 puts the source to the target, which is memory of rank 1, until that is done or fails.
#[allow(dead_code, reason = "not every test program calls it")]
pub fn put_alone(target: &mut [u8], source: &[u8]) {
    access_alone(target, |network, target| {
        put(network, target, source, SourceUse::Later, Cookie::new(1)).map(drop)
    });
}

/// Rank 0 gets the source, which is memory of rank 1, likewise.
#[allow(dead_code, reason = "not every test program calls it")]
pub fn get_alone(destination: &mut [u8], source: &mut [u8]) {
    access_alone(source, |network, source| {
        get(network, source, destination, Cookie::new(1))
    });
}

/// Rank 0 begins an operation on memory of rank 1, and waits for its end.
fn access_alone(memory: &mut [u8], mut begin: impl FnMut(&dyn Network, RemoteMemory) -> Result<(), Busy>) {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, memory.len());
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let (network, mut end, begun) = (job.of(0), End(false), Instant::now());
    while begin(network, targets[0]) == Err(Busy) {
        network.poll(PollScope::All, &mut end);
    }
    while !end.0 {
        network.poll(PollScope::All, &mut end);
        assert!(begun.elapsed() < Duration::from_secs(30), "the operation did not end");
    }
    job.stop();
}

/// Two ranks that have no connection send to each other until both have a message.
#[allow(dead_code, reason = "not every test program calls it")]
pub fn connect() {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let (any, messages) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 2]);
    let begun = Instant::now();
    job.run(|rank, network: &dyn Network| {
        let (any, messages_here) = (&any, &messages[rank.index()]);
        let mut losses = Losses {
            rank,
            any,
            messages: messages_here,
        };
        while messages.iter().any(|messages| messages.load(SeqCst) == 0) {
            assert!(
                begun.elapsed() < Duration::from_secs(60) && !any.load(SeqCst),
                "no message"
            );
            let _ = network.send(JobRank(1 - rank.0), Class::Request, &[&[1; 100]]);
            network.poll(PollScope::All, &mut losses);
        }
    });
    job.stop();
}

/// All ranks but rank 0 send it messages of `bytes` bytes, until a rank loses another. All poll in
/// this scope.
#[allow(dead_code, reason = "not every test program calls it")]
pub fn pour(ranks: u32, class: Class, bytes: usize, scope: PollScope) {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), ranks);
    let (any, messages, begun) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    job.run(|rank, network: &dyn Network| {
        let mut losses = Losses {
            rank,
            any: &any,
            messages: &messages,
        };
        while !any.load(SeqCst) {
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing was lost");
            if rank != JobRank(0) {
                let _ = network.send(JobRank(0), class, &[&vec![7; bytes]]);
            }
            network.poll(scope, &mut losses);
        }
        network.stop(gasnet_conduit::Stop::Orderly);
    });
}

/// The arguments for one child.
pub fn of_child(name: &str) -> String {
    format!("--ignored --exact --nocapture {name}")
}

/// The output of a child contains one of these.
pub fn expect(child: &str, options: &str, variables: &str, texts: &[&str]) {
    let printed = run_again(options, variables, &of_child(child));
    assert!(texts.iter().any(|text| printed.contains(text)), "{options}: {printed}");
}
