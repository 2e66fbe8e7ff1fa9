//! Checks of packets whose payload is not copied: `send_buffers_conformance_tests!` and
//! `gather_conformance_tests!`, called as `conformance_tests!`.

use super::rma::{host, until_taken, Parts};
use super::{check_packet, connect_all, packet, Inbox, Job, Make, Seen, Watchdog};
use crate::{
    Busy, Class, Completion, Cookie, Gather, GatheredPacket, JobRank, LocalCompletion, Network, PollScope, SendBuffer,
    SendBuffers, SourceUse, Upcalls, PACKET_ALIGN,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;

/// Writes into a reserved buffer.
pub(super) fn fill(buffer: SendBuffer, bytes: &[u8]) {
    // SAFETY: the caller has reserved this number of bytes, and nobody else accesses them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.0, bytes.len()) };
}

pub(super) fn buffers(network: &dyn Network) -> &dyn SendBuffers {
    network.abilities().send_buffers.expect("send buffers")
}

fn gather(network: &dyn Network) -> &dyn Gather {
    network.abilities().gather.expect("gathered packets")
}

/// Sizes of all magnitudes up to the largest.
fn sizes(max: usize) -> Vec<usize> {
    let powers = (3..usize::BITS).map(|shift| 1_usize << shift).take_while(|&n| n < max);
    let mut sizes: Vec<usize> = (8..40)
        .chain(powers.flat_map(|n| [n, n + 1]))
        .chain([max - 1, max])
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Packets of any size arrive unaltered from reserved buffers, in both classes, among others that
/// are sent by copy.
pub fn reserved_packets_arrive(make: Make<'_>) {
    let job = Job::start(make, 2);
    let sizes = sizes(job.limits.max_packet_bytes);
    assert!(buffers(job.of(0)).max_bytes() >= sizes[sizes.len() - 1]);
    let done = AtomicUsize::new(0);
    job.run(|rank, network| {
        let (seen, pool) = (Mutex::default(), buffers(network));
        let mut inbox = Inbox::new(network, rank, &seen);
        for (index, &bytes) in sizes.iter().enumerate() {
            let class = [Class::Request, Class::Reply][index % 2];
            for peer in [0, 1].map(JobRank) {
                let buffer = until_taken(network, &mut inbox, || pool.reserve(peer, class, bytes));
                assert_eq!(buffer.0 as usize % PACKET_ALIGN, 0, "a send buffer is not aligned");
                fill(buffer, &packet(rank, bytes as u64, bytes));
                until_taken(network, &mut inbox, || pool.send_reserved(peer, class, buffer, bytes));
                inbox.send(peer, class, 1 << 40 | index as u64, 100);
            }
        }
        inbox.poll_until("all sizes", |inbox| {
            inbox.count(Class::Request) + inbox.count(Class::Reply) == 4 * sizes.len()
        });
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other rank", |_| done.load(SeqCst) == 2);
    });
    job.stop();
}

/// However many buffers are reserved, packets are sent; buffers that are released or sent can be
/// reserved again; and one that the conduit was too busy to send is unchanged.
pub fn reserved_buffers_hold_nothing_up(make: Make<'_>) {
    /// Networks whose pool grows without limit stop here.
    const MOST: usize = 64;
    const EACH: u64 = 60;
    let job = Job::start(make, 2);
    connect_all(&job);
    let max = job.limits.max_packet_bytes;
    let (prepared, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    job.run(|rank, network| {
        let (seen, pool) = (Mutex::new(Seen::default()), buffers(network));
        let mut inbox = Inbox::new(network, rank, &seen).answering();
        let peer = JobRank(1 - rank.0);
        for round in 0..3 {
            // A busy decorator may refuse the first.
            let first = until_taken(network, &mut inbox, || pool.reserve(peer, Class::Request, max));
            let more = std::iter::from_fn(|| pool.reserve(peer, Class::Request, max).ok());
            let held: Vec<_> = std::iter::once(first).chain(more.take(MOST)).collect();
            let numbers = (0..held.len() as u64).map(|index| 1 << 40 | round << 32 | index);
            for (buffer, number) in held.iter().zip(numbers.clone()) {
                fill(*buffer, &packet(rank, number, max));
            }
            prepared.fetch_add(1, SeqCst);
            inbox.poll_until("the other rank", |_| prepared.load(SeqCst) >= 2 * (round as usize + 1));
            for index in 0..EACH {
                inbox.send(peer, Class::Request, round << 32 | index, max);
            }
            let expected = |inbox: &Inbox<'_>| inbox.count(Class::Reply) >= (EACH * (round + 1)) as usize;
            inbox.poll_until("replies beside reserved buffers", expected);
            for (index, (buffer, number)) in held.into_iter().zip(numbers).enumerate() {
                if index % 2 == 1 {
                    pool.release(buffer);
                    continue;
                }
                until_taken(network, &mut inbox, || {
                    pool.send_reserved(peer, Class::Request, buffer, max)
                });
                let is_answered = |inbox: &Inbox<'_>| inbox.seen.lock().unwrap().replies.contains(&(peer, number));
                inbox.poll_until("the reply to a prepared packet", is_answered);
            }
        }
        done.fetch_add(1, SeqCst);
        inbox.poll_until("the other rank", |_| done.load(SeqCst) == 2);
    });
    job.stop();
}

/// Upcalls of a rank that gathers: packets, and local completions.
struct Rank<'a> {
    seen: &'a Mutex<Seen>,
    own: Parts,
}

impl Upcalls for Rank<'_> {
    fn packet(&mut self, source: JobRank, class: Class, packet: &mut [u8]) {
        assert_eq!(packet.as_ptr() as usize % PACKET_ALIGN, 0, "a packet is not aligned");
        let number = check_packet(source, packet);
        self.seen.lock().unwrap().add(source, class, number);
    }

    fn done(&mut self, cookie: Cookie, part: Completion) {
        assert_eq!(part, Completion::Source, "of {cookie:?}, a packet");
        self.own.done(cookie, part);
    }

    fn peer_lost(&mut self, peer: JobRank, why: &str) {
        panic!("rank {peer} was lost: {why}");
    }
    fn network_lost(&mut self, why: &str) {
        unreachable!("the network failed: {why}");
    }
}

/// Gathered packets arrive unaltered, in both classes. Local completion is reported once, and from
/// then on the payload may be overwritten, while later packets are under way.
pub fn gathered_packets_arrive(make: Make<'_>) {
    const FRONT: usize = 3 * PACKET_ALIGN;
    const COUNT: usize = 150;
    let job = Job::start(make, 2);
    let least = gather(job.of(0)).gather_limit();
    let most = job.limits.max_packet_bytes - FRONT;
    assert!(least <= most, "a gather limit above the largest packet");
    let over = AtomicBool::new(false);
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut me = Rank {
            seen: &seen,
            own: Parts::default(),
        };
        let watchdog = Watchdog::new();
        if rank == JobRank(1) {
            while seen.lock().unwrap().len() < COUNT {
                network.poll(PollScope::All, &mut me);
                watchdog.check("gathered packets");
            }
            return over.store(true, SeqCst);
        }
        let bytes = |number: usize| [least, most, least + (most - least) * number / COUNT][number % 3];
        let packets = (0..COUNT).map(|number| packet(rank, number as u64, FRONT + bytes(number)));
        let mut packets: Vec<Vec<u8>> = packets.collect();
        for (number, packet) in packets.iter().enumerate() {
            let cookie = Cookie::new(number as u64);
            let sent = GatheredPacket {
                peer: JobRank(1),
                class: [Class::Request, Class::Reply][number / 2 % 2],
                front: &packet[..FRONT],
                payload: host(packet[FRONT..].as_ptr() as usize),
                bytes: packet.len() - FRONT,
                source: [SourceUse::Later, SourceUse::Now][number % 2],
                cookie,
            };
            let attempt = || gather(network).send_gathered(&sent);
            if until_taken::<LocalCompletion>(network, &mut me, attempt) == LocalCompletion::AtReturn {
                me.own.source_at_return(cookie);
            }
        }
        for (number, packet) in packets.iter_mut().enumerate() {
            while !me.own.source(Cookie::new(number as u64)) {
                network.poll(PollScope::All, &mut me);
                watchdog.check("local completion");
            }
            packet.fill(0xee);
        }
        while !over.load(SeqCst) {
            network.poll(PollScope::All, &mut me);
            watchdog.check("the receiver");
        }
        // A second report would come now, or would have come.
        for _ in 0..1000 {
            network.poll(PollScope::All, &mut me);
        }
    });
    job.stop();
}

/// A refused packet was not begun: it can be sent by copy.
pub fn gathered_busy_recovers(make: Make<'_>) {
    const FRONT: usize = PACKET_ALIGN;
    const MOST: usize = 10_000;
    let job = Job::start(make, 2);
    connect_all(&job);
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    job.run(|rank, network| {
        let seen = Mutex::default();
        let mut me = Rank {
            seen: &seen,
            own: Parts::default(),
        };
        let watchdog = Watchdog::new();
        if rank == JobRank(1) {
            while sent.load(SeqCst) == 0 {
                watchdog.check("a busy conduit");
            }
            while seen.lock().unwrap().len() < sent.load(SeqCst) {
                network.poll(PollScope::All, &mut me);
                watchdog.check("gathered packets");
            }
            return over.store(true, SeqCst);
        }
        let gather = gather(network);
        let mut packets = Vec::new();
        let refused = loop {
            let number = packets.len();
            let packet = packet(rank, number as u64, FRONT + gather.gather_limit());
            let result = gather.send_gathered(&GatheredPacket {
                peer: JobRank(1),
                class: Class::Request,
                front: &packet[..FRONT],
                payload: host(packet[FRONT..].as_ptr() as usize),
                bytes: packet.len() - FRONT,
                source: SourceUse::Later,
                cookie: Cookie::new(number as u64),
            });
            match result {
                Err(Busy) => break packet,
                Ok(LocalCompletion::AtReturn) => me.own.source_at_return(Cookie::new(number as u64)),
                Ok(LocalCompletion::Later) => {}
            }
            packets.push(packet);
            assert!(
                packets.len() < MOST,
                "a receiver that does not poll never makes it busy"
            );
        };
        sent.store(packets.len() + 1, SeqCst);
        until_taken(network, &mut me, || {
            network.send(JobRank(1), Class::Request, &[&refused])
        });
        while !over.load(SeqCst) {
            network.poll(PollScope::All, &mut me);
            watchdog.check("the receiver");
        }
        for number in 0..packets.len() as u64 {
            while !me.own.source(Cookie::new(number)) {
                network.poll(PollScope::All, &mut me);
                watchdog.check("local completion");
            }
        }
    });
    job.stop();
}
