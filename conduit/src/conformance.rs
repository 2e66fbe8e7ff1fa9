//! The conformance suite: checks that every conduit must pass. For the tests of conduits only.
//!
//! The ranks of a check are threads of one process, each with its own conduit; `exchange` uses a
//! barrier and a table. A conduit needs three lines in a test file:
//!
//! ```ignore
//! gasnet_conduit::conformance_tests! {
//!     sock: || Box::new(gasnet_conduit_sock::Sock);
//! }
//! ```
//!
//! A check panics with a message when the conduit breaks the contract, or makes no progress for a
//! minute.
#![deny(unsafe_code)]

use crate::config;
use crate::{
    Busy, Class, Completion, Conduit, ConduitError, Cookie, JobRank, Limits, Network, Place, PollScope, StartInfo,
    Stop, Upcalls, PACKET_ALIGN,
};
use gasnet_sys::mem;
use std::cell::Cell;
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Creates a conduit that was not started. Called once per rank and check.
pub type Make<'a> = &'a (dyn Fn() -> Box<dyn Conduit> + Sync);

/// Time without progress after which a check fails.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);

mod barrier;
mod bootstrap;
mod emulator;
mod families;
mod forgery;
pub mod fuzz;
mod notify;
#[allow(unsafe_code)]
mod payload;
mod read_only;
mod rma;
#[allow(unsafe_code)]
mod stop;
mod with_faults;
mod words;
pub use barrier::*;
pub use bootstrap::*;
pub use emulator::{end_after, Emulator};
pub use forgery::talk_under_forgery;
pub use notify::*;
pub use payload::*;
pub use read_only::*;
pub use rma::*;
pub use stop::*;
pub use with_faults::with_faults;
pub use words::*;

/// Start information of a conduit, in a job of these processes on one host, each of which is a
/// neighbourhood of its own. As in a job, their threads do not sleep if GASNET_WAITMODE is SPIN.
pub fn start_info<'a>(rank: JobRank, all: &'a [JobRank], exchange: &'a dyn Fn(&[u8]) -> Vec<u8>) -> StartInfo<'a> {
    fn place_of(rank: JobRank) -> Place {
        let (host, nbrhd) = (0, rank.0);
        Place { host, nbrhd }
    }
    fn no_memory(_: usize) -> Result<*mut u8, ConduitError> {
        let message = "there is no memory of the host in this test".into();
        Err(ConduitError { message })
    }
    StartInfo {
        rank,
        size: all.len() as u32,
        place_of: &place_of,
        host: all,
        leaders: all,
        host_memory: &no_memory,
        host_fd: -1,
        may_start_threads: true,
        host_address: std::net::Ipv4Addr::LOCALHOST.into(),
        single_threaded: true,
        threads_sleep: std::env::var_os("GASNET_WAITMODE").is_none_or(|mode| mode != "SPIN"),
        exchange,
        job_token: 0x5eed_0123_4567_89ab,
    }
}

/// Jobs so far.
static JOBS: AtomicU32 = AtomicU32::new(0);
thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// The number of the job whose conduits this thread makes, for networks that must know jobs of one
/// process apart.
pub fn job_number() -> u32 {
    NUMBER.get()
}

/// The networks of a job, by rank.
pub struct Job {
    /// The network of each rank, until it is taken out.
    pub networks: Vec<Option<Box<dyn Network>>>,
    /// Limits of their conduit.
    pub limits: Limits,
}

impl Job {
    /// Starts a job in which each rank is a neighbourhood of its own. `CONFORMANCE_HOSTS` is the
    /// number of its hosts, by default one; placement is cyclic.
    pub fn start(make: Make<'_>, size: u32) -> Self {
        Self::start_for(make, size, false)
    }

    /// The same, if `single_threaded` for one thread, which uses all conduits.
    pub fn start_for(make: Make<'_>, size: u32, single_threaded: bool) -> Self {
        NUMBER.set(JOBS.fetch_add(1, SeqCst));
        let conduits: Vec<_> = (0..size).map(|_| make()).collect();
        let all: Vec<_> = (0..size).map(JobRank).collect();
        let hosts = std::env::var("CONFORMANCE_HOSTS").map_or(1, |hosts| hosts.parse().expect("a number of hosts"));
        let place_of = |rank: JobRank| Place {
            host: rank.0 % hosts,
            nbrhd: rank.0,
        };
        let file = |_| mem::anon_memory("conformance", Path::new("/tmp"), &mut |_| {}).expect("a file");
        let files: Vec<_> = (0..hosts).map(file).collect();
        let memories: Vec<OnceLock<usize>> = (0..hosts).map(|_| OnceLock::new()).collect();
        let (table, barrier) = (Mutex::new(vec![Vec::new(); size as usize]), Barrier::new(size as usize));
        let start = |(rank, conduit): (JobRank, &dyn Conduit)| {
            let exchange = |bytes: &[u8]| {
                table.lock().unwrap()[rank.index()] = bytes.to_vec();
                barrier.wait();
                let all = table.lock().unwrap().concat();
                barrier.wait();
                all
            };
            let host_memory = |bytes: usize| {
                let words = exchange(&bytes.to_ne_bytes()).len();
                assert_eq!(words, size_of::<usize>() * size as usize);
                let memory = &memories[(rank.0 % hosts) as usize];
                let memory = memory.get_or_init(|| vec![0_u64; bytes.div_ceil(8)].leak().as_mut_ptr() as usize);
                Ok(*memory as *mut u8)
            };
            let is_here = |other: &&JobRank| place_of(**other).host == place_of(rank).host;
            let host: Vec<JobRank> = all.iter().filter(is_here).copied().collect();
            let info = StartInfo {
                place_of: &place_of,
                host: &host,
                host_memory: &host_memory,
                host_fd: files[(rank.0 % hosts) as usize].fd(),
                single_threaded,
                ..start_info(rank, &all, &exchange)
            };
            conduit.start(&info).unwrap()
        };
        let networks = std::thread::scope(|scope| {
            let ranks = all.iter().copied().zip(conduits.iter().map(AsRef::as_ref));
            let start = &start;
            let starts: Vec<_> = ranks.map(|rank| scope.spawn(move || start(rank))).collect();
            let networks = starts.into_iter().map(|start| start.join().expect("a start"));
            networks.map(Some).collect()
        });
        Self {
            networks,
            limits: conduits[0].limits(),
        }
    }

    /// Runs `body` in a thread for each rank whose network was not taken out.
    pub fn run(&self, body: impl Fn(JobRank, &dyn Network) + Sync) {
        self.run_threads(1, |rank, _, network| body(rank, network));
    }

    /// Runs `body` in several threads for each rank.
    pub fn run_threads(&self, threads: u32, body: impl Fn(JobRank, u32, &dyn Network) + Sync) {
        std::thread::scope(|scope| {
            for (rank, network) in self.networks.iter().enumerate() {
                let Some(network) = network.as_deref() else { continue };
                for thread in 0..threads {
                    let body = &body;
                    scope.spawn(move || body(JobRank(rank as u32), thread, network));
                }
            }
        });
    }

    /// The network of a rank.
    pub fn of(&self, rank: usize) -> &dyn Network {
        self.networks[rank].as_deref().expect("this rank was not taken out")
    }

    /// Stops all networks.
    pub fn stop(&self) {
        self.run(|_, network| network.stop(Stop::Orderly));
    }
}

/// The packets received, by class: source and number. Each must arrive once.
#[derive(Default)]
struct Seen {
    requests: HashSet<(JobRank, u64)>,
    replies: HashSet<(JobRank, u64)>,
}

impl Seen {
    fn add(&mut self, source: JobRank, class: Class, number: u64) {
        let seen = match class {
            Class::Request => &mut self.requests,
            Class::Reply => &mut self.replies,
        };
        assert!(
            seen.insert((source, number)),
            "{class:?} {number} from {source} arrived twice"
        );
    }

    fn count(&self, class: Class) -> usize {
        match class {
            Class::Request => self.requests.len(),
            Class::Reply => self.replies.len(),
        }
    }

    fn len(&self) -> usize {
        self.requests.len() + self.replies.len()
    }
}

/// The upcalls of a thread: verifies and counts packets, and optionally replies to requests.
struct Inbox<'a> {
    network: &'a dyn Network,
    rank: JobRank,
    seen: &'a Mutex<Seen>,
    answers: bool,
    /// Inside the upcall of a request.
    answering: bool,
    lost: Vec<JobRank>,
}

impl<'a> Inbox<'a> {
    fn new(network: &'a dyn Network, rank: JobRank, seen: &'a Mutex<Seen>) -> Self {
        Self {
            network,
            rank,
            seen,
            answers: false,
            answering: false,
            lost: Vec::new(),
        }
    }

    fn answering(self) -> Self {
        Self { answers: true, ..self }
    }

    fn poll(&mut self) {
        self.network.poll(PollScope::All, self);
    }

    /// Polls until `done`.
    fn poll_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let watchdog = Watchdog::new();
        while !done(self) {
            self.poll();
            watchdog.check(what);
        }
    }

    /// Sends packet `number` of `bytes` bytes. Polls while the conduit is busy, only for replies
    /// inside an upcall.
    fn send(&mut self, peer: JobRank, class: Class, number: u64, bytes: usize) {
        let packet = packet(self.rank, number, bytes);
        let scope = if self.answering {
            PollScope::Replies
        } else {
            PollScope::All
        };
        let watchdog = Watchdog::new();
        while self.network.send(peer, class, &[&packet]) == Err(Busy) {
            self.network.poll(scope, self);
            watchdog.check("a send");
        }
    }

    fn count(&self, class: Class) -> usize {
        self.seen.lock().unwrap().count(class)
    }
}

impl Upcalls for Inbox<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert_eq!(packet.as_ptr() as usize % PACKET_ALIGN, 0, "a packet is not aligned");
        assert!(
            !(self.answering && class == Class::Request),
            "a request arrived while only replies were polled"
        );
        let number = check_packet(source, packet);
        self.seen.lock().unwrap().add(source, class, number);
        if self.answers && class == Class::Request {
            self.answering = true;
            self.send(source, Class::Reply, number, packet.len());
            self.answering = false;
            if number % 16 == 5 {
                std::thread::sleep(Duration::from_micros(200));
            }
            let is_kept = packet.iter().all(|&byte| byte == USED);
            assert!(
                is_kept,
                "packet {number} from {source} was altered while its handler ran"
            );
        }
    }

    fn done(&mut self, cookie: Cookie, part: Completion) {
        panic!("{cookie:?} is complete ({part:?}), but was not started");
    }

    fn peer_lost(&mut self, peer: JobRank, _why: &str) {
        assert!(!self.lost.contains(&peer), "the loss of {peer} was reported twice");
        self.lost.push(peer);
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// Fails after [`PROGRESS_TIMEOUT`].
struct Watchdog(Instant);

impl Watchdog {
    fn new() -> Self {
        Self(Instant::now())
    }

    fn check(&self, what: &str) {
        assert!(
            self.0.elapsed() < PROGRESS_TIMEOUT,
            "no progress while waiting for {what}"
        );
        std::thread::yield_now();
    }
}

/// A packet that starts with its number, if it is long enough. The rest depends on source, number
/// and length, and each block of 128 bytes on its position.
fn packet(source: JobRank, number: u64, bytes: usize) -> Vec<u8> {
    let seed = (u64::from(source.0) << 32 ^ number << 16 ^ bytes as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut packet = vec![(seed >> 56) as u8; bytes];
    for (place, block) in packet.chunks_mut(128).enumerate() {
        block[0] = (seed >> 40) as u8 ^ place as u8;
        block[block.len() / 2] = (place >> 8) as u8;
    }
    if let Some(start) = packet.first_chunk_mut() {
        *start = number.to_le_bytes();
    }
    packet
}

/// The byte with which the receiver overwrites a packet.
const USED: u8 = 0xee;

/// Verifies a packet, and returns its number; for a packet that is too short, its length. Then
/// overwrites it, as the runtime may do.
fn check_packet(source: JobRank, received: &mut [u8]) -> u64 {
    let number = received
        .first_chunk()
        .map_or(received.len() as u64, |number| u64::from_le_bytes(*number));
    assert!(
        received == packet(source, number, received.len()),
        "packet {number} from {source} was altered"
    );
    received.fill(USED);
    number
}

/// Sends a packet of each class from each rank to each, so that all are connected.
fn connect_all(job: &Job) {
    let (size, done) = (job.networks.len(), AtomicUsize::new(0));
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        for peer in (0..size as u32).map(JobRank) {
            inbox.send(peer, Class::Request, 1, 16);
            inbox.send(peer, Class::Reply, 2, 16);
        }
        inbox.poll_until("first contact", |inbox| {
            inbox.count(Class::Request) + inbox.count(Class::Reply) == 2 * size
        });
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other ranks", |_| done.load(SeqCst) == size);
    });
}

/// Name, version and limits are valid and sufficient for the runtime.
pub fn identity(make: Make<'_>) {
    let conduit = make();
    let (identity, limits) = (conduit.identity(), conduit.limits());
    assert!(
        !identity.name.is_empty()
            && identity
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    );
    assert!(!identity.version.is_empty());
    assert!(limits.max_packet_bytes >= 1024 && limits.max_ranks >= 2);
    assert!(conduit
        .variables()
        .iter()
        .all(|variable| config::is_of_job(variable.name)));
}

/// Packets of any size arrive unaltered, in both classes, from any number of parts, and also at the
/// sender itself.
pub fn every_size(make: Make<'_>) {
    let job = Job::start(make, 2);
    let max = job.limits.max_packet_bytes;
    let powers = (8..usize::BITS).map(|shift| 1_usize << shift).take_while(|&n| n < max);
    let mut sizes: Vec<usize> = (1..200)
        .chain(powers.flat_map(|n| [n - 1, n, n + 1]))
        .chain([max - 1, max])
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let done = AtomicUsize::new(0);
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        for (index, &bytes) in sizes.iter().enumerate() {
            let packet = packet(rank, bytes as u64, bytes);
            let parts: Vec<&[u8]> = packet.chunks(bytes.div_ceil(1 + index % 20)).collect();
            for (peer, class) in [
                (0, Class::Request),
                (1, Class::Request),
                (0, Class::Reply),
                (1, Class::Reply),
            ] {
                inbox.poll_until("a send", |_| network.send(JobRank(peer), class, &parts).is_ok());
            }
        }
        inbox.poll_until("all sizes", |inbox| {
            inbox.count(Class::Request) == 2 * sizes.len() && inbox.count(Class::Reply) == 2 * sizes.len()
        });
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other rank", |_| done.load(SeqCst) == 2);
    });
    job.stop();
}

/// All ranks send requests to all, in several threads, and reply to each with a packet of the same
/// size. All must arrive once.
fn all_to_all(make: Make<'_>, size: u32, threads: u32, each: u64, bytes: impl Fn(u64) -> usize + Sync) {
    let job = Job::start(make, size);
    let seen: Vec<Mutex<Seen>> = (0..size).map(|_| Mutex::default()).collect();
    let expected = size as usize * threads as usize * each as usize;
    let done = AtomicUsize::new(0);
    job.run_threads(threads, |rank, thread, network| {
        let mut inbox = Inbox::new(network, rank, &seen[rank.index()]).answering();
        for index in 0..each {
            for peer in (0..size).map(JobRank) {
                inbox.send(peer, Class::Request, u64::from(thread) << 32 | index, bytes(index));
            }
        }
        inbox.poll_until("requests and replies", |inbox| {
            inbox.count(Class::Request) == expected && inbox.count(Class::Reply) == expected
        });
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other ranks", |_| done.load(SeqCst) == (size * threads) as usize);
    });
    job.stop();
}

/// Many packets of all sizes arrive exactly once.
pub fn exactly_once(make: Make<'_>) {
    let max = make().limits().max_packet_bytes;
    all_to_all(make, 4, 1, 80, |index| 8 + (index as usize).pow(3) % (max - 8));
}

/// Many requests of maximum size, with replies of maximum size, make progress.
pub fn largest_both_ways(make: Make<'_>) {
    let max = make().limits().max_packet_bytes;
    all_to_all(make, 3, 1, 25, |_| max);
}

/// Many requests that nobody answers arrive exactly once.
pub fn one_way(make: Make<'_>) {
    const COUNT: u64 = 1000;
    let job = Job::start(make, 3);
    let done = AtomicUsize::new(0);
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        if rank == JobRank(0) {
            inbox.poll_until("requests", |inbox| inbox.count(Class::Request) == 2 * COUNT as usize);
        } else {
            for number in 0..COUNT {
                inbox.send(JobRank(0), Class::Request, number, 8 + number as usize % 100);
            }
        }
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other ranks", |_| done.load(SeqCst) == 3);
    });
    job.stop();
}

/// Any number of threads may send and poll.
pub fn many_threads(make: Make<'_>) {
    all_to_all(make, 2, 4, 150, |index| 8 + index as usize);
}

/// While only replies are polled, replies arrive and requests do not.
pub fn replies_only(make: Make<'_>) {
    const COUNT: u64 = 20;
    let job = Job::start(make, 2);
    let (sent, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        if rank == JobRank(0) {
            for number in 0..COUNT {
                let request = packet(rank, number, 100);
                sent.fetch_add(
                    usize::from(network.send(JobRank(1), Class::Request, &[&request]).is_ok()),
                    SeqCst,
                );
            }
            for number in 0..COUNT {
                inbox.send(JobRank(1), Class::Reply, number, 100);
            }
            return inbox.poll_until("the other rank", |_| done.load(SeqCst));
        }
        let watchdog = Watchdog::new();
        while inbox.count(Class::Reply) < COUNT as usize {
            network.poll(PollScope::Replies, &mut inbox);
            watchdog.check("replies");
        }
        assert_eq!(
            inbox.count(Class::Request),
            0,
            "requests arrived while only replies were polled"
        );
        inbox.poll_until("requests", |inbox| inbox.count(Class::Request) == sent.load(SeqCst));
        done.store(true, SeqCst);
    });
    job.stop();
}

/// Requests to a receiver that does not poll become busy and are not lost. Replies still arrive,
/// and requests when it polls.
pub fn busy_recovers(make: Make<'_>) {
    const ENOUGH: usize = 64 << 20;
    let job = Job::start(make, 2);
    connect_all(&job);
    let max = job.limits.max_packet_bytes;
    let (full, done, sent) = (Barrier::new(2), AtomicBool::new(false), AtomicUsize::new(0));
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        if rank == JobRank(0) {
            let accepted = (0..ENOUGH.div_ceil(max) as u64)
                .take_while(|&number| {
                    network
                        .send(JobRank(1), Class::Request, &[&packet(rank, number, max)])
                        .is_ok()
                })
                .count();
            sent.store(accepted + 1, SeqCst);
            full.wait();
            inbox.send(JobRank(1), Class::Reply, 0, max);
            inbox.send(JobRank(1), Class::Request, accepted as u64, max);
            return inbox.poll_until("the other rank", |_| done.load(SeqCst));
        }
        full.wait();
        let watchdog = Watchdog::new();
        while inbox.count(Class::Reply) == 0 {
            network.poll(PollScope::Replies, &mut inbox);
            watchdog.check("a reply beside full requests");
        }
        inbox.poll_until("all requests", |inbox| inbox.count(Class::Request) == sent.load(SeqCst));
        done.store(true, SeqCst);
    });
    job.stop();
}

/// All ranks may send to all for the first time simultaneously.
pub fn first_contact(make: Make<'_>) {
    for _ in 0..8 {
        let job = Job::start(make, 4);
        connect_all(&job);
        job.stop();
    }
}

/// A conduit stops while packets are in flight and other threads use it. Then it delivers nothing.
pub fn stop_with_traffic(make: Make<'_>) {
    let job = Job::start(make, 2);
    connect_all(&job);
    let max = job.limits.max_packet_bytes;
    let (traffic, over) = (Barrier::new(4), AtomicBool::new(false));
    job.run_threads(2, |rank, thread, network| {
        if thread == 1 {
            traffic.wait();
            network.stop(Stop::Orderly);
            let seen = Mutex::default();
            assert_eq!(
                network.poll(PollScope::All, &mut Inbox::new(network, rank, &seen)),
                0,
                "packets arrived after stop"
            );
            over.store(true, SeqCst);
            return;
        }
        let (request, other) = (packet(rank, 1, max), JobRank(1 - rank.0));
        // Until the conduit is busy, or has accepted 64.
        let _ = (0..64)
            .take_while(|_| network.send(other, Class::Request, &[&request]).is_ok())
            .count();
        traffic.wait();
        while !over.load(SeqCst) {
            let _ = network.send(other, Class::Reply, &[&[1]]);
            network.poll(PollScope::All, &mut IgnoreAll);
        }
    });
}

/// The crash of a process is reported once to every peer that is connected to it, and the others
/// continue. A process that called `stop` is not reported.
pub fn peer_lost(make: Make<'_>) {
    let mut job = Job::start(make, 4);
    connect_all(&job);
    drop(job.networks[1].take());
    let done = AtomicUsize::new(0);
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        inbox.poll_until("the loss of a peer", |inbox| !inbox.lost.is_empty());
        for peer in [0, 2, 3].map(JobRank) {
            inbox.send(peer, Class::Request, 7, 100);
        }
        inbox.poll_until("the remaining ranks", |inbox| inbox.count(Class::Request) == 3);
        assert_eq!(inbox.lost, [JobRank(1)], "the wrong peer was reported");
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other ranks", |_| done.load(SeqCst) == 3);
    });
    job.of(2).stop(Stop::Orderly);
    drop(job.networks[2].take());
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut inbox = Inbox::new(network, rank, &seen);
        for _ in 0..1000 {
            inbox.poll();
        }
        assert_eq!(inbox.lost, [], "a peer that called stop was reported as lost");
    });
    job.stop();
}

/// Upcalls that record everything, for the tests of a conduit.
#[derive(Default)]
pub struct Log {
    /// Source, class and bytes of the packets received.
    pub packets: Vec<(JobRank, Class, Vec<u8>)>,
    /// Completed parts of operations.
    pub done: Vec<(Cookie, Completion)>,
    /// Lost peers.
    pub lost: Vec<JobRank>,
    /// Failures of the network.
    pub failures: Vec<String>,
}

impl Upcalls for Log {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert_eq!(packet.as_ptr() as usize % PACKET_ALIGN, 0, "a packet is not aligned");
        self.packets.push((source, class, packet.to_vec()));
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        self.done.push((cookie, part));
    }
    fn peer_lost(&mut self, peer: JobRank, _why: &str) {
        self.lost.push(peer);
    }
    fn network_lost(&mut self, why: &str) {
        self.failures.push(why.to_owned());
    }
}

/// Upcalls that ignore everything.
struct IgnoreAll;

impl Upcalls for IgnoreAll {
    fn packet(&mut self, _source: JobRank, _class: Class, _packet: &mut [u8]) {}
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, _peer: JobRank, _why: &str) {}
    fn network_lost(&mut self, _why: &str) {}
}
