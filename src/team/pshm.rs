//! The members of a team in this neighbourhood, their collective buffers, and which sequence numbers its collectives have taken.

use std::collections::VecDeque;

use crate::shm::coll_buffers::CollBuffers;
use crate::sync::TryLock;

/// The members of a team in this neighbourhood, and their collective buffers.
#[derive(Debug)]
pub struct PshmTeam {
    buffers: CollBuffers,
    /// Index in the neighbourhood, by member.
    nbrhd_indices: Box<[usize]>,
    in_flight: TryLock<InFlight>,
}

/// Collectives of the team that are under way here, oldest first.
#[derive(Debug, Default)]
struct InFlight {
    /// The first sequence number that no collective has taken.
    next: u64,
    open: VecDeque<SeqRange>,
}

#[derive(Debug)]
struct SeqRange {
    end: u64,
    /// The collective needs nothing below this.
    retired: u64,
}

impl PshmTeam {
    /// Members with `buffers`, at `nbrhd_indices` of the neighbourhood.
    pub fn new(buffers: CollBuffers, nbrhd_indices: Box<[usize]>) -> Self {
        Self {
            buffers,
            nbrhd_indices,
            in_flight: TryLock::new(InFlight::default()),
        }
    }

    /// Members.
    pub fn count(&self) -> usize {
        self.buffers.count()
    }

    /// The own index among them.
    pub fn me(&self) -> usize {
        self.buffers.me()
    }

    /// The members' buffers.
    pub fn buffers(&self) -> &CollBuffers {
        &self.buffers
    }

    /// The index of `member` in the neighbourhood.
    pub fn nbrhd_index(&self, member: usize) -> usize {
        self.nbrhd_indices[member]
    }

    /// Takes `count` sequence numbers for a collective: the first, and the one behind the last. Members take them in the same order.
    pub fn reserve(&self, count: u64) -> (u64, u64) {
        let mut in_flight = self.in_flight.lock();
        let start = in_flight.next;
        let end = start + count;
        in_flight.next = end;
        in_flight.open.push_back(SeqRange { end, retired: start });
        (start, end)
    }

    /// The collective whose numbers end at `end` needs nothing below `seq`. Returns below which number all members have retired.
    pub fn retire(&self, end: u64, seq: u64) -> u64 {
        let mut in_flight = self.in_flight.lock();
        if let Some(range) = in_flight.open.iter_mut().find(|range| range.end == end) {
            range.retired = seq;
        }
        while in_flight.open.front().is_some_and(|range| range.retired == range.end) {
            in_flight.open.pop_front();
        }
        let next = in_flight.next;
        self.buffers
            .retire(in_flight.open.front().map_or(next, |range| range.retired))
    }
}
