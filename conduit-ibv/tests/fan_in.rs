//! Many ranks send to one, which has one receive queue for all of them.

mod emulated;

use gasnet_conduit::conformance::{expose, put, Completed, Job};
use gasnet_conduit::{Busy, Class, Completion, Cookie, JobRank, Network, PollScope, SegmentMemory, SourceUse, Upcalls};
use gasnet_conduit_ibv::Ibv;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::Barrier;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// By `FAN_IN`; by default more than the buffers of a shared queue are enough for, with 24 credits.
fn ranks() -> u32 {
    std::env::var("FAN_IN").map_or(24, |ranks| ranks.parse().unwrap())
}

/// All ranks but one send requests until they have no credits left, and then put, while that one
/// does not poll: every put must complete.
#[test]
#[ignore = "a child of other tests"]
fn inattentive() {
    emulated::emulate();
    let ranks = ranks();
    let job = Job::start(&|| Box::new(Ibv), ranks);
    let words: Vec<AtomicU64> = (0..ranks).map(|_| AtomicU64::new(0)).collect();
    let segment = SegmentMemory::host(words.as_ptr() as usize, 8 * ranks as usize);
    let others: Vec<&dyn Network> = (1..ranks as usize).map(|rank| job.of(rank)).collect();
    let (_, targets) = expose((JobRank(0), job.of(0)), &segment, &others);
    let (barrier, sent) = (Barrier::new(ranks as usize - 1), AtomicU32::new(0));
    job.run(|rank, network: &dyn Network| {
        let Some(index) = rank.index().checked_sub(1) else {
            return;
        };
        let mut done = Completed::default();
        for _ in 0..200 {
            while network.send(JobRank(0), Class::Request, &[&[1; 2000]]).is_ok() {
                sent.fetch_add(1, SeqCst);
            }
            network.poll(PollScope::All, &mut done);
        }
        barrier.wait();
        let (begun, target) = (Instant::now(), targets[index].plus(8 * rank.index()));
        while put(network, target, &7_u64.to_ne_bytes(), SourceUse::Now, Cookie::new(1)) == Err(Busy) {
            network.poll(PollScope::All, &mut done);
            assert!(begun.elapsed() < LIMIT, "there is no room for a put");
        }
        while !done.0 {
            network.poll(PollScope::All, &mut done);
            assert!(begun.elapsed() < LIMIT, "a put waits for rank 0 to poll");
        }
    });
    eprintln!("{} requests wait", sent.load(SeqCst));
    assert!(words[1..].iter().all(|word| word.load(SeqCst) == 7));
    job.stop();
}

/// Counts requests, and answers each.
#[derive(Default)]
struct Answers {
    requests: u64,
    to: Vec<JobRank>,
}

impl Upcalls for Answers {
    fn packet(&mut self, peer: JobRank, class: Class, _: &mut [u8]) {
        if class == Class::Request {
            self.requests += 1;
            self.to.push(peer);
        }
    }
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} is lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        panic!("the network is lost: {why}");
    }
}

/// A flood to one rank: prints how many requests a second it answers.
#[test]
#[ignore = "prints figures"]
fn flood() {
    emulated::emulate();
    let ranks = ranks();
    let job = Job::start(&|| Box::new(Ibv), ranks);
    let (each, ended) = (2000_u64, AtomicU32::new(0));
    let all = each * u64::from(ranks - 1);
    let begun = Instant::now();
    job.run(|rank, network: &dyn Network| {
        let mut answers = Answers::default();
        if rank != JobRank(0) {
            for _ in 0..each {
                while network.send(JobRank(0), Class::Request, &[&[1; 2000]]) == Err(Busy) {
                    network.poll(PollScope::All, &mut answers);
                }
            }
            ended.fetch_add(1, SeqCst);
        }
        while rank == JobRank(0) && answers.requests < all || ended.load(SeqCst) < ranks - 1 {
            network.poll(PollScope::All, &mut answers);
            for peer in std::mem::take(&mut answers.to) {
                while network.send(peer, Class::Reply, &[&[2; 64]]) == Err(Busy) {
                    network.poll(PollScope::Replies, &mut answers);
                }
            }
        }
    });
    let milliseconds = begun.elapsed().as_millis().max(1);
    eprintln!("{} requests a second", u128::from(all) * 1000 / milliseconds);
    job.stop();
}

#[test]
fn puts_pass_requests_that_a_rank_does_not_receive() {
    for sharing in [
        "GASNET_USE_SRQ=1 GASNET_USE_XRC=0",
        "GASNET_USE_SRQ=1 GASNET_USE_XRC=1",
        "GASNET_USE_SRQ=0",
    ] {
        let options = format!("GASNET_RBUF_COUNT=512 {sharing}");
        let printed = emulated::run_again("report", &options, "--ignored --exact --nocapture inattentive");
        assert!(printed.contains(": 0 RNR NAKs"), "{printed}");
    }
}
