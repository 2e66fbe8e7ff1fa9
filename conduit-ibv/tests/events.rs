//! Calls that fail for a while, and events of the fabric: what passes is survived, and what does not
//! ends the job with a message.

mod emulated;
mod traffic;

use std::time::Duration;
use traffic::{expect, is_lost, of_child};

/// Two ranks send, put, get and add until one loses the other, which must be.
#[test]
#[ignore = "a child of other tests"]
fn losing() {
    assert!(is_lost(Duration::from_secs(60)), "nothing was lost");
}

/// The same for a while, in which nothing may be lost.
#[test]
#[ignore = "a child of other tests"]
fn lasting() {
    assert!(!is_lost(Duration::from_secs(2)), "something was lost");
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
    for fault in ["ud-error=1", "ud-error=2:5"] {
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
