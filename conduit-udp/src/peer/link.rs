//! Two peers and a simulated link with its own clock, for tests.

use super::*;
use crate::memory::Segments;
use crate::recv_window::Disposition;
use gasnet_conduit::Cookie;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// How the link misbehaves.
#[derive(Clone, Copy, Debug)]
pub struct LinkFaults {
    /// Datagrams lost, per thousand.
    pub loss: u64,
    /// Datagrams duplicated, per thousand.
    pub duplicates: u64,
    /// Upper bound of the random delay, nanoseconds.
    pub delay: u64,
}

impl LinkFaults {
    /// A perfect link.
    pub const NONE: Self = Self::new(0, 0, 1);
    /// A link that delivers nothing.
    #[cfg(test)]
    pub const OUTAGE: Self = Self::new(1000, 0, 1);

    pub const fn new(loss: u64, duplicates: u64, delay: u64) -> Self {
        Self {
            loss,
            duplicates,
            delay,
        }
    }
}

/// Two peers, and the datagrams on the link between them.
pub struct Link {
    pub keys: Rc<Keys>,
    pub ends: [Peer; 2],
    pub segments: [Segments; 2],
    /// Transfers completed at each end.
    pub done: [Vec<Cookie>; 2],
    /// Longer datagrams vanish.
    pub mtu: usize,
    /// All datagrams sent, if they are to be recorded: destination and bytes.
    pub sent_datagrams: Option<Vec<(usize, Vec<u8>)>>,
    /// Datagrams in flight by time of arrival: destination and bytes.
    wire: BTreeMap<u64, VecDeque<(usize, Vec<u8>)>>,
    pub now: u64,
    random: u64,
    /// Messages received at each end: class and bytes.
    pub received: [Vec<(Class, Vec<u8>)>; 2],
    pub sent: usize,
    /// Whether a test injects hostile datagrams, so that malformed and unauthenticated ones are
    /// expected.
    pub is_hostile: bool,
    /// Whether an end received a malformed datagram.
    pub is_broken: bool,
}

impl Peer {
    /// The number that the next datagram with this header should have.
    pub fn expected_number(&self, header: &Header) -> u64 {
        match header.kind {
            Kind::Ack | Kind::Close => self.expected_control,
            _ => self.rx[header.class].sack().next,
        }
    }

    /// Incomplete messages, or incomplete datagrams, of one class; the maximum.
    pub fn incomplete(&self) -> usize {
        let messages = self.rx.iter().map(RecvWindow::incomplete);
        let datagrams = self.reassembly.iter().map(Reassembly::incomplete);
        messages.chain(datagrams).max().unwrap_or(0)
    }
}

impl Link {
    #[cfg(test)]
    pub fn new(datagram: usize, seed: u64) -> Self {
        Self::with(Rc::new(Keys::new(9, b"test")), datagram, seed)
    }

    /// With existing keys.
    pub fn with(keys: Rc<Keys>, datagram: usize, seed: u64) -> Self {
        let settings = Settings::read();
        let end = |me, peer| Peer::new(Ranks { me, peer }, datagram, 1 << 16, &settings, 0);
        Self {
            keys,
            ends: [end(JobRank(0), JobRank(1)), end(JobRank(1), JobRank(0))],
            segments: Default::default(),
            done: Default::default(),
            mtu: usize::MAX,
            sent_datagrams: None,
            wire: BTreeMap::new(),
            now: 1,
            random: seed,
            received: Default::default(),
            sent: 0,
            is_hostile: false,
            is_broken: false,
        }
    }

    pub fn random(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    fn carry(&mut self, to: usize, datagrams: Vec<Vec<u8>>, faults: LinkFaults) {
        for datagram in datagrams {
            self.sent += 1;
            if let Some(sent_datagrams) = &mut self.sent_datagrams {
                sent_datagrams.push((to, datagram.clone()));
            }
            let arrives = self.random() % 1000 >= faults.loss;
            let is_duplicated = self.random() % 1000 < faults.duplicates;
            let copies = u64::from(arrives) + u64::from(is_duplicated);
            let copies = if datagram.len() > self.mtu { 0 } else { copies };
            for _ in 0..copies {
                let at = self.now + 20_000 + self.random() % faults.delay.max(1);
                self.wire.entry(at).or_default().push_back((to, datagram.clone()));
            }
        }
    }

    pub fn step(&mut self, faults: LinkFaults) {
        for me in 0..2 {
            let mut out = Vec::new();
            self.ends[me].on_timer(self.now);
            self.ends[me].transmit(&self.keys, self.now, |run| {
                out.extend(run.iter().map(|[head, payload]| [&head[..], &payload[..]].concat()));
                run.len()
            });
            if self.ends[me].is_ack_due(self.now) {
                let ack = self.ends[me].make_ack(&self.keys);
                out.push([&ack.header[..], &ack.payload].concat());
            }
            self.carry(1 - me, out, faults);
        }
        self.now += 5_000;
        while let Some(entry) = self.wire.first_entry().filter(|entry| *entry.key() <= self.now) {
            for (to, datagram) in entry.remove() {
                self.arrive(to, &datagram);
            }
        }
    }

    /// Drops all datagrams in flight.
    #[cfg(test)]
    pub fn drop_all(&mut self) {
        self.wire.clear();
    }

    pub fn arrive(&mut self, to: usize, datagram: &[u8]) {
        let received = self.receive(to, datagram);
        assert!(
            self.is_hostile || !matches!(received, None | Some(Disposition::Malformed)),
            "{received:?}"
        );
    }

    /// Delivers a datagram to an end. `None`: it is not authentic.
    pub fn receive(&mut self, to: usize, datagram: &[u8]) -> Option<Disposition> {
        let (head, payload) = datagram.split_first_chunk::<HEADER_BYTES>()?;
        let mut header = Header::decode(head)?;
        let end = &mut self.ends[to];
        let known = end.implicit_fields(&mut header);
        if !self.keys.verify(head, &known, payload) {
            return None;
        }
        let received = end.receive(&header, known.number, payload, self.now);
        let received = end.apply(received, payload, &self.segments[to], &mut self.done[to]);
        match &received {
            Disposition::Packet(class) => self.received[to].push((*class, payload.to_vec())),
            Disposition::Message(class, packet) => self.received[to].push((*class, packet.bytes().to_vec())),
            Disposition::Malformed => self.is_broken = true,
            Disposition::Nothing | Disposition::Duplicate | Disposition::Placed | Disposition::Close => {}
            other => panic!("{other:?} was not applied"),
        }
        Some(received)
    }
}
