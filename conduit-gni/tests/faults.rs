//! Faults of the network: each ends in a message that names the rank or the NIC, the operation and
//! uGNI's status, after a bounded time.
//!
//! A test runs one of the children below in a process of its own, because a process reads the
//! options of the emulator once.

mod emulated;
mod processes;

use emulated::run_again;
use gasnet_conduit::config::{self, Config};
use gasnet_conduit::conformance::{expose, get, job_number, put, start_info, Job};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Busy, Class, Completion, Conduit, Cookie, JobRank, PollScope, RemoteMemory,
    SegmentMemory, SourceUse, StartInfo, Stop, Upcalls,
};
use gasnet_conduit_gni::Gni;
use gasnet_sys::env;
use processes::Place;
use std::ffi::{CString, OsString};
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Operations of the child `operations`.
const OPERATIONS: usize = 10;
/// Time in which an operation completes or a loss is reported.
const LIMIT: Duration = Duration::from_secs(5);
/// A packet that is not counted.
const ANONYMOUS: &[u8] = &[0xff; 200];
/// Bytes of the segment of rank 1.
const SEGMENT: usize = 2 << 20;

/// Drives a rank: prints what it loses, counts what arrives, and answers requests.
struct Driver<'a> {
    rank: JobRank,
    conduit: &'a dyn Conduit,
    /// Whether any rank has lost something.
    lost: &'a AtomicBool,
    /// Requests that any rank has received.
    requests: &'a AtomicUsize,
    answers: bool,
    done: usize,
    replies: usize,
    rounds: usize,
}

impl Upcalls for Driver<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        if packet == ANONYMOUS {
            return;
        }
        if class == Class::Reply {
            assert_eq!(packet, [self.replies as u8; 300], "a reply was altered");
            self.replies += 1;
            return;
        }
        let number = self.requests.fetch_add(1, SeqCst);
        assert_eq!(packet, [number as u8; 300], "a request was altered");
        if self.answers {
            let reply = self.conduit.send(source, Class::Reply, &[&[number as u8; 300]]);
            assert_eq!(reply, Ok(()), "there was no room for a first reply");
        }
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        self.done += usize::from(part != Completion::Source);
    }
    fn barrier(&mut self, _: [u64; 2]) {
        self.rounds += 1;
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        eprintln!("rank {} lost rank {peer}: {why}", self.rank);
        self.lost.store(true, SeqCst);
    }
    fn network_lost(&mut self, why: &str) {
        eprintln!("rank {} lost the network: {why}", self.rank);
        self.lost.store(true, SeqCst);
    }
}

/// What the operations of rank 0 use in rank 1.
struct Target {
    memory: RemoteMemory,
    counter: RemoteMemory,
}

impl Driver<'_> {
    /// Polls until something holds. False: something was lost before.
    fn wait(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) -> bool {
        let begun = Instant::now();
        while !holds(self) {
            if self.lost.load(SeqCst) {
                return false;
            }
            self.conduit.poll(PollScope::All, self);
            assert!(begun.elapsed() < LIMIT, "rank {}: {what} hangs", self.rank);
        }
        true
    }

    /// Does operation `number` of a kind, and verifies what it has moved. False: something was lost
    /// before it was complete.
    fn operation(&mut self, kind: &str, number: usize, target: &Target) -> bool {
        let (name, bytes) = kind.split_once(':').unwrap_or((kind, "0"));
        let (bytes, before) = (bytes.parse().unwrap(), self.done);
        let (byte, cookie) = (number as u8 + 1, Cookie::new(1));
        // SAFETY: the segment of rank 1, which nothing else accesses now.
        let there = || unsafe { std::slice::from_raw_parts_mut(target.memory.address as *mut u8, bytes) };
        match name {
            "put" => {
                let source = vec![byte; bytes];
                let start = |rank: &mut Self| {
                    let started = put(rank.conduit, target.memory, &source, SourceUse::Now, cookie);
                    started != Err(Busy)
                };
                let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
                assert!(!is_done || there() == source, "put {number} has altered its data");
                keep(source, is_done);
                is_done
            }
            "get" => {
                there().fill(byte);
                let mut destination = vec![0; bytes];
                let start = |rank: &mut Self| get(rank.conduit, target.memory, &mut destination, cookie) != Err(Busy);
                let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
                assert!(!is_done || there() == destination, "get {number} has altered its data");
                keep(destination, is_done);
                is_done
            }
            "add" => {
                let old = Box::leak(Box::new(u64::MAX));
                let add = Atomic {
                    target: target.counter,
                    dt: codes::U64,
                    op: codes::fetch(codes::ADD),
                    operands: [1, 0],
                    fetched: (&raw mut *old).cast(),
                    cookie,
                };
                let start = |rank: &mut Self| rank.conduit.atomics().unwrap().atomic(&add) != Err(Busy);
                let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
                assert!(!is_done || *old == number as u64, "add {number} has found {old}");
                is_done
            }
            "send" | "ask" => {
                let packet = [number as u8; 300];
                let send = |rank: &mut Self| rank.conduit.send(JobRank(1), Class::Request, &[&packet]) != Err(Busy);
                let has_come =
                    |rank: &mut Self| rank.requests.load(SeqCst) > number && (name == "send" || rank.replies > number);
                self.wait(kind, send) && self.wait(kind, has_come)
            }
            "barrier" => {
                let enter = |rank: &mut Self| rank.conduit.barrier().unwrap().enter([7; 2]) != Err(Busy);
                self.wait(kind, enter) && self.wait(kind, |rank| rank.rounds > number)
            }
            _ => panic!("there is no operation {name}"),
        }
    }
}

/// Memory of an operation that may be under way is never freed.
fn keep(memory: Vec<u8>, is_done: bool) {
    if !is_done {
        memory.leak();
    }
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// Lets this process use an emulator, and ends it if it hangs.
fn emulate() {
    std::thread::spawn(|| {
        std::thread::sleep(3 * LIMIT);
        eprintln!("the child hangs");
        std::process::abort();
    });
    emulated::emulate();
}

fn start_job() -> Job {
    emulate();
    Job::start(&|| Box::new(Gni::of_job(job_number())), 2)
}

/// Rank 0 does ten operations of the kinds FAULTS_KINDS, one after the other, until something is
/// lost. Prints how many were completed.
#[test]
#[ignore = "a child of other tests"]
fn operations() {
    let (job, kinds) = (start_job(), variable("FAULTS_KINDS"));
    let mut memory = vec![0_u8; SEGMENT];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, SEGMENT);
    let word = AtomicU64::new(0);
    let counter = SegmentMemory::host(word.as_ptr() as usize, 8);
    let (own, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let (own_counter, counters) = expose((JobRank(1), job.of(1)), &counter, &[job.of(0)]);
    let target = Target {
        memory: targets[0],
        counter: counters[0],
    };
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    job.run(|rank, conduit| {
        let mut rank = Driver {
            rank,
            conduit,
            lost: &lost,
            requests: &requests,
            answers: kinds.contains("ask"),
            done: 0,
            replies: 0,
            rounds: 0,
        };
        for kind in kinds.split(',') {
            // Both enter a barrier. The other operations are those of rank 0.
            let both = kind == "barrier";
            if !both && rank.rank == JobRank(1) {
                continue;
            }
            requests.store(0, SeqCst);
            rank.replies = 0;
            let completed = (0..OPERATIONS).take_while(|number| rank.operation(kind, *number, &target));
            let completed = completed.count();
            eprintln!("rank {}: {kind}: {completed} completed", rank.rank);
        }
        if rank.rank == JobRank(0) {
            over.store(true, SeqCst);
        }
        while !over.load(SeqCst) && !lost.load(SeqCst) {
            conduit.poll(PollScope::All, &mut rank);
        }
        // A loss is reported once only.
        for _ in 0..100 {
            conduit.poll(PollScope::All, &mut rank);
        }
    });
    job.run(|_, conduit| conduit.stop(Stop::Orderly));
    if !lost.load(SeqCst) {
        let forget = |rank: usize, segment| job.of(rank).segments().unwrap().forget(JobRank(1), segment);
        forget(0, target.memory.segment);
        forget(0, target.counter.segment);
        for segment in [own, own_counter] {
            job.of(1).segments().unwrap().deregister(segment);
        }
    }
    drop(job);
    drop(memory);
}

/// Runs a child. Returns what it printed, within a time that shows that nothing was waited for.
fn child(name: &str, options: &str, variables: &str) -> String {
    let begun = Instant::now();
    let printed = run_again(options, variables, &format!("--ignored --exact --nocapture {name}"));
    assert!(
        begun.elapsed() < 3 * LIMIT,
        "{name} with {options} took too long: {printed}"
    );
    printed
}

/// Operations of a kind with these options of the emulator: the only loss is this, after so many.
fn expect_loss(kind: &str, options: &str, completed: RangeInclusive<usize>, loss: &str) {
    let printed = child("operations", options, &format!("FAULTS_KINDS={kind}"));
    let losses: Vec<_> = printed.lines().filter(|line| line.contains(" lost ")).collect();
    assert_eq!(losses, [loss], "{kind} with {options}: {printed}");
    let is_count = |count| printed.contains(&format!("rank 0: {kind}: {count} completed"));
    assert!(
        completed.clone().any(is_count),
        "not {completed:?} with {options}: {printed}"
    );
}

/// The same without a loss.
fn expect_none(kinds: &str, options: &str, variables: &str) -> String {
    let printed = child("operations", options, &format!("FAULTS_KINDS={kinds} {variables}"));
    for kind in kinds.split(',') {
        let count = format!("rank 0: {kind}: {OPERATIONS} completed");
        assert!(
            printed.contains(&count) && !printed.contains(" lost "),
            "no '{count}' with {options}: {printed}"
        );
    }
    printed
}

#[test]
fn puts_that_fail() {
    for (kind, fault, name, status) in [
        ("put:8", "fma-put:3:at_bounds_err", "FMA", "AT_BOUNDS_ERR"),
        ("put:1000", "fma-put:3:at_protection_err", "FMA", "AT_PROTECTION_ERR"),
        ("put:4000", "rdma-put:3:at_mdd_inv", "BTE", "AT_MDD_INV"),
        ("put:65537", "rdma-put:3:pi_err", "BTE", "PI_ERR"),
    ] {
        let loss = format!("rank 0 lost rank 1: a put by {name} failed: {status}");
        expect_loss(kind, &format!("post-error={fault}"), 2..=2, &loss);
    }
}

#[test]
fn gets_that_fail() {
    for (kind, fault, name, status) in [
        ("get:8", "fma-get:3:at_bounds_err", "FMA", "AT_BOUNDS_ERR"),
        ("get:1000", "fma-get:3:at_mdd_inv", "FMA", "AT_MDD_INV"),
        ("get:4000", "rdma-get:3:at_protection_err", "BTE", "AT_PROTECTION_ERR"),
        (
            "get:65536",
            "rdma-get:3:at_mdd_uncorrectable",
            "BTE",
            "AT_MDD_UNCORRECTABLE",
        ),
    ] {
        let loss = format!("rank 0 lost rank 1: a get by {name} failed: {status}");
        expect_loss(kind, &format!("late post-error={fault}"), 2..=2, &loss);
    }
}

#[test]
fn atomics_that_fail() {
    let loss = "rank 0 lost rank 1: an atomic failed: AMO_CACHE_ERR";
    expect_loss("add", "post-error=amo:4:amo_cache_err", 3..=3, loss);
}

/// The first requests are announced by CQ writes, and fetched by gets. A put of a word then says
/// where there is space, and others how much of it is free again; further requests are put into the
/// space. Replies are put too. A request is completed when it has run, so rank 0 may send others
/// before a put of a word has failed or arrived.
#[test]
fn messages_that_fail() {
    for (kind, fault, completed, loss) in [
        ("send", "cqwrite:1", 0..=0, "rank 0 lost rank 1: a CQ write"),
        ("send", "fma-get:1", 0..=0, "rank 1 lost rank 0: a get by FMA"),
        ("send", "fma-put/1-64:1", 1..=9, "rank 1 lost rank 0: a put by FMA"),
        (
            "send",
            "fma-put/300-999:1",
            1..=9,
            "rank 0 lost rank 1: an Active Message",
        ),
        (
            "send",
            "fma-put/300-999:4",
            4..=9,
            "rank 0 lost rank 1: an Active Message",
        ),
        (
            "ask",
            "fma-put/300-999:1",
            0..=0,
            "rank 1 lost rank 0: an Active Message",
        ),
    ] {
        let options = format!("reorder post-error={fault}:at_protection_err");
        expect_loss(kind, &options, completed, &format!("{loss} failed: AT_PROTECTION_ERR"));
    }
}

#[test]
fn statuses_of_gemini_have_their_names() {
    let loss = "rank 0 lost rank 1: a put by FMA failed: MEMORY_BOUNDS";
    expect_loss(
        "put:8",
        "flavour=gemini post-error=fma-put:1:at_bounds_err",
        0..=0,
        loss,
    );
}

/// The library would end the process without a message.
#[test]
fn the_library_does_not_end_the_process() {
    let loss = "rank 0 lost rank 1: a put by FMA failed: AT_BOUNDS_ERR";
    expect_loss("put:8", "kill post-error=fma-put:1:at_bounds_err", 0..=0, loss);
}

/// Operations that may be executed twice are posted again: four times.
#[test]
fn failures_that_pass() {
    let statuses = ["orb_timeout", "data_err", "pi_timeout", "endpoint_unreachable"];
    for (kinds, post) in [
        ("put:8,put:1000", "fma-put"),
        ("put:4000,put:65537,put:1048581", "rdma-put"),
        ("get:8,get:1000,get:4097", "fma-get"),
        ("get:4000,get:65536,get:1048581", "rdma-get"),
        // The first requests are fetched by gets, and words say where there is space.
        ("send", "fma-put/1-64"),
        ("send", "fma-get"),
        ("ask", "fma-get"),
    ] {
        let fault = |nth: &usize| format!("post-error={post}:{}:{}", nth + 1, statuses[nth % 4]);
        let faults = |all: &[usize]| all.iter().map(fault).collect::<Vec<_>>().join(" ");
        let some = faults(&[0, 1, 2, 3, 5, 7, 11, 12]);
        for options in ["", "late reorder"] {
            let printed = expect_none(kinds, &format!("trace {options} {some}"), "");
            assert!(
                printed.contains("ORB_TIMEOUT") && printed.contains("DATA_ERR"),
                "{printed}"
            );
        }
        let gemini = faults(&[0, 1, 2, 3, 5]);
        expect_none(kinds, &format!("flavour=gemini late {gemini}"), "");
    }
}

#[test]
fn failures_that_last() {
    let fault = |nth: usize| format!("post-error=rdma-get:{nth}:orb_timeout");
    let five: Vec<_> = (3..8).map(fault).collect();
    let loss = "rank 0 lost rank 1: a get by BTE failed 5 times: ORB_TIMEOUT";
    expect_loss("get:65536", &five.join(" "), 2..=2, loss);
}

/// A failure does not tell whether the operation was executed.
#[test]
fn atomics_and_messages_are_not_repeated() {
    let loss = "rank 0 lost rank 1: an atomic failed: ORB_TIMEOUT";
    expect_loss("add", "post-error=amo:4:orb_timeout", 3..=3, loss);
    let loss = "rank 0 lost rank 1: a CQ write failed: ORB_TIMEOUT";
    expect_loss("send", "post-error=cqwrite:1:orb_timeout", 0..=0, loss);
    let loss = "rank 0 lost rank 1: an Active Message failed: ORB_TIMEOUT";
    expect_loss("send", "post-error=fma-put/300-999:2:orb_timeout", 1..=9, loss);
}

/// Both ranks post to the engine, so either may be the one whose post fails.
#[test]
fn reductions_that_fail() {
    let options = "post-error=ce:3:ce_join_inconsistent";
    let printed = child("operations", options, "FAULTS_KINDS=barrier");
    let losses: Vec<_> = printed.lines().filter(|line| line.contains(" lost ")).collect();
    let why = "lost the network: a reduction by the collective engine failed: CE_JOIN_INCONSISTENT";
    assert!(losses.len() == 1 && losses[0].contains(why), "{printed}");
}

#[test]
fn a_job_leaves_nothing_registered() {
    let kinds = "put:8,put:1000,put:65537,get:4097,get:65536,add,barrier,ask";
    for (options, variables) in [
        ("", ""),
        ("late reorder", "GASNET_DOMAIN_COUNT=2"),
        ("flavour=gemini", ""),
    ] {
        // Gemini has no engine, but another barrier.
        let printed = expect_none(kinds, &format!("report {options}"), variables);
        for instance in 0..2 {
            let left = format!("instance {instance} left 0 regions, 0 completion queues, 0 endpoints, 0 engines");
            assert!(printed.contains(&left), "not '{left}' with {options}: {printed}");
        }
        let is_else =
            |line: &str| line.contains("emulator of uGNI") && !line.contains(" left 0 regions, 0 completion ");
        assert!(!printed.lines().any(is_else), "{printed}");
    }
}

/// Memory for local buffers, in a mapping that has a name by which the emulator refuses it.
struct Named(usize, usize);

impl Named {
    fn new(bytes: usize) -> Self {
        // SAFETY: a new file of this size, and a new mapping of it.
        unsafe {
            let file = libc::memfd_create(c"unregistrable".as_ptr(), 0);
            assert_eq!(libc::ftruncate(file, bytes as i64), 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let base = libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, file, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::close(file);
            Self(base as usize, bytes)
        }
    }

    /// Bytes in it. It is never unmapped.
    fn slice(&mut self, offset: usize, bytes: usize) -> &'static mut [u8] {
        assert!(offset + bytes <= self.1);
        // SAFETY: mapped for ever, and the test uses no part twice at a time.
        unsafe { std::slice::from_raw_parts_mut((self.0 + offset) as *mut u8, bytes) }
    }
}

/// Sizes of transfers, and where they begin at both ends.
const SIZES: [usize; 7] = [1, 3, 7, 4095, 4097, 65535, (1 << 20) + 5];
const OFFSETS: [(usize, usize); 4] = [(0, 0), (1, 3), (4093, 2), (7, 4096)];
/// Bytes for a transfer.
const AREA: usize = (1 << 20) + 8192;

/// Registers memory with a conduit until nothing more can be registered.
fn exhaust(conduit: &dyn Conduit) {
    let segments = conduit.segments().unwrap();
    let mut bytes = 64 << 20;
    while bytes >= 4096 {
        let ballast = Named::new(bytes);
        if segments.register(&SegmentMemory::host(ballast.0, bytes)).is_err() {
            bytes /= 2;
        }
    }
}

/// Rank 0 puts from and gets into memory outside segments. Prints how it cannot be registered.
#[test]
#[ignore = "a child of other tests"]
fn copies() {
    let job = start_job();
    let bytes = OFFSETS.len() * AREA;
    let (mut memory, mut local) = (vec![0_u8; bytes], Named::new(2 * bytes));
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, bytes);
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let conduit = job.of(0);
    if std::env::var_os("FAULTS_EXHAUST").is_some() {
        exhaust(conduit);
    }
    let registered = conduit
        .segments()
        .unwrap()
        .register(&SegmentMemory::host(local.0, AREA));
    eprintln!("{}", registered.map_or_else(|why| why.message, |_| "registered".into()));
    let mut rank = Driver {
        rank: JobRank(0),
        conduit,
        lost: &lost,
        requests: &requests,
        answers: false,
        done: 0,
        replies: 0,
        rounds: 0,
    };
    let pattern: Vec<u8> = (0..AREA).map(|place| (place * 7 + place / 251) as u8).collect();
    for (round, size) in SIZES.into_iter().enumerate() {
        for source_use in [SourceUse::Now, SourceUse::Later] {
            memory.fill(0xee);
            local.slice(0, 2 * bytes).fill(0xdd);
            let before = rank.done;
            for (index, (here, there)) in OFFSETS.into_iter().enumerate() {
                let source = local.slice(index * AREA + here, size);
                source.copy_from_slice(&pattern[7 * round + index..][..size]);
                let to = targets[0].plus(index * AREA + there);
                let start = |rank: &mut Driver| put(rank.conduit, to, source, source_use, Cookie::new(1)) != Err(Busy);
                assert!(rank.wait("a put", start));
            }
            assert!(rank.wait("puts", |rank| rank.done == before + OFFSETS.len()));
            for (index, (here, there)) in OFFSETS.into_iter().enumerate() {
                let destination = local.slice(bytes + index * AREA + here, size);
                let from = targets[0].plus(index * AREA + there);
                let start = |rank: &mut Driver| get(rank.conduit, from, destination, Cookie::new(1)) != Err(Busy);
                assert!(rank.wait("a get", start));
            }
            assert!(rank.wait("gets", |rank| rank.done == before + 2 * OFFSETS.len()));
            for (index, (here, there)) in OFFSETS.into_iter().enumerate() {
                let source = local.slice(index * AREA + here, size);
                let mut expected = vec![0xee; AREA];
                expected[there..there + size].copy_from_slice(source);
                assert!(
                    memory[index * AREA..][..AREA] == expected,
                    "a put of {size} bytes from {here} to {there}"
                );
                let mut expected = vec![0xdd; AREA];
                expected[here..here + size].copy_from_slice(source);
                let got = local.slice(bytes + index * AREA, AREA);
                assert!(got == expected, "a get of {size} bytes from {there} to {here}");
            }
        }
    }
    eprintln!("all is copied");
    job.stop();
}

/// Transfers of memory that cannot be registered, for this reason.
fn expect_copies(options: &str, variables: &str, reason: &str) {
    for more in ["", "late reorder", "flavour=gemini late"] {
        let options = format!("{options} {more}");
        let printed = child("copies", &options, variables);
        let refusal = |line: &&str| line.starts_with("The gni conduit cannot register ");
        let refusal = printed.lines().find(refusal).unwrap_or_default();
        let cannot = format!("cannot register {AREA} bytes at 0x");
        assert!(
            reason.is_empty() || refusal.contains(&cannot) && refusal.contains(reason),
            "{options}: {printed}"
        );
        assert!(printed.contains("all is copied"), "{options}: {printed}");
    }
}

#[test]
fn memory_that_cannot_be_registered_is_copied() {
    expect_copies(
        "reg-invalid=unregistrable",
        "",
        ": GNI_RC_INVALID_PARAM. GASNET_MAX_SEGSIZE",
    );
    expect_copies(
        "reg-invalid=unregistrable",
        "GASNET_GNI_BOUNCE_SIZE=1",
        ": GNI_RC_INVALID_PARAM. ",
    );
}

#[test]
fn transfers_without_memory_to_register_are_copied() {
    let exhaust = "FAULTS_EXHAUST=1";
    expect_copies(
        "reg-bytes=100000000",
        exhaust,
        ": GNI_RC_ERROR_RESOURCE. GASNET_MAX_SEGSIZE",
    );
    expect_copies("mdd=12", exhaust, ": GNI_RC_ERROR_RESOURCE. ");
}

#[test]
fn registrations_that_fail_now_and_then() {
    expect_copies("reg-busy=50", "", "");
    for nth in 1..=9 {
        let printed = child("copies", &format!("reg-fail={nth}"), "");
        assert!(printed.contains("all is copied"), "{nth}: {printed}");
    }
}

/// Sets the variables of FAULTS_SET, which has NAME=VALUE between commas.
fn set_variables() {
    for word in std::env::var("FAULTS_SET").unwrap_or_default().split(',') {
        if let Some((name, value)) = word.split_once('=') {
            let [name, value] = [name, value].map(|text| CString::new(text).unwrap());
            env::set(&name, &value);
        }
    }
}

/// A rank starts alone, and says why not. The emulator is not used if GASNET_GNI_LIBRARY is set.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    if std::env::var_os("GASNET_GNI_LIBRARY").is_some() {
        config::install(Config::load(&[Gni::new().variables()]).unwrap());
    } else {
        emulate();
    }
    set_variables();
    let (exchange, all) = (|bytes: &[u8]| bytes.to_vec(), [JobRank(0)]);
    let info = StartInfo {
        single_threaded: false,
        ..start_info(JobRank(0), &all, &exchange)
    };
    let conduit = Gni::new();
    let probed = conduit.probe().map_or_else(|why| why.message, |()| "can start".into());
    eprintln!("{probed}");
    let started = conduit
        .start(&info)
        .map_or_else(|why| why.message, |()| "started".into());
    eprintln!("{started}");
}

/// The child `start` prints this line.
fn expect_start(options: &str, variables: &str, line: &str) {
    let printed = child("start", options, variables);
    assert!(
        printed.lines().any(|printed| printed == line),
        "{options} {variables}: {printed}"
    );
}

#[test]
fn fma_descriptors_run_out() {
    let none =
        "The gni conduit cannot start: GNI_CdmAttach to NIC 0 failed: GNI_RC_ERROR_RESOURCE. The NIC has no FMA \
                descriptor left for this process alone; GASNET_GNI_FMA_SHARING=1 shares them.";
    expect_start("fma=0", "", none);
    expect_start("fma=1", "GASNET_DOMAIN_COUNT=2", none);
    expect_start("fma=1", "", "started");
    expect_start("fma=0", "GASNET_DOMAIN_COUNT=2 GASNET_GNI_FMA_SHARING=1", "started");
}

#[test]
fn completion_queues_run_out() {
    let none = "The gni conduit cannot start: GNI_CqCreate failed: GNI_RC_ERROR_RESOURCE. The NIC has no completion \
                queue left; run fewer processes on a node, or lower GASNET_DOMAIN_COUNT.";
    for (options, variables) in [
        ("cq=0", ""),
        ("cq=1", ""),
        ("cq=2", "GASNET_DOMAIN_COUNT=2"),
        ("cq=2 flavour=gemini", ""),
    ] {
        expect_start(options, variables, none);
    }
    for (options, variables) in [
        ("cq=2", ""),
        ("cq=3", "GASNET_DOMAIN_COUNT=2"),
        ("cq=3 flavour=gemini", ""),
    ] {
        expect_start(options, variables, "started");
    }
}

#[test]
fn memory_descriptors_run_out() {
    let none = "failed: GNI_RC_ERROR_RESOURCE. The NIC has no memory descriptor (MDD) left, or no more memory can be \
                pinned; run fewer processes on a node, or lower GASNET_DOMAIN_COUNT, GASNET_NETWORKDEPTH_TOTAL or \
                GASNET_GNI_AM_EAGER_PEERS.";
    for (limit, what) in ["post descriptors", "messages", "copies"].into_iter().enumerate() {
        let printed = child("start", &format!("mdd={limit}"), "");
        let is_it = |line: &str| {
            let begin = "The gni conduit cannot start: GNI_MemRegister of ";
            line.starts_with(begin) && line.ends_with(&format!(" bytes for {what} {none}"))
        };
        assert!(printed.lines().any(is_it), "mdd={limit}: {printed}");
    }
    expect_start("mdd=3", "", "started");
    expect_start("reg-bytes=100000", "", "can start");
    let printed = child("start", "reg-bytes=100000", "");
    assert!(printed.contains(none), "{printed}");
}

/// Memory that the conduit cannot do without is registered again after a while, if that may help.
#[test]
fn registrations_that_fail_at_start() {
    for (nth, what) in ["post descriptors", "messages", "copies"].into_iter().enumerate() {
        expect_start(&format!("reg-fail={}", nth + 1), "", "started");
        let printed = child("start", &format!("reg-invalid={}", nth + 1), "");
        let why = format!(" bytes for {what} failed: GNI_RC_INVALID_PARAM.\n");
        assert!(printed.contains(&why), "{printed}");
    }
}

/// Without engines, barriers are made of messages.
#[test]
fn engines_run_out() {
    let printed = expect_none("barrier", "ce=0 trace post-error=ce:1:ce_protection_err", "");
    assert!(!printed.contains("CE_PROTECTION_ERR"), "{printed}");
}

#[test]
fn processes_that_cannot_start() {
    let set = |text: &str| format!("FAULTS_SET={text}");
    for (variables, why) in [
        (
            set("PMI_GNI_PTAG=,PMI_GNI_COOKIE="),
            "this process has no credentials for the network: neither PMI_GNI_PTAG and PMI_GNI_COOKIE nor \
             CRAY_COOKIES are set. Start it with aprun or srun.",
        ),
        (
            set("PMI_GNI_COOKIE="),
            "this process has no credentials for the network: neither PMI_GNI_PTAG and PMI_GNI_COOKIE nor \
             CRAY_COOKIES are set. Start it with aprun or srun.",
        ),
        (
            set("PMI_GNI_PTAG=seven"),
            "PMI_GNI_PTAG=seven has no number at place 0.",
        ),
        (set("PMI_GNI_PTAG=256"), "PMI_GNI_PTAG=256 is more than 255."),
        (
            set("PMI_GNI_COOKIE=0x17"),
            "PMI_GNI_COOKIE=0x17 has no number at place 0.",
        ),
        (set("PMI_GNI_DEV_ID=-1"), "PMI_GNI_DEV_ID=-1 has no number at place 0."),
    ] {
        expect_start("", &variables, &format!("The gni conduit cannot start: {why}"));
        expect_start("", &variables, &format!("The gni conduit cannot be used: {why}"));
    }
    let why = "The gni conduit cannot start: GNI_CdmGetNicAddress failed for NIC 3: GNI_RC_NO_MATCH.";
    expect_start("", &set("PMI_GNI_DEV_ID=3"), why);
    let why = "The gni conduit cannot start: GNI_CdmAttach to NIC 1 failed: GNI_RC_NO_MATCH.";
    expect_start("", &set("PMI_GNI_DEV_ID=1,PMI_GNI_LOC_ADDR=256:257"), why);
}

#[test]
fn there_is_no_library() {
    let printed = child("start", "", "GASNET_GNI_LIBRARY=/nowhere/libugni.so");
    let why = "cannot open the uGNI library (/nowhere/libugni.so): /nowhere/libugni.so: cannot open shared object \
               file: No such file or directory. It comes with Cray's Linux Environment on the compute nodes of XC \
               and XE systems. GASNET_GNI_LIBRARY selects another file.";
    for what in ["start", "be used"] {
        let message = format!("The gni conduit cannot {what}: {why}");
        assert!(printed.lines().any(|line| line == message), "{printed}");
    }
}

/// A rank that is a process starts, and says why not.
#[test]
#[ignore = "a child of other tests"]
fn start_of_job() {
    emulate();
    set_variables();
    let place = Place::find();
    let exchange = |bytes: &[u8]| place.exchange(bytes);
    let started = Gni::new().start(&start_info(place.rank, &place.all, &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |()| "started".into()));
}

/// Two ranks start with these options of the emulator and variables, and print these lines.
fn expect_starts(ranks: [(&str, &str); 2], lines: [&str; 2]) {
    for (ended, line) in processes::run("start_of_job", &ranks).iter().zip(lines) {
        let printed = &ended.output;
        assert!(printed.lines().any(|printed| printed == line), "{ranks:?}: {printed}");
    }
}

#[test]
fn settings_that_differ() {
    let differ = |one: u32| {
        format!(
            "The gni conduit cannot start: ranks {one} and {} have different networks or settings: \
             GASNET_NETWORKDEPTH, GASNET_NETWORKDEPTH_TOTAL, GASNET_NETWORKDEPTH_SPACE and GASNET_GNI_MAX_MEDIUM \
             must be the same in all processes.",
            1 - one
        )
    };
    let lines = [differ(0), differ(1)];
    for ranks in [
        [("", "GASNET_NETWORKDEPTH=8"), ("", "")],
        [("", ""), ("", "GASNET_NETWORKDEPTH_TOTAL=65")],
        [("", ""), ("", "GASNET_NETWORKDEPTH_SPACE=1M")],
        [("", "GASNET_GNI_MAX_MEDIUM=1024"), ("", "GASNET_GNI_MAX_MEDIUM=2048")],
        [("", ""), ("flavour=gemini", "")],
    ] {
        expect_starts(ranks, lines.each_ref().map(String::as_str));
    }
    expect_starts([("", ""), ("", "GASNET_GNI_PUT_FMA_RDMA_CUTOVER=0")], ["started"; 2]);
}

#[test]
fn one_rank_that_cannot_start() {
    let other = "The gni conduit cannot start: rank 0 cannot.";
    let own = "The gni conduit cannot start: PMI_GNI_PTAG=x has no number at place 0.";
    expect_starts([("", "FAULTS_SET=PMI_GNI_PTAG=x"), ("", "")], [own, other]);
}

/// Three ranks that are processes. The others do operations of the kind FAULTS_KINDS with rank 1,
/// which kills itself amid them. Then they reach each other.
#[test]
#[ignore = "a child of other tests"]
fn victims() {
    const VICTIM: JobRank = JobRank(1);
    emulate();
    let (place, kind) = (Place::find(), variable("FAULTS_KINDS"));
    let (exchange, conduit) = (|bytes: &[u8]| place.exchange(bytes), Gni::new());
    conduit.start(&start_info(place.rank, &place.all, &exchange)).unwrap();
    let mut memory = vec![0_u64; 16 << 10];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, 128 << 10);
    let own = conduit.segments().unwrap().register(&segment).unwrap();
    let keys = exchange(&[&segment.base.to_le_bytes(), &own.key[..]].concat());
    let peers = place.all.iter().zip(keys.chunks_exact(8 + own.key.len()));
    let memories: Vec<_> = peers
        .map(|(peer, key)| RemoteMemory {
            peer: *peer,
            segment: conduit.segments().unwrap().learn(*peer, &segment, &key[8..]).unwrap(),
            address: usize::from_le_bytes(*key.first_chunk().unwrap()),
        })
        .collect();
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut rank = Driver {
        rank: place.rank,
        conduit: &conduit,
        lost: &lost,
        requests: &requests,
        answers: false,
        done: 0,
        replies: 0,
        rounds: 0,
    };
    let begun = Instant::now();
    if place.rank == VICTIM {
        let others = [0, 2].map(|other| place.file("ready", JobRank(other)));
        assert!(rank.wait("the others", |_| others.iter().all(|file| file.exists())));
        // SAFETY: plain calls. Nothing of this process runs any more.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    let target = Target {
        memory: memories[1],
        counter: memories[1],
    };
    let mut number = 0;
    while rank.start(&kind, number, &target) {
        number += 1;
        if number == OPERATIONS {
            fs::write(place.file("ready", place.rank), []).unwrap();
        }
        assert!(
            begun.elapsed() < LIMIT,
            "rank {} does not lose rank {VICTIM}",
            rank.rank
        );
    }
    eprintln!("rank {}: {number} completed", rank.rank);
    lost.store(false, SeqCst);
    let target = Target {
        memory: memories[2 - place.rank.index()],
        ..target
    };
    assert!(rank.start("put:64", 0, &target), "the other rank is not reached");
    fs::write(place.file("reached", place.rank), []).unwrap();
    let has_reached = |_: &mut Driver| place.file("reached", JobRank(2 - place.rank.0)).exists();
    assert!(rank.wait("the other rank", has_reached));
    eprintln!("rank {} has reached the other one", rank.rank);
    conduit.stop(Stop::Orderly);
}

impl Driver<'_> {
    /// Does an operation without a look at the memory of the peer. False: something was lost before
    /// it was complete.
    fn start(&mut self, kind: &str, number: usize, target: &Target) -> bool {
        let (name, bytes) = kind.split_once(':').unwrap_or((kind, "0"));
        let (before, cookie, memory) = (self.done, Cookie::new(1), target.memory);
        let mut bytes = vec![number as u8; bytes.parse().unwrap()];
        let old = Box::leak(Box::new(0_u64));
        let add = Atomic {
            target: target.counter,
            dt: codes::U64,
            op: codes::fetch(codes::ADD),
            operands: [1, 0],
            fetched: (&raw mut *old).cast(),
            cookie,
        };
        let is_send = name == "send";
        let start = |rank: &mut Self| match name {
            "put" => put(rank.conduit, memory, &bytes, SourceUse::Later, cookie) != Err(Busy),
            "get" => get(rank.conduit, memory, &mut bytes, cookie) != Err(Busy),
            "add" => rank.conduit.atomics().unwrap().atomic(&add) != Err(Busy),
            _ => rank.conduit.send(memory.peer, Class::Request, &[ANONYMOUS]) != Err(Busy),
        };
        let is_started = self.wait(kind, start);
        // Requests are few, so that some can still be sent when their receiver has died.
        let pause = Instant::now() + Duration::from_millis(10);
        let is_done = is_started && self.wait(kind, |rank| rank.done > before || is_send && Instant::now() > pause);
        keep(bytes, is_done);
        is_done
    }
}

/// Rank 1 is killed amid operations of a kind: both others lose it, for one of these reasons.
fn expect_victim(kind: &str, variables: &str, why: &[&str]) {
    let variables = format!("FAULTS_KINDS={kind} {variables}");
    for options in ["", "late reorder"] {
        let ended = processes::run("victims", &[(options, &variables[..]); 3]);
        assert_eq!(ended[1].status.signal(), Some(libc::SIGKILL), "{}", ended[1].output);
        let printed = ended.iter().map(|ended| &ended.output[..]).collect::<String>();
        for rank in [0, 2] {
            let losses: Vec<_> = ended[rank]
                .output
                .lines()
                .filter(|line| line.contains(" lost "))
                .collect();
            let loss = |why| format!("rank {rank} lost rank 1: {why}: ENDPOINT_UNREACHABLE");
            let is_expected = why.iter().any(|why| losses == [loss(why)]);
            assert!(is_expected, "{kind} {variables} {options}: {printed}");
            let reached = format!("rank {rank} has reached the other one");
            assert!(
                ended[rank].status.success() && printed.contains(&reached),
                "{kind}: {printed}"
            );
        }
    }
}

#[test]
fn a_rank_is_killed_amid_puts_and_gets() {
    expect_victim("put:8", "", &["a put by FMA failed 5 times"]);
    expect_victim("put:65536", "", &["a put by BTE failed 5 times"]);
    expect_victim("get:8", "", &["a get by FMA failed 5 times"]);
    expect_victim("get:65536", "", &["a get by BTE failed 5 times"]);
}

#[test]
fn a_rank_is_killed_amid_atomics_and_messages() {
    expect_victim("add", "", &["an atomic failed"]);
    // A request is put into space that the victim has set aside, or announced if there is none yet.
    expect_victim("send", "", &["an Active Message failed", "a CQ write failed"]);
    expect_victim("send", "GASNET_GNI_AM_RVOUS_CUTOVER=1", &["a CQ write failed"]);
}

/// What processes have in /dev/shm: names that contain one of their numbers, except those that were
/// there before.
fn shared_memory(pids: &[u32], before: &[OsString]) -> Vec<OsString> {
    let is_theirs = |name: &OsString| {
        let name = name.to_string_lossy();
        let mut numbers = name.split(|c: char| !c.is_ascii_digit());
        numbers.any(|number| number.parse().is_ok_and(|number| pids.contains(&number)))
    };
    let names = names_in_shared_memory().into_iter();
    names.filter(|name| is_theirs(name) && !before.contains(name)).collect()
}

fn names_in_shared_memory() -> Vec<OsString> {
    let entries = fs::read_dir("/dev/shm").unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

/// Runs a job of which a rank is killed. Prints the numbers of its processes.
#[test]
#[ignore = "a child of other tests"]
fn job_with_a_victim() {
    let before = names_in_shared_memory();
    let ended = processes::run("victims", &[("", "FAULTS_KINDS=put:8"); 3]);
    assert_eq!(ended[1].status.signal(), Some(libc::SIGKILL), "{}", ended[1].output);
    let own = std::process::id();
    let own_memory = shared_memory(&[own], &before);
    assert_eq!(own_memory.len(), 1, "the network of this process is not found");
    for pid in ended.iter().map(|ended| ended.pid).chain([own]) {
        eprintln!("process {pid}");
    }
}

#[test]
fn a_killed_rank_leaves_no_shared_memory() {
    let before = names_in_shared_memory();
    let printed = child("job_with_a_victim", "", "");
    let pids = printed
        .lines()
        .filter_map(|line| line.strip_prefix("process ")?.parse().ok());
    let pids: Vec<u32> = pids.collect();
    assert_eq!(pids.len(), 4, "{printed}");
    let begun = Instant::now();
    loop {
        let left = shared_memory(&pids, &before);
        if left.is_empty() {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "{left:?} are left");
        std::thread::sleep(Duration::from_millis(5));
    }
}
