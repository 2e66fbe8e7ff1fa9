//! Messages that no intact process posts: the process that posts them is lost, by name, and no
//! handler runs on them.

mod emulated;
mod traffic;

use std::time::Duration;
use traffic::{expect, is_lost, of_child};

/// Shared receive buffers, those of queue pairs, and several HCAs.
const WAYS: [(&str, &str); 4] = [
    ("", ""),
    ("", "GASNET_USE_SRQ=0"),
    ("hcas=2", ""),
    ("", "GASNET_USE_SRQ=1 GASNET_USE_XRC=1"),
];

/// Two ranks without a connection send until both have a message.
#[test]
#[ignore = "a child of other tests"]
fn arriving() {
    traffic::connect();
}

/// Two ranks send, put, get and add until one loses the other, which must be.
#[test]
#[ignore = "a child of other tests"]
fn traffic() {
    assert!(is_lost(Duration::from_secs(30)), "nothing was lost");
}

fn expect_loss(forgery: &str, why: &str) {
    for (options, variables) in WAYS {
        for nth in [2, 9] {
            let forged = forgery.replace('N', &nth.to_string());
            let lines = ["rank 0 lost rank 1: ", "rank 1 lost rank 0: "].map(|begin| format!("{begin}{why}"));
            let options = format!("{options} forge={forged}");
            expect("traffic", &options, variables, &lines.each_ref().map(String::as_str));
        }
    }
}

#[test]
fn a_write_with_immediate_data() {
    let why = "it sent what is no message: opcode 129, flags 0x2, 8000000 bytes";
    expect_loss("write:N:8000000", why);
}

#[test]
fn a_message_without_a_word() {
    expect_loss("no-imm:N", "it sent what is no message: opcode 128, flags 0x0, ");
}

#[test]
fn a_message_that_no_buffer_holds() {
    expect_loss("length:N:100000", "it sent more than a receive buffer holds: ");
}

#[test]
fn a_message_of_another_rank() {
    expect_loss("imm:N:0xfffffc", "it sent a message as rank 1677721");
    // The receiver itself.
    expect_loss("imm:N:1", "it sent a message as rank ");
}

#[test]
fn a_malformed_note() {
    expect_loss("imm:N:0x80000000", "it sent a malformed note of 100 bytes");
}

/// No datagram of an outsider stops the queue pair, even if it fills the MTU. One without the job's
/// Q_Key takes no buffer, so that a single one suffices.
#[test]
fn datagrams_of_outsiders() {
    let later = "GASNET_CONNECT_STATIC=0";
    let single = "GASNET_CONNECT_STATIC=0 GASNET_CONNECT_RCVS=1";
    for (outsider, variables) in [("4096", later), ("300", later), ("3", later), ("3:6776184", single)] {
        let printed = emulated::run_again(
            &format!("report ud-outsider={outsider}"),
            variables,
            &of_child("arriving"),
        );
        assert!(
            printed.contains(" RNR NAKs") && !printed.contains(" lost "),
            "{outsider}: {printed}"
        );
        assert!(!printed.contains("longer than their receives"), "{outsider}: {printed}");
    }
}
