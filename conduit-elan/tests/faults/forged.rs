//! Messages that no intact process sends: the process whose they are is lost, by name.

use crate::driver::{child, pair, Inbox};
use crate::emulated::{self, EMULATOR};
use gasnet_conduit::conformance::{job_number, talk_under_forgery};
use gasnet_conduit::{Class, JobRank};
use gasnet_conduit_elan::Elan;

/// Ranks talk while a message is altered.
#[test]
#[ignore = "a child of other tests"]
fn talking() {
    emulated::emulate();
    talk_under_forgery(&|| Box::new(Elan::of_job(job_number())));
}

/// Bits at random: of the length of a short message, or the length of a long one.
#[test]
fn messages_altered_at_random() {
    const SEEDS: usize = 50;
    let ways = [("", ""), ("flavour=elan3", ""), ("late reorder", "")];
    let losses = EMULATOR.forge("forged::talking", &ways, 0..SEEDS);
    assert!(losses > SEEDS / 4, "{losses} losses");
}

/// Rank 0 sends a short message, and a long one for which a buffer waits.
#[test]
#[ignore = "a child of other tests"]
fn two_messages() {
    let (job, mut inbox) = (pair(), Inbox::default());
    for bytes in [100, 10_000] {
        job.of(0).send(JobRank(1), Class::Request, &[&vec![1; bytes]]).unwrap();
    }
    inbox.wait(job.of(1), "a message", |inbox| {
        inbox.packets.len() + inbox.losses.len() == 2
    });
    eprintln!("{} packets, losses: {:?}", inbox.packets.len(), inbox.losses);
    job.stop();
}

#[test]
fn lengths_beyond_their_buffers() {
    for (forgery, loss) in [
        (
            "head:1:0xfff00000000",
            "it sent a message that is longer than a slot of the queue",
        ),
        ("length:1:1000000", "it sent 1000000 bytes to a buffer of 66560"),
    ] {
        let printed = child("forged::two_messages", &format!("forge={forgery}"), "");
        let line = format!("1 packets, losses: [\"rank 0: {loss}\"]");
        assert!(printed.contains(&line), "{forgery}: {printed}");
    }
}

/// A message without a sender: the network is lost instead of a rank.
#[test]
fn numbers_of_no_rank() {
    let printed = child("forged::two_messages", "forge=head:1:0x80000000", "");
    assert!(
        printed.contains("a message with a head that no process has written"),
        "{printed}"
    );
}
