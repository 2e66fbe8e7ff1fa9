//! Two peers over a faulty link.

use super::link::{Link, LinkFaults};
use super::*;

impl Link {
    /// Both ends send `count` messages of many sizes, each of which arrives once. Returns the
    /// number of datagrams sent.
    fn exchange(&mut self, count: usize, faults: LinkFaults) -> usize {
        self.exchange_over(&[], count, faults)
    }

    /// The same over a path whose MTU changes between `sizes`.
    fn exchange_over(&mut self, sizes: &[usize], count: usize, faults: LinkFaults) -> usize {
        let message = |me: usize, i: usize| -> Vec<u8> {
            let bytes = [0, 1, 63, 100, 1400, 5000, 40_000][i % 7] + i % 13;
            (0..bytes).map(|b| (b * 7 + i + me) as u8).collect()
        };
        let mut next = [0; 2];
        for turn in 0usize.. {
            assert!(turn < 4_000_000, "no progress: {next:?}");
            if let Some(&size) = sizes.get(turn / 7 % sizes.len().max(1)) {
                self.ends[turn % 2].set_kernel_payload(size);
            }
            for (me, i) in next.iter_mut().enumerate() {
                while *i < count {
                    let bytes = message(me, *i);
                    if !self.ends[me].has_room(CLASSES[*i % 2], bytes.len()) {
                        break;
                    }
                    let (a, b) = bytes.split_at(bytes.len() / 3);
                    self.ends[me].queue_message(&self.keys, CLASSES[*i % 2], &[a, &[], b]);
                    *i += 1;
                }
            }
            self.step(faults);
            if self.received.iter().all(|received| received.len() >= count) && self.ends.iter().all(Peer::is_idle) {
                break;
            }
        }
        for me in 0..2 {
            let mut expected: Vec<_> = (0..count).map(|i| (CLASSES[i % 2], message(1 - me, i))).collect();
            let mut received = std::mem::take(&mut self.received[me]);
            for all in [&mut expected, &mut received] {
                all.sort_by(|a, b| (a.0 as u8, &a.1).cmp(&(b.0 as u8, &b.1)));
            }
            assert!(received == expected, "received data differs");
        }
        self.sent
    }
}

#[test]
fn a_good_link_carries_each_datagram_once() {
    for datagram in [MIN_PAYLOAD, 1408, 65_408] {
        let mut link = Link::new(datagram, 1);
        link.exchange(300, LinkFaults::NONE);
        let data: u64 = (0..2)
            .map(|me| link.ends[me].tx[Class::Request].next_number() + link.ends[me].tx[Class::Reply].next_number())
            .sum();
        assert!(
            (link.sent as u64) < data + data / 4 + 200,
            "{} for {data} datagrams",
            link.sent
        );
    }
}

#[test]
fn bad_links_lose_nothing() {
    let all = [
        LinkFaults::new(0, 300, 1),
        LinkFaults::new(0, 0, 400_000),
        LinkFaults::new(50, 0, 1),
        LinkFaults::new(200, 100, 100_000),
        LinkFaults::new(500, 500, 300_000),
    ];
    for (seed, faults) in all.into_iter().enumerate() {
        for datagram in [1408, 65_408] {
            Link::new(datagram, seed as u64 + 7).exchange(200, faults);
        }
    }
}

#[test]
fn mtu_changes_lose_nothing() {
    for seed in 1..4 {
        let mut link = Link::new(65_408, seed);
        link.exchange_over(&[65_408, 1408, MIN_PAYLOAD, 8896], 300, LinkFaults::new(50, 50, 50_000));
    }
}

#[test]
fn mtu_black_holes_lose_nothing() {
    for (seed, loss) in [(1, 0), (2, 100)] {
        let faults = LinkFaults::new(loss, 50, 50_000);
        for datagram in [1408, 8896] {
            let mut link = Link::new(datagram, seed);
            link.exchange(20, faults);
            // Neither are datagrams lost that were made before.
            let made = vec![1; 40_000];
            link.ends[0].queue_message(&link.keys, Class::Request, &[&made]);
            link.mtu = 1280 - 48;
            while link.received[1].is_empty() {
                link.step(faults);
            }
            assert_eq!(link.received[1].pop(), Some((Class::Request, made)));
            link.exchange(30, faults);
            assert!(link.ends[0].pmtu.is_reduced() || link.ends[0].max_payload == datagram);
            // A larger MTU is detected.
            link.mtu = usize::MAX;
            link.now += 60_000_000_000;
            link.exchange(20, faults);
            assert_eq!(link.ends[0].max_payload, datagram);
        }
    }
}

#[test]
fn requests_are_limited_by_the_depth() {
    let mut link = Link::new(1408, 1);
    link.ends[0].depth = 5;
    for _ in 0..5 {
        assert!(link.ends[0].has_room(Class::Request, 1));
        link.ends[0].queue_message(&link.keys, Class::Request, &[&[1]]);
    }
    assert!(!link.ends[0].has_room(Class::Request, 1) && link.ends[0].has_room(Class::Reply, 1));
    while link.received[1].len() < 5 || !link.ends[0].is_idle() {
        link.step(LinkFaults::NONE);
    }
    assert!(link.ends[0].has_room(Class::Request, 1));
}

#[test]
fn unanswered_time_is_measured() {
    let mut link = Link::new(1408, 1);
    link.ends[0].queue_message(&link.keys, Class::Request, &[&[1]]);
    let began = link.now;
    for _ in 0..100_000 {
        link.step(LinkFaults::OUTAGE);
    }
    assert_eq!(link.ends[0].unanswered(link.now), link.now - began);
    assert_eq!(link.ends[1].unanswered(link.now), 0);
    while link.received[1].is_empty() {
        link.step(LinkFaults::NONE);
    }
    for _ in 0..100 {
        link.step(LinkFaults::NONE);
    }
    assert_eq!(link.ends[0].unanswered(link.now), 0);
}

#[test]
fn outages_are_survived() {
    let mut link = Link::new(1408, 3);
    link.ends[0].queue_message(&link.keys, Class::Request, &[&[5; 5000]]);
    for _ in 0..20_000 {
        link.step(LinkFaults::OUTAGE);
    }
    // A tenth of a second without an answer: the timeouts backed off.
    assert!(link.sent < 60, "{}", link.sent);
    while link.received[1].is_empty() {
        link.step(LinkFaults::NONE);
    }
    assert_eq!(link.received[1].pop(), Some((Class::Request, vec![5; 5000])));
    link.exchange(100, LinkFaults::NONE);
}

#[test]
fn one_class_does_not_mask_losses_of_the_other() {
    for (class, other) in [(Class::Request, Class::Reply), (Class::Reply, Class::Request)] {
        let mut link = Link::new(1408, 3);
        link.ends[0].queue_message(&link.keys, class, &[b"lost"]);
        link.step(LinkFaults::OUTAGE);
        let began = link.now;
        // The other traffic of the two ends is acknowledged at once each time.
        for turn in 0..4_000usize {
            if turn % 10 == 0 {
                link.ends[0].queue_message(&link.keys, other, &[b"other"]);
                link.ends[1].queue_message(&link.keys, class, &[b"other"]);
            }
            link.step(LinkFaults::NONE);
            if turn == 200 {
                assert_eq!(link.ends[0].unanswered(link.now), link.now - began + 5_000);
            }
        }
        let lost = link.received[1].iter().filter(|(_, bytes)| bytes == b"lost").count();
        assert_eq!(lost, 1, "{class:?}");
    }
}

#[test]
fn empty_messages_are_retransmitted() {
    let mut link = Link::new(1408, 3);
    link.ends[0].queue_message(&link.keys, Class::Request, &[]);
    link.step(LinkFaults::OUTAGE);
    for _ in 0..100_000 {
        link.step(LinkFaults::NONE);
    }
    assert_eq!(link.received[1], [(Class::Request, Vec::new())]);
    assert!(link.ends[0].is_idle() && !link.ends[0].has_in_flight());
}
