//! An attacker without the keys that sees all traffic between two processes. Its forgeries are
//! counted as rejected, have no effect, open no connection and get no answer. Its replays are
//! counted as duplicates and have no effect.

use super::{change, Choices, Seeded, Trial};
use crate::memory::tests::{local_memory, remote_memory};
use crate::net::Net;
use crate::peers::encode_address;
use crate::sys::{Address, Socket, RECV_BATCH, RECV_BUFFER};
use crate::wire::{at, Kind, HEADER_BYTES};
use gasnet_conduit::conformance::start_info;
use gasnet_conduit::{Class, Completion, Cookie, Get, JobRank, PollScope, Put, Rma, SourceUse, StartInfo, Upcalls};
use std::collections::HashSet;
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SEGMENT: usize = 200_000;
/// Offset that gets read from, behind what puts write.
const READ: usize = 120_000;
/// Bytes of messages, and of transfers unless 0.
const SIZES: [usize; 9] = [0, 1, 8, 64, 100, 1000, 5000, 30_000, 68_000];
/// Bytes of the largest datagram.
const MAX_DATAGRAM: usize = 65_507;
/// Interval of keepalives to a silent peer.
const KEEPALIVE: Duration = Duration::from_millis(500);
const TIMEOUT: Duration = Duration::from_secs(60);

/// Messages and completions that a process received.
#[derive(Default, Debug, PartialEq, Clone)]
struct Got {
    messages: Vec<(Class, Vec<u8>)>,
    done: Vec<(Cookie, Completion)>,
}

impl Upcalls for Got {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert!(source < JobRank(2));
        self.messages.push((class, packet.to_vec()));
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        self.done.push((cookie, part));
    }
    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

fn pattern(who: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 250 + who) as u8).collect()
}

/// A process of a job of two, whose ranks send everything to `tap`.
fn join(rank: JobRank, tap: SocketAddr) -> Net {
    let exchange = |_: &[u8]| [&encode_address(tap)[..], &[7; 8]].concat().repeat(2);
    Net::open(&StartInfo {
        host_address: LOOPBACK,
        job_token: 1,
        ..start_info(rank, &[JobRank(0), JobRank(1)], &exchange)
    })
    .unwrap()
}

/// Two processes, and the attacker between them.
struct Relay {
    tap: Socket,
    memory: Vec<u8>,
    nets: [Net; 2],
    got: [Got; 2],
    segments: [Vec<u8>; 2],
    /// All datagrams so far: receiver and bytes.
    seen: Vec<(usize, Vec<u8>)>,
}

impl Relay {
    fn new() -> Self {
        let tap = Socket::open(SocketAddr::new(LOOPBACK, 0), 8 << 20).unwrap();
        let nets = [0, 1].map(|rank| join(JobRank(rank), tap.address));
        let segments = [0, 1].map(|rank| pattern(rank + 2, SEGMENT));
        for (net, segment) in nets.iter().zip(&segments) {
            net.segments.register(segment.as_ptr() as usize, SEGMENT);
        }
        Self {
            tap,
            memory: vec![0; RECV_BATCH * RECV_BUFFER],
            nets,
            got: Default::default(),
            segments,
            seen: Vec::new(),
        }
    }

    fn send(&self, to: &Net, datagram: &[u8]) {
        let address = Address::from(SocketAddr::new(LOOPBACK, to.port()));
        let (head, rest) = datagram.split_at(datagram.len().min(HEADER_BYTES));
        let run = [[IoSlice::new(head), IoSlice::new(rest)]];
        self.tap.send(Some(&address), &run, false).unwrap();
    }

    /// The datagrams that the processes have sent.
    fn drain_tap(&mut self) -> Vec<Vec<u8>> {
        let (mut found, mut all) = (Vec::new(), Vec::new());
        while self.tap.receive(&mut self.memory, RECV_BATCH, &mut found).is_ok() {
            for (buffer, received) in self.memory.chunks(RECV_BUFFER).zip(&found) {
                let datagrams = buffer[..received.bytes].chunks(received.datagram_bytes());
                all.extend(datagrams.map(<[u8]>::to_vec));
            }
        }
        all
    }

    /// Forwards the datagrams and polls both processes.
    fn pass(&mut self) {
        for datagram in self.drain_tap() {
            let to = usize::from(1 - datagram[at::SOURCE]);
            self.send(&self.nets[to], &datagram);
            self.seen.push((to, datagram));
        }
        for (net, got) in self.nets.iter().zip(&mut self.got) {
            net.poll(PollScope::All, got);
        }
    }

    /// Exchanges messages and transfers of all sizes until all are complete.
    fn work(&mut self) {
        let mut memory = Vec::new();
        for me in [0, 1] {
            let (peer, base) = (JobRank(1 - me as u32), self.segments[1 - me].as_ptr() as usize);
            let mut at = 0;
            for (i, &bytes) in SIZES.iter().enumerate() {
                let sent =
                    [Class::Request, Class::Reply].map(|class| self.nets[me].send(peer, class, &[&pattern(me, bytes)]));
                assert_eq!(sent, [Ok(()); 2]);
                if bytes == 0 {
                    continue;
                }
                let (source, mut copy) = (pattern(me, bytes), vec![0; bytes]);
                let cookie = |get: usize| Cookie::new((4 * i + 2 * me + get) as u64);
                let net = &self.nets[me];
                net.put(&Put {
                    to: remote_memory(peer, base + at),
                    from: local_memory(source.as_ptr() as usize),
                    bytes,
                    source: SourceUse::Later,
                    cookie: cookie(0),
                })
                .unwrap();
                net.get(&Get {
                    from: remote_memory(peer, base + READ),
                    to: local_memory(copy.as_mut_ptr() as usize),
                    bytes,
                    cookie: cookie(1),
                })
                .unwrap();
                memory.push((source, copy, me, at));
                at += bytes;
            }
        }
        let began = Instant::now();
        while self
            .got
            .iter()
            .any(|got| got.messages.len() < 2 * SIZES.len() || got.done.len() < 2 * (SIZES.len() - 1))
        {
            self.pass();
            assert!(began.elapsed() < TIMEOUT, "no progress");
        }
        for (me, got) in self.got.iter_mut().enumerate() {
            let mut expected: Vec<_> = SIZES
                .iter()
                .flat_map(|&bytes| [pattern(1 - me, bytes), pattern(1 - me, bytes)])
                .collect();
            let mut messages: Vec<_> = got.messages.drain(..).map(|(_, bytes)| bytes).collect();
            expected.sort();
            messages.sort();
            assert!(messages == expected, "received data differs");
            got.done.clear();
        }
        for (source, copy, me, at) in memory {
            let (segment, bytes) = (&self.segments[1 - me], source.len());
            assert!(segment[at..at + bytes] == source, "a put was misplaced");
            assert!(segment[READ..READ + bytes] == copy, "a get returned other data");
        }
        while !self.nets.iter().all(Net::is_drained) {
            self.pass();
            assert!(began.elapsed() < TIMEOUT, "something is still in flight");
        }
    }
}

/// Sends datagrams that a process must drop, and checks that it counts them.
fn drop_all(relay: &Relay, net: &Net, count: impl Fn(&Net) -> u64, datagrams: &[Vec<u8>]) {
    let mut got = Got::default();
    for some in datagrams.chunks(64) {
        let expected = count(net) + some.len() as u64;
        for datagram in some {
            relay.send(net, datagram);
        }
        let began = Instant::now();
        while count(net) < expected {
            net.poll(PollScope::All, &mut got);
            assert!(began.elapsed() < TIMEOUT, "{} of {} counted", count(net), expected);
        }
        net.poll(PollScope::All, &mut got);
        assert_eq!(count(net), expected);
    }
    assert_eq!(got, Got::default());
}

/// A mutated real datagram, or random bytes; never one that was sent.
fn changed(choices: &mut Seeded, real: &[Vec<u8>], known: &HashSet<Vec<u8>>) -> Vec<u8> {
    loop {
        let mut datagram = real[choices.below(real.len())].clone();
        if choices.below(16) == 0 {
            datagram = (0..choices.below(200)).map(|_| choices.number(1) as u8).collect();
        }
        for _ in 0..=choices.below(2) {
            let other = &real[choices.below(real.len())];
            change(choices, &mut datagram, other);
        }
        datagram.truncate(MAX_DATAGRAM);
        if !known.contains(&datagram) {
            return datagram;
        }
    }
}

fn rejected(net: &Net) -> u64 {
    net.counters.rejected.load(Relaxed)
}

fn duplicates(net: &Net) -> u64 {
    net.counters.duplicates.load(Relaxed)
}

#[test]
fn unauthenticated_datagrams_have_no_effect() {
    let mut trial = Trial::new(40_000);
    let mut choices = Seeded(trial.seed);
    let mut relay = Relay::new();
    relay.work();
    let real: Vec<Vec<u8>> = relay
        .seen
        .iter()
        .filter(|(to, _)| *to == 0)
        .map(|(_, all)| all.clone())
        .collect();
    let known = real.iter().cloned().collect();
    let kinds: HashSet<[u8; 2]> = real
        .iter()
        .map(|datagram| [datagram[at::KIND], datagram[at::CLASS]])
        .collect();
    assert!(
        kinds.is_superset(&HashSet::from([[1, 0], [1, 1], [2, 0], [4, 0], [5, 0], [6, 1]])),
        "{kinds:?}"
    );
    let (segment, unconnected) = (relay.segments[0].clone(), join(JobRank(0), relay.tap.address));
    let began = Instant::now();
    while trial.round < trial.rounds {
        let some: Vec<_> = (0..64).map(|_| changed(&mut choices, &real, &known)).collect();
        trial.round += 64;
        // A quarter of the datagrams goes to a process without a connection.
        let net = if trial.round / 64 % 4 == 0 {
            &unconnected
        } else {
            &relay.nets[0]
        };
        drop_all(&relay, net, rejected, &some);
    }
    assert!(!unconnected.is_connected(JobRank(1)), "a forgery opened a connection");
    let most = 1 + began.elapsed().as_nanos() / KEEPALIVE.as_nanos();
    let answers = relay.drain_tap().len();
    assert!(answers as u128 <= most, "{answers} answers");
    drop_all(&relay, &relay.nets[0], duplicates, &real);
    assert!(relay.segments[0] == segment, "something was placed");
    relay.drain_tap();
    relay.work();
    // Close datagrams, which were not forwarded so far.
    relay.nets[1].stop(gasnet_conduit::Stop::Orderly);
    let mut byes = relay.drain_tap();
    byes.retain(|datagram| datagram[at::KIND] == Kind::Close as u8);
    assert!(!byes.is_empty());
    let known = byes.iter().cloned().collect();
    let forged: Vec<_> = (0..500).map(|_| changed(&mut choices, &byes, &known)).collect();
    drop_all(&relay, &relay.nets[0], rejected, &forged);
}
