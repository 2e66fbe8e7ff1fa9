//! Tests of the `Faulty` decorator, on a conduit that delivers everything immediately and in order.

use gasnet_conduit::faulty::Faulty;
use gasnet_conduit::{
    Busy, Capabilities, Class, Conduit, ConduitError, Device, Identity, JobRank, Limits, LocalCompletion, PollScope,
    RemoteSegment, SegmentKey, StartInfo, TransferId, Upcalls,
};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Delivers every packet to its sender, with its destination as the source. Records the methods
/// that are called.
#[derive(Default)]
struct Loopback {
    packets: Mutex<Vec<(JobRank, Class, Vec<u8>)>>,
    done: Mutex<Vec<TransferId>>,
    called: Mutex<BTreeSet<&'static str>>,
}

impl Loopback {
    fn note(&self, method: &'static str) {
        self.called.lock().unwrap().insert(method);
    }
}

impl Conduit for Loopback {
    fn identity(&self) -> Identity {
        self.note("identity");
        Identity {
            name: "loop",
            version: "1",
        }
    }
    fn limits(&self) -> Limits {
        self.note("limits");
        Limits {
            max_packet_bytes: 1 << 16,
            max_ranks: 9,
            rails: 1,
        }
    }
    fn start(&self, _: &StartInfo<'_>) -> Result<(), ConduitError> {
        self.note("start");
        Ok(())
    }
    fn probe(&self) -> Result<(), ConduitError> {
        self.note("probe");
        Ok(())
    }
    fn needs_single_neighbourhood(&self) -> bool {
        self.note("needs_single_neighbourhood");
        true
    }
    fn takes_count(&self) -> bool {
        self.note("takes_count");
        true
    }
    fn reaches_other_hosts(&self) -> bool {
        self.note("reaches_other_hosts");
        true
    }
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
        for &id in &done {
            upcalls.rma_done(id);
        }
        packets.len() + done.len()
    }
    fn stop(&self) {
        self.note("stop");
    }
    fn capabilities(&self) -> Capabilities {
        self.note("capabilities");
        Capabilities::RMA
    }
    fn variables(&self) -> &'static [gasnet_conduit::config::Variable] {
        self.note("variables");
        &[]
    }
    fn max_segment_bytes(&self) -> usize {
        self.note("max_segment_bytes");
        7
    }
    fn register_segment(&self, _: usize, _: usize) -> Result<SegmentKey, ConduitError> {
        self.note("register_segment");
        Ok(SegmentKey::default())
    }
    fn register_device_segment(&self, _: Device, _: usize, _: usize) -> Result<SegmentKey, ConduitError> {
        self.note("register_device_segment");
        Ok(SegmentKey::default())
    }
    fn deregister_segment(&self, _: &SegmentKey) {
        self.note("deregister_segment");
    }
    fn learn_segment(&self, _: JobRank, _: &mut RemoteSegment) -> Result<(), ConduitError> {
        self.note("learn_segment");
        Ok(())
    }
    fn put(
        &self,
        _: JobRank,
        _: &RemoteSegment,
        _: usize,
        _: *const u8,
        _: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        self.note("put");
        self.done.lock().unwrap().push(id);
        Ok(LocalCompletion::WithOperation)
    }
    fn put_now(
        &self,
        _: JobRank,
        _: &RemoteSegment,
        _: usize,
        _: *const u8,
        _: usize,
        _: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        self.note("put_now");
        Ok(LocalCompletion::AtReturn)
    }
    fn get(&self, _: JobRank, _: &RemoteSegment, _: *mut u8, _: usize, _: usize, _: TransferId) -> Result<(), Busy> {
        self.note("get");
        Ok(())
    }
    fn atomic_support(&self, _: u32, _: u32) -> bool {
        self.note("atomic_support");
        true
    }
    fn atomic(
        &self,
        _: JobRank,
        _: &RemoteSegment,
        _: u32,
        _: u32,
        _: usize,
        _: [u64; 2],
        _: *mut u8,
        _: TransferId,
    ) -> Result<(), Busy> {
        self.note("atomic");
        Ok(())
    }
}

/// The packets received, in order: source, class, number.
#[derive(Default)]
struct Log {
    packets: Vec<(JobRank, Class, u64)>,
    done: Vec<TransferId>,
}

impl Upcalls for Log {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert!(packet.len() >= 8);
        self.packets
            .push((source, class, u64::from_le_bytes(packet[..8].try_into().unwrap())));
    }
    fn rma_done(&mut self, id: TransferId) {
        self.done.push(id);
    }
    fn peer_lost(&mut self, _: JobRank, _: &str) {
        unreachable!()
    }
}

fn started(rank: JobRank, plan: &str, die: impl Fn() + Send + Sync + 'static) -> Faulty<Box<Loopback>> {
    let faulty = Faulty::new(Box::<Loopback>::default(), &plan.parse().unwrap(), Box::new(die));
    let exchange = |bytes: &[u8]| bytes.to_vec();
    let info = StartInfo {
        host_address: std::net::Ipv4Addr::LOCALHOST.into(),
        rank,
        size: 9,
        neighbours: 1,
        may_start_threads: true,
        host_ranks: 9,
        single_threaded: true,
        exchange: &exchange,
        job_token: 0,
    };
    faulty.start(&info).unwrap();
    faulty
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
fn completions_are_late_but_come() {
    let (faulty, mut log) = (started(JobRank(0), "delay=0.5", || ()), Log::default());
    let segment = RemoteSegment {
        base: 0,
        bytes: 1,
        key: SegmentKey::default(),
        on_device: false,
    };
    for number in 0..50 {
        faulty
            .put(JobRank(0), &segment, 0, std::ptr::null(), 1, TransferId(number))
            .unwrap();
    }
    faulty.poll(PollScope::All, &mut log);
    assert!(log.done.len() < 50);
    for _ in 0..20 {
        faulty.poll(PollScope::Replies, &mut log);
    }
    let all: BTreeSet<_> = log.done.iter().map(|id| id.0).collect();
    assert_eq!((all.len(), log.done.len()), (50, 50));
}

#[test]
fn every_method_reaches_the_conduit() {
    // A method that the decorator did not forward would silently be the default of the trait.
    let trait_text = include_str!("../../conduit/src/conduit.rs");
    let methods = trait_text
        .split("pub trait Conduit: Sync {")
        .nth(1)
        .unwrap()
        .split("\n}\n")
        .next()
        .unwrap();
    let mut expected: BTreeSet<&str> = methods
        .lines()
        .filter_map(|line| line.strip_prefix("    fn "))
        .map(|line| line.split('(').next().unwrap())
        .collect();
    for own in ["wake_fd", "arm_wake", "watch"] {
        assert!(expected.remove(own));
    }
    let faulty = started(JobRank(0), "", || ());
    let (mut log, null, id) = (Log::default(), std::ptr::null_mut(), TransferId(0));
    let mut segment = RemoteSegment {
        base: 0,
        bytes: 1,
        key: SegmentKey::default(),
        on_device: false,
    };
    let _ = (
        faulty.identity(),
        faulty.limits(),
        faulty.capabilities(),
        faulty.variables(),
        faulty.max_segment_bytes(),
    );
    let _ = (
        faulty.probe(),
        faulty.needs_single_neighbourhood(),
        faulty.takes_count(),
        faulty.reaches_other_hosts(),
        faulty.register_segment(0, 1),
        faulty.atomic_support(1, 1),
    );
    let _ = (
        faulty.register_device_segment(Device::Cuda(0), 0, 1),
        faulty.learn_segment(JobRank(0), &mut segment),
    );
    faulty.deregister_segment(&segment.key);
    faulty.send(JobRank(0), Class::Reply, &[&[0; 8]]).unwrap();
    faulty.put(JobRank(0), &segment, 0, null, 1, id).unwrap();
    faulty.put_now(JobRank(0), &segment, 0, null, 1, id).unwrap();
    faulty.get(JobRank(0), &segment, null, 0, 1, id).unwrap();
    faulty.atomic(JobRank(0), &segment, 1, 1, 0, [0; 2], null, id).unwrap();
    faulty.poll(PollScope::All, &mut log);
    faulty.stop();
    assert_eq!(faulty.wake_fd(), None);
    assert_eq!(*faulty.inner().called.lock().unwrap(), expected);
}
