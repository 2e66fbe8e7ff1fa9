//! Faults of the network: each ends in a message that names the HCA, the port, the operation and
//! the status, after a bounded time.

mod emulated;

use emulated::run_again;
use gasnet_conduit::conformance::{expose, get, put, start_info, Job};
use gasnet_conduit::{
    atomic_codes as codes, Atomic, Class, Completion, Conduit, Cookie, JobRank, PollScope, SegmentMemory, SourceUse,
    Upcalls,
};
use gasnet_conduit_ibv::Ibv;
use gasnet_sys::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Prints losses.
struct Losses<'a> {
    rank: JobRank,
    any: &'a AtomicBool,
}

impl Upcalls for Losses<'_> {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
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

/// Two ranks send, put, get and add until one loses the other, which must be.
#[test]
#[ignore = "a child of other tests"]
fn traffic() {
    assert!(is_lost(Duration::from_secs(30)), "nothing was lost");
}

/// The same for as long as a port is down and up again: nothing may be lost.
#[test]
#[ignore = "a child of other tests"]
fn endurance() {
    assert!(!is_lost(Duration::from_secs(2)), "something was lost");
}

/// Whether a rank loses another before so much time has passed.
fn is_lost(limit: Duration) -> bool {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv::new()), 2);
    let word = AtomicU64::new(0);
    let mut memory = vec![0_u64; 8192];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, 65536);
    let (_, targets) = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]);
    let counter = SegmentMemory::host(word.as_ptr() as usize, 8);
    let (_, counters) = expose((JobRank(1), job.of(1)), &counter, &[job.of(0)]);
    let (any, begun) = (AtomicBool::new(false), Instant::now());
    job.run(|rank, conduit: &dyn Conduit| {
        let mut losses = Losses { rank, any: &any };
        let (source, mut destination, mut old) = (vec![7; 20_000], vec![0; 20_000], 0_u64);
        while begun.elapsed() < limit && !any.load(SeqCst) {
            let _ = conduit.send(JobRank(1 - rank.0), Class::Request, &[&[1; 100]]);
            if rank == JobRank(0) {
                let cookie = Cookie::new(1);
                let _ = put(conduit, targets[0], &source, SourceUse::Now, cookie);
                let _ = get(conduit, targets[0], &mut destination, cookie);
                let add = Atomic {
                    target: counters[0],
                    dt: codes::U64,
                    op: codes::ADD,
                    operands: [1, 0],
                    fetched: (&raw mut old).cast(),
                    cookie,
                };
                let _ = conduit.atomics().unwrap().atomic(&add);
            }
            for _ in 0..100 {
                conduit.poll(PollScope::All, &mut losses);
            }
        }
        // The destination of a get is written until the conduit has stopped.
        conduit.stop(gasnet_conduit::Stop::Orderly);
    });
    any.load(SeqCst)
}

/// A rank starts alone, and says why not.
#[test]
#[ignore = "a child of other tests"]
fn start() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = Ibv::new().start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    eprintln!("{}", started.map_or_else(|why| why.message, |()| "started".to_owned()));
}

/// A rank starts alone, and prints how much its segments may take.
#[test]
#[ignore = "a child of other tests"]
fn most_bytes() {
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let conduit = Ibv::new();
    conduit
        .start(&start_info(JobRank(0), &[JobRank(0)], &exchange))
        .unwrap();
    eprintln!("{} MB", conduit.segments().unwrap().max_bytes() >> 20);
}

/// A rank whose limit on locked memory is below the hard limit starts, and prints whether the
/// limit is raised.
#[test]
#[ignore = "a child of other tests"]
fn raised_limit() {
    const LOW: u64 = 1 << 20;
    let limit = || process::raise_limit(libc::RLIMIT_MEMLOCK as i32, 0).unwrap();
    let low = libc::rlimit {
        rlim_cur: LOW.min(limit().rlim_max / 2),
        rlim_max: limit().rlim_max,
    };
    // SAFETY: a live structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const low) }, 0);
    emulated::emulate();
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let started = Ibv::new().start(&start_info(JobRank(0), &[JobRank(0)], &exchange));
    started.unwrap();
    eprintln!("raised: {}", limit().rlim_cur == limit().rlim_max);
}

/// The arguments for one child.
fn of_child(name: &str) -> String {
    format!("--ignored --exact --nocapture {name}")
}

/// What a child printed contains one of these.
fn expect(child: &str, options: &str, variables: &str, texts: &[&str]) {
    let printed = run_again(options, variables, &of_child(child));
    assert!(texts.iter().any(|text| printed.contains(text)), "{options}: {printed}");
}

#[test]
fn a_dropped_connection() {
    let why = |what| format!("emu0 port 1: {what} failed: transport retry counter exceeded");
    let any = ["sending a message", "a put", "a get", "an atomic"].map(why);
    expect(
        "traffic",
        "drop-connection=50",
        "GASNET_QP_TIMEOUT=8",
        &any.each_ref().map(String::as_str),
    );
}

#[test]
fn completions_in_error() {
    for (fault, why) in [
        (
            "send:9:rem_op",
            "port 1: sending a message failed: remote operation error",
        ),
        ("write:3:rem_access", "port 1: a put failed: remote access error"),
        ("read:3:rem_access", "port 1: a get failed: remote access error"),
        (
            "atomic:2:rem_inv_req",
            "port 1: an atomic failed: remote invalid request error",
        ),
    ] {
        expect("traffic", &format!("cqe-error={fault}"), "", &[why]);
    }
}

#[test]
fn a_port_goes_down() {
    let why = "emu0 port 1: port error";
    expect("traffic", "port-down=0:1:100", "GASNET_QP_TIMEOUT=8", &[why]);
    expect(
        "traffic",
        "port-down=0:1:100",
        "GASNET_QP_TIMEOUT=8",
        &["failed: transport retry counter exceeded"],
    );
}

#[test]
fn a_port_that_comes_back_loses_nothing() {
    let warns = "emu0 port 1: port error";
    expect("endurance", "port-down=0:1:100:400", "", &[warns]);
}

#[test]
fn an_hca_fails() {
    expect(
        "traffic",
        "device-fatal=0:100",
        "GASNET_QP_TIMEOUT=8",
        &["emu0: local catastrophic error", "failed: transport retry"],
    );
}

#[test]
fn the_limit_on_locked_memory_is_raised() {
    expect("raised_limit", "", "", &["raised: true"]);
    expect("raised_limit", "", "GASNET_MAXIMIZE_MEMLOCK=0", &["raised: false"]);
}

#[test]
fn queue_pairs_run_out() {
    for variables in ["", "GASNET_CONNECT_STATIC=0"] {
        let (has_passed, printed) = emulated::run("max-qp=3", variables, &of_child("traffic"));
        let why = "It has 3 queue pairs for all processes of its host";
        assert!(printed.contains(why), "{has_passed} {variables}: {printed}");
    }
}

#[test]
fn a_port_that_is_given_up_early() {
    let few = "GASNET_QP_RETRY_COUNT=1 GASNET_QP_TIMEOUT=14";
    let why = "failed: transport retry counter exceeded";
    expect("traffic", "port-down=0:1:100:2000", few, &[why]);
}

#[test]
fn a_probe_finds_the_limit() {
    let few = "GASNET_PHYSMEM_MAX=1G GASNET_RBUF_COUNT=64";
    let probe = format!("{few} GASNET_PHYSMEM_PROBE=1");
    expect("most_bytes", "pin-limit=268435456", few, &["\n1019 MB"]);
    // Less than 256 MB, as there are buffers.
    expect("most_bytes", "pin-limit=268435456", &probe, &["can register 24"]);
    expect("most_bytes", "pin-limit=268435456", &probe, &["\n24"]);
    expect("most_bytes", "", &probe, &["register 1024 MB"]);
    let printed = run_again("", &format!("{probe} GASNET_PHYSMEM_WARN=0"), &of_child("most_bytes"));
    assert!(!printed.contains("can register"), "{printed}");
}

#[test]
fn hcas_that_do_not_page_on_demand() {
    let warning = "do not page on demand";
    expect("start", "no-odp", "", &[warning]);
    expect(
        "start",
        "no-odp",
        "GASNET_ODP_VERBOSE=2",
        &["rank 0: no paging on demand"],
    );
    for (options, variables) in [
        ("", ""),
        ("no-odp", "GASNET_ODP_VERBOSE=0"),
        ("no-odp", "GASNET_USE_ODP=0"),
    ] {
        let printed = run_again(options, variables, &of_child("start"));
        assert!(!printed.contains(warning), "{options} {variables}: {printed}");
    }
}

#[test]
fn requests_that_nobody_answers() {
    let variables = "GASNET_CONNECT_STATIC=0 GASNET_CONNECT_RETRANS_MIN=1000 GASNET_CONNECT_RETRANS_MAX=1500000";
    let why = "it has not answered connection requests for 1 seconds";
    expect("traffic", "ud-loss=100", variables, &[why]);
}

#[test]
fn memory_that_cannot_be_registered() {
    for fault in ["no-odp reg-fail=1", "reg-fail=2", "pin-limit=100000"] {
        expect("start", fault, "", &["Cannot allocate memory"]);
    }
    // Paging on demand is done without.
    expect("start", "reg-fail=1", "", &["started"]);
}
