//! The members of a team in this neighbourhood, their collective buffers, and the sequence numbers
//! of its collectives.

use std::collections::VecDeque;

use crate::shm::coll_buffers::CollBuffers;
use crate::sync::TryLock;

/// The members of a team in this neighbourhood, and their collective buffers.
#[derive(Debug)]
pub struct PshmTeam {
    buffers: CollBuffers,
    /// Index of each member in the neighbourhood.
    nbrhd_indices: Box<[usize]>,
    in_flight: TryLock<InFlight>,
}

/// Active collectives of the team in this process, oldest first.
#[derive(Debug, Default)]
struct InFlight {
    /// The first sequence number that is not reserved.
    next: u64,
    open: VecDeque<SeqRange>,
}

#[derive(Debug)]
struct SeqRange {
    end: u64,
    /// The collective needs nothing below this sequence number.
    retired: u64,
}

impl PshmTeam {
    /// The members with `buffers`; `nbrhd_indices` are their indices in the neighbourhood.
    pub fn new(buffers: CollBuffers, nbrhd_indices: Box<[usize]>) -> Self {
        Self {
            buffers,
            nbrhd_indices,
            in_flight: TryLock::new(InFlight::default()),
        }
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.buffers.count()
    }

    /// Index of this member.
    pub fn me(&self) -> usize {
        self.buffers.me()
    }

    /// The members' collective buffers.
    pub fn buffers(&self) -> &CollBuffers {
        &self.buffers
    }

    /// The index of `member` in the neighbourhood.
    pub fn nbrhd_index(&self, member: usize) -> usize {
        self.nbrhd_indices[member]
    }

    /// Reserves `count` sequence numbers for a collective: returns the first, and the one after the
    /// last. Members reserve in the same order.
    pub fn reserve(&self, count: u64) -> (u64, u64) {
        let mut in_flight = self.in_flight.lock();
        let start = in_flight.next;
        let end = start + count;
        in_flight.next = end;
        in_flight.open.push_back(SeqRange { end, retired: start });
        (start, end)
    }

    /// The collective whose sequence numbers end at `end` needs nothing below `seq`. Returns the
    /// sequence number below which no collective of the team needed anything before this call.
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
