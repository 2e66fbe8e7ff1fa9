//! Cases beyond the conformance suite: misuse, unauthenticated peers, the wake-up descriptor, and
//! that the NIC is as inconvenient as documented.

use crate::arrivals::Packet;
use crate::bootstrap::Meeting;
use crate::nic::Nic;
use crate::pinned::Pinned;
use crate::start::{hello, Net, PRESENT};
use crate::sys;
use gasnet_conduit::conformance::{expose, get, put, start_info, Log};
use gasnet_conduit::{
    Bootstrap, Busy, Class, Completion, Conduit, Cookie, Device, Dmabuf, Get, JobRank, LocalCompletion, LocalMemory,
    LocalSegment, Network, PollScope, Put, RemoteMemory, RemoteSegment, SegmentMemory, SourceUse, StartInfo, Upcalls,
    WakePromise,
};
use gasnet_sys::{fd, mem};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

fn meeting(name: &str, rank: u32, size: u32) -> Box<dyn Bootstrap> {
    Box::new(Meeting::at(format!("{name}:{rank}:{size}")))
}

gasnet_conduit::bootstrap_conformance_tests! {
    bootstrap: meeting;
}

const TOKEN: u128 = 0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00;
const ME: JobRank = JobRank(0);
const ALL: [JobRank; 2] = [ME, JobRank(1)];

fn info(exchange: &dyn Fn(&[u8]) -> Vec<u8>, size: usize, may_start_threads: bool) -> StartInfo<'_> {
    StartInfo {
        may_start_threads,
        job_token: TOKEN,
        ..start_info(ME, &ALL[..size], exchange)
    }
}

/// A job of one process, which sends to itself. Without a thread each poll is a pass of the NIC.
fn alone(may_start_threads: bool) -> Box<dyn Network> {
    let info = info(&<[u8]>::to_vec, 1, may_start_threads);
    crate::Loop::new().start(&info).unwrap()
}

fn poll_until(network: &dyn Network, log: &mut Log, done: impl Fn(&Log) -> bool) {
    for _ in 0..100_000 {
        if done(log) {
            return;
        }
        network.poll(PollScope::All, log);
    }
    panic!("no progress");
}

/// Exposes memory of a job of one process to itself.
fn exposed(network: &dyn Network, memory: &mut [u8]) -> (LocalSegment, RemoteMemory) {
    let memory = SegmentMemory::host(memory.as_mut_ptr() as usize, memory.len());
    let (own, names) = expose((ME, network), &memory, &[network]);
    (own, names[0])
}

#[test]
fn packets_are_aligned_to_16_bytes_and_no_better() {
    for bytes in [0, 1, 63, 64, 8192] {
        let mut packet = Packet::new(&vec![7; bytes]);
        assert_eq!(
            (packet.bytes().len(), packet.bytes().as_ptr() as usize % 64),
            (bytes, 16)
        );
    }
}

#[test]
fn sources_are_read_late() {
    let network = alone(false);
    let mut memory = vec![0; 100];
    let (_, target) = exposed(&*network, &mut memory);
    let mut log = Log::default();
    let mut reported_with_the_rest = 0;
    for number in 0..200u64 {
        let mut source = [1; 100];
        let cookie = Cookie::new(number);
        assert_eq!(
            put(&*network, target, &source, SourceUse::Later, cookie),
            Ok(LocalCompletion::Later)
        );
        source.fill(2);
        poll_until(&*network, &mut log, |log| log.done.iter().any(|done| done.0 == cookie));
        reported_with_the_rest += usize::from(log.done.contains(&(cookie, Completion::Both)));
        poll_until(&*network, &mut log, |log| {
            log.done.last().is_some_and(|done| done.1 != Completion::Source)
        });
        let mut back = [0; 100];
        get(&*network, target, &mut back, Cookie::new(1000 + number)).unwrap();
        poll_until(&*network, &mut log, |log| {
            log.done.last() == Some(&(Cookie::new(1000 + number), Completion::Both))
        });
        assert_eq!(back, [2; 100]);
    }
    assert!((1..200).contains(&reported_with_the_rest), "{reported_with_the_rest}");
}

#[test]
fn operations_complete_after_a_word() {
    let network = alone(false);
    let words = network.abilities().words.unwrap();
    let mut memory = vec![3; 8];
    let (_, target) = exposed(&*network, &mut memory);
    let mut log = Log::default();
    assert_eq!(words.write(ME, 5, 9), Ok(true));
    poll_until(&*network, &mut log, |_| words.own()[5].load(SeqCst) == 9);
    let mut back = [0; 8];
    get(&*network, target, &mut back, Cookie::new(1)).unwrap();
    poll_until(&*network, &mut log, |log| !log.done.is_empty());
    assert_eq!(back, [3; 8]);
}

#[test]
fn a_packet_follows_its_data() {
    const BYTES: usize = 100_000;
    let network = alone(false);
    let mut memory = vec![0; BYTES];
    let (_, target) = exposed(&*network, &mut memory);
    let mut log = Log::default();
    for number in 1..20u8 {
        let source = vec![number; BYTES];
        let put = Put {
            to: target,
            from: LocalMemory {
                address: source.as_ptr() as usize,
                segment: LocalSegment::NONE,
                device: None,
            },
            bytes: BYTES,
            source: SourceUse::Later,
            cookie: Cookie::new(number.into()),
        };
        let notify = network.abilities().put_notify.unwrap();
        notify.put_and_notify(&put, None, Class::Request, &[b"here"]).unwrap();
        poll_until(&*network, &mut log, |log| log.packets.len() == usize::from(number));
        assert!(
            memory.iter().all(|&byte| byte == number),
            "placed before packet {number}"
        );
        poll_until(&*network, &mut log, |log| log.done.len() == usize::from(number));
    }
}

#[test]
fn operations_and_packets_overtake_each_other() {
    let network = alone(false);
    let mut memory = vec![0; 8];
    let (_, target) = exposed(&*network, &mut memory);
    let mut log = Log::default();
    for number in 0..8 {
        network.send(ME, Class::Request, &[&[number]]).unwrap();
        put(&*network, target, &[1], SourceUse::Now, Cookie::new(number.into())).unwrap();
    }
    poll_until(&*network, &mut log, |log| log.packets.len() == 8 && log.done.len() == 8);
    assert!(!log.packets.is_sorted_by_key(|packet| packet.2[0]), "packets in order");
    assert!(!log.done.is_sorted_by_key(|done| done.0.bits()), "completions in order");
}

#[test]
fn limits_are_small_and_classes_independent() {
    let network = alone(false);
    let mut memory = vec![0; 8];
    let (_, target) = exposed(&*network, &mut memory);
    let fill = |class| {
        (0..1000)
            .take_while(|_| network.send(ME, class, &[b"x"]).is_ok())
            .count()
    };
    assert_eq!(
        (fill(Class::Request), fill(Class::Request), fill(Class::Reply)),
        (8, 0, 8)
    );
    let start = |i| put(&*network, target, &[1], SourceUse::Now, Cookie::new(i));
    assert_eq!((0..1000).take_while(|i| start(*i).is_ok()).count(), 64);
    assert_eq!(start(0), Err(Busy));
    let mut log = Log::default();
    poll_until(&*network, &mut log, |log| {
        log.packets.len() == 16 && log.done.len() == 64
    });
    assert_eq!(fill(Class::Request), 8);
}

/// Runs `misuse`, which must panic with a message that contains `text`.
fn defect(text: &str, misuse: impl FnOnce(&dyn Network, RemoteMemory, LocalSegment) + std::panic::UnwindSafe) {
    let panic = std::panic::catch_unwind(|| {
        let (network, mut memory) = (alone(false), vec![0; 64]);
        let (own, target) = exposed(&*network, &mut memory);
        misuse(&*network, target, own);
    });
    let panic = panic.expect_err("the misuse was accepted");
    let message = panic.downcast_ref::<String>().cloned().unwrap_or_default();
    assert!(message.starts_with("defect: ") && message.contains(text), "{message}");
}

#[test]
fn numbers_that_name_nothing_are_defects() {
    let start = |network: &dyn Network, target| {
        let _ = put(network, target, &[1], SourceUse::Now, Cookie::new(1));
    };
    defect("not learned", move |network, target, _| {
        let segment = RemoteSegment(target.segment.0 + 1);
        start(network, RemoteMemory { segment, ..target });
    });
    defect("was forgotten", move |network, target, _| {
        let segments = network.abilities().segments.unwrap();
        segments.forget(ME, target.segment);
        start(network, target);
    });
    defect("forgotten but not learned", |network, target, _| {
        let segments = network.abilities().segments.unwrap();
        segments.forget(ME, target.segment);
        segments.forget(ME, target.segment);
    });
    defect("not registered", |network, _, own| {
        let segments = network.abilities().segments.unwrap();
        segments.deregister(own);
        segments.deregister(own);
    });
    defect("not in that segment", |network, target, own| {
        let from = LocalMemory {
            address: target.address + 60,
            segment: own,
            device: None,
        };
        let (bytes, source, cookie) = (5, SourceUse::Later, Cookie::new(1));
        let put = Put {
            to: target,
            from,
            bytes,
            source,
            cookie,
        };
        let _ = network.abilities().rma.unwrap().put(&put);
    });
}

#[test]
fn a_segment_that_was_registered_again_has_another_key() {
    let (network, mut memory) = (alone(false), vec![0; 64]);
    let (own, target) = exposed(&*network, &mut memory);
    let segments = network.abilities().segments.unwrap();
    segments.deregister(own);
    let (_, again) = exposed(&*network, &mut memory);
    assert_ne!(again.segment, target.segment);
    let mut log = Log::default();
    put(&*network, again, &[1], SourceUse::Now, Cookie::new(1)).unwrap();
    poll_until(&*network, &mut log, |log| !log.done.is_empty());
    put(&*network, target, &[2], SourceUse::Now, Cookie::new(2)).unwrap();
    poll_until(&*network, &mut log, |log| !log.lost.is_empty());
    assert_eq!((log.done.len(), log.lost.as_slice(), memory[0]), (1, &[ME][..], 1));
}

#[test]
fn unauthenticated_peers_are_ignored() {
    let exchange = |bytes: &[u8]| {
        if bytes.len() == 8 {
            let name = u64::from_ne_bytes(bytes.try_into().unwrap());
            for first in [
                &hello(JobRank(1), TOKEN ^ 1)[..],
                &hello(ME, TOKEN),
                &[0; 25],
                &[],
                &hello(JobRank(1), TOKEN),
            ] {
                let peer = sys::connect(name).unwrap();
                fd::send(peer.as_raw_fd(), first).unwrap();
                std::mem::forget(peer);
            }
        }
        bytes.repeat(2)
    };
    let info = info(&exchange, 2, false);
    let net = Net::open(&info, Pinned::open(&info).unwrap()).unwrap();
    let mut nic = Nic::new(ME, 2, 1);
    nic.pass(&net);
    assert!(net.links[1].is_some() && net.states[1].load(SeqCst) == PRESENT);
}

#[test]
fn an_armed_descriptor_wakes() {
    let network = alone(true);
    let wake = network.abilities().wake.unwrap();
    let readable = |limit| fd::poll(&mut [fd::readable(wake.fd())], Some(limit)).unwrap() == 1;
    let mut log = Log::default();
    for class in [Class::Request, Class::Reply] {
        assert!(wake.arm());
        assert!(!readable(Duration::ZERO));
        network.send(ME, class, &[b"wake up"]).unwrap();
        assert!(readable(Duration::from_secs(60)));
        assert!(!wake.arm(), "armed while there is something to deliver");
        poll_until(&*network, &mut log, |log| log.packets.len() == 1 + class as usize);
    }
}

#[test]
fn a_watcher_is_called_until_the_next_poll() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let network = alone(true);
    let wake = network.abilities().wake.unwrap();
    let mut log = Log::default();
    assert_eq!(wake.watch(|| _ = CALLS.fetch_add(1, SeqCst)), WakePromise::Wakes);
    network.send(ME, Class::Request, &[b"wake up"]).unwrap();
    while CALLS.load(SeqCst) < 3 {
        std::thread::yield_now();
    }
    // Also for what arrived before. A poll of replies ends the watch, and leaves the packet.
    network.poll(PollScope::Replies, &mut log);
    std::thread::sleep(Duration::from_millis(5));
    CALLS.store(0, SeqCst);
    assert_eq!(wake.watch(|| _ = CALLS.fetch_add(1, SeqCst)), WakePromise::Wakes);
    while CALLS.load(SeqCst) < 3 {
        std::thread::yield_now();
    }
    poll_until(&*network, &mut log, |log| log.packets.len() == 1);
}

#[test]
fn device_memory_is_reached_through_its_dmabuf() {
    const BASE: usize = 0x7000_0000_1000;
    let file = File::from(mem::file_of("device", Path::new("/tmp"), &[7; 12_345]).unwrap());
    let network = alone(false);
    let segments = network.abilities().segments.unwrap();
    let memory = SegmentMemory {
        base: BASE,
        bytes: 3000,
        device: Some(Device::Hip(1)),
    };
    assert_eq!(segments.register_device(&memory, &|| None), None);
    let dmabuf = || {
        let fd = file.try_clone().unwrap().into();
        Some(Dmabuf { fd, offset: 5001 })
    };
    let registration = segments.register_device(&memory, &dmabuf).unwrap();
    let target = RemoteMemory {
        peer: ME,
        segment: segments.learn(ME, &memory, &registration.key).unwrap(),
        address: BASE + 100,
    };
    let mut log = Log::default();
    let source: Vec<u8> = (0..2900).map(|i| i as u8).collect();
    put(&*network, target, &source, SourceUse::Later, Cookie::new(1)).unwrap();
    poll_until(&*network, &mut log, |log| {
        log.done.last().is_some_and(|done| done.1 != Completion::Source)
    });
    let mut now = [0; 12_345];
    file.read_exact_at(&mut now, 0).unwrap();
    let (before, rest) = now.split_at(5101);
    assert!(before.iter().chain(&rest[2900..]).all(|&byte| byte == 7) && rest[..2900] == source);
    // As the local side.
    let host = &mut [9; 50];
    let (_, from) = exposed(&*network, host);
    let get = Get {
        from,
        to: LocalMemory {
            address: BASE,
            segment: registration.segment,
            device: memory.device,
        },
        bytes: 50,
        cookie: Cookie::new(2),
    };
    network.abilities().rma.unwrap().get(&get).unwrap();
    poll_until(&*network, &mut log, |log| {
        log.done.contains(&(Cookie::new(2), Completion::Both))
    });
    file.read_exact_at(&mut now[..52], 5000).unwrap();
    assert_eq!((now[0], &now[1..51], now[51]), (7, &[9; 50][..], 7));
    segments.deregister(registration.segment);
}

#[test]
#[should_panic(expected = "defect: a segment up to byte 9001 of a dmabuf of 9000 bytes")]
fn a_segment_lies_in_its_dmabuf() {
    let network = alone(false);
    let memory = SegmentMemory {
        base: 4096,
        bytes: 9000,
        device: Some(Device::Cuda(0)),
    };
    let dmabuf = || {
        let fd = mem::file_of("device", Path::new("/tmp"), &[0; 9000]).unwrap();
        Some(Dmabuf { fd, offset: 1 })
    };
    let _ = network.abilities().segments.unwrap().register_device(&memory, &dmabuf);
}

#[test]
fn a_second_reply_to_a_request_is_a_defect() {
    struct Replies<'a>(&'a dyn Network, usize);
    impl Upcalls for Replies<'_> {
        fn packet(&mut self, source: JobRank, class: Class, _: &mut [u8]) {
            for _ in 0..self.1 * usize::from(class == Class::Request) {
                self.0.send(source, Class::Reply, &[b"yes"]).unwrap();
            }
        }
        fn done(&mut self, _: Cookie, _: Completion) {}
        fn peer_lost(&mut self, _: JobRank, _: &str) {}
        fn network_lost(&mut self, _: &str) {}
    }
    let reply = |count| {
        move |network: &dyn Network, _, _| {
            for _ in 0..2 {
                network.send(ME, Class::Request, &[b"well?"]).unwrap();
            }
            for _ in 0..1000 {
                network.poll(PollScope::All, &mut Replies(network, count));
            }
            panic!("defect: none until reply {count}");
        }
    };
    defect("none until reply 1", reply(1));
    defect("second reply", reply(2));
}
