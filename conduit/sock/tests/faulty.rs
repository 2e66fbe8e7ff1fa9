//! Tests of the `Faulty` decorator, on a conduit that delivers everything immediately and in order.

use gasnet_conduit::faulty::Faulty;
use gasnet_conduit::{
    Abilities, Atomic, Atomics, Barrier, Busy, Class, Completion, ConduitError, Cookie, Dmabuf, Gather, GatheredPacket,
    Get, JobRank, LocalCompletion, LocalMemory, LocalSegment, Network, PollScope, Put, PutNotify, Registration,
    RemoteMemory, RemoteSegment, Rma, SegmentMemory, Segments, SendBuffer, SendBuffers, SourceUse, Stop, Upcalls,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Delivers every packet to its sender, with its destination as the source. Records the methods
/// that are called.
#[derive(Default)]
struct Loopback {
    packets: Mutex<Vec<(JobRank, Class, Vec<u8>)>>,
    done: Mutex<Vec<(Cookie, Completion)>>,
    called: Mutex<BTreeSet<&'static str>>,
}

impl Loopback {
    fn note(&self, method: &'static str) {
        self.called.lock().unwrap().insert(method);
    }
}

impl Network for Loopback {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.note("send");
        self.packets.lock().unwrap().push((peer, class, parts.concat()));
        Ok(())
    }
    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.note("poll");
        let mut packets = std::mem::take(&mut *self.packets.lock().unwrap());
        if scope == PollScope::Replies {
            let (replies, requests) = packets.into_iter().partition(|packet| packet.1 == Class::Reply);
            self.packets.lock().unwrap().extend::<Vec<_>>(requests);
            packets = replies;
        }
        let done = std::mem::take(&mut *self.done.lock().unwrap());
        for (source, class, packet) in &mut packets {
            upcalls.packet(*source, *class, packet);
        }
        for &(cookie, part) in &done {
            upcalls.done(cookie, part);
        }
        packets.len() + done.len()
    }
    fn stop(&self, _: Stop) {
        self.note("stop");
    }
    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            send_buffers: Some(self),
            gather: Some(self),
            segments: Some(self),
            rma: Some(self),
            put_notify: Some(self),
            atomics: Some(self),
            barrier: Some(self),
            ..Abilities::default()
        }
    }
}

impl Barrier for Loopback {
    fn enter(&self, _: [u64; 2]) -> Result<(), Busy> {
        self.note("Barrier::enter");
        Ok(())
    }
}

impl SendBuffers for Loopback {
    fn max_bytes(&self) -> usize {
        self.note("SendBuffers::max_bytes");
        9
    }
    fn reserve(&self, _: JobRank, _: Class, _: usize) -> Result<SendBuffer, Busy> {
        self.note("SendBuffers::reserve");
        Ok(BUFFER)
    }
    fn send_reserved(&self, _: JobRank, _: Class, _: SendBuffer, _: usize) -> Result<(), Busy> {
        self.note("SendBuffers::send_reserved");
        Ok(())
    }
    fn release(&self, _: SendBuffer) {
        self.note("SendBuffers::release");
    }
}

impl Gather for Loopback {
    fn gather_limit(&self) -> usize {
        self.note("Gather::gather_limit");
        10
    }
    fn send_gathered(&self, _: &GatheredPacket<'_>) -> Result<LocalCompletion, Busy> {
        self.note("Gather::send_gathered");
        Ok(LocalCompletion::AtReturn)
    }
}

impl Segments for Loopback {
    fn max_key_bytes(&self) -> usize {
        self.note("Segments::max_key_bytes");
        3
    }
    fn max_bytes(&self) -> usize {
        self.note("Segments::max_bytes");
        7
    }
    fn register(&self, _: &SegmentMemory) -> Result<Registration, ConduitError> {
        self.note("Segments::register");
        Ok(Registration {
            segment: LocalSegment(4),
            key: vec![5],
        })
    }
    fn register_device(&self, _: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        self.note("Segments::register_device");
        assert_eq!(dmabuf().map(|dmabuf| dmabuf.offset), Some(9));
        None
    }
    fn deregister(&self, _: LocalSegment) {
        self.note("Segments::deregister");
    }
    fn learn(&self, _: JobRank, _: &SegmentMemory, _: &[u8]) -> Result<RemoteSegment, ConduitError> {
        self.note("Segments::learn");
        Ok(RemoteSegment(6))
    }
    fn forget(&self, _: JobRank, _: RemoteSegment) {
        self.note("Segments::forget");
    }
}

impl Rma for Loopback {
    fn reaches_all_memory(&self) -> bool {
        self.note("Rma::reaches_all_memory");
        true
    }
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.note("Rma::put");
        let parts = [Completion::Source, Completion::Remote].map(|part| (put.cookie, part));
        self.done.lock().unwrap().extend(parts);
        Ok(LocalCompletion::Later)
    }
    fn get(&self, _: &Get) -> Result<(), Busy> {
        self.note("Rma::get");
        Ok(())
    }
}

impl PutNotify for Loopback {
    fn packed_limit(&self) -> usize {
        self.note("PutNotify::packed_limit");
        8
    }
    fn put_and_notify(&self, _: &Put, _: Option<SendBuffer>, _: Class, _: &[&[u8]]) -> Result<LocalCompletion, Busy> {
        self.note("PutNotify::put_and_notify");
        Ok(LocalCompletion::AtReturn)
    }
}

impl Atomics for Loopback {
    fn supports(&self, _: u32, _: u32) -> bool {
        self.note("Atomics::supports");
        true
    }
    fn atomic(&self, _: &Atomic) -> Result<(), Busy> {
        self.note("Atomics::atomic");
        Ok(())
    }
}

const REMOTE: RemoteMemory = RemoteMemory {
    peer: JobRank(0),
    segment: RemoteSegment(6),
    address: 0,
};

const BUFFER: SendBuffer = SendBuffer(std::ptr::null_mut());

const LOCAL: LocalMemory = LocalMemory {
    address: 0,
    segment: LocalSegment::NONE,
    device: None,
};

fn put(number: u64) -> Put {
    Put {
        to: REMOTE,
        from: LOCAL,
        bytes: 1,
        source: SourceUse::Later,
        cookie: Cookie::new(number),
    }
}

/// The packets received, in order: source, class, number.
#[derive(Default)]
struct Log {
    packets: Vec<(JobRank, Class, u64)>,
    done: Vec<(Cookie, Completion)>,
}

impl Upcalls for Log {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert!(packet.len() >= 8);
        self.packets
            .push((source, class, u64::from_le_bytes(packet[..8].try_into().unwrap())));
    }
    fn done(&mut self, cookie: Cookie, part: Completion) {
        self.done.push((cookie, part));
    }
    fn peer_lost(&mut self, _: JobRank, _: &str) {
        unreachable!()
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

fn started(rank: JobRank, plan: &str, die: impl Fn() + Send + Sync + 'static) -> Faulty<Box<Loopback>> {
    Faulty::new(Box::default(), rank, &plan.parse().unwrap(), Box::new(die))
}

/// Sends requests and replies of two processes, one per poll, and polls until all have arrived.
fn history(plan: &str) -> Vec<(JobRank, Class, u64)> {
    let (faulty, mut log) = (started(JobRank(1), plan, || ()), Log::default());
    for number in 0..200_u64 {
        for (peer, class) in [(3, Class::Request), (4, Class::Request), (3, Class::Reply)] {
            while faulty.send(JobRank(peer), class, &[&number.to_le_bytes()]) == Err(Busy) {}
        }
        if number % 3 == 0 {
            faulty.poll(PollScope::All, &mut log);
        }
    }
    for _ in 0..100 {
        faulty.poll(PollScope::All, &mut log);
    }
    let all: BTreeSet<_> = log.packets.iter().map(|p| (p.0, p.1 as u8, p.2)).collect();
    assert_eq!((all.len(), log.packets.len()), (600, 600), "{plan}");
    log.packets
}

/// Whether the packets of each process and class arrive in the order in which they were sent.
fn in_order(packets: &[(JobRank, Class, u64)]) -> bool {
    [(3, Class::Request), (4, Class::Request), (3, Class::Reply)]
        .into_iter()
        .all(|(peer, class)| {
            let numbers = packets
                .iter()
                .filter(|p| (p.0, p.1) == (JobRank(peer), class))
                .map(|p| p.2);
            numbers.is_sorted()
        })
}

#[test]
fn the_seed_decides() {
    let plan = |seed: u32| format!("seed={seed},delay=0.3,reorder=0.2,busy=0.3,split=0.2");
    assert_eq!(history(&plan(1)), history(&plan(1)));
    assert_ne!(history(&plan(1)), history(&plan(2)));
}

#[test]
fn only_reorder_reorders() {
    assert!(in_order(&history("seed=1")));
    assert!(in_order(&history("seed=1,delay=0.5,split=0.3,busy=0.5")));
    assert!(!in_order(&history("seed=1,reorder=0.2")));
    assert_ne!(history("seed=1,delay=0.5"), history("seed=1"));
}

#[test]
fn refusals_are_as_frequent_as_asked() {
    for (busy, low, high) in [("0", 0, 0), ("0.25", 200, 300), ("1", 900, 999)] {
        let faulty = started(JobRank(0), &format!("busy={busy}"), || ());
        let refused = (0..1000)
            .filter(|_| faulty.send(JobRank(0), Class::Request, &[&[0; 8]]) == Err(Busy))
            .count();
        assert!((low..=high).contains(&refused), "{refused} for {busy}");
    }
}

#[test]
fn a_poll_delivers_a_part() {
    let (faulty, mut log) = (started(JobRank(0), "split=0.2", || ()), Log::default());
    for number in 0..100_u64 {
        faulty
            .send(JobRank(0), Class::Request, &[&number.to_le_bytes()])
            .unwrap();
    }
    let first = faulty.poll(PollScope::All, &mut log);
    assert!(first < 100 && first == log.packets.len());
    while log.packets.len() < 100 {
        assert!(faulty.poll(PollScope::All, &mut log) > 0);
    }
}

#[test]
fn the_victim_ends_after_its_packets() {
    let deaths = Arc::new(AtomicUsize::new(0));
    let count = deaths.clone();
    let (faulty, mut log) = (
        started(JobRank(2), "kill=2:5", move || {
            assert_eq!(count.fetch_add(1, SeqCst), 0);
        }),
        Log::default(),
    );
    let sent = (0..10)
        .filter(|_| faulty.send(JobRank(0), Class::Request, &[&[0; 8]]).is_ok())
        .count();
    assert_eq!(
        (sent, deaths.load(SeqCst), faulty.poll(PollScope::All, &mut log)),
        (5, 1, 0)
    );
    let other = started(JobRank(1), "kill=2:5", || panic!("the wrong process was killed"));
    assert!((0..10).all(|_| other.send(JobRank(0), Class::Request, &[&[0; 8]]).is_ok()));
}

#[test]
fn replies_flow_past_held_requests() {
    let (faulty, mut log) = (started(JobRank(0), "delay=1", || ()), Log::default());
    for number in 0..20_u64 {
        faulty
            .send(JobRank(0), Class::Request, &[&number.to_le_bytes()])
            .unwrap();
        faulty.send(JobRank(0), Class::Reply, &[&number.to_le_bytes()]).unwrap();
    }
    faulty.poll(PollScope::All, &mut log);
    for _ in 0..30 {
        faulty.poll(PollScope::Replies, &mut log);
    }
    assert!(log.packets.len() == 20 && log.packets.iter().all(|p| p.1 == Class::Reply));
}

#[test]
fn completions_are_late_but_come_in_order() {
    let (faulty, mut log) = (started(JobRank(0), "delay=0.5", || ()), Log::default());
    for number in 0..50 {
        faulty.abilities().rma.unwrap().put(&put(number)).unwrap();
    }
    faulty.poll(PollScope::All, &mut log);
    assert!(log.done.len() < 100);
    for _ in 0..40 {
        faulty.poll(PollScope::Replies, &mut log);
    }
    assert_eq!(log.done.len(), 100);
    for number in 0..50 {
        let of_put = log.done.iter().filter(|done| done.0 == Cookie::new(number));
        assert!(of_put.map(|done| done.1).eq([Completion::Source, Completion::Remote]));
    }
}

/// All methods of a network and its abilities, but those of [`gasnet_conduit::Wake`].
const METHODS: [&str; 24] = [
    "Atomics::atomic",
    "Atomics::supports",
    "Barrier::enter",
    "Gather::gather_limit",
    "Gather::send_gathered",
    "PutNotify::packed_limit",
    "PutNotify::put_and_notify",
    "Rma::get",
    "Rma::put",
    "Rma::reaches_all_memory",
    "Segments::deregister",
    "Segments::forget",
    "Segments::learn",
    "Segments::max_bytes",
    "Segments::max_key_bytes",
    "Segments::register",
    "Segments::register_device",
    "SendBuffers::max_bytes",
    "SendBuffers::release",
    "SendBuffers::reserve",
    "SendBuffers::send_reserved",
    "poll",
    "send",
    "stop",
];

/// A method with a default that the decorator did not forward would silently be that default.
#[test]
fn every_method_reaches_the_network() {
    let (faulty, mut log) = (started(JobRank(0), "", || ()), Log::default());
    faulty.abilities().barrier.unwrap().enter([1, 2]).unwrap();
    let buffers = faulty.abilities().send_buffers.unwrap();
    assert_eq!(buffers.max_bytes(), 9);
    assert_eq!(buffers.reserve(JobRank(0), Class::Reply, 1), Ok(BUFFER));
    buffers.send_reserved(JobRank(0), Class::Reply, BUFFER, 1).unwrap();
    buffers.release(BUFFER);
    let gather = faulty.abilities().gather.unwrap();
    assert_eq!(gather.gather_limit(), 10);
    let packet = GatheredPacket {
        peer: JobRank(0),
        class: Class::Reply,
        front: &[],
        payload: LOCAL,
        bytes: 1,
        source: SourceUse::Later,
        cookie: Cookie::new(1),
    };
    gather.send_gathered(&packet).unwrap();
    let segments = faulty.abilities().segments.unwrap();
    let memory = SegmentMemory::host(0, 1);
    assert_eq!((segments.max_key_bytes(), segments.max_bytes()), (3, 7));
    let dmabuf = || {
        let fd = std::fs::File::open("/dev/null").unwrap().into();
        Some(Dmabuf { fd, offset: 9 })
    };
    assert_eq!(segments.register_device(&memory, &dmabuf), None);
    assert_eq!(segments.register(&memory).unwrap().key, [5]);
    assert_eq!(segments.learn(JobRank(0), &memory, &[5]).unwrap(), RemoteSegment(6));
    segments.forget(JobRank(0), RemoteSegment(6));
    segments.deregister(LocalSegment(4));
    let rma = faulty.abilities().rma.unwrap();
    assert!(rma.reaches_all_memory());
    rma.put(&put(1)).unwrap();
    let (to, from, bytes, cookie) = (LOCAL, REMOTE, 1, Cookie::new(2));
    rma.get(&Get {
        from,
        to,
        bytes,
        cookie,
    })
    .unwrap();
    let notify = faulty.abilities().put_notify.unwrap();
    assert_eq!(notify.packed_limit(), 8);
    notify.put_and_notify(&put(3), None, Class::Reply, &[]).unwrap();
    let atomics = faulty.abilities().atomics.unwrap();
    assert!(atomics.supports(1, 1));
    let atomic = Atomic {
        target: REMOTE,
        dt: 1,
        op: 1,
        operands: [0; 2],
        fetched: std::ptr::null_mut(),
        cookie,
    };
    atomics.atomic(&atomic).unwrap();
    faulty.send(JobRank(0), Class::Reply, &[&[0; 8]]).unwrap();
    faulty.poll(PollScope::All, &mut log);
    faulty.stop(Stop::Orderly);
    assert!(faulty.abilities().wake.is_none());
    let called: Vec<_> = faulty.inner().called.lock().unwrap().iter().copied().collect();
    assert_eq!(called, METHODS);
}
