//! Long parts of transfers, from a peer that is played, and from strangers.

use super::receive::{Context, Wanted};
use super::zero_copy::{Came, Expected};
use super::{lock, Net};
use crate::memory::tests::lent;
use crate::memory::Segments;
use crate::peer::{Pair, Peer};
use crate::sys::Address;
use crate::tests::{datagrams, waiting, Stage};
use crate::variables::Settings;
use crate::wire::{Header, HEADER};
use gasnet_conduit::{Class, PollScope, TransferId};
use std::io::IoSlice;
use std::mem::ManuallyDrop;
use std::net::UdpSocket;
use std::os::fd::FromRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Payload of datagrams that are worth being received in their places.
const LONG: usize = 40_000;

/// A peer of process 0 on a path of such datagrams.
fn far(stage: &Stage) -> Peer {
    stage.stranger.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    Peer::new(Pair { me: 1, peer: 0 }, LONG, 1 << 20, &Settings::read(), 0)
}

impl Stage {
    /// Whether the next poll is to look at what comes before it receives it.
    fn expects_long(&self, expects: bool) {
        for context in &mut *lock(&self.net.contexts) {
            context.is_long = expects;
        }
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 250) as u8).collect()
}

/// The datagrams of a put into a segment.
fn put(stage: &Stage, source: &mut [u8], segment: &[u8]) -> Vec<Vec<u8>> {
    let base = segment.as_ptr() as usize;
    stage.net.segments.add(base, segment.len());
    let mut peer = far(stage);
    peer.put(&stage.keys, base, lent(source), 0, TransferId(1)).unwrap();
    waiting(&stage.keys, &mut peer)
}

/// What is to be received next, when it has come.
fn expected(net: &Net) -> Expected<'_> {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60));
        if let Ok(expected) = net.expect() {
            return expected.unwrap();
        }
    }
}

/// Sends three long parts of a transfer to `place`, with forged ones between them: what is forged counts as strange, and what comes after is right.
fn arrive(stage: &mut Stage, parts: &[Vec<u8>], place: *const u8, expected: &[u8]) {
    // SAFETY: the place is as long, and nobody writes there while this looks.
    let there = || unsafe { std::slice::from_raw_parts(place, expected.len()) };
    assert_eq!(parts.len(), 3);
    let forged = |at: usize| {
        let mut forged = parts[1].clone();
        forged[at] ^= 1;
        forged
    };
    stage.hear(&parts[..1]);
    assert!(there()[..LONG] == expected[..LONG]);
    // Nothing of what has no right header is placed.
    let strange = [forged(5), forged(HEADER - 9), parts[1][..LONG].to_vec()];
    for (i, bad) in strange.into_iter().enumerate() {
        stage.expects_long(true);
        stage.hear(&[bad]);
        assert!(stage.strange() == i as u64 + 1 && there()[LONG..2 * LONG].iter().all(|&byte| byte == 0));
    }
    // What has one is in its place before it is found out.
    stage.expects_long(true);
    stage.hear(&[forged(HEADER + LONG - 1)]);
    assert!(stage.strange() == 4 && there()[LONG..2 * LONG - 1] == expected[LONG..2 * LONG - 1]);
    assert_ne!(there()[2 * LONG - 1], expected[2 * LONG - 1]);
    assert!(there()[..LONG] == expected[..LONG] && there()[2 * LONG..].iter().all(|&byte| byte == 0));
    // From then on payloads prove themselves first.
    stage.expects_long(true);
    stage.hear(&[forged(HEADER), forged(HEADER - 1)]);
    assert!(stage.strange() == 6 && there()[LONG..2 * LONG - 1] == expected[LONG..2 * LONG - 1]);
    stage.hear(&parts[1..]);
    assert!(there() == expected && stage.log.lost.is_empty());
}

#[test]
fn puts_prove_themselves_in_their_places() {
    let mut stage = Stage::new();
    let (mut source, segment) = (pattern(3 * LONG), vec![0u8; 3 * LONG]);
    let parts = put(&stage, &mut source, &segment);
    arrive(&mut stage, &parts, segment.as_ptr(), &source);
    // A copy of what has come is not received there any more.
    stage.net.in_place_from.store(0, Relaxed);
    stage.expects_long(true);
    let (mut segment, again) = (segment, stage.again());
    segment.fill(9);
    stage.hear(&parts);
    assert_eq!(stage.again(), again + 3);
    assert!(segment.iter().all(|&byte| byte == 9));
}

#[test]
fn what_comes_instead_is_taken_in() {
    let mut stage = Stage::new();
    let (mut source, segment) = (pattern(2 * LONG), vec![0u8; 2 * LONG]);
    let parts = put(&stage, &mut source, &segment);
    let mut other = Peer::new(Pair { me: 1, peer: 0 }, 65_408, 1 << 20, &Settings::read(), 0);
    let messages = [pattern(100), pattern(65_000)];
    let short = datagrams(&stage.keys, &mut other, Class::Reply, &messages[0]).remove(0);
    let long = datagrams(&stage.keys, &mut other, Class::Reply, &messages[1]).remove(0);
    // They know each other.
    stage.net.heard(1);
    let there = ("127.0.0.1", stage.net.port());
    // SAFETY: the descriptor is the network's, which outlives this and closes it.
    let socket = ManuallyDrop::new(unsafe { UdpSocket::from_raw_fd(stage.net.fd()) });
    // Something shorter, something longer, the other part, and nothing come instead.
    for instead in [Some(&short), Some(&long), Some(&parts[0]), None] {
        stage.stranger.send_to(&parts[1], there).unwrap();
        let (mut context, mut delivered) = (Context::new(), 0);
        let expected = expected(&stage.net);
        assert_eq!(socket.recv(&mut vec![0; 65_536]).unwrap(), parts[1].len());
        if let Some(instead) = instead {
            stage.stranger.send_to(instead, there).unwrap();
        }
        let came = stage
            .net
            .receive_expected(expected, Wanted::All, &mut context, &mut delivered);
        assert_eq!(came, if instead.is_some() { Came::Found } else { Came::Nothing });
        if came == Came::Found {
            stage
                .net
                .take_found(Wanted::All, &mut context, 1, &mut delivered, &mut stage.log);
        }
        assert_eq!(delivered, usize::from(instead.is_some()));
    }
    stage.hear(&parts[1..]);
    assert!(segment == source && stage.strange() == 0);
    let came: Vec<_> = stage.log.packets.drain(..).map(|(_, _, bytes)| bytes).collect();
    assert!(came == messages);
}

#[test]
fn answers_to_gets_prove_themselves_in_their_places() {
    let mut stage = Stage::new();
    let (mut source, mut copy) = (pattern(3 * LONG), vec![0u8; 3 * LONG]);
    let (mut peer, segments) = (far(&stage), Segments::default());
    let (from, to) = (source.as_mut_ptr() as usize, copy.as_mut_ptr());
    segments.add(from, source.len());
    stage.net.get_from(1, to, from, copy.len(), TransferId(7)).unwrap();
    let mut request = [0; 200];
    let bytes = stage.stranger.recv(&mut request).unwrap();
    let (head, payload) = request[..bytes].split_first_chunk::<HEADER>().unwrap();
    let mut header = Header::decode(head).unwrap();
    let known = peer.know(&mut header);
    assert!(stage.keys.proves(head, &known, payload));
    let heard = peer.hear(&header, known.number, payload, 1);
    peer.settle(heard, payload, &segments, &mut Vec::new());
    let parts = waiting(&stage.keys, &mut peer);
    arrive(&mut stage, &parts, to, &source);
    assert_eq!(stage.log.done, [TransferId(7)]);
}

#[test]
fn what_hosts_say_is_heard_while_something_long_is_expected() {
    let mut stage = Stage::new();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // Something polled, so that there is a context; then the system has an error for the socket.
    stage.hear(&[]);
    stage.net.poll(PollScope::All, &mut stage.log);
    stage.expects_long(true);
    let run = [[IoSlice::new(b"to"), IoSlice::new(b"nobody")]];
    stage.net.socket.send(Some(&Address::new(nobody)), &run, false).unwrap();
    stage.net.poll(PollScope::All, &mut stage.log);
    assert!(stage.net.socket.next_error(&mut [0; 64]).is_none(), "nobody has read it");
    // The same between the look and the reception.
    let (mut source, segment) = (pattern(2 * LONG), vec![0u8; 2 * LONG]);
    let parts = put(&stage, &mut source, &segment);
    stage.net.heard(1);
    stage.stranger.send_to(&parts[1], ("127.0.0.1", stage.net.port())).unwrap();
    let expected = expected(&stage.net);
    stage.net.socket.send(Some(&Address::new(nobody)), &run, false).unwrap();
    let (mut context, mut delivered) = (Context::new(), 0);
    let came = stage
        .net
        .receive_expected(expected, Wanted::All, &mut context, &mut delivered);
    assert!(came == Came::Nothing && delivered == 0 && stage.net.may_place());
    stage.hear(&parts[..1]);
    assert!(stage.net.socket.next_error(&mut [0; 64]).is_none(), "nobody has read it");
    assert!(segment == source && stage.strange() == 0);
}
