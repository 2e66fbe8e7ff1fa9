//! Calls that fail for a while, and events of the fabric: what passes is survived, and what does
//! not ends the job with a message.

mod emulated;
mod traffic;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, Completion, Cookie, JobRank, Network, PollScope, Upcalls};
use gasnet_conduit_ibv::Ibv;
use std::fs;
use std::time::{Duration, Instant};
use traffic::{expect, is_lost, of_child};

/// Two ranks send, put, get and add until one loses the other, which must be.
#[test]
#[ignore = "a child of other tests"]
fn losing() {
    assert!(is_lost(Duration::from_secs(60)), "nothing was lost");
}

/// The same until well after the last of the faults, which come within 301 ms. Nothing may be lost.
#[test]
#[ignore = "a child of other tests"]
fn lasting() {
    let is_lost = traffic::is_lost_among(1000, Duration::from_millis(600));
    assert!(!is_lost, "something was lost");
}

/// Two ranks send until a message arrives.
#[test]
#[ignore = "a child of other tests"]
fn arriving() {
    traffic::connect();
}

/// Counts reports of a lost network.
#[derive(Default)]
struct Reports(usize);

impl Upcalls for Reports {
    fn packet(&mut self, _: JobRank, _: Class, _: &mut [u8]) {}
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, _: JobRank, _: &str) {}
    fn network_lost(&mut self, why: &str) {
        eprintln!("lost the network: {why}");
        self.0 += 1;
    }
}

/// The HCA is unplugged: each rank reports it once, and the connection threads end.
#[test]
#[ignore = "a child of other tests"]
fn unplugged() {
    const LIMIT: Duration = Duration::from_secs(30);
    emulated::emulate();
    let job = Job::start(&|| Box::new(Ibv), 2);
    let begun = Instant::now();
    job.run(|_, network: &dyn Network| {
        let mut reports = Reports::default();
        while reports.0 == 0 {
            assert!(begun.elapsed() < LIMIT, "nothing was reported");
            network.poll(PollScope::All, &mut reports);
        }
        for _ in 0..20_000 {
            network.poll(PollScope::All, &mut reports);
        }
        assert_eq!(reports.0, 1);
    });
    while connection_threads() > 0 {
        assert!(begun.elapsed() < LIMIT, "a connection thread goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    job.run(|_, network: &dyn Network| network.stop(gasnet_conduit::Stop::Orderly));
}

fn connection_threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.map(|task| fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default());
    names.filter(|name| name.trim() == "gasnet-ibv").count()
}

const LATER: &str = "GASNET_CONNECT_STATIC=0";

#[test]
fn addresses_that_are_resolved_after_some_tries() {
    for errno in ["ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "EAGAIN"] {
        expect(
            "lasting",
            &format!("link=roce resolve-fail=3:{errno}"),
            "",
            &["1 passed"],
        );
    }
    expect(
        "lasting",
        "link=roce resolve-fail=3:ETIMEDOUT ah-fail=3:EAGAIN",
        LATER,
        &["1 passed"],
    );
    let xrc = "GASNET_USE_SRQ=1 GASNET_USE_XRC=1";
    expect("lasting", "link=roce resolve-fail=3:ETIMEDOUT", xrc, &["1 passed"]);
    expect(
        "lasting",
        "link=roce resolve-fail=3:ETIMEDOUT",
        &format!("{xrc} {LATER}"),
        &["1 passed"],
    );
}

#[test]
fn an_address_that_is_never_resolved_at_start() {
    let (has_passed, printed) = emulated::run("link=roce resolve-fail=9999:EHOSTUNREACH", "", &of_child("lasting"));
    let why = "emu0 port 1: No route to host (os error 113) (GID ::ffff:10.0.0.1, the peer's ::ffff:10.0.0.1)";
    assert!(!has_passed && printed.contains("no connection to rank "), "{printed}");
    assert!(printed.contains(why), "{printed}");
}

#[test]
fn an_address_that_is_never_resolved_later() {
    let gids = "(GID ::ffff:10.0.0.1, the peer's ::ffff:10.0.0.1)";
    for fault in ["resolve-fail", "ah-fail"] {
        let printed = emulated::run_again(&format!("link=roce {fault}=9999:ETIMEDOUT"), LATER, &of_child("losing"));
        let why = format!("a connection failed: emu0 port 1: Connection timed out (os error 110) {gids}");
        assert!(printed.contains(&why), "{printed}");
    }
}

#[test]
fn datagrams_that_fail_at_their_sender() {
    let warning = "emu0 port 1: a datagram failed: local QP operation error (vendor error 0x2). It is sent again";
    for fault in ["ud-error=1", "ud-error=2:5", "no-sqe ud-error=1", "no-sqe ud-error=2:5"] {
        let printed = emulated::run_again(fault, LATER, &of_child("lasting"));
        // Both ranks are in one process.
        assert!(
            (1..=2).contains(&printed.matches(warning).count()),
            "{fault}: {printed}"
        );
    }
}

#[test]
fn datagrams_that_always_fail() {
    let why = "lost the network: emu0 port 1: a datagram failed: local QP operation error (vendor error 0x2), as did";
    expect("losing", "ud-error=1:9999", LATER, &[why]);
}

#[test]
fn a_queue_pair_that_dies_by_an_event_alone() {
    for (event, text) in [
        ("qp_fatal", "local work queue catastrophic error"),
        ("qp_req_err", "invalid request local work queue error"),
        ("qp_access_err", "local access violation work queue error"),
    ] {
        let why = format!("emu0 port 1: its queue pair failed: {text}");
        for variables in ["", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1"] {
            let variables = format!("GASNET_QP_TIMEOUT=31 {variables}");
            expect("losing", &format!("qp-event={event}:50"), &variables, &[&why]);
        }
    }
}

#[test]
fn an_hca_that_is_unplugged() {
    for options in ["unplug=0:2000", "unplug=0:2000 destroy-fails"] {
        let printed = emulated::run_again(options, LATER, &of_child("unplugged"));
        assert_eq!(printed.matches("lost the network: emu0: ").count(), 2, "{printed}");
    }
    // A call may fail before the event is there.
    let reasons = [
        "lost the network: emu0: local catastrophic error",
        "failed: Input/output error",
        "cannot be posted: Input/output error",
    ];
    expect("losing", "unplug=0:2000", "", &reasons);
    expect("losing", "unplug=0:2000 destroy-fails", "", &reasons);
}

#[test]
fn events_that_need_nothing() {
    let names = "comm_est sq_drained qp_last_wqe_reached srq_limit_reached lid_change pkey_change sm_change \
                 client_reregister gid_change port_active path_mig_err";
    let each = |link: &str| -> String {
        let words = names
            .split_whitespace()
            .map(|name| format!(" event={name}:0:300 event={name}:0:301"));
        format!("link={link}{}", words.collect::<String>())
    };
    for (link, variables) in [("ib", ""), ("roce", LATER), ("ib", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1")] {
        let printed = emulated::run_again(&each(link), variables, &of_child("lasting"));
        assert!(!printed.contains("WARNING"), "{printed}");
    }
}

#[test]
fn a_port_that_is_not_used_goes_down() {
    let down = "ports=2 event=port_err:0:200:2 event=port_err:0:250:2";
    let printed = emulated::run_again(down, "GASNET_IBV_PORTS=emu0:1", &of_child("lasting"));
    assert!(!printed.contains("WARNING"), "{printed}");
    // An alternate port is used. Both ranks warn, once.
    let printed = emulated::run_again(down, "GASNET_IBV_PORTS=emu0:1,2 GASNET_NUM_QPS=1", &of_child("lasting"));
    assert_eq!(printed.matches("emu0 port 2: port error").count(), 2, "{printed}");
}

#[test]
fn a_gid_that_vanishes() {
    let printed = emulated::run_again("link=roce gid-gone=0:2000", "GASNET_QP_TIMEOUT=8", &of_child("losing"));
    let warning = "emu0 port 1: its GID ::ffff:10.0.0.1 (index 3) was changed or removed";
    assert!((1..=2).contains(&printed.matches(warning).count()), "{printed}");
    assert!(
        printed.contains("failed: transport retry counter exceeded"),
        "{printed}"
    );
}

#[test]
fn a_port_that_changes() {
    for (change, lost) in [
        ("lid-change=0:1:2000", "LID 1"),
        ("hcas=2 pkey-change=0:1:2000:0x8012", "partition key 0xffff (index 0)"),
    ] {
        let warning = format!("emu0 port 1: its {lost} was changed or removed");
        // The other rank may lose this one, and end the job, before this one looks at events.
        let mut runs = (0..5).map(|_| emulated::run_again(change, "GASNET_QP_TIMEOUT=8", &of_child("losing")));
        let printed = runs
            .find(|printed| printed.contains(&warning))
            .expect("no run has the warning");
        assert!(printed.matches(&warning).count() <= 2, "{printed}");
        let why = "failed: transport retry counter exceeded";
        assert!(
            printed.contains(why) && !printed.contains("several networks"),
            "{printed}"
        );
    }
    // The table of the partition that is used stays.
    let same = "pkey-change=0:1:300:0xffff,0x8012";
    let printed = emulated::run_again(same, "", &of_child("lasting"));
    assert!(!printed.contains("WARNING"), "{printed}");
}

#[test]
fn polls_go_on_while_addresses_are_resolved() {
    // Calls that poll threads make block for two seconds: twelve of them would be too long.
    let blocking = "link=roce ah-fail=12:ETIMEDOUT resolve-polls=500";
    expect("arriving", blocking, LATER, &["1 passed"]);
}
