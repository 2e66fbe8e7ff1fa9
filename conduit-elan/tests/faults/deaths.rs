//! Ranks that are gone. What was under way with them never completes, as in libelan, and no call
//! waits for it: the job ends because the node agents notice.

use crate::driver::{child, emulate, pair, Inbox, LIMIT};
use crate::processes::{self, Place};
use gasnet_conduit::conformance::{get, put, start_info};
use gasnet_conduit::{Busy, Class, Conduit, Cookie, JobRank, PollScope, RemoteMemory, SegmentMemory, SourceUse, Stop};
use gasnet_conduit_elan::Elan;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

const VICTIM: JobRank = JobRank(1);
/// No call takes as long.
const CALL: Duration = Duration::from_secs(20);
/// More than the credits at a peer, and than GASNET_NBI_THROTTLE.
const MANY: usize = 200;

/// How many of many calls are not refused. None of them waits.
fn accepted(mut call: impl FnMut() -> Result<(), Busy>) -> usize {
    let timed = |_: &usize| {
        let begun = Instant::now();
        let result = call();
        assert!(begun.elapsed() < CALL, "a call waits for a rank that is gone");
        result.is_ok()
    };
    (0..MANY).filter(timed).count()
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < LIMIT, "{what} is missing");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a process has ended, whether its parent knows or not.
fn wait_for_end(pid: &str) {
    let status = || fs::read_to_string(format!("/proc/{pid}/stat"));
    wait_until("an end", || status().map_or(true, |status| status.contains(") Z ")));
}

/// Three ranks that are processes. Rank 1 kills itself, then the others use it, and each other.
#[test]
#[ignore = "a child of other tests"]
fn victims() {
    emulate();
    let (place, conduit, mut inbox) = (Place::find(), Elan::new(), Inbox::default());
    let exchange = |bytes: &[u8]| place.exchange(bytes);
    let network = conduit.start(&start_info(place.rank, &place.all, &exchange)).unwrap();
    let memory: &mut [u8] = vec![0; 4096].leak();
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, memory.len());
    let segments = network.abilities().segments.unwrap();
    let own = segments.register(&segment).unwrap();
    let keys = exchange(&[&segment.base.to_le_bytes(), &own.key[..]].concat());
    let memory_of = |peer: JobRank| {
        let (base, key) = keys[peer.index() * 16..][..16].split_at(8);
        let segment = SegmentMemory::host(usize::from_le_bytes(base.try_into().unwrap()), 4096);
        RemoteMemory {
            peer,
            segment: segments.learn(peer, &segment, key).unwrap(),
            address: segment.base,
        }
    };
    if place.rank == VICTIM {
        fs::write(place.file("pid", VICTIM), std::process::id().to_string()).unwrap();
    }
    exchange(&[]);
    if place.rank == VICTIM {
        // SAFETY: plain calls. Nothing of this process runs any more.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
    wait_for_end(&fs::read_to_string(place.file("pid", VICTIM)).unwrap());
    let local: &mut [u8] = vec![0; 1000].leak();
    let (victim, other) = (memory_of(VICTIM), memory_of(JobRank(2 - place.rank.0)));
    let short = accepted(|| network.send(VICTIM, Class::Reply, &[&[1; 100]]));
    // The buffers that are left are for replies.
    let long = accepted(|| network.send(VICTIM, Class::Request, &[&[1; 10_000]]));
    let puts = accepted(|| put(&*network, victim, local, SourceUse::Later, Cookie::new(1)).map(|_| ()));
    eprintln!("rank {}: {short} short, {long} long, {puts} puts", place.rank);
    let until = Instant::now() + Duration::from_millis(300);
    while Instant::now() < until {
        network.poll(PollScope::All, &mut inbox);
    }
    assert_eq!(inbox.done, 0, "a put to a rank that is gone is complete");
    assert_eq!(
        get(&*network, other, local, Cookie::new(2)),
        Err(Busy),
        "the throttle counts them"
    );
    // Messages still reach the others.
    network.send(other.peer, Class::Request, &[&[2; 100]]).unwrap();
    network.send(other.peer, Class::Reply, &[&[2; 3000]]).unwrap();
    inbox.wait(&*network, "a message of the other rank", |inbox| {
        inbox.packets.len() == 2
    });
    assert_eq!(inbox.losses, Vec::<String>::new());
    assert_eq!(network.abilities().barrier.unwrap().enter([1, 2]), Ok(()));
    network.poll(PollScope::All, &mut inbox);
    let begun = Instant::now();
    network.stop(if place.rank.0 == 0 { Stop::Orderly } else { Stop::Signal });
    assert!(
        begun.elapsed() < CALL && inbox.rounds.is_empty(),
        "the stop waits for a rank that is gone"
    );
    // The other one may still use the memory of this process.
    fs::write(place.file("over", place.rank), []).unwrap();
    wait_until("the other rank", || place.file("over", other.peer).exists());
}

#[test]
fn a_rank_is_killed() {
    let variables = "GASNET_NBI_THROTTLE=20 GASNET_ELAN_AM_CREDITS=9 GASNET_ELAN_BUFFERS=16";
    for options in ["trace", "late reorder"] {
        let ended = processes::run("deaths::victims", &[(options, variables); 3]);
        assert_eq!(
            ended[1].status.signal(),
            Some(libc::SIGKILL),
            "process {}",
            ended[1].pid
        );
        for rank in [0, 2] {
            let printed = &ended[rank].output;
            assert!(ended[rank].status.success(), "{options}: {printed}");
            let line = format!("rank {rank}: 9 short, 6 long, 20 puts\n");
            assert!(printed.contains(&line), "{options}: {printed}");
        }
    }
}

/// Rank 0 stops while a round is under way that rank 1 never enters.
#[test]
#[ignore = "a child of other tests"]
fn half_a_round() {
    let (mut job, mut inbox) = (pair(), Inbox::default());
    let barrier = job.of(0).abilities().barrier.unwrap();
    assert_eq!(barrier.enter([1, 1]), Ok(()));
    let until = Instant::now() + Duration::from_millis(100);
    while Instant::now() < until {
        job.of(0).poll(PollScope::All, &mut inbox);
    }
    let begun = Instant::now();
    job.stop();
    job.networks.iter_mut().for_each(|network| drop(network.take()));
    assert!(
        begun.elapsed() < CALL && inbox.rounds.is_empty(),
        "the stop waits for the round"
    );
}

#[test]
fn a_round_is_under_way() {
    for variables in ["", "GASNET_BARRIER=ELANSLOW"] {
        child("deaths::half_a_round", "", variables);
    }
}

/// Two ranks that RMS has started. Rank 0 ends the job.
#[test]
#[ignore = "a child of other tests"]
fn abort() {
    emulate();
    let (place, conduit) = (Place::find(), Elan::new());
    let rms = conduit.bootstrap().unwrap();
    assert!(rms.has_started_this());
    let found = rms.join().unwrap();
    assert_eq!(
        (found.size, found.system.as_str()),
        (2, "RMS (libelan 1.8.14 (emulator of Elan4))")
    );
    let all = rms.exchange(&[found.rank as u8]).unwrap();
    assert_eq!(all, [0, 1]);
    place.exchange(&[]);
    if place.rank.0 == 0 {
        rms.abort();
    }
    wait_until("the signal", || false);
}

#[test]
fn a_job_is_signalled() {
    let ranks = [0, 1].map(|rank| format!("RMS_RESOURCEID=7 RMS_NPROCS=2 RMS_RANK={rank}"));
    let ended = processes::run(
        "deaths::abort",
        &ranks.each_ref().map(|variables| ("", variables.as_str())),
    );
    for rank in ended {
        assert_eq!(rank.status.signal(), Some(libc::SIGTERM), "{}", rank.output);
    }
}
