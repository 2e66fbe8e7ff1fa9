//! Zero-copy placement, with a simulated peer and forged datagrams.

use super::receive::{Deliverable, ReceiveContext};
use super::zero_copy::{ExpectedDatagram, ZeroCopyOutcome};
use super::Net;
use crate::memory::tests::{client_memory, local_memory, remote_memory};
use crate::memory::Segments;
use crate::peer::{Peer, Ranks};
use crate::settings::Settings;
use crate::sys::Address;
use crate::tests::{datagrams, queued, Stage};
use crate::transfers::PutOp;
use crate::wire::{Header, HEADER_BYTES};
use gasnet_conduit::{Class, Completion, Cookie, Get, JobRank, PollScope, Rma, Wake};
use gasnet_sys::lock;
use std::io::IoSlice;
use std::mem::ManuallyDrop;
use std::net::UdpSocket;
use std::os::fd::FromRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Payload of datagrams that are worth placing.
const LONG_PAYLOAD: usize = 40_000;

/// A peer of process 0 on a path with a large MTU.
fn jumbo_peer(stage: &Stage) -> Peer {
    stage.remote.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Peer::new(
        Ranks {
            me: JobRank(1),
            peer: JobRank(0),
        },
        LONG_PAYLOAD,
        1 << 20,
        &Settings::read(),
        0,
    )
}

impl Net {
    /// The port of the main socket.
    pub fn port(&self) -> u16 {
        self.socket.address.port()
    }

    /// Whether a peer has a connection.
    pub fn is_connected(&self, rank: JobRank) -> bool {
        self.peers[rank.index()].connection.get().is_some()
    }

    /// Whether nothing is in flight and no ACK is owed.
    pub fn is_drained(&self) -> bool {
        self.connections().all(|connection| lock(&connection.state).is_idle())
    }

    /// When a peer last sent anything; creates its connection.
    pub fn last_received(&self, rank: JobRank) -> u64 {
        self.connection(rank).last_received.load(Relaxed)
    }
}

impl Stage {
    /// Whether the next poll attempts zero-copy placement.
    fn expect_bulk(&self, expects: bool) {
        for context in &mut *lock(&self.net.contexts) {
            context.is_bulk = expects;
        }
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 250) as u8).collect()
}

/// A context that may deliver everything.
fn receive_all() -> ReceiveContext {
    let mut context = ReceiveContext::new();
    context.deliverable = Deliverable::All;
    context
}

/// The datagrams of a put into a segment.
fn put_datagrams(stage: &Stage, source: &mut [u8], segment: &[u8]) -> Vec<Vec<u8>> {
    let base = segment.as_ptr() as usize;
    stage.net.segments.register(base, segment.len());
    let mut peer = jumbo_peer(stage);
    peer.put(&stage.keys, PutOp::new(base, client_memory(source), 0, Cookie::new(1)))
        .unwrap();
    queued(&stage.keys, &mut peer)
}

/// The next datagram, once it has arrived.
fn expected(net: &Net) -> ExpectedDatagram<'_> {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60));
        if let Ok(expected) = net.peek_transfer() {
            return expected.unwrap();
        }
    }
}

/// Sends the three parts of a transfer to `destination`, with forgeries between them. The forgeries
/// must be rejected and the data right in the end.
fn arrive(stage: &mut Stage, parts: &[Vec<u8>], destination: *const u8, expected: &[u8]) {
    // SAFETY: the destination has this length, and nothing writes to it during the comparison.
    let there = || unsafe { std::slice::from_raw_parts(destination, expected.len()) };
    assert_eq!(parts.len(), 3);
    let forged = |at: usize| {
        let mut forged = parts[1].clone();
        forged[at] ^= 1;
        forged
    };
    stage.receive(&parts[..1]);
    assert!(there()[..LONG_PAYLOAD] == expected[..LONG_PAYLOAD]);
    // Without an authentic header nothing is placed.
    let rejected = [forged(5), forged(HEADER_BYTES - 9), parts[1][..LONG_PAYLOAD].to_vec()];
    for (i, bad) in rejected.into_iter().enumerate() {
        stage.expect_bulk(true);
        stage.receive(&[bad]);
        assert!(
            stage.rejected() == i as u64 + 1 && there()[LONG_PAYLOAD..2 * LONG_PAYLOAD].iter().all(|&byte| byte == 0)
        );
    }
    // With one, the payload is placed before it is verified.
    stage.expect_bulk(true);
    stage.receive(&[forged(HEADER_BYTES + LONG_PAYLOAD - 1)]);
    assert!(
        stage.rejected() == 4
            && there()[LONG_PAYLOAD..2 * LONG_PAYLOAD - 1] == expected[LONG_PAYLOAD..2 * LONG_PAYLOAD - 1]
    );
    assert_ne!(there()[2 * LONG_PAYLOAD - 1], expected[2 * LONG_PAYLOAD - 1]);
    assert!(
        there()[..LONG_PAYLOAD] == expected[..LONG_PAYLOAD]
            && there()[2 * LONG_PAYLOAD..].iter().all(|&byte| byte == 0)
    );
    // From then on payloads are verified first.
    stage.expect_bulk(true);
    stage.receive(&[forged(HEADER_BYTES), forged(HEADER_BYTES - 1)]);
    assert!(
        stage.rejected() == 6
            && there()[LONG_PAYLOAD..2 * LONG_PAYLOAD - 1] == expected[LONG_PAYLOAD..2 * LONG_PAYLOAD - 1]
    );
    stage.receive(&parts[1..]);
    assert!(there() == expected && stage.log.lost.is_empty());
}

#[test]
fn zero_copy_puts_are_verified() {
    let mut stage = Stage::new();
    let (mut source, segment) = (pattern(3 * LONG_PAYLOAD), vec![0u8; 3 * LONG_PAYLOAD]);
    let parts = put_datagrams(&stage, &mut source, &segment);
    arrive(&mut stage, &parts, segment.as_ptr(), &source);
    // A duplicate is not placed again.
    stage.net.zero_copy_from.store(0, Relaxed);
    stage.expect_bulk(true);
    let (mut segment, duplicates) = (segment, stage.duplicates());
    segment.fill(9);
    stage.receive(&parts);
    assert_eq!(stage.duplicates(), duplicates + 3);
    assert!(segment.iter().all(|&byte| byte == 9));
}

#[test]
fn a_datagram_that_overtakes_the_peeked_one_is_accepted() {
    let mut stage = Stage::new();
    let (mut source, segment) = (pattern(2 * LONG_PAYLOAD), vec![0u8; 2 * LONG_PAYLOAD]);
    let parts = put_datagrams(&stage, &mut source, &segment);
    let mut other = Peer::new(
        Ranks {
            me: JobRank(1),
            peer: JobRank(0),
        },
        65_408,
        1 << 20,
        &Settings::read(),
        0,
    );
    let messages = [pattern(100), pattern(65_000)];
    let short = datagrams(&stage.keys, &mut other, Class::Reply, &messages[0]).remove(0);
    let long = datagrams(&stage.keys, &mut other, Class::Reply, &messages[1]).remove(0);
    // Opens the connection.
    stage.net.last_received(JobRank(1));
    let there = ("127.0.0.1", stage.net.port());
    // SAFETY: the descriptor is the network's, which outlives this and closes it.
    let socket = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(stage.net.fd()) });
    // A shorter datagram, a longer one, the other part, and none, in place of the one that was
    // peeked at.
    for instead in [Some(&short), Some(&long), Some(&parts[0]), None] {
        stage.remote.send_to(&parts[1], there).unwrap();
        let mut context = receive_all();
        let expected = expected(&stage.net);
        assert_eq!(socket.recv(&mut vec![0; 65_536]).unwrap(), parts[1].len());
        if let Some(instead) = instead {
            stage.remote.send_to(instead, there).unwrap();
        }
        let outcome = stage.net.receive_placed(expected, &mut context);
        assert_eq!(
            outcome,
            if instead.is_some() {
                ZeroCopyOutcome::Buffered
            } else {
                ZeroCopyOutcome::Done
            }
        );
        if outcome == ZeroCopyOutcome::Buffered {
            stage.net.process_batch(&mut context, 1, &mut stage.log);
        }
        assert_eq!(context.delivered, usize::from(instead.is_some()));
    }
    stage.receive(&parts[1..]);
    assert!(segment == source && stage.rejected() == 0);
    let outcome: Vec<_> = stage.log.packets.drain(..).map(|(_, _, bytes)| bytes).collect();
    assert!(outcome == messages);
}

#[test]
fn zero_copy_get_replies_are_verified() {
    let mut stage = Stage::new();
    let (mut source, mut copy) = (pattern(3 * LONG_PAYLOAD), vec![0u8; 3 * LONG_PAYLOAD]);
    let (mut peer, segments) = (jumbo_peer(&stage), Segments::default());
    let (from, to) = (source.as_mut_ptr() as usize, copy.as_mut_ptr());
    segments.register(from, source.len());
    stage
        .net
        .get(&Get {
            from: remote_memory(JobRank(1), from),
            to: local_memory(to as usize),
            bytes: copy.len(),
            cookie: Cookie::new(7),
        })
        .unwrap();
    let mut request = [0; 200];
    let bytes = stage.remote.recv(&mut request).unwrap();
    let (head, payload) = request[..bytes].split_first_chunk::<HEADER_BYTES>().unwrap();
    let mut header = Header::decode(head).unwrap();
    let implicit = peer.implicit_fields(&mut header);
    assert!(stage.keys.verify(head, &implicit, payload));
    let disposition = peer.receive(&header, implicit.number, payload, 1);
    peer.apply(disposition, payload, &segments, &mut Vec::new());
    let parts = queued(&stage.keys, &mut peer);
    arrive(&mut stage, &parts, to, &source);
    assert_eq!(stage.log.done, [(Cookie::new(7), Completion::Both)]);
}

#[test]
fn icmp_errors_are_read_during_zero_copy() {
    let mut stage = Stage::new();
    let closed_port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // A poll creates a context; then the socket has an error.
    stage.receive(&[]);
    stage.net.poll(PollScope::All, &mut stage.log);
    stage.expect_bulk(true);
    let batch = [[IoSlice::new(b"to"), IoSlice::new(b"a closed port")]];
    stage
        .net
        .socket
        .send(Some(&Address::from(closed_port)), &batch, false)
        .unwrap();
    stage.net.poll(PollScope::All, &mut stage.log);
    assert!(
        stage.net.socket.next_error(&mut [0; 64]).is_none(),
        "an error was not read"
    );
    // The same between the peek and the receive.
    let (mut source, segment) = (pattern(2 * LONG_PAYLOAD), vec![0u8; 2 * LONG_PAYLOAD]);
    let parts = put_datagrams(&stage, &mut source, &segment);
    stage.net.last_received(JobRank(1));
    stage
        .remote
        .send_to(&parts[1], ("127.0.0.1", stage.net.port()))
        .unwrap();
    let expected = expected(&stage.net);
    stage
        .net
        .socket
        .send(Some(&Address::from(closed_port)), &batch, false)
        .unwrap();
    let mut context = receive_all();
    let outcome = stage.net.receive_placed(expected, &mut context);
    assert!(outcome == ZeroCopyOutcome::Done && context.delivered == 0 && stage.net.may_zero_copy());
    stage.receive(&parts[..1]);
    assert!(
        stage.net.socket.next_error(&mut [0; 64]).is_none(),
        "an error was not read"
    );
    assert!(segment == source && stage.rejected() == 0);
}
