//! Cases beyond the conformance suite: unauthenticated peers, malformed packets, the wake-up
//! descriptor.

use crate::send::{header, HELLO, LARGEST, PACKET};
use crate::start::{Net, UNAUTHENTICATED};
use crate::sys::{self, Epoll};
use gasnet_conduit::conformance::{start_info, Log};
use gasnet_conduit::{Class, JobRank, PollScope, StartInfo, Stop};
use std::io::IoSlice;

const TOKEN: u128 = 0x1122_3344_5566_7788;

/// Process 0 of a job of two. Both ranks have its listeners.
fn net() -> Net {
    let exchange = |bytes: &[u8]| bytes.repeat(2);
    Net::open(&StartInfo {
        job_token: TOKEN,
        ..start_info(JobRank(0), &[JobRank(0), JobRank(1)], &exchange)
    })
    .unwrap()
}

/// The upcalls after a process connects and sends these packets.
fn after(packets: &[&[u8]]) -> Log {
    let (net, mut log) = (net(), Log::default());
    let peer = sys::socket(LARGEST + 100).unwrap();
    sys::connect(&peer, net.peers[0].names[0]).unwrap();
    for packet in packets {
        sys::send(&peer, &[IoSlice::new(packet)]).unwrap();
    }
    for _ in 0..20 {
        net.poll(PollScope::All, &mut log);
    }
    log
}

fn hello(rank: JobRank, token: u128) -> Vec<u8> {
    [&header(HELLO, rank)[..], &token.to_ne_bytes()].concat()
}

fn packet(rank: JobRank, body: &[u8]) -> Vec<u8> {
    [&header(PACKET, rank), body].concat()
}

#[test]
fn unauthenticated_peers_are_ignored() {
    for first in [
        packet(JobRank(1), b"x"),
        hello(JobRank(1), TOKEN ^ 1),
        hello(JobRank(2), TOKEN),
        hello(UNAUTHENTICATED, TOKEN),
        hello(JobRank(1), TOKEN)[..8].to_vec(),
    ] {
        let log = after(&[&first, &packet(JobRank(1), b"evil"), &packet(UNAUTHENTICATED, b"evil")]);
        assert!(log.packets.is_empty() && log.lost.is_empty(), "{first:?}");
    }
}

#[test]
fn authenticated_packets_are_delivered() {
    let log = after(&[
        &hello(JobRank(1), TOKEN),
        &packet(JobRank(1), b"one"),
        &packet(JobRank(1), b""),
    ]);
    assert_eq!(
        log.packets,
        [
            (JobRank(1), Class::Request, b"one".to_vec()),
            (JobRank(1), Class::Request, vec![])
        ]
    );
}

#[test]
fn malformed_packets_lose_the_peer() {
    for bad in [
        packet(JobRank(0), b"x"),
        header(9, JobRank(1)).to_vec(),
        hello(JobRank(1), TOKEN),
        vec![1],
        packet(JobRank(1), &vec![0; LARGEST]),
    ] {
        let log = after(&[&hello(JobRank(1), TOKEN), &bad, &packet(JobRank(1), b"more")]);
        assert_eq!(
            (log.packets.len(), log.lost.as_slice()),
            (0, &[JobRank(1)][..]),
            "{:?}",
            &bad[..bad.len().min(20)]
        );
    }
}

#[test]
fn packets_wake_a_waiter() {
    let (net, mut log, waiter) = (net(), Log::default(), Epoll::new().unwrap());
    waiter.add(&net.top.0, 5).unwrap();
    for class in [Class::Request, Class::Reply] {
        assert_eq!(waiter.ready::<1>().count(), 0);
        net.send(JobRank(0), class, &[b"wake up"]).unwrap();
        assert_eq!(waiter.ready::<1>().collect::<Vec<_>>(), [5]);
        while net.poll(PollScope::All, &mut log) == 0 {}
        // A connection to oneself has two ends; after this poll, both are idle.
        net.poll(PollScope::All, &mut log);
    }
    assert_eq!(waiter.ready::<1>().count(), 0);
}

#[test]
fn stop_in_a_signal_handler_waits_for_no_lock() {
    let net = &net();
    // The interrupted thread may hold any lock.
    let _held: Vec<_> = net
        .channels
        .iter()
        .map(|channel| gasnet_sys::lock(&channel.conns))
        .collect();
    std::thread::scope(|scope| {
        let handler = scope.spawn(|| net.stop(Stop::Signal));
        let start = std::time::Instant::now();
        while !handler.is_finished() {
            if start.elapsed().as_secs() > 30 {
                eprintln!("stop waits for a lock");
                std::process::abort();
            }
            std::thread::yield_now();
        }
    });
}
