//! A port goes down with another one up: HCAs on InfiniBand move the traffic there, and nothing is
//! lost or repeated.

mod emulated;

use gasnet_conduit::conformance::{expose, get, put, Job};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Busy, Class, Completion, Cookie, JobRank, Network, PollScope, RemoteMemory,
    SegmentMemory, SourceUse, Upcalls,
};
use gasnet_conduit_ibv::Ibv;
use gasnet_sys::fd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::{Duration, Instant};

const RANKS: usize = 3;
/// Requests of a round to each peer: more than the shortest send queue has room for.
const REQUESTS: u64 = 24;
/// Polls after which a rank has seen what its HCA reports.
const EVENT_POLLS: usize = 1 << 12;
/// Time for a probe on a slow HCA.
const PROBE: Duration = Duration::from_millis(200);
/// Words that each rank has for each other one. The first counts its atomics.
const WORDS: usize = 2000;

/// Operations of a rank.
struct Rank<'a> {
    name: JobRank,
    network: &'a dyn Network,
    /// State that all ranks share.
    shared: &'a Shared,
    /// Destinations of its puts, by peer.
    targets: [RemoteMemory; RANKS],
    /// Operations under way.
    pending: usize,
    /// Requests that have arrived, by source.
    arrived: [u64; RANKS],
}

#[derive(Default)]
struct Shared {
    lost: AtomicBool,
    /// Requests that were sent, by source and target.
    sent: [[AtomicU64; RANKS]; RANKS],
    ended: AtomicUsize,
}

impl Upcalls for Rank<'_> {
    fn packet(&mut self, source: JobRank, _: Class, bytes: &mut [u8]) {
        let expected = self.arrived[source.index()];
        assert_eq!(bytes, expected.to_ne_bytes(), "requests are lost or repeated");
        self.arrived[source.index()] += 1;
    }
    fn done(&mut self, _: Cookie, part: Completion) {
        self.pending -= usize::from(part != Completion::Source);
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        eprintln!("rank {} lost rank {peer}: {why}", self.name);
        self.shared.lost.store(true, SeqCst);
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

impl Rank<'_> {
    fn poll(&mut self) {
        self.network.poll(PollScope::All, self);
    }

    fn poll_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_over(self) && !self.shared.lost.load(SeqCst) {
            self.poll();
            assert!(begun.elapsed() < Duration::from_secs(30), "no progress");
        }
    }

    /// Sleeps, as a thread does that waits.
    fn sleep(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.poll();
            let wake = self.network.abilities().wake.unwrap();
            if wake.arm() {
                fd::poll(&mut [fd::readable(wake.fd())], Some(left)).unwrap();
            }
        }
    }

    fn until_taken<T>(&mut self, mut start: impl FnMut(&dyn Network) -> Result<T, Busy>) {
        while start(self.network).is_err() && !self.shared.lost.load(SeqCst) {
            self.poll();
        }
    }

    /// Puts to each peer, sends and adds if the peers do the same, then gets what it put.
    fn round(&mut self, number: u64, is_alone: bool) {
        let (own, cookie) = (self.name.index(), Cookie::new(1));
        let peers = || (0..RANKS).filter(move |peer| *peer != own);
        // An operation may be under way when a peer is lost, so its memory stays.
        let source: &[u8] = vec![number as u8; 8 * (WORDS - 1)].leak();
        let old: &mut [u64] = vec![0].leak();
        for peer in peers() {
            let target = self.targets[peer];
            self.pending += 1;
            self.until_taken(|network| put(network, target.plus(8), source, SourceUse::Later, cookie));
            if is_alone {
                continue;
            }
            for _ in 0..REQUESTS {
                let bytes = self.shared.sent[own][peer].fetch_add(1, SeqCst).to_ne_bytes();
                self.until_taken(|network| network.send(JobRank(peer as u32), Class::Request, &[&bytes]));
            }
            self.pending += 1;
            let add = Atomic {
                target,
                dt: codes::U64,
                op: codes::fetch(codes::ADD),
                operands: [1, 0],
                fetched: old.as_mut_ptr().cast(),
                cookie,
            };
            self.until_taken(|network| network.abilities().atomics.unwrap().atomic(&add));
        }
        self.poll_until(|rank| rank.pending == 0);
        for peer in peers() {
            let target = self.targets[peer];
            let back: &mut [u8] = vec![0; source.len()].leak();
            self.pending += 1;
            self.until_taken(|network| get(network, target.plus(8), back, cookie));
            self.poll_until(|rank| rank.pending == 0);
            assert!(back == source || self.shared.lost.load(SeqCst), "round {number}");
        }
    }
}

fn milliseconds(what: &str) -> Duration {
    let text = std::env::var(format!("IBV_TEST_{what}")).unwrap_or_default();
    Duration::from_millis(text.parse().unwrap_or(0))
}

/// All ranks use each other from `IBV_TEST_BEGIN` milliseconds after the start to `IBV_TEST_END`,
/// with pauses of `IBV_TEST_PAUSE`; with `IBV_TEST_ALONE` only rank 0, and the others sleep.
#[test]
#[ignore = "a child of other tests"]
fn traffic() {
    emulated::emulate();
    let [begin, end, pause, alone] = ["BEGIN", "END", "PAUSE", "ALONE"].map(milliseconds);
    let is_alone = !alone.is_zero();
    let begun = Instant::now();
    let job = Job::start(&|| Box::new(Ibv), RANKS as u32);
    let mut memory = vec![0_u64; RANKS * RANKS * WORDS];
    let bytes = RANKS * WORDS * 8;
    let users: Vec<&dyn Network> = (0..RANKS).map(|rank| job.of(rank)).collect();
    let exposed: Vec<Vec<RemoteMemory>> = (0..RANKS)
        .map(|rank| {
            let segment = SegmentMemory::host(memory.as_mut_ptr() as usize + rank * bytes, bytes);
            expose((JobRank(rank as u32), job.of(rank)), &segment, &users).1
        })
        .collect();
    let shared = Shared::default();
    std::thread::sleep(begin);
    job.run(|rank, network: &dyn Network| {
        let target = |peer: usize| exposed[peer][rank.index()].plus(rank.index() * WORDS * 8);
        let mut own = Rank {
            name: rank,
            network,
            shared: &shared,
            targets: std::array::from_fn(target),
            pending: 0,
            arrived: [0; RANKS],
        };
        let mut rounds = 0;
        while begun.elapsed() < end && !shared.lost.load(SeqCst) {
            if is_alone && rank != JobRank(0) {
                own.sleep(end.saturating_sub(begun.elapsed()));
                break;
            }
            own.round(rounds, is_alone);
            rounds += 1;
            own.sleep(pause);
        }
        shared.ended.fetch_add(1, SeqCst);
        own.poll_until(|_| shared.ended.load(SeqCst) >= RANKS);
        let all_have_arrived =
            |own: &Rank<'_>| (0..RANKS).all(|peer| own.arrived[peer] == shared.sent[peer][rank.index()].load(SeqCst));
        own.poll_until(all_have_arrived);
        let ended = Instant::now();
        for polls in 0.. {
            own.poll();
            if polls >= EVENT_POLLS && ended.elapsed() >= PROBE {
                break;
            }
        }
        shared.ended.fetch_add(1, SeqCst);
        own.poll_until(|_| shared.ended.load(SeqCst) == 2 * RANKS);
    });
    job.stop();
    drop(job);
    assert!(!shared.lost.load(SeqCst), "a peer was lost");
    for (rank, peer) in (0..RANKS).flat_map(|rank| (0..RANKS).map(move |peer| (rank, peer))) {
        let added = memory[(rank * RANKS + peer) * WORDS];
        assert_eq!(
            added * REQUESTS,
            shared.sent[peer][rank].load(SeqCst),
            "atomics of {peer} at {rank}"
        );
    }
}

const CHILD: &str = "--ignored --exact --nocapture traffic";

/// Children run one at a time, because faults come after fixed times.
static ALONE: Mutex<()> = Mutex::new(());

/// By these, all times are multiplied until a run is right: a busy machine needs more time.
const FACTORS: [u32; 3] = [1, 3, 9];

/// Options or variables with their times multiplied.
fn slower(words: &str, factor: u32) -> String {
    let multiplied = |number: &str| (number.parse::<u32>().unwrap() * factor).to_string();
    let word = |word: &str| match word.split_once('=') {
        Some((name, times)) if name == "port-down" => {
            let fields: Vec<&str> = times.split(':').collect();
            let times: Vec<String> = fields[2..].iter().map(|time| multiplied(time)).collect();
            format!("{name}={}:{}:{}", fields[0], fields[1], times.join(":"))
        }
        Some((name, time)) if name.starts_with("IBV_TEST_") => format!("{name}={}", multiplied(time)),
        _ => word.to_owned(),
    };
    words.split_whitespace().map(word).collect::<Vec<String>>().join(" ")
}

/// Runs a child until what `is_right` gets, whether it has passed and what it printed, is right.
fn child(options: &str, variables: &str, is_right: impl Fn(bool, &str) -> bool) {
    let _alone = ALONE.lock();
    let variables = format!("GASNET_QP_TIMEOUT=8 IBV_TEST_END=1200 {variables}");
    let mut printed = String::new();
    for factor in FACTORS {
        let has_passed;
        (has_passed, printed) = emulated::run(&slower(options, factor), &slower(&variables, factor), CHILD);
        if is_right(has_passed, &printed) {
            return;
        }
    }
    panic!("{options} {variables}:\n{printed}");
}

/// The traffic goes on. `are_right` gets the warnings about it, sorted.
fn moves(options: &str, variables: &str, are_right: impl Fn(&[String]) -> bool) {
    let warning = |line: &str| Some(line[line.find("emu")?..].to_owned()).filter(|text| text.contains("goes on"));
    child(options, variables, |has_passed, printed| {
        let mut warnings: Vec<String> = printed.lines().filter_map(warning).collect();
        warnings.sort();
        has_passed && are_right(&warnings)
    });
}

/// The job ends with an error of this port of the first HCA. `is_right` gets what it printed.
fn fails(options: &str, variables: &str, port: u8, is_right: impl Fn(&str) -> bool) {
    let port = format!(": emu0 port {port}: ");
    let is_error = |line: &str| line.contains(&port) && line.contains("failed: transport retry counter exceeded");
    child(options, variables, |has_passed, printed| {
        !has_passed && printed.lines().any(is_error) && is_right(printed)
    });
}

fn went_down(port: u8, other: u8) -> String {
    format!("emu0 port {port} went down: its traffic goes on over port {other}.")
}

#[test]
fn times_are_multiplied() {
    assert_eq!(
        slower("ports=2 port-down=0:1:60:90", 3),
        "ports=2 port-down=0:1:180:270"
    );
    assert_eq!(
        slower("GASNET_QP_TIMEOUT=8 IBV_TEST_END=7", 9),
        "GASNET_QP_TIMEOUT=8 IBV_TEST_END=63"
    );
}

#[test]
fn a_port_of_all_ranks() {
    let expected = vec![went_down(1, 2); RANKS];
    for (options, variables) in [
        ("", ""),
        ("late delay=50", ""),
        ("no-srq", ""),
        ("", "GASNET_CONNECT_STATIC=0"),
        ("", "GASNET_NETWORKDEPTH_PP=4"),
    ] {
        let options = format!("ports=2 port-down=0:1:600 {options}");
        moves(&options, variables, |warnings| warnings == expected);
    }
}

#[test]
fn a_port_of_one_end() {
    // Ranks 0 and 2 are on the first HCA.
    let at_the_other =
        ["0", "2"].map(|rank| format!("emu1 port 1 does not reach rank {rank}: its traffic goes on over port 2."));
    moves("hcas=2 ports=2 port-down=0:1:600", "", |warnings| {
        warnings.len() == 3
            && warnings[..2] == [went_down(1, 2), went_down(1, 2)]
            && at_the_other.contains(&warnings[2])
    });
}

#[test]
fn ports_of_both_ends() {
    moves("hcas=2 ports=2 port-down=0:1:600 port-down=1:1:620", "", |warnings| {
        warnings.len() == 3
    });
}

#[test]
fn ports_in_use_stand_in_for_each_other() {
    let expected = vec![went_down(2, 1); RANKS];
    moves("ports=3 port-down=0:2:600", "GASNET_IBV_PORTS=emu0:1,2", |warnings| {
        warnings == expected
    });
}

#[test]
fn back_and_forth() {
    let expected = [vec![went_down(1, 2); RANKS], vec![went_down(2, 1); RANKS]].concat();
    let faults = "ports=2 port-down=0:1:600:1000";
    for (options, variables) in [
        ("port-down=0:2:1400:1800 port-down=0:1:2200", "IBV_TEST_END=2800"),
        // So few messages that none but the conduit's own arm the queue pairs.
        ("port-down=0:2:1400", "IBV_TEST_END=2000 IBV_TEST_PAUSE=300"),
        // The send queue is full when the HCA has moved it.
        (
            "port-down=0:2:1400 slow-hca=0:20000",
            "IBV_TEST_END=2000 GASNET_NETWORKDEPTH_PP=4",
        ),
    ] {
        moves(&format!("{faults} {options}"), variables, |warnings| {
            warnings == expected
        });
    }
}

#[test]
fn ranks_that_sleep() {
    let expected = [vec![went_down(1, 2); RANKS], vec![went_down(2, 1); RANKS]].concat();
    moves(
        "ports=2 port-down=0:1:600:1000 port-down=0:2:1400",
        "IBV_TEST_END=2000 IBV_TEST_ALONE=1",
        |warnings| warnings == expected,
    );
}

#[test]
fn before_the_first_message() {
    let expected = vec![went_down(1, 2); RANKS];
    for variables in ["", "GASNET_IBV_PORTS=emu0:1,2"] {
        let variables = format!("IBV_TEST_BEGIN=700 {variables}");
        moves("ports=2 port-down=0:1:600", &variables, |warnings| warnings == expected);
    }
}

#[test]
fn no_other_port() {
    for (options, variables) in [
        ("", ""),
        ("ports=2 no-apm", ""),
        ("ports=2 link=roce", ""),
        ("ports=2", "GASNET_IBV_PORTS=emu0"),
        ("ports=2", "GASNET_IBV_GID_INDEX=0"),
    ] {
        let options = format!("{options} port-down=0:1:600");
        fails(&options, variables, 1, |printed| !printed.contains("goes on"));
    }
}

#[test]
fn both_ports() {
    fails("ports=2 port-down=0:1:600 port-down=0:2:600", "", 2, |printed| {
        !printed.contains("goes on")
    });
    let warning = went_down(1, 2);
    fails("ports=2 port-down=0:1:600 port-down=0:2:1000", "", 1, |printed| {
        printed.contains(&warning)
    });
}
