//! Ranks that sleep until their NIC has something.

use crate::driver::{child, start_job, Driver};
use gasnet_conduit::{Busy, Class, JobRank, PollScope};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Messages, before each of which the receiver sleeps.
const MESSAGES: usize = 5;

/// Milliseconds that end a sleep from which nothing wakes, on any machine.
const HANG: i32 = 30_000;

/// Rank 1 sleeps until rank 0 has sent, again and again.
#[test]
#[ignore = "a child of other tests"]
fn sleeps() {
    let job = start_job();
    let (lost, requests) = (AtomicBool::new(false), AtomicUsize::new(0));
    // Messages that rank 1 is going to sleep for.
    let wanted = AtomicUsize::new(0);
    job.run(|rank, network| {
        let mut driver = Driver::new(rank, network, &lost, &requests);
        if rank == JobRank(0) {
            for number in 0..MESSAGES {
                assert!(driver.wait("its sleep", |_| wanted.load(SeqCst) > number));
                let sends = |driver: &mut Driver| {
                    driver.network.send(JobRank(1), Class::Request, &[&[number as u8; 300]]) != Err(Busy)
                };
                assert!(driver.wait("a message", sends));
            }
            assert!(driver.wait("the last message", |_| requests.load(SeqCst) == MESSAGES));
            return;
        }
        let wake = network.abilities().wake.expect("completion channels");
        for number in 1..=MESSAGES {
            loop {
                network.poll(PollScope::All, &mut driver);
                if requests.load(SeqCst) == number {
                    break;
                }
                wanted.store(number, SeqCst);
                let mut item = libc::pollfd {
                    fd: wake.fd(),
                    events: libc::POLLIN,
                    revents: 0,
                };
                // SAFETY: one descriptor.
                let is_woken = !wake.arm() || unsafe { libc::poll(&raw mut item, 1, HANG) } == 1;
                assert!(is_woken, "message {number} wakes nobody");
            }
        }
    });
    eprintln!("all is received");
    job.stop();
}

/// An armed channel reports one event, and none of those that were there before.
#[test]
fn channels_are_armed_for_each_event() {
    let printed = child("wakes::sleeps", "", "");
    assert!(printed.contains("all is received"), "{printed}");
}

/// A message arrives while the channel is being armed.
#[test]
fn arrivals_before_a_sleep_are_seen() {
    let printed = child("wakes::sleeps", "slow-arm=100000", "");
    assert!(printed.contains("all is received"), "{printed}");
}
