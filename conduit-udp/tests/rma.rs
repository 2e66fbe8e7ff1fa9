//! Puts and gets over real sockets: many sizes and offsets, from two threads of each rank at a
//! time.

use gasnet_conduit::conformance::Job;
use gasnet_conduit::{Class, Conduit, JobRank, LocalCompletion, PollScope, RemoteSegment, TransferId, Upcalls};
use gasnet_conduit_udp::Udp;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;

const RANKS: u32 = 3;
const THREADS: u32 = 2;
/// Bytes of a segment. Each thread of each rank has a part of each segment to itself.
const SEGMENT: usize = 6 << 20;
const PART: usize = SEGMENT / (RANKS * THREADS) as usize;

/// Transfers that are complete at some rank.
struct Done<'a>(&'a Mutex<HashSet<u64>>);

impl Upcalls for Done<'_> {
    fn packet(&mut self, _source: JobRank, _class: Class, _packet: &mut [u8]) {}
    fn rma_done(&mut self, id: TransferId) {
        assert!(self.0.lock().unwrap().insert(id.0), "{id:?} was completed twice");
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer}: {why}");
    }
}

fn random(state: &mut u64) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Segments of all ranks, aligned.
fn segments(memory: &mut [Vec<u64>], job: &Job) -> Vec<RemoteSegment> {
    let register = |(rank, memory): (usize, &mut Vec<u64>)| {
        let base = memory.as_mut_ptr() as usize;
        let key = job.of(rank).register_segment(base, SEGMENT).unwrap();
        RemoteSegment {
            base,
            bytes: SEGMENT,
            key,
            on_device: false,
        }
    };
    memory.iter_mut().enumerate().map(register).collect()
}

#[test]
fn transfers_from_many_threads() {
    let make = || -> Box<dyn Conduit> { Box::new(Udp::new()) };
    let job = Job::start(&make, RANKS);
    let mut memory = vec![vec![0u64; SEGMENT / 8]; RANKS as usize];
    let remote = segments(&mut memory, &job);
    let done: Vec<Mutex<HashSet<u64>>> = (0..RANKS).map(|_| Mutex::default()).collect();
    let finished = AtomicUsize::new(0);
    job.run_threads(THREADS, |rank, thread, conduit| {
        let mut upcalls = Done(&done[rank.index()]);
        let me = (rank.0 * THREADS + thread) as usize;
        let (mut state, mut id) = (me as u64 + 1, me as u64 * 1_000_000);
        let until = |ids: &[u64], upcalls: &mut Done<'_>| {
            while !ids.iter().all(|id| done[rank.index()].lock().unwrap().contains(id)) {
                conduit.poll(PollScope::All, upcalls);
                std::thread::yield_now();
            }
        };
        for round in 0..60 {
            let mut batch = Vec::new();
            let (mut ids, mut at) = (Vec::new(), 0);
            while ids.len() < 10 {
                let bytes = match random(&mut state) % 4 {
                    0 => 1 << (random(&mut state) % 4),
                    1 => 1 + random(&mut state) % 5000,
                    2 => 1 + random(&mut state) % 80_000,
                    _ => 1 + random(&mut state) % 300_000,
                };
                let peer = JobRank(random(&mut state) as u32 % RANKS);
                at += random(&mut state) % 100;
                if at + bytes > PART {
                    break;
                }
                let source: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 256 + id as usize) as u8).collect();
                let segment = &remote[peer.index()];
                let to = segment.base + me * PART + at;
                let put = |id| {
                    if round % 2 == 0 {
                        conduit.put_now(peer, segment, to, source.as_ptr(), bytes, TransferId(id))
                    } else {
                        conduit.put(peer, segment, to, source.as_ptr(), bytes, TransferId(id))
                    }
                };
                let local = loop {
                    if let Ok(local) = put(id) {
                        break local;
                    }
                    conduit.poll(PollScope::All, &mut upcalls);
                };
                let expected = source.clone();
                let source = if local == LocalCompletion::AtReturn {
                    vec![0; 0]
                } else {
                    source
                };
                ids.push(id);
                batch.push((peer, to, expected, source));
                id += 1;
                at += bytes;
            }
            until(&ids, &mut upcalls);
            // Complete puts are visible to gets.
            let mut gets = Vec::new();
            let mut copies: Vec<Vec<u8>> = batch
                .iter()
                .map(|(_, _, expected, _)| vec![0; expected.len()])
                .collect();
            for ((peer, from, expected, _), copy) in batch.iter().zip(&mut copies) {
                let segment = &remote[peer.index()];
                while conduit
                    .get(*peer, segment, copy.as_mut_ptr(), *from, expected.len(), TransferId(id))
                    .is_err()
                {
                    conduit.poll(PollScope::All, &mut upcalls);
                }
                gets.push(id);
                id += 1;
            }
            until(&gets, &mut upcalls);
            for ((peer, _, expected, _), copy) in batch.iter().zip(&copies) {
                assert!(
                    expected == copy,
                    "{} bytes at rank {peer} are not what was put",
                    expected.len()
                );
            }
        }
        finished.fetch_add(1, SeqCst);
        while finished.load(SeqCst) < (RANKS * THREADS) as usize {
            conduit.poll(PollScope::All, &mut upcalls);
            std::thread::yield_now();
        }
    });
    job.stop();
}
