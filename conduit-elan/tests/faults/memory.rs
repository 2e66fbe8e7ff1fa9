//! Memory of the network that runs out at run time, and messages that it spoils.

use crate::driver::{child, memory_of_1, pair, Inbox};
use gasnet_conduit::conformance::{expose, get, put};
use gasnet_conduit::{
    Busy, Class, Cookie, JobRank, LocalCompletion, PollScope, RemoteMemory, SegmentMemory, SourceUse,
};
use std::time::{Duration, Instant};

const PEER: JobRank = JobRank(1);

/// Registers as many segments of four pages as the window has room for, and all of them again.
#[test]
#[ignore = "a child of other tests"]
fn segments() {
    const BYTES: usize = 16 << 10;
    let (job, mut memory) = (pair(), vec![0_u8; 16 * BYTES]);
    let segments = job.of(0).abilities().segments.unwrap();
    let base = (memory.as_mut_ptr() as usize).next_multiple_of(4096);
    let segment = |number: usize| SegmentMemory::host(base + number * BYTES, BYTES);
    for _ in 0..2 {
        let registered = (0..16).map_while(|number| match segments.register(&segment(number)) {
            Ok(registration) => Some(registration.segment),
            Err(why) => {
                eprintln!("{} are registered. {}", number, why.message);
                None
            }
        });
        let registered: Vec<_> = registered.collect();
        for segment in registered {
            segments.deregister(segment);
        }
    }
    eprintln!("limit {}", segments.max_bytes());
    job.stop();
}

#[test]
fn the_window_is_exhausted() {
    let why = |bytes| {
        format!(
            "The elan conduit cannot map 16384 bytes: the network's addresses have room for {bytes} in all. \
             GASNET_MAX_SEGSIZE limits segments."
        )
    };
    let printed = child("memory::segments", "flavour=elan3 window=49152", "");
    let line = format!("3 are registered. {}", why(49152));
    assert_eq!(
        printed.lines().filter(|printed| *printed == line).count(),
        2,
        "{printed}"
    );
    assert!(printed.contains("\nlimit 32768\n"), "{printed}");
    let printed = child("memory::segments", "flavour=elan3 fail-map=2", "");
    let line = format!("1 are registered. {}", why(512 << 20));
    assert_eq!(
        printed.lines().filter(|printed| *printed == line).count(),
        1,
        "{printed}"
    );
    // Elan4 has no such limit.
    let printed = child("memory::segments", "window=49152", "");
    assert!(
        !printed.contains("registered") && printed.contains("\nlimit 1844"),
        "{printed}"
    );
}

/// Rank 0 puts from a segment, in place, and overwrites it when the put is complete. Then it puts
/// from other memory, which Elan3 does not reach.
#[test]
#[ignore = "a child of other tests"]
fn sources() {
    const BYTES: usize = 10_000;
    let (job, mut memory, mut source) = (pair(), vec![0_u8; BYTES], vec![0_u8; 2 * BYTES]);
    let (own, mut inbox) = (job.of(0), Inbox::default());
    let target = memory_of_1(&job, &mut memory);
    let segment = SegmentMemory::host(source.as_mut_ptr() as usize, source.len());
    let (registered, _) = expose((JobRank(0), own), &segment, &[]);
    for round in 1..20 {
        source.fill(round as u8);
        let begun = put(own, target, &source[..BYTES], SourceUse::Later, Cookie::new(1));
        assert_eq!(begun, Ok(LocalCompletion::Later));
        inbox.wait(own, "a put", |inbox| inbox.done == round);
        source.fill(0);
        assert!(
            memory.iter().all(|byte| *byte == round as u8),
            "put {round} has altered its data"
        );
    }
    job.of(0).abilities().segments.unwrap().deregister(registered);
    let other = vec![77_u8; BYTES];
    eprintln!("{:?}", put(own, target, &other, SourceUse::Later, Cookie::new(1)));
    inbox.wait(own, "a put", |inbox| inbox.done == 20);
    assert_eq!(memory, other);
    job.stop();
}

#[test]
fn sources_are_used_in_place() {
    let printed = child("memory::sources", "flavour=elan3 late", "");
    assert!(printed.contains("\nOk(AtReturn)\n"), "{printed}");
    let printed = child("memory::sources", "late", "");
    assert!(printed.contains("\nOk(Later)\n"), "{printed}");
}

/// Segments of rank 1 that have pages in common: one lies inside another, and one begins inside it.
#[test]
#[ignore = "a child of other tests"]
fn shared_pages() {
    const PAGE: usize = 4096;
    let (job, mut memory) = (pair(), vec![0_u8; 8 * PAGE]);
    let start = (memory.as_mut_ptr() as usize).next_multiple_of(PAGE);
    let (own, owner, segments) = (job.of(0), (PEER, job.of(1)), job.of(1).abilities().segments.unwrap());
    let segment = |from: usize, bytes| SegmentMemory::host(start + from, bytes);
    let (mut inbox, mut count) = (Inbox::default(), 0);
    // A put of its number to a place in a segment at an offset.
    let mut put_at = |to: RemoteMemory, offset: usize| {
        count += 1;
        let started = put(own, to, &[count as u8; 8], SourceUse::Now, Cookie::new(1));
        assert!(started.is_ok());
        inbox.wait(own, "a put", |inbox| inbox.done == count);
        // SAFETY: memory of this test, which no operation uses now.
        let found = unsafe { std::slice::from_raw_parts((start + offset) as *const u8, 8) };
        assert_eq!(found, [count as u8; 8]);
    };
    let (outer, of_outer) = expose(owner, &segment(0, 3 * PAGE), &[own]);
    let (inner, of_inner) = expose(owner, &segment(PAGE + 104, PAGE), &[own]);
    put_at(of_inner[0], PAGE + 104);
    put_at(of_outer[0].plus(PAGE + 80), PAGE + 80);
    segments.deregister(inner);
    put_at(of_outer[0].plus(PAGE + 80), PAGE + 80);
    let (inner, of_inner) = expose(owner, &segment(PAGE + 104, PAGE), &[own]);
    segments.deregister(outer);
    put_at(of_inner[0].plus(PAGE - 8), 2 * PAGE + 96);
    let beyond = segment(2 * PAGE + 400, 2 * PAGE);
    match segments.register(&beyond) {
        Ok(registration) => segments.deregister(registration.segment),
        Err(why) => eprintln!("{}", why.message),
    }
    put_at(of_inner[0].plus(PAGE - 8), 2 * PAGE + 96);
    segments.deregister(inner);
    let (_, of_beyond) = expose(owner, &beyond, &[own]);
    put_at(of_beyond[0], 2 * PAGE + 400);
    job.stop();
}

#[test]
fn segments_share_pages() {
    let why = "The elan conduit cannot map a segment that has a page in common with another and is not inside it: \
               Elan3 maps a page once. Align segments to 4096 bytes.";
    let printed = child("memory::shared_pages", "flavour=elan3", "");
    assert_eq!(printed.lines().filter(|line| *line == why).count(), 1, "{printed}");
    let printed = child("memory::shared_pages", "", "");
    assert!(!printed.contains(why), "{printed}");
}

/// Rank 1 does not poll, so that the buffers of rank 0 stay full of long messages. What needs a
/// buffer is refused, and done later.
#[test]
#[ignore = "a child of other tests"]
fn without_buffers() {
    const BYTES: usize = 200_000;
    let (job, mut memory) = (pair(), vec![1_u8; BYTES]);
    let (own, mut inbox, mut others) = (job.of(0), Inbox::default(), Inbox::default());
    let target = memory_of_1(&job, &mut memory);
    let (large, small, all) = (vec![2; 129], vec![3; 128], vec![4; BYTES]);
    let mut read = vec![0; BYTES];
    // Two reach the buffers that rank 1 offers, and others wait in those of rank 0.
    let (mut sent, mut tries) = (0, 0);
    let until = Instant::now() + Duration::from_millis(100);
    while tries < 1000 || Instant::now() < until {
        sent += usize::from(own.send(PEER, Class::Request, &[&[7; 10_000]]).is_ok());
        own.poll(PollScope::All, &mut inbox);
        tries += 1;
    }
    eprintln!("{sent} messages");
    let copied = |from: &[u8], at| put(own, target.plus(at), from, SourceUse::Now, Cookie::new(1));
    assert_eq!(copied(&large, 0), Err(Busy), "a put of what is not addressable");
    assert_eq!(get(own, target, &mut read[..1], Cookie::new(1)), Err(Busy));
    assert_eq!(copied(&small, 0), Ok(LocalCompletion::AtReturn), "libelan copies it");
    // This one waits in the conduit for buffers.
    let begun = put(own, target.plus(0), &all, SourceUse::Later, Cookie::new(2));
    assert_eq!(begun, Ok(LocalCompletion::Later));
    inbox.wait(own, "a small put", |inbox| inbox.done == 1);
    while inbox.done < 2 {
        own.poll(PollScope::All, &mut inbox);
        job.of(1).poll(PollScope::All, &mut others);
    }
    inbox.wait(own, "a put", |_| copied(&large, 50).is_ok());
    inbox.wait(own, "a put", |inbox| inbox.done == 3);
    assert!(memory[..50] == all[..50] && memory[50..179] == large[..] && memory[179..] == all[179..]);
    inbox.wait(own, "a get", |_| get(own, target, &mut read, Cookie::new(1)).is_ok());
    inbox.wait(own, "a get", |inbox| inbox.done == 4);
    assert_eq!(read, memory);
    others.wait(job.of(1), "a message", |others| others.packets.len() == sent);
    assert!(others.packets.iter().all(|(_, packet)| *packet == [7; 10_000]));
    job.stop();
}

#[test]
fn buffers_are_exhausted() {
    for options in ["flavour=elan3", "flavour=elan3 late reorder delay=50"] {
        let printed = child("memory::without_buffers", options, "GASNET_ELAN_BUFFERS=8");
        assert!(printed.contains("\n5 messages\n"), "{printed}");
    }
}

/// The first of two messages is spoilt.
#[test]
#[ignore = "a child of other tests"]
fn spoilt() {
    let job = pair();
    let mut inbox = Inbox::default();
    for byte in [1, 2] {
        job.of(0).send(PEER, Class::Request, &[&[byte; 100]]).unwrap();
    }
    inbox.wait(job.of(1), "a message", |inbox| !inbox.packets.is_empty());
    assert_eq!(inbox.packets, [(Class::Request, vec![2; 100])]);
    assert_eq!(
        inbox.losses,
        ["a message with a head that no process has written has arrived in the queue"]
    );
    job.stop();
}

#[test]
fn a_message_is_spoilt() {
    child("memory::spoilt", "spoil-message=1", "");
}
