//! Sums per kind of event, per peer and per size.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::kinds::{Category, Kind, KINDS, KIND_COUNT};

/// Sums of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Events.
    pub count: u64,
    /// Bytes: of all, of the smallest, of the largest.
    pub bytes: [u64; 3],
    /// Nanoseconds likewise. All zero where the kind takes no time.
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
            *own = [own[0].saturating_add(other[0]), own[1].min(other[1]), own[2].max(other[2])];
        }
    }
}

/// Classes of traffic: what is told apart per peer and per size.
pub const CLASSES: [(&str, Category); 4] = [
    ("put", Category::Put),
    ("get", Category::Get),
    ("am", Category::Message),
    ("atomic", Category::Atomic),
];
const CLASS_COUNT: usize = CLASSES.len();

/// The class that a kind counts in. Handlers that ran do not: their senders count the message.
fn class(kind: Kind) -> Option<usize> {
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

/// Everything that statistics count.
#[derive(Clone, Debug)]
pub struct Counters {
    kinds: [Sums; KIND_COUNT],
    /// Messages and bytes by peer and class.
    peers: BTreeMap<u32, [[u64; 2]; CLASS_COUNT]>,
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
    pub fn add(&mut self, kind: Kind, peer: Option<u32>, bytes: u64, ns: u64) {
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

    /// Forgets everything.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// The kinds that occurred, of the categories in `mask`.
    pub fn kinds(&self, mask: u32) -> impl Iterator<Item = (Kind, &Sums)> {
        let wanted = move |kind: &Kind| kind.category() as u32 & mask != 0;
        KINDS
            .iter()
            .filter(move |&kind| wanted(kind))
            .map(|&kind| (kind, &self.kinds[kind as usize]))
            .filter(|(_, sums)| sums.count > 0)
    }

    /// Messages and bytes of each class, by peer.
    pub fn peers(&self) -> impl Iterator<Item = (u32, &[[u64; 2]; CLASS_COUNT])> {
        self.peers.iter().map(|(&peer, cells)| (peer, cells))
    }

    /// How many of a class had each size: the least size and the number, where there were any.
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
        a.add(Kind::Put, Some(1), 8, 100);
        a.add(Kind::Put, Some(2), 0, 50);
        let mut b = Counters::default();
        b.add(Kind::Put, Some(1), 9, 70);
        b.add(Kind::RanRequestShort, Some(1), 0, 5);
        b.add(Kind::RequestMedium, Some(1), 1023, 5);
        a.merge(&b);
        let all: Vec<_> = a.kinds(u32::MAX).map(|(kind, sums)| (kind, sums.count)).collect();
        assert_eq!(all, [(Kind::Put, 3), (Kind::RequestMedium, 1), (Kind::RanRequestShort, 1)]);
        let (_, put) = a.kinds(Category::Put as u32).next().unwrap();
        assert_eq!((put.bytes, put.ns), ([17, 0, 9], [220, 50, 100]));
        let peers: Vec<_> = a.peers().map(|(peer, cells)| (peer, cells[0], cells[2])).collect();
        assert_eq!(peers, [(1, [2, 17], [1, 1023]), (2, [1, 0], [0, 0])]);
        assert_eq!(a.sizes(0).collect::<Vec<_>>(), [(0, 1), (8, 2)]);
        assert_eq!(a.sizes(2).collect::<Vec<_>>(), [(512, 1)]);
        a.reset();
        assert_eq!(a.kinds(u32::MAX).count() + a.peers().count(), 0);
    }
}
