//! Tests beyond the conformance suite: unauthenticated, forged and replayed datagrams, and the
//! wake-up descriptor.

use crate::fragment;
use crate::mac::Keys;
use crate::memory::tests::client_memory;
use crate::net::Net;
use crate::peer::{Peer, Ranks};
use crate::peers::encode_address;
use crate::per_class::PerClass;
use crate::settings::Settings;
use crate::transfers::PutOp;
use crate::wire::{at, ImplicitFields, Kind};
use gasnet_conduit::conformance::{start_info, Log};
use gasnet_conduit::{Class, Completion, Cookie, JobRank, PollScope, StartInfo, Upcalls, Wake};
use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const TOKEN: u128 = 0x1122_3344_5566_7788;

/// Process 0 of a job of two, and the job's keys. `other` is the socket of process 1.
fn net(other: &UdpSocket) -> (Net, Keys) {
    net_with(other.local_addr().unwrap())
}

fn net_with(other: SocketAddr) -> (Net, Keys) {
    let randoms = RefCell::new(Vec::new());
    let exchange = |bytes: &[u8]| {
        let mut second = bytes.to_vec();
        second[..19].copy_from_slice(&encode_address(other));
        randoms.borrow_mut().extend([&bytes[19..], &bytes[19..]].concat());
        [bytes.to_vec(), second].concat()
    };
    let net = Net::open(&StartInfo {
        job_token: TOKEN,
        ..start_info(JobRank(0), &[JobRank(0), JobRank(1)], &exchange)
    })
    .unwrap();
    let keys = Keys::new(TOKEN, &randoms.borrow());
    (net, keys)
}

#[test]
fn an_address_that_this_host_lacks_is_named() {
    let exchange = |_: &[u8]| -> Vec<u8> { panic!("the start fails before the exchange") };
    let elsewhere = StartInfo {
        host_address: "192.0.2.1".parse().unwrap(),
        ..start_info(JobRank(0), &[JobRank(0)], &exchange)
    };
    let Err(error) = Net::open(&elsewhere) else {
        panic!("a socket was bound to an address for documentation");
    };
    let text = error.to_string();
    assert!(text.contains("192.0.2.1") && text.contains("GASNET_WORKERIP"), "{text}");
}

/// The datagrams of a message from process 1.
pub fn datagrams(keys: &Keys, peer: &mut Peer, class: Class, message: &[u8]) -> Vec<Vec<u8>> {
    peer.queue_message(keys, class, &[message]);
    queued(keys, peer)
}

/// The datagrams that wait for transmission.
pub fn queued(keys: &Keys, peer: &mut Peer) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    peer.transmit(keys, 1, |run| {
        all.extend(run.iter().map(|[head, payload]| [&head[..], &payload[..]].concat()));
        run.len()
    });
    all
}

fn peer() -> Peer {
    Peer::new(
        Ranks {
            me: JobRank(1),
            peer: JobRank(0),
        },
        1408,
        1 << 20,
        &Settings::read(),
        0,
    )
}

/// A process of a job of two, and the simulated other one.
pub struct Stage {
    pub net: Net,
    pub keys: Keys,
    pub remote: UdpSocket,
    pub log: Log,
}

impl Stage {
    pub fn new() -> Self {
        Self::with_peer_at("127.0.0.1:0")
    }

    /// The simulated process is at `address`; this one is at 127.0.0.1.
    fn with_peer_at(address: &str) -> Self {
        let remote = UdpSocket::bind(address).unwrap();
        let (net, keys) = net(&remote);
        Self {
            net,
            keys,
            remote,
            log: Log::default(),
        }
    }

    /// Sends datagrams from an address that is not the sender's, and polls until none is left.
    pub fn receive(&mut self, datagrams: &[Vec<u8>]) {
        self.receive_in(PollScope::All, datagrams);
    }

    fn receive_in(&mut self, scope: PollScope, datagrams: &[Vec<u8>]) {
        let elsewhere = UdpSocket::bind("127.0.0.1:0").unwrap();
        for chunk in datagrams.chunks(16) {
            for datagram in chunk {
                elsewhere.send_to(datagram, ("127.0.0.1", self.net.port())).unwrap();
            }
            for _ in 0..20 {
                self.net.poll(scope, &mut self.log);
            }
        }
    }

    pub fn rejected(&self) -> u64 {
        self.net.counters.rejected.load(Relaxed)
    }

    pub fn duplicates(&self) -> u64 {
        self.net.counters.duplicates.load(Relaxed)
    }
}

#[test]
fn unauthenticated_datagrams_are_counted_and_open_no_connection() {
    let mut stage = Stage::new();
    let mut random = 1u64;
    let mut next = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    let mut forged = Vec::new();
    for i in 0..2000 {
        let mut bytes: Vec<u8> = (0..next() % 300).map(|_| next() as u8).collect();
        if i % 2 == 0 && bytes.len() >= 64 {
            // Everything that can be guessed is right.
            let mut peer = peer();
            let mut real =
                datagrams(&Keys::new(TOKEN ^ 1, b"guess"), &mut peer, Class::Request, &bytes[64..]).remove(0);
            real[..4].copy_from_slice(&stage.keys.job.to_le_bytes());
            bytes = real;
        }
        forged.push(bytes);
    }
    stage.receive(&forged);
    assert_eq!((stage.rejected(), stage.log.packets.len()), (2000, 0));
    assert!(stage.log.lost.is_empty());
    // Nothing was answered.
    stage.remote.set_nonblocking(true).unwrap();
    assert!(stage.remote.recv(&mut [0; 100]).is_err());
}

#[test]
fn a_poll_after_a_while_delivers_all_that_has_arrived() {
    let (mut stage, mut peer) = (Stage::new(), peer());
    // As many as the first window holds.
    for _ in 0..10 {
        for datagram in datagrams(&stage.keys, &mut peer, Class::Request, &[7; 1000]) {
            stage
                .remote
                .send_to(&datagram, ("127.0.0.1", stage.net.port()))
                .unwrap();
        }
    }
    std::thread::sleep(Duration::from_millis(1));
    stage.net.poll(PollScope::All, &mut stage.log);
    assert_eq!(stage.log.packets.len(), 10);
}

#[test]
fn replays_are_delivered_once_and_forgeries_never() {
    let mut stage = Stage::new();
    let mut peer = peer();
    let message: Vec<u8> = (0..5000).map(|i| i as u8).collect();
    let parts = datagrams(&stage.keys, &mut peer, Class::Request, &message);
    assert_eq!(parts.len(), 4);
    // Without and with a connection.
    for known in [false, true] {
        for at in (0..parts[1].len()).step_by(7) {
            let mut changed = parts[1].clone();
            changed[at] ^= 0x40;
            stage.receive(&[changed, parts[1][..at].to_vec(), [&parts[1][..], &[0]].concat()]);
        }
        assert_eq!(stage.net.is_connected(JobRank(1)), known);
        stage.net.last_received(JobRank(1));
    }
    assert_eq!(stage.rejected(), parts[1].len().div_ceil(7) as u64 * 6);
    for _ in 0..3 {
        stage.receive(&parts);
    }
    assert_eq!(stage.log.packets, [(JobRank(1), Class::Request, message)]);
    // To another rank.
    let before = stage.rejected();
    let mut other = Peer::new(
        Ranks {
            me: JobRank(1),
            peer: JobRank(1),
        },
        1408,
        1 << 20,
        &Settings::read(),
        0,
    );
    stage.receive(&datagrams(&stage.keys, &mut other, Class::Reply, b"x"));
    assert_eq!((stage.rejected(), stage.log.packets.len()), (before + 1, 1));
}

#[test]
fn a_peer_that_sends_malformed_datagrams_is_lost() {
    let mut stage = Stage::new();
    let mut peer = peer();
    let mut bad = datagrams(&stage.keys, &mut peer, Class::Request, b"four").remove(0);
    // A message of five bytes in one part of four.
    bad[at::MESSAGE] = 5;
    let mut head: [u8; 64] = bad[..64].try_into().unwrap();
    let known = ImplicitFields {
        target: JobRank(0),
        number: 0,
        next: PerClass::default(),
    };
    stage.keys.seal(&mut head, &known, stage.keys.digest(b"four"));
    bad[..64].copy_from_slice(&head);
    stage.receive(&[bad]);
    assert_eq!(
        (stage.log.packets.len(), stage.log.lost.as_slice()),
        (0, &[JobRank(1)][..])
    );
}

#[test]
fn icmp_errors_must_quote_a_datagram_in_flight() {
    let mut stage = Stage::new();
    stage.net.send(JobRank(1), Class::Request, &[b"hello"]).unwrap();
    stage.remote.set_nonblocking(true).unwrap();
    let (why, address) = (
        io::Error::from_raw_os_error(libc::ECONNREFUSED),
        stage.remote.local_addr().unwrap(),
    );
    let (began, mut sent) = (Instant::now(), [0; 100]);
    for forged in [true, false] {
        let until = began.elapsed() + Duration::from_millis(if forged { 100 } else { 60_000 });
        while stage.log.lost.is_empty() && began.elapsed() < until {
            stage.net.poll(PollScope::All, &mut stage.log);
            while stage.remote.recv(&mut sent).is_ok() {}
            let mut quote = sent;
            quote[60] ^= u8::from(forged);
            stage.net.on_icmp_error(&why, address, &quote[..64]);
            stage.net.on_icmp_error(&why, address, &sent[..63]);
        }
        assert_eq!(stage.log.lost.is_empty(), forged);
    }
}

#[test]
fn peers_on_this_host_get_connected_sockets() {
    let remote = UdpSocket::bind("127.0.0.1:0").unwrap();
    remote.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let (net, _) = net(&remote);
    net.send(JobRank(1), Class::Request, &[b"hello"]).unwrap();
    let (bytes, from) = remote.recv_from(&mut [0; 1000]).unwrap();
    assert!(bytes == 64 + 5 && from.ip().is_loopback() && from.port() != net.port());
    // The ICMP error of a connected socket is read.
    drop(remote);
    let (began, mut log) = (Instant::now(), LostLog::default());
    while log.0.is_empty() {
        net.poll(PollScope::All, &mut log);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    let [(JobRank(1), why)] = &log.0[..] else {
        panic!("{:?}", log.0)
    };
    assert!(why.contains("reported closed"), "{why}");
}

#[test]
fn persistent_send_errors_are_reported() {
    // Sockets without SO_BROADCAST must not send broadcasts.
    let (mut net, _) = net_with("255.255.255.255:9".parse().unwrap());
    let mut log = LostLog::default();
    net.settings.error_timeout = u64::MAX;
    net.send(JobRank(1), Class::Request, &[b"hello"]).unwrap();
    for _ in 0..1000 {
        net.poll(PollScope::All, &mut log);
    }
    assert_eq!(log.0, []);
    net.settings.error_timeout = 1;
    let began = Instant::now();
    while log.0.is_empty() {
        net.poll(PollScope::All, &mut log);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    let [(JobRank(1), why)] = &log.0[..] else {
        panic!("{:?}", log.0)
    };
    assert!(
        why.starts_with("datagrams to 255.255.255.255 cannot be sent: Permission denied"),
        "{why}"
    );
}

#[test]
fn an_unresponsive_peer_is_reported_if_a_limit_is_set() {
    let mut stage = Stage::new();
    let mut log = LostLog::default();
    (stage.net.settings.timeout, stage.net.settings.connect_timeout) = (30_000_000, 30_000_000);
    stage.net.send(JobRank(1), Class::Request, &[b"hello"]).unwrap();
    let began = Instant::now();
    while log.0.is_empty() {
        stage.net.poll(PollScope::All, &mut log);
        assert!(began.elapsed() < Duration::from_secs(60));
    }
    let [(JobRank(1), why)] = &log.0[..] else {
        panic!("{:?}", log.0)
    };
    assert!(why.contains("GASNET_REQUESTTIMEOUT_MAX"), "{why}");
}

#[test]
fn a_peer_that_never_connected_is_reported_earlier() {
    let (here, elsewhere) = ("127.0.0.1:0", "127.0.0.2:0");
    for (address, has_received) in [(elsewhere, true), (elsewhere, false), (here, false)] {
        let mut stage = Stage::with_peer_at(address);
        let mut log = LostLog::default();
        stage.net.settings.connect_timeout = 30_000_000;
        if has_received {
            let hello = datagrams(&stage.keys, &mut peer(), Class::Request, b"hello");
            stage.receive(&hello);
        }
        stage.net.send(JobRank(1), Class::Request, &[b"hello"]).unwrap();
        let is_reported = !has_received && address == elsewhere;
        let limit = Duration::from_millis(if is_reported { 60_000 } else { 200 });
        let began = Instant::now();
        while log.0.is_empty() && began.elapsed() < limit {
            stage.net.poll(PollScope::All, &mut log);
        }
        assert_eq!(!log.0.is_empty(), is_reported);
        assert!(
            log.0.iter().all(|(_, why)| why.contains("never connected")),
            "{:?}",
            log.0
        );
    }
}

/// Lost peers and the reasons.
#[derive(Default)]
struct LostLog(Vec<(JobRank, String)>);

impl Upcalls for LostLog {
    fn packet(&mut self, _source: JobRank, _class: Class, _packet: &mut [u8]) {}
    fn done(&mut self, _: Cookie, _: Completion) {}
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        self.0.push((peer, why.to_owned()));
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

#[test]
fn a_peer_that_closes_is_not_unauthenticated() {
    let mut stage = Stage::new();
    let mut peer = peer();
    let hello = datagrams(&stage.keys, &mut peer, Class::Request, b"hello");
    let bye = peer.control_header(&stage.keys, Kind::Close, &[]).to_vec();
    stage.receive(&[hello[0].clone(), bye.clone(), bye, hello[0].clone()]);
    assert_eq!(
        (stage.log.packets.len(), stage.rejected(), stage.duplicates()),
        (1, 0, 2)
    );
    // An unauthenticated datagram is still rejected.
    let mut forged = hello[0].clone();
    forged[60] ^= 1;
    stage.receive(&[forged]);
    assert_eq!(stage.rejected(), 1);
}

#[test]
fn replays_are_counted_and_are_no_sign_of_life() {
    let mut stage = Stage::new();
    let mut peer = peer();
    let mut real = datagrams(&stage.keys, &mut peer, Class::Request, b"hello");
    for _ in 0..3 {
        let ack = peer.make_ack(&stage.keys);
        real.push([&ack.header[..], &ack.payload].concat());
    }
    stage.receive(&real);
    let last_received = stage.net.last_received(JobRank(1));
    assert_eq!((stage.log.packets.len(), stage.duplicates()), (1, 0));
    for _ in 0..5 {
        stage.receive(&real);
    }
    assert_eq!(
        (stage.log.packets.len(), stage.rejected(), stage.duplicates()),
        (1, 0, 20)
    );
    assert_eq!(stage.net.last_received(JobRank(1)), last_received);
    let ack = peer.make_ack(&stage.keys);
    stage.receive(&[ack.header.to_vec()]);
    assert!(stage.net.last_received(JobRank(1)) > last_received && stage.duplicates() == 20);
}

/// A datagram in fragments.
fn fragmented(keys: &Keys, number: u64, datagram: &[u8]) -> Vec<Vec<u8>> {
    let (head, body) = datagram.split_first_chunk().unwrap();
    let known = ImplicitFields {
        target: JobRank(0),
        number,
        next: PerClass::default(),
    };
    let mut all = Vec::new();
    assert!(fragment::send(keys, head, &known, body, &mut |run| {
        all.extend(run.iter().map(|[head, payload]| [&head[..], &payload[..]].concat()));
        run.len()
    }));
    all
}

/// More requests arrive during polls for replies than may be deferred: each in one datagram, or in
/// two fragments.
fn exceed_deferred_limit(count: usize, bytes: usize, in_fragments: bool) {
    let mut stage = Stage::new();
    let mut peer = peer();
    stage.net.settings.deferred_bytes = count / 3 * bytes;
    let messages: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; bytes]).collect();
    let mut all = Vec::new();
    for (i, message) in messages.iter().enumerate() {
        let whole = datagrams(&stage.keys, &mut peer, Class::Request, message);
        all.extend(if in_fragments {
            fragmented(&stage.keys, i as u64, &whole[0])
        } else {
            whole
        });
    }
    assert_eq!(all.len(), if in_fragments { 2 * count } else { count });
    let reply = datagrams(&stage.keys, &mut peer, Class::Reply, b"reply");
    for datagram in all.iter().chain(&reply) {
        stage.receive_in(PollScope::Replies, std::slice::from_ref(datagram));
    }
    assert_eq!(stage.log.packets, [(JobRank(1), Class::Reply, b"reply".to_vec())]);
    stage.net.poll(PollScope::All, &mut stage.log);
    let deferred = stage.log.packets.len() - 1;
    assert!((count / 9..count / 3 + 2).contains(&deferred), "{deferred}");
    stage.receive(&all);
    let mut packets: Vec<_> = stage.log.packets.drain(..).map(|(_, _, bytes)| bytes).collect();
    packets.sort();
    packets.retain(|message| message != b"reply");
    assert!(packets == messages);
    assert_eq!(
        (stage.duplicates(), stage.rejected()),
        ((deferred * all.len() / count) as u64, 0)
    );
}

#[test]
fn requests_over_the_limit_are_retransmitted() {
    exceed_deferred_limit(30, 100, false);
}

#[test]
fn fragments_of_requests_over_the_limit_are_retransmitted() {
    exceed_deferred_limit(9, 1300, true);
}

#[test]
fn puts_outside_segments_are_malformed() {
    let mut stage = Stage::new();
    let mut segment = vec![0u64; 512];
    let base = segment.as_mut_ptr() as usize;
    stage.net.segments.register(base, 4096);
    let mut source = vec![9u8; 4096];
    let mut peer = peer();
    let mut put = |stage: &mut Stage, address: usize, bytes: usize| {
        let from = client_memory(&mut source[..bytes]);
        peer.put(&stage.keys, PutOp::new(address, from, bytes, Cookie::new(1)))
            .unwrap();
        let all = queued(&stage.keys, &mut peer);
        for datagram in &all {
            stage.remote.send_to(datagram, ("127.0.0.1", stage.net.port())).unwrap();
        }
        let (began, mut served) = (Instant::now(), 0);
        while served < all.len() && stage.log.lost.is_empty() {
            served += stage.net.poll(PollScope::Replies, &mut stage.log);
            assert!(began.elapsed() < Duration::from_secs(60));
        }
    };
    put(&mut stage, base, 4096);
    assert!(segment.iter().all(|&word| word == 0x0909_0909_0909_0909));
    assert!(stage.log.lost.is_empty());
    put(&mut stage, base + 4090, 8);
    assert_eq!(stage.log.lost, [JobRank(1)]);
}

#[test]
fn arrivals_wake() {
    let mut stage = Stage::new();
    let readable = |fd: i32| {
        let mut item = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one live item.
        (unsafe { libc::poll(&raw mut item, 1, 0) }) == 1
    };
    assert!(!readable(stage.net.fd()));
    let mut peer = peer();
    let datagram = datagrams(&stage.keys, &mut peer, Class::Reply, b"wake up").remove(0);
    stage
        .remote
        .send_to(&datagram, ("127.0.0.1", stage.net.port()))
        .unwrap();
    let began = Instant::now();
    while !readable(stage.net.fd()) {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    while stage.net.poll(PollScope::Replies, &mut stage.log) == 0 {}
    assert_eq!(stage.log.packets, [(JobRank(1), Class::Reply, b"wake up".to_vec())]);
}

#[test]
fn a_socket_that_the_program_closes_is_reported() {
    let mut stage = Stage::new();
    // As a program does that closes all descriptors and opens files.
    let other = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: both are open. The socket's number then names a file, which the socket's owner closes.
    assert!(unsafe { libc::dup2(other.as_raw_fd(), stage.net.fd()) } >= 0);
    for _ in 0..3 {
        stage.net.poll(PollScope::All, &mut stage.log);
    }
    let [failure] = &stage.log.failures[..] else {
        panic!("reported {} times", stage.log.failures.len());
    };
    assert!(failure.contains("descriptors"), "{failure}");
}
