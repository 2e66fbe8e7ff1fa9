//! Ranks that are killed.

use crate::driver::{child, emulate, keep, print_line, variable, Driver, Target, ANONYMOUS, LIMIT, OPERATIONS};
use crate::processes::{self, Place};
use gasnet_conduit::conformance::{get, put, start_info};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Busy, Class, Conduit, Cookie, JobRank, RemoteMemory, SegmentMemory, SourceUse, Stop,
};
use gasnet_conduit_gni::Gni;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Three ranks that are processes. The others do operations of the kind FAULTS_KINDS with rank 1,
/// which kills itself amid them. Then they reach each other.
#[test]
#[ignore = "a child of other tests"]
fn victims() {
    const VICTIM: JobRank = JobRank(1);
    emulate();
    let (place, kind) = (Place::find(), variable("FAULTS_KINDS"));
    let (exchange, conduit) = (|bytes: &[u8]| place.exchange(bytes), Gni::new());
    let network = conduit.start(&start_info(place.rank, &place.all, &exchange)).unwrap();
    let mut memory = vec![0_u64; 16 << 10];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, 128 << 10);
    let own = network.abilities().segments.unwrap().register(&segment).unwrap();
    let keys = exchange(&[&segment.base.to_le_bytes(), &own.key[..]].concat());
    let peers = place.all.iter().zip(keys.chunks_exact(8 + own.key.len()));
    let memories: Vec<_> = peers
        .map(|(peer, key)| RemoteMemory {
            peer: *peer,
            segment: network
                .abilities()
                .segments
                .unwrap()
                .learn(*peer, &segment, &key[8..])
                .unwrap(),
            address: usize::from_le_bytes(*key.first_chunk().unwrap()),
        })
        .collect();
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut rank = Driver::new(place.rank, &*network, &lost, &requests);
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
    print_line(&format!("rank {}: {number} completed", rank.rank));
    lost.store(false, SeqCst);
    let target = Target {
        memory: memories[2 - place.rank.index()],
        ..target
    };
    assert!(rank.start("put:64", 0, &target), "the other rank is not reached");
    fs::write(place.file("reached", place.rank), []).unwrap();
    let has_reached = |_: &mut Driver| place.file("reached", JobRank(2 - place.rank.0)).exists();
    assert!(rank.wait("the other rank", has_reached));
    print_line(&format!("rank {} has reached the other one", rank.rank));
    network.stop(Stop::Orderly);
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
            "put" => put(rank.network, memory, &bytes, SourceUse::Later, cookie) != Err(Busy),
            "get" => get(rank.network, memory, &mut bytes, cookie) != Err(Busy),
            "add" => rank.network.abilities().atomics.unwrap().atomic(&add) != Err(Busy),
            _ => rank.network.send(memory.peer, Class::Request, &[ANONYMOUS]) != Err(Busy),
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
        let ended = processes::run("deaths::victims", &[(options, &variables[..]); 3]);
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
    let ended = processes::run("deaths::victims", &[("", "FAULTS_KINDS=put:8"); 3]);
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
    let printed = child("deaths::job_with_a_victim", "", "");
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
