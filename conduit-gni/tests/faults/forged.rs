//! Messages and events that no intact process posts: the process whose they are is lost, by name.

use crate::driver::child;
use crate::emulated::{self, EMULATOR};
use gasnet_conduit::conformance::{job_number, talk_under_forgery};
use gasnet_conduit_gni::Gni;

/// Ranks talk while a message or an event is altered.
#[test]
#[ignore = "a child of other tests"]
fn talking() {
    emulated::emulate();
    talk_under_forgery(&|| Box::new(Gni::of_job(job_number())));
}

/// Bits at random: of the kind and index of an event, or of one of the first words of a message.
#[test]
fn messages_altered_at_random() {
    const SEEDS: usize = 50;
    let ways = [
        ("", ""),
        ("", "GASNET_NETWORKDEPTH=8"),
        ("flavour=gemini", ""),
        ("late reorder", ""),
    ];
    let losses = EMULATOR.forge("forged::talking", &ways, 0..SEEDS);
    assert!(losses > SEEDS / 8, "{losses} losses");
}

/// Requests with replies and without, of which one message or event is altered. Returns the reasons
/// of the losses.
fn losses(forgery: &str) -> Vec<String> {
    let mut all = Vec::new();
    for kind in ["send", "ask"] {
        for nth in 1..=8 {
            let options = format!("forge={}", forgery.replace('N', &nth.to_string()));
            let variables = format!("FAULTS_KINDS={kind} GASNET_NETWORKDEPTH=8");
            let printed = child("posts::operations", &options, &variables);
            for line in printed.lines().filter(|line| line.contains(" lost ")) {
                let reason = line.split_once(": ").map_or("", |(_, reason)| reason);
                let is_by_name = ["rank 0 lost rank 1: ", "rank 1 lost rank 0: "].map(|begin| line.starts_with(begin));
                assert!(is_by_name.contains(&true), "{options} {variables}: {printed}");
                all.push(reason.to_owned());
            }
        }
    }
    all
}

/// The Nth message may be of any kind. Over all, these reasons are among those of the losses.
fn expect(forgery: &str, reasons: &[&str]) {
    let all = losses(forgery);
    for reason in reasons {
        assert!(all.iter().any(|found| found.starts_with(reason)), "{forgery}: {all:?}");
    }
}

#[test]
fn events_with_an_index_that_there_is_not() {
    expect(
        "event:N:0xfc00000",
        &[
            "it sent an invalid event (Request, index 6",
            "it sent an invalid event (Reply, index 6",
            "a malformed message was fetched",
        ],
    );
}

/// Index 5, of four places.
#[test]
fn an_index_beyond_the_reply_buffers() {
    let printed = child("posts::operations", "forge=event:2:0x21400000", "FAULTS_KINDS=ask");
    let wanted = "rank 0 lost rank 1: it sent an invalid event (WaitingReply, index 5)";
    assert!(printed.contains(wanted), "{printed}");
}

#[test]
fn events_of_no_kind() {
    let printed = child("posts::operations", "forge=event:1:0xf0000000", "FAULTS_KINDS=ask");
    let is_named = ["rank 0 lost rank 1: ", "rank 1 lost rank 0: "]
        .map(|begin| format!("{begin}it sent an invalid event (0x"))
        .iter()
        .any(|text| printed.contains(text));
    assert!(is_named, "{printed}");
}

/// The second event says that words have changed: rank 0 has got space. It becomes that of a reply
/// that was fetched, though none waits.
#[test]
fn events_of_another_kind() {
    let printed = child("posts::operations", "forge=event:2:0x10000000", "FAULTS_KINDS=ask");
    let loss = "rank 0 lost rank 1: it sent an invalid event (Fetched, index 0)";
    assert!(printed.contains(loss), "{printed}");
}

#[test]
fn lengths_beyond_their_space() {
    expect("data:N:0xfffff", &["a malformed message has arrived"]);
}

/// Within the space, but longer than any packet.
#[test]
fn lengths_beyond_the_largest_packet() {
    expect("data:N:0x1000", &["a malformed message has arrived"]);
}

#[test]
fn slots_that_there_are_not() {
    expect("data:N:0x1fffff00000", &["a malformed message has arrived"]);
}

#[test]
fn words_of_spaces_that_there_are_not() {
    expect("data:N:0xff00", &["it sent an invalid event (Released, index 0)"]);
}
