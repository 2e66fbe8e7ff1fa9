//! Progress while a client does not poll: the conduit's progress thread makes it.

use gasnet_conduit::conformance::{expose, get, put, Job};
use gasnet_conduit::{
    Class, Completion, Conduit, Cookie, JobRank, Network, PollScope, SegmentMemory, SourceUse, Upcalls, WakePromise,
};
use gasnet_conduit_udp::Udp;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Barrier;
use std::thread::sleep;
use std::time::{Duration, Instant};

const BYTES: usize = 300 << 10;
/// Enough for several windows.
const REQUESTS: u32 = 2000;
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Inbox {
    packets: Vec<Vec<u8>>,
    done: Vec<u64>,
}

impl Upcalls for Inbox {
    fn packet(&mut self, _source: JobRank, _class: Class, packet: &mut [u8]) {
        self.packets.push(packet.to_vec());
    }
    fn done(&mut self, cookie: Cookie, _: Completion) {
        self.done.push(cookie.bits());
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer}: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// Polls until a condition holds.
fn until(network: &dyn Network, inbox: &mut Inbox, holds: impl Fn(&Inbox) -> bool) {
    let began = Instant::now();
    while !holds(inbox) {
        network.poll(PollScope::All, inbox);
        assert!(
            began.elapsed() < LIMIT,
            "{} packets, {:?}",
            inbox.packets.len(),
            inbox.done
        );
    }
}

fn pair() -> Job {
    let make = || -> Box<dyn Conduit> { Box::new(Udp) };
    Job::start(&make, 2)
}

#[test]
fn transfers_progress_without_target_polls() {
    let job = pair();
    let mut memory = vec![0u64; BYTES / 8];
    let segment = SegmentMemory::host(memory.as_mut_ptr() as usize, BYTES);
    let target = expose((JobRank(1), job.of(1)), &segment, &[job.of(0)]).1[0];
    let over = Barrier::new(2);
    job.run_threads(1, |rank, _, network| {
        if rank == JobRank(1) {
            // This rank computes.
            over.wait();
            return;
        }
        let mut inbox = Inbox::default();
        let source: Vec<u8> = (0..BYTES).map(|i| (i * 7 + i / 256) as u8).collect();
        put(network, target, &source, SourceUse::Later, Cookie::new(1)).unwrap();
        until(network, &mut inbox, |inbox| inbox.done == [1]);
        let mut copy = vec![0u8; BYTES];
        get(network, target, &mut copy, Cookie::new(2)).unwrap();
        until(network, &mut inbox, |inbox| inbox.done == [1, 2]);
        assert!(copy == source);
        over.wait();
    });
    job.stop();
}

#[test]
fn requests_are_deferred_while_the_target_computes() {
    let job = pair();
    let (sent, over) = (Barrier::new(2), Barrier::new(2));
    job.run_threads(1, |rank, _, network| {
        let mut inbox = Inbox::default();
        if rank == JobRank(0) {
            let began = Instant::now();
            for number in 0..REQUESTS {
                // Without a poll: there is room again when the target's progress thread has
                // received some.
                while network
                    .send(JobRank(1), Class::Request, &[&number.to_le_bytes(), &[7; 90]])
                    .is_err()
                {
                    assert!(began.elapsed() < LIMIT, "no room for request {number}");
                    sleep(Duration::from_micros(100));
                }
            }
            sent.wait();
        } else {
            sent.wait();
            until(network, &mut inbox, |inbox| inbox.packets.len() == REQUESTS as usize);
            let mut numbers: Vec<u32> = inbox
                .packets
                .iter()
                .map(|p| u32::from_le_bytes(p[..4].try_into().unwrap()))
                .collect();
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..REQUESTS));
            assert!(inbox.packets.iter().all(|packet| packet[4..] == [7; 90]));
        }
        over.wait();
    });
    job.stop();
}

#[test]
fn acks_arrive_while_the_client_only_puts() {
    let job = pair();
    let mut memory = [vec![0u64; 1], vec![0u64; 1]];
    let bases = memory.each_mut().map(|memory| memory.as_mut_ptr() as usize);
    let targets = [0, 1].map(|rank: usize| {
        let segment = SegmentMemory::host(bases[rank], 8);
        expose((JobRank(rank as u32), job.of(rank)), &segment, &[job.of(1 - rank)]).1[0]
    });
    let (received, over) = (AtomicBool::new(false), Barrier::new(2));
    job.run_threads(1, |rank, _, network| {
        let mut inbox = Inbox::default();
        let source = 7u64.to_ne_bytes();
        let put = |number| {
            let target = targets[1 - rank.index()];
            put(network, target, &source, SourceUse::Later, Cookie::new(number))
        };
        if rank == JobRank(0) {
            // After the start of a burst, puts are held. Each is followed by the next without a
            // poll, before it is flushed.
            let mut puts = 0;
            while !received.load(SeqCst) {
                put(puts).expect("room: acknowledgements should arrive between puts");
                puts += 1;
                if puts > 10 {
                    sleep(Duration::from_micros(300));
                }
            }
            until(network, &mut inbox, |inbox| inbox.done.len() as u64 == puts);
        } else {
            sleep(Duration::from_millis(20));
            put(0).unwrap();
            until(network, &mut inbox, |inbox| inbox.done == [0]);
            received.store(true, SeqCst);
        }
        over.wait();
    });
    assert_eq!(memory, [[7], [7]]);
    job.stop();
}

static WOKEN: AtomicBool = AtomicBool::new(false);

#[test]
fn a_sleeping_client_is_woken() {
    let job = pair();
    let over = Barrier::new(2);
    job.run_threads(1, |rank, _, network| {
        let mut inbox = Inbox::default();
        if rank == JobRank(0) {
            sleep(Duration::from_millis(20));
            network.send(JobRank(1), Class::Request, &[b"wake up"]).unwrap();
            over.wait();
            return;
        }
        network.poll(PollScope::All, &mut inbox);
        let promise = network.abilities().wake.unwrap().watch(|| WOKEN.store(true, SeqCst));
        assert_eq!(promise, WakePromise::Wakes);
        let began = Instant::now();
        while !WOKEN.load(SeqCst) {
            assert!(began.elapsed() < LIMIT);
            sleep(Duration::from_micros(200));
        }
        until(network, &mut inbox, |inbox| inbox.packets == [b"wake up"]);
        over.wait();
    });
    job.stop();
}
