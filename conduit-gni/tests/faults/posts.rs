//! Posts that fail, and jobs in which none does.

use crate::driver::{child, keep, print_line, start_job, variable, Driver, Target, OPERATIONS};
use gasnet_conduit::conformance::{expose, get, put};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Busy, Class, Cookie, Get, JobRank, LocalCompletion, LocalMemory, PollScope, Put,
    SegmentMemory, SourceUse, Stop,
};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Bytes of the segments.
const SEGMENT: usize = 2 << 20;
/// Instance of the first domain of rank 0.
const FIRST_INSTANCE: u32 = 1 << 23;

impl Driver<'_> {
    /// Does operation `number` of a kind, and verifies what it has moved. False: something was lost
    /// before it was complete.
    fn operation(&mut self, kind: &str, number: usize, target: &Target) -> bool {
        let (name, bytes) = kind.split_once(':').unwrap_or((kind, "0"));
        let bytes = bytes.parse().unwrap();
        match name {
            "put" => self.put(kind, number, target, bytes),
            "own" => self.put_own(kind, number, target, bytes),
            "get" => self.get(kind, number, target, bytes),
            "fetch" => self.get_own(kind, number, target, bytes),
            "add" => self.add(kind, number, target),
            "send" | "ask" => {
                let packet = [number as u8; 300];
                let send = |rank: &mut Self| rank.network.send(JobRank(1), Class::Request, &[&packet]) != Err(Busy);
                let has_come =
                    |rank: &mut Self| rank.requests.load(SeqCst) > number && (name == "send" || rank.replies > number);
                self.wait(kind, send) && self.wait(kind, has_come)
            }
            "barrier" if self.network.abilities().barrier.is_none() => self.meet(kind, number),
            "barrier" => {
                let enter = |rank: &mut Self| rank.network.abilities().barrier.unwrap().enter([7; 2]) != Err(Busy);
                self.wait(kind, enter) && self.wait(kind, |rank| rank.rounds > number)
            }
            _ => panic!("there is no operation {name}"),
        }
    }

    /// A barrier of words of two ranks.
    fn meet(&mut self, kind: &str, number: usize) -> bool {
        let (slot, word, peer) = (number % 2, number as u64 + 1, JobRank(1 - self.rank.0));
        let words = self.network.abilities().words.unwrap();
        self.wait(kind, |_| words.write(peer, slot, word) == Ok(true))
            && self.wait(kind, |_| words.own()[slot].load(SeqCst) == word)
    }

    /// Puts from memory outside segments.
    fn put(&mut self, kind: &str, number: usize, target: &Target, bytes: usize) -> bool {
        let (byte, before, cookie) = (number as u8 + 1, self.done, Cookie::new(1));
        // SAFETY: the segment of rank 1, which nothing else accesses now.
        let there = || unsafe { std::slice::from_raw_parts_mut(target.memory.address as *mut u8, bytes) };
        let source = vec![byte; bytes];
        let start = |rank: &mut Self| {
            let started = put(rank.network, target.memory, &source, SourceUse::Now, cookie);
            started != Err(Busy)
        };
        let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
        assert!(!is_done || there() == source, "put {number} has altered its data");
        keep(source, is_done);
        is_done
    }

    /// Puts from the segment of rank 0, which is overwritten as soon as it may be.
    fn put_own(&mut self, kind: &str, number: usize, target: &Target, bytes: usize) -> bool {
        let (byte, before, cookie) = (number as u8 + 1, self.done, Cookie::new(1));
        // SAFETY: the segment of rank 1, which nothing else accesses now.
        let there = || unsafe { std::slice::from_raw_parts_mut(target.memory.address as *mut u8, bytes) };
        let from = self.own.unwrap();
        // SAFETY: the segment, which nothing else accesses when the source is free.
        let source = || unsafe { std::slice::from_raw_parts_mut(from.address as *mut u8, bytes) };
        source().fill(byte);
        let sources = self.sources;
        let own_put = Put {
            to: target.memory,
            from,
            bytes,
            source: SourceUse::Now,
            cookie,
        };
        let start = |rank: &mut Self| match rank.network.abilities().rma.unwrap().put(&own_put) {
            Err(Busy) => false,
            Ok(local) => {
                rank.sources += usize::from(local == LocalCompletion::AtReturn);
                true
            }
        };
        let is_free = self.wait(kind, start) && self.wait(kind, |rank| rank.sources > sources);
        if is_free {
            source().fill(0);
        }
        let is_done = is_free && self.wait(kind, |rank| rank.done > before);
        assert!(
            !is_done || *there() == vec![byte; bytes],
            "put {number} has altered its data"
        );
        is_done
    }

    /// Gets into memory outside segments.
    fn get(&mut self, kind: &str, number: usize, target: &Target, bytes: usize) -> bool {
        let (byte, before, cookie) = (number as u8 + 1, self.done, Cookie::new(1));
        // SAFETY: the segment of rank 1, which nothing else accesses now.
        let there = || unsafe { std::slice::from_raw_parts_mut(target.memory.address as *mut u8, bytes) };
        there().fill(byte);
        let mut destination = vec![0; bytes];
        let start = |rank: &mut Self| get(rank.network, target.memory, &mut destination, cookie) != Err(Busy);
        let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
        assert!(!is_done || there() == destination, "get {number} has altered its data");
        keep(destination, is_done);
        is_done
    }

    /// Gets into the segment of rank 0, at an odd address.
    fn get_own(&mut self, kind: &str, number: usize, target: &Target, bytes: usize) -> bool {
        let (byte, before, cookie) = (number as u8 + 1, self.done, Cookie::new(1));
        // SAFETY: the segment of rank 1, which nothing else accesses now.
        let there = || unsafe { std::slice::from_raw_parts_mut(target.memory.address as *mut u8, bytes) };
        there().fill(byte);
        let mut to = self.own.unwrap();
        to.address += 1;
        // SAFETY: the segment, which nothing else accesses when the get is done.
        let found = || unsafe { std::slice::from_raw_parts_mut(to.address as *mut u8, bytes) };
        found().fill(0);
        let own_get = Get {
            from: target.memory,
            to,
            bytes,
            cookie,
        };
        let start = |rank: &mut Self| rank.network.abilities().rma.unwrap().get(&own_get) != Err(Busy);
        let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
        assert!(!is_done || found() == there(), "get {number} has altered its data");
        is_done
    }

    /// Adds by the NIC.
    fn add(&mut self, kind: &str, number: usize, target: &Target) -> bool {
        let (before, cookie) = (self.done, Cookie::new(1));
        let old = Box::leak(Box::new(u64::MAX));
        let add = Atomic {
            target: target.counter,
            dt: codes::U64,
            op: codes::fetch(codes::ADD),
            operands: [1, 0],
            fetched: (&raw mut *old).cast(),
            cookie,
        };
        let start = |rank: &mut Self| rank.network.abilities().atomics.unwrap().atomic(&add) != Err(Busy);
        let is_done = self.wait(kind, start) && self.wait(kind, |rank| rank.done > before);
        assert!(!is_done || *old == number as u64, "add {number} has found {old}");
        is_done
    }
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
    let mut source = vec![0_u8; SEGMENT];
    let source = SegmentMemory::host(source.as_mut_ptr() as usize, SEGMENT);
    let (own_source, _) = expose((JobRank(0), job.of(0)), &source, &[]);
    let target = Target {
        memory: targets[0],
        counter: counters[0],
    };
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let mut rank = Driver::new(rank, network, &lost, &requests);
        rank.answers = kinds.contains("ask");
        rank.own = Some(LocalMemory {
            address: source.base,
            segment: own_source,
            device: None,
        });
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
            print_line(&format!("rank {}: {kind}: {completed} completed", rank.rank));
        }
        if rank.rank == JobRank(0) {
            over.store(true, SeqCst);
        }
        while !over.load(SeqCst) && !lost.load(SeqCst) {
            network.poll(PollScope::All, &mut rank);
        }
        // A loss is reported once only.
        for _ in 0..100 {
            network.poll(PollScope::All, &mut rank);
        }
    });
    job.run(|_, network| network.stop(Stop::Orderly));
    if !lost.load(SeqCst) {
        let forget = |rank: usize, segment| job.of(rank).abilities().segments.unwrap().forget(JobRank(1), segment);
        forget(0, target.memory.segment);
        forget(0, target.counter.segment);
        for (rank, segment) in [(1, own), (1, own_counter), (0, own_source)] {
            job.of(rank).abilities().segments.unwrap().deregister(segment);
        }
    }
    drop(job);
    drop(memory);
}

/// Operations of a kind with these options of the emulator: the only loss is this, after that
/// number of them.
fn expect_loss(kind: &str, options: &str, completed: RangeInclusive<usize>, loss: &str) {
    let printed = child("posts::operations", options, &format!("FAULTS_KINDS={kind}"));
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
    let printed = child(
        "posts::operations",
        options,
        &format!("FAULTS_KINDS={kinds} {variables}"),
    );
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

/// A put with two events fails, of which the second comes when the put is posted again, or after.
#[test]
fn events_that_follow_failures() {
    let fault = |nth: usize| format!("post-error=rdma-put:{nth}:orb_timeout");
    let some: Vec<_> = [1, 2, 3, 5, 8, 9, 11].map(fault).into();
    for options in ["", "late", "late reorder delay=50"] {
        let printed = expect_none(
            "own:65536,put:4000",
            &format!("trace late-event {options} {}", some.join(" ")),
            "",
        );
        assert!(printed.contains("ORB_TIMEOUT"), "{printed}");
    }
    // The second event does not come.
    expect_none("own:65536", &some.join(" "), "");
}

/// The NIC reads the source of a put by BTE until its LOCAL event. Gemini's gets write whole words.
#[test]
fn own_segments() {
    for options in ["late", "late reorder", "flavour=gemini late"] {
        expect_none("own:4097,own:1048577,fetch:64,fetch:4096,fetch:65536", options, "");
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
    let printed = child("posts::operations", options, "FAULTS_KINDS=barrier");
    let losses: Vec<_> = printed.lines().filter(|line| line.contains(" lost ")).collect();
    let why = "lost the network: a reduction by the collective engine failed: CE_JOIN_INCONSISTENT";
    assert!(losses.len() == 1 && losses[0].contains(why), "{printed}");
}

/// An event that arrives as an error names no sender.
#[test]
fn arrivals_that_fail() {
    let printed = child("posts::operations", "arrival-error=3", "FAULTS_KINDS=ask");
    let losses: Vec<_> = printed.lines().filter(|line| line.contains(" lost ")).collect();
    let why = "lost the network: the queue of arrivals has an error: CQ_ERR";
    assert!(losses.len() == 1 && losses[0].contains(why), "{printed}");
}

/// The engine reports a failure by its queue, by the results, or by both.
#[test]
fn reductions_without_result() {
    for options in [
        "ce-error=3",
        "ce-error=3 ce-silent",
        "ce-error=3 ce-silent late reorder",
    ] {
        let printed = child("posts::operations", options, "FAULTS_KINDS=barrier");
        let losses: Vec<_> = printed.lines().filter(|line| line.contains(" lost ")).collect();
        let why = "lost the network: a reduction by the collective engine failed: ";
        let is_one = |loss: &&str| loss.contains(why) && !loss.ends_with(why);
        assert!(!losses.is_empty() && losses.iter().all(is_one), "{options}: {printed}");
        assert!(printed.contains("barrier: 2 completed"), "{options}: {printed}");
    }
}

#[test]
fn a_network_that_is_closed_leaves_nothing() {
    let kinds = "put:8,put:1000,put:65537,get:4097,get:65536,add,barrier,ask";
    for (options, variables) in [
        ("", ""),
        ("late reorder", "GASNET_DOMAIN_COUNT=2"),
        ("flavour=gemini", ""),
    ] {
        // Gemini has no engine, but another barrier.
        let printed = expect_none(kinds, &format!("report {options}"), variables);
        for instance in FIRST_INSTANCE..FIRST_INSTANCE + 2 {
            let left = format!("instance {instance} left 0 regions, 0 completion queues, 0 endpoints, 0 engines");
            assert!(printed.contains(&left), "not '{left}' with {options}: {printed}");
        }
        let is_else =
            |line: &str| line.contains("emulator of uGNI") && !line.contains(" left 0 regions, 0 completion ");
        assert!(!printed.lines().any(is_else), "{printed}");
    }
}

/// Without engines, barriers are made of messages.
#[test]
fn engines_run_out() {
    let printed = expect_none("barrier", "ce=0 trace post-error=ce:1:ce_protection_err", "");
    assert!(!printed.contains("CE_PROTECTION_ERR"), "{printed}");
}
