//! Counters per kind of event, per peer and per size.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::kinds::{EventKind, TraceCategory, KINDS, KIND_COUNT};
use gasnet_conduit::JobRank;

/// Sums of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Events.
    pub count: u64,
    /// Bytes: sum, minimum, maximum.
    pub bytes: [u64; 3],
    /// Nanoseconds: sum, minimum, maximum. All zero for kinds without a duration.
    pub ns: [u64; 3],
}

impl Sums {
    const NONE: Self = Self {
        count: 0,
        bytes: [0, u64::MAX, 0],
        ns: [0, u64::MAX, 0],
    };

    fn add(&mut self, bytes: u64, ns: u64) {
        self.merge(&Self {
            count: 1,
            bytes: [bytes; 3],
            ns: [ns; 3],
        });
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        for (own, other) in [(&mut self.bytes, &other.bytes), (&mut self.ns, &other.ns)] {
            *own = [
                own[0].saturating_add(other[0]),
                own[1].min(other[1]),
                own[2].max(other[2]),
            ];
        }
    }
}

/// Classes of traffic, with separate counters per peer and per size.
pub const CLASSES: [(&str, TraceCategory); 4] = [
    ("put", TraceCategory::Put),
    ("get", TraceCategory::Get),
    ("am", TraceCategory::Message),
    ("atomic", TraceCategory::Atomic),
];
const CLASS_COUNT: usize = CLASSES.len();

/// The class of a kind. Handler runs have none: the sender counts the message.
fn class(kind: EventKind) -> Option<usize> {
    if kind.is_echo() {
        return None;
    }
    CLASSES.iter().position(|c| c.1 == kind.category())
}

/// Size classes: 0, 1, 2 to 3, 4 to 7 and so on.
pub const SIZES: usize = 65;

fn size_class(bytes: u64) -> usize {
    (u64::BITS - bytes.leading_zeros()) as usize
}

/// All counters of the statistics.
#[derive(Clone, Debug)]
pub struct Counters {
    kinds: [Sums; KIND_COUNT],
    /// Messages and bytes by peer and class.
    peers: BTreeMap<JobRank, [[u64; 2]; CLASS_COUNT]>,
    sizes: [[u64; SIZES]; CLASS_COUNT],
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            kinds: [Sums::NONE; KIND_COUNT],
            peers: BTreeMap::new(),
            sizes: [[0; SIZES]; CLASS_COUNT],
        }
    }
}

impl Counters {
    /// Counts an event.
    pub fn add(&mut self, kind: EventKind, peer: Option<JobRank>, bytes: u64, ns: u64) {
        self.kinds[kind as usize].add(bytes, ns);
        if let (Some(class), Some(peer)) = (class(kind), peer) {
            let cell = &mut self.peers.entry(peer).or_default()[class];
            cell[0] += 1;
            cell[1] += bytes;
            self.sizes[class][size_class(bytes)] += 1;
        }
    }

    /// Adds the sums of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (own, other) in self.kinds.iter_mut().zip(&other.kinds) {
            own.merge(other);
        }
        for (&peer, cells) in &other.peers {
            let own = self.peers.entry(peer).or_default();
            for (own, cell) in own.iter_mut().zip(cells) {
                *own = [own[0] + cell[0], own[1] + cell[1]];
            }
        }
        for (own, other) in self.sizes.iter_mut().zip(&other.sizes) {
            for (own, other) in own.iter_mut().zip(other) {
                *own += other;
            }
        }
    }

    /// Clears all counters.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The kinds that occurred, of the categories in `mask`.
    pub fn kinds(&self, mask: u32) -> impl Iterator<Item = (EventKind, &Sums)> {
        let wanted = move |kind: &EventKind| kind.category() as u32 & mask != 0;
        KINDS
            .iter()
            .filter(move |&kind| wanted(kind))
            .map(|&kind| (kind, &self.kinds[kind as usize]))
            .filter(|(_, sums)| sums.count > 0)
    }

    /// Messages and bytes of each class, by peer.
    pub fn peers(&self) -> impl Iterator<Item = (JobRank, &[[u64; 2]; CLASS_COUNT])> {
        self.peers.iter().map(|(&peer, cells)| (peer, cells))
    }

    /// The histogram of a class: lower bound of the size and number of messages, where not zero.
    pub fn sizes(&self, class: usize) -> impl Iterator<Item = (u64, u64)> + '_ {
        let least = |i: usize| if i == 0 { 0 } else { 1_u64 << (i - 1) };
        self.sizes[class]
            .iter()
            .enumerate()
            .filter(|(_, &count)| count > 0)
            .map(move |(i, &count)| (least(i), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_by_kind_peer_and_size() {
        let mut a = Counters::default();
        a.add(EventKind::Put, Some(JobRank(1)), 8, 100);
        a.add(EventKind::Put, Some(JobRank(2)), 0, 50);
        let mut b = Counters::default();
        b.add(EventKind::Put, Some(JobRank(1)), 9, 70);
        b.add(EventKind::RanRequestShort, Some(JobRank(1)), 0, 5);
        b.add(EventKind::RequestMedium, Some(JobRank(1)), 1023, 5);
        a.merge(&b);
        let all: Vec<_> = a.kinds(u32::MAX).map(|(kind, sums)| (kind, sums.count)).collect();
        assert_eq!(
            all,
            [
                (EventKind::Put, 3),
                (EventKind::RequestMedium, 1),
                (EventKind::RanRequestShort, 1)
            ]
        );
        let (_, put) = a.kinds(TraceCategory::Put as u32).next().unwrap();
        assert_eq!((put.bytes, put.ns), ([17, 0, 9], [220, 50, 100]));
        let peers: Vec<_> = a.peers().map(|(peer, cells)| (peer, cells[0], cells[2])).collect();
        assert_eq!(peers, [(JobRank(1), [2, 17], [1, 1023]), (JobRank(2), [1, 0], [0, 0])]);
        assert_eq!(a.sizes(0).collect::<Vec<_>>(), [(0, 1), (8, 2)]);
        assert_eq!(a.sizes(2).collect::<Vec<_>>(), [(512, 1)]);
        a.reset();
        assert_eq!(a.kinds(u32::MAX).count() + a.peers().count(), 0);
    }
}
