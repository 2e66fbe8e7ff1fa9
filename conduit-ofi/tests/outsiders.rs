//! Reports that unauthenticated peers cause in a provider end nothing, and cost no receive buffer.
//! A rank that sends what no rank sends is lost.

mod strict;

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, JobRank, Network, PollScope};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use strict::{over_strict_provider, poll_until, take, Report};

/// Sends `messages` messages of `bytes` bytes to rank 1, and polls until all is over.
fn send(network: &dyn Network, report: &mut Report, (messages, bytes): (usize, usize), [sent, over]: [&AtomicBool; 2]) {
    let message = vec![1; bytes];
    for _ in 0..messages {
        take(network, report, || {
            network.send(JobRank(1), Class::Request, &[&message]).is_ok()
        });
    }
    sent.store(true, SeqCst);
    poll_until(network, report, |_| over.load(SeqCst));
}

/// Rank 0 sends `messages` messages of `bytes` bytes: more than fit in all receive buffers. The
/// provider of rank 1 garbles some. At least the others arrive, and no peer is lost.
fn outlives(plan: &'static str, (messages, bytes): (usize, usize), least: usize) {
    let job = Job::start(&|| over_strict_provider(plan), 2);
    let [sent, over] = [const { AtomicBool::new(false) }; 2];
    job.run(|rank, network| {
        let mut report = Report::default();
        if rank == JobRank(0) {
            send(network, &mut report, (messages, bytes), [&sent, &over]);
        } else {
            poll_until(network, &mut report, |report| {
                report.done >= least && sent.load(SeqCst) || !report.lost.is_empty()
            });
            over.store(true, SeqCst);
        }
        assert!(report.lost.is_empty(), "{plan}: {:?}", report.lost);
    });
}

/// Buffers for one message each: 64 of them.
const SHORT: (usize, usize) = (300, 100);
/// Buffers for many messages: 8 of 1 MiB. Credits of messages that are dropped do not come back.
const LONG: (usize, usize) = (1600, 8000);

#[test]
fn absurd_lengths() {
    outlives("no=multi_recv claim=1099511627775@2;tcp;ofi_rxm", SHORT, 150);
    outlives("no=multi_recv claim=18446744073709551615@2;tcp;ofi_rxm", SHORT, 150);
    outlives("claim=1073741824@1;tcp;ofi_rxm", LONG, 1560);
    outlives("claim=1073741824@1 late=50;tcp;ofi_rxm", LONG, 1560);
    outlives("as=tcp version=1.20.0 end=any claim=1099511627775@1;tcp", LONG, 1560);
}

#[test]
fn absurd_addresses() {
    outlives("as=tcp version=1.20.0 end=any place=4096@100;tcp", LONG, 1560);
    outlives(
        "as=tcp version=1.20.0 end=bare place=18446744073709551615@100;tcp",
        LONG,
        300,
    );
}

#[test]
fn messages_that_break_off() {
    outlives("fail=receive@1;tcp;ofi_rxm", SHORT, 299);
    outlives("no=multi_recv broken=2;tcp;ofi_rxm", SHORT, 150);
    outlives("as=tcp version=1.20.0 end=any broken=1;tcp", LONG, 1560);
    outlives("as=tcp version=1.20.0 end=bare broken=100 late=50;tcp", LONG, 1560);
}

/// A message of the job's own size that the buffer has not cut off is not the job's.
#[test]
fn messages_that_end_early() {
    outlives("as=tcp version=1.20.0 end=any short=1;tcp", LONG, 1560);
    outlives("as=tcp version=1.20.0 end=bare short=100;tcp", LONG, 1560);
}

#[test]
fn errors_of_no_operation() {
    outlives("stray=none@1;tcp;ofi_rxm", SHORT, 300);
    outlives("stray=foreign@1;tcp;ofi_rxm", SHORT, 300);
    outlives("no=multi_recv stray=foreign@1;tcp;ofi_rxm", SHORT, 300);
}

/// A message that is too long for a buffer of its own is an unauthenticated peer's.
#[test]
fn messages_without_room_in_their_own_buffer() {
    outlives("no=multi_recv cut=1;tcp;ofi_rxm", (2, 5000), 1);
}

/// Threads that poll at once read the texts of their errors.
mod errors_by_threads {
    fn conduit() -> Box<dyn gasnet_conduit::Conduit> {
        crate::strict::over_strict_provider("stray=foreign@32;tcp;ofi_rxm")
    }
    gasnet_conduit::each_check! { over_tcp conduit, many_threads }
}

/// Rank 0 sends messages of this class, each with its number in front. The provider of rank
/// 1 alters some, as if rank 0 were corrupt: rank 1 reports that, with these words.
fn loses_its_sender(plan: &'static str, (messages, bytes, class): (usize, usize, Class), words: &str) {
    let job = Job::start(&|| over_strict_provider(plan), 2);
    let [sent, over] = [const { AtomicBool::new(false) }; 2];
    job.run(|rank, network| {
        let mut report = Report::default();
        if rank == JobRank(0) {
            let mut message = vec![0; bytes];
            for number in 0..messages as u32 {
                message[..4].copy_from_slice(&number.to_ne_bytes());
                message[4] = 1;
                take(network, &mut report, || {
                    network.send(JobRank(1), class, &[&message]).is_ok()
                });
            }
            sent.store(true, SeqCst);
            poll_until(network, &mut report, |_| over.load(SeqCst));
        } else {
            poll_until(network, &mut report, |report| {
                !report.lost.is_empty() || sent.load(SeqCst) && report.done == messages
            });
            over.store(true, SeqCst);
            let lost = report.lost.concat();
            assert!(report.done < messages, "{plan}: all was delivered");
            assert!(lost.contains(words), "{plan}: {lost}");
        }
    });
}

/// 100 requests.
const REQUESTS: (usize, usize, Class) = (100, 100, Class::Request);

#[test]
fn packets_beyond_the_limit() {
    let plan = "as=tcp version=1.20.0 end=bare claim=200000@100;tcp";
    loses_its_sender(plan, REQUESTS, "rank 0: it sent a packet of 199");
}

#[test]
fn impossible_headers() {
    let words = "rank 0: it sent an invalid message header";
    loses_its_sender("byte=14:9@100;tcp;ofi_rxm", REQUESTS, words);
    loses_its_sender("no=multi_recv byte=15:16@100;tcp;ofi_rxm", REQUESTS, words);
    let words = "a message with the job's token came from rank 150994944 of 2";
    loses_its_sender("byte=11:9@100;tcp;ofi_rxm", REQUESTS, words);
}

#[test]
fn credits_that_nothing_cost() {
    let words = "rank 0: it returned 1 credits, more than our requests cost";
    loses_its_sender("byte=12:1@100;tcp;ofi_rxm", REQUESTS, words);
}

/// Packets for puts that never come are kept up to the window of their sender. Replies, which cost
/// no credits, are made requests.
#[test]
fn packets_that_wait_beyond_the_credits() {
    let words = "rank 0: it sent more requests than its credits allow";
    loses_its_sender("byte=14:3@1;tcp;ofi_rxm", (200, 8000, Class::Reply), words);
}

/// A buffer that the provider reports without writing it has no earlier message in it.
#[test]
fn messages_that_were_delivered_before() {
    const MESSAGES: usize = 300;
    let job = Job::start(&|| over_strict_provider("no=multi_recv stale=2;tcp;ofi_rxm"), 2);
    let [sent, over] = [const { AtomicBool::new(false) }; 2];
    job.run(|rank, network| {
        let mut report = Report::default();
        if rank == JobRank(0) {
            send(network, &mut report, (MESSAGES, 100), [&sent, &over]);
        } else {
            poll_until(network, &mut report, |report| {
                report.done >= MESSAGES / 2 && sent.load(SeqCst)
            });
            for _ in 0..1000 {
                network.poll(PollScope::All, &mut report);
            }
            over.store(true, SeqCst);
            assert_eq!(report.done, MESSAGES / 2);
        }
        assert!(report.lost.is_empty(), "{:?}", report.lost);
    });
}
