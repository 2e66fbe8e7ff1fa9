//! Messages that no intact process posts: the process that posts them is lost, by name, and no
//! handler runs on them.

mod emulated;
mod traffic;

use gasnet_conduit::conformance::talk_under_forgery;
use gasnet_conduit::{Class, PollScope};
use gasnet_conduit_ibv::Ibv;
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

/// Two ranks send to a third one until one loses another.
#[test]
#[ignore = "a child of other tests"]
fn fanning_in() {
    traffic::pour(3, Class::Request, 100, PollScope::All);
}

fn expect_loss(forgery: &str, why: &str) {
    expect_one_of(forgery, &[why]);
}

fn expect_one_of(forgery: &str, whys: &[&str]) {
    for (options, variables) in WAYS {
        for nth in [2, 9] {
            let forged = forgery.replace('N', &nth.to_string());
            let begins = ["rank 0 lost rank 1: ", "rank 1 lost rank 0: "];
            let lines = begins
                .iter()
                .flat_map(|begin| whys.iter().map(move |why| format!("{begin}{why}")));
            let lines: Vec<String> = lines.collect();
            let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
            expect("traffic", &format!("{options} forge={forged}"), variables, &texts);
        }
    }
}

/// Rank 1 sends replies until rank 0 loses it.
#[test]
#[ignore = "a child of other tests"]
fn pouring() {
    let bytes = std::env::var("FORGED_BYTES").unwrap();
    traffic::pour(2, Class::Reply, bytes.parse().unwrap(), PollScope::Replies);
}

/// Ranks talk while a message is altered.
#[test]
#[ignore = "a child of other tests"]
fn talking() {
    emulated::emulate();
    talk_under_forgery(&|| Box::new(Ibv));
}

/// One field of a message at random: its operation, length, immediate word, or a byte.
#[test]
fn messages_altered_at_random() {
    const SEEDS: usize = 50;
    // The last fetches large packets.
    let ways = [WAYS[0], WAYS[1], WAYS[2], WAYS[3], ("no-srq", "GASNET_RBUF_COUNT=40")];
    let losses = emulated::EMULATOR.forge("talking", &ways, 0..SEEDS);
    assert!(losses > SEEDS / 4, "{losses} losses");
}

/// As many as there can be, beside those that are left.
#[test]
fn more_credits_than_were_paid() {
    expect_loss("imm:N:0x3f000000", "it returned ");
}

/// Replies that are altered need no credits. Rank 0 keeps requests, as it receives replies only.
#[test]
fn more_requests_than_credits() {
    let words: Vec<String> = (1..=100).map(|nth| format!("forge=imm:{nth}:0x40000000")).collect();
    let text = "rank 0 lost rank 1: it sent a request beyond its 24 credits";
    expect("pouring", &words.join(" "), "FORGED_BYTES=100", &[text]);
}

#[test]
fn notes_that_are_impossible() {
    for (bytes, why) in [
        (4, "it acknowledged packet 117901063, which was never offered to it"),
        (22, "it offers a packet of 117901063 bytes on path 7"),
        (5, "it sent a malformed note of 5 bytes"),
    ] {
        let text = format!("rank 0 lost rank 1: {why}");
        expect(
            "pouring",
            "forge=imm:3:0xc0000000",
            &format!("FORGED_BYTES={bytes}"),
            &[&text],
        );
    }
}

#[test]
fn a_write_with_immediate_data() {
    let why = "it sent what is no message: opcode 129, flags 0x2, 8000000 bytes";
    expect_loss("write:N:8000000", why);
    // Short enough for its buffer: its opcode alone is wrong.
    let why = "it sent what is no message: opcode 129, flags 0x2, 100 bytes";
    expect_loss("write:N:100", why);
}

#[test]
fn a_message_without_a_word() {
    expect_loss("no-imm:N", "it sent what is no message: opcode 128, flags 0x0, ");
}

#[test]
fn a_message_that_no_buffer_holds() {
    // Its sender notices, too, and may be the first.
    let refused =
        ["emu0", "emu1"].map(|hca| format!("{hca} port 1: sending a message failed: remote invalid request error"));
    let whys = ["it sent more than a receive buffer holds: ", &refused[0], &refused[1]];
    expect_one_of("length:N:100000", &whys);
}

#[test]
fn a_message_of_another_rank() {
    expect_loss("imm:N:0xfffffc", "it sent a message as rank 1677721");
    // The receiver itself.
    expect_loss("imm:N:1", "it sent a message as rank ");
    // One that is connected, by another queue pair.
    let texts = [(1, 2), (2, 1)].map(|(of, posed)| format!("rank 0 lost rank {of}: it sent a message as rank {posed}"));
    for (options, variables) in WAYS {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        expect("fanning_in", &format!("{options} forge=imm:3:3"), variables, &texts);
    }
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
