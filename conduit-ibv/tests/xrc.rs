//! XRC is used where all processes can, and some share ports. A failure names the peer of the work
//! request, although its queue pair leads to others, too.

mod emulated;

use emulated::run_again;
use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Busy, Class, Completion, Cookie, JobRank, Network, PollScope, Upcalls};
use gasnet_conduit_ibv::Ibv;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Counts requests, and prints losses.
#[derive(Default)]
struct Events {
    requests: usize,
    lost: usize,
}

impl Upcalls for Events {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {
        self.requests += 1;
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        eprintln!("lost rank {peer}: {why}");
        self.lost += 1;
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

fn send(network: &dyn Network, peer: JobRank, events: &mut Events) {
    let begun = Instant::now();
    while events.lost == 0 && network.send(peer, Class::Request, &[&[1; 100]]) == Err(Busy) {
        network.poll(PollScope::All, events);
        assert!(begun.elapsed() < Duration::from_secs(30), "rank {peer} was not reached");
    }
}

/// Four ranks send to each other.
#[test]
#[ignore = "a child of other tests"]
fn all_to_all() {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 4);
    let done = AtomicUsize::new(0);
    job.run(|_, network| {
        let mut events = Events::default();
        for peer in (0..4).map(JobRank) {
            send(network, peer, &mut events);
        }
        let begun = Instant::now();
        while events.requests < 4 {
            network.poll(PollScope::All, &mut events);
            assert!(begun.elapsed() < Duration::from_secs(30), "a request did not arrive");
        }
        done.fetch_add(1, SeqCst);
        while done.load(SeqCst) < 4 {
            network.poll(PollScope::All, &mut events);
        }
    });
    job.stop();
}

/// Rank 0 sends to rank 1 and then to rank 3, which are on one host, until it loses one.
#[test]
#[ignore = "a child of other tests"]
fn one_to_two() {
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 4);
    let over = AtomicUsize::new(0);
    job.run(|rank, network| {
        let mut events = Events::default();
        let begun = Instant::now();
        while rank == JobRank(0) && events.lost == 0 {
            send(network, JobRank(1), &mut events);
            send(network, JobRank(3), &mut events);
            assert!(begun.elapsed() < Duration::from_secs(30), "nothing was lost");
        }
        over.fetch_add(usize::from(rank == JobRank(0)), SeqCst);
        while over.load(SeqCst) == 0 {
            network.poll(PollScope::All, &mut events);
        }
        for _ in 0..1000 {
            network.poll(PollScope::All, &mut events);
        }
        assert_eq!(events.lost, usize::from(rank == JobRank(0)));
    });
}

/// The output of a child contains a text.
fn expect(child: &str, options: &str, variables: &str, text: &str) {
    let variables = format!("GASNET_IBV_PORTS_VERBOSE=2 {variables}");
    let printed = run_again(options, &variables, &format!("--ignored --exact --nocapture {child}"));
    assert!(printed.contains(text), "{options} {variables}: {printed}");
}

#[test]
fn a_queue_pair_leads_to_all_processes_of_a_host() {
    for (hosts, pairs) in [(1, 1), (2, 2), (3, 3)] {
        let text = format!("XRC: queue pairs per path to 4 processes: {pairs};");
        for variables in ["", "GASNET_CONNECT_STATIC=0"] {
            let variables = format!("GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS={hosts} {variables}");
            expect("all_to_all", "", &variables, &text);
        }
    }
}

#[test]
fn processes_with_other_ports_have_other_queue_pairs() {
    let text = "XRC: queue pairs per path to 4 processes: 2;";
    expect("all_to_all", "hcas=2", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1", text);
}

#[test]
fn what_keeps_a_job_from_xrc() {
    let lacks = "no XRC: rank 0 does not share receive buffers, or its HCAs lack XRC";
    for (options, variables, text) in [
        ("no-xrc", "", lacks),
        ("fail=open_xrcd:1:9:ENOSYS", "", lacks),
        // An old library has no call for them.
        ("table=352", "", lacks),
        ("", "GASNET_USE_XRC=0", "no XRC: GASNET_USE_XRC is 0"),
        ("", "GASNET_USE_XRC=", "no XRC: the job is small"),
        (
            "",
            "CONFORMANCE_HOSTS=4",
            "no XRC: no two processes of a host use the same ports",
        ),
    ] {
        expect(
            "all_to_all",
            options,
            &format!("GASNET_USE_SRQ=1 GASNET_USE_XRC=1 {variables}"),
            text,
        );
    }
}

/// An HCA that offers XRC may still fail, also in one process alone.
#[test]
fn xrc_that_fails_at_start() {
    let lacks = "does not share receive buffers, or its HCAs lack XRC";
    for fault in [
        "open_xrcd:4:1:ENOMEM",
        "create_srq:2:1:ENOMEM",
        "create_qp:1:1:ENOMEM",
        "create_qp:2:1:EINVAL",
    ] {
        let variables = "GASNET_USE_SRQ=1 GASNET_USE_XRC=1";
        expect("all_to_all", &format!("fail={fault}"), variables, lacks);
    }
}

/// The start of four processes makes 20 queue pairs.
#[test]
fn xrc_that_fails_later() {
    for (errno, text) in [("ENOMEM", "Cannot allocate memory"), ("EINVAL", "Invalid argument")] {
        let fault = format!("fail=create_qp:21:999:{errno}");
        let variables = "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2";
        let (has_passed, printed) = emulated::run(&fault, variables, "--ignored --exact --nocapture all_to_all");
        let whys = [
            "emu0 port 1: connections failed: ",
            text,
            "GASNET_USE_XRC=0 does without XRC",
        ];
        let are_there = whys.iter().all(|why| printed.contains(why));
        assert!(!has_passed && are_there, "{printed}");
        let later = format!("{variables} GASNET_CONNECT_STATIC=0");
        let why = format!("lost rank 1: a connection failed: emu0 port 1: {text}");
        expect("one_to_two", &fault, &later, &why);
        expect("one_to_two", &fault, &later, "GASNET_USE_XRC=0 does without XRC");
    }
}

#[test]
fn a_failure_names_its_peer() {
    // Rank 0 alone sends this many.
    for (number, peer) in [(11, 1), (12, 3)] {
        let text = format!("lost rank {peer}: emu0 port 1: sending a message failed: remote operation error");
        let fault = format!("cqe-error=send:{number}:rem_op");
        expect(
            "one_to_two",
            &fault,
            "GASNET_USE_SRQ=1 GASNET_USE_XRC=1 CONFORMANCE_HOSTS=2",
            &text,
        );
    }
}
