//! Collectives in the shared memory of a neighbourhood: barriers ([`barrier`]), data transfer
//! ([`pipeline`]) and reductions ([`reduce`]), over collective buffers
//! ([`crate::shm::coll_buffers`]).
//!
//! A collective reserves its sequence numbers when it is called. Members call in the same order, so
//! they agree on them. Data takes one of three ways, by length:
//!
//! - Short data is in the inline slot, beside the sequence number.
//! - Longer data goes through staging slots, in chunks. Publishing one overlaps with reading the
//!   one before.
//! - Long data in a segment that neighbours map is read in place; the owner publishes its address.
//!
//! All waiting is in async functions that the engine polls. Several collectives of a team may be
//! active at once, as far as the slots reach.

pub mod barrier;
pub mod pipeline;
pub mod reduce;

use std::sync::atomic::{fence, Ordering};

use super::p2p::Span;
use super::{choose, until};
use crate::runtime;
use crate::shm::memory::{INLINE_SLOT_BYTES, STAGING_SLOT_BYTES};
use crate::stall;
use crate::team::pshm::PshmTeam;
use crate::wait;

impl PshmTeam {
    /// Reserves sequence numbers, `stride` per chunk, for `bytes` of data in elements of `element`
    /// bytes. A collective without data has one empty chunk.
    pub fn begin(&'static self, bytes: usize, element: usize, stride: u64) -> PshmCall {
        debug_assert!(bytes <= INLINE_SLOT_BYTES || element <= STAGING_SLOT_BYTES);
        let chunk = if bytes <= INLINE_SLOT_BYTES {
            bytes
        } else {
            choose::chunk(bytes, element)
        };
        let chunks = bytes.div_ceil(chunk.max(1)).max(1);
        let (start, end) = self.reserve(chunks as u64 * stride);
        PshmCall {
            team: self,
            start,
            end,
            bytes,
            chunk,
            chunks,
            stride,
        }
    }

    /// For stall reports.
    fn note_missing(&self, member: usize) {
        stall::note(|| {
            let rank = runtime::get().nbrhd_rank(self.nbrhd_index(member));
            format!("a collective in shared memory waits for rank {rank}")
        });
    }

    /// As [`Self::note_missing`], of the first member that has not published `seq`.
    fn note_first_missing(&self, seq: u64) {
        if stall::is_watching() {
            if let Some(member) = (0..self.count()).find(|&member| !self.buffers().has_published(member, seq)) {
                self.note_missing(member);
            }
        }
    }

    /// Wakes `member` if it sleeps.
    fn wake(&self, member: usize) {
        if member != self.me() {
            runtime::get().comm.wake(self.nbrhd_index(member));
        }
    }

    /// Waits until other members have retired slots, and announces that to them.
    async fn until_retired(&self, ready: impl Fn() -> bool) {
        if ready() {
            return;
        }
        self.buffers().set_waiting(true);
        until(ready).await;
        self.buffers().set_waiting(false);
    }
}

/// The readers of a published slot.
#[derive(Clone, Copy, Debug)]
pub enum Readers {
    /// One member.
    One(usize),
    /// All other members.
    All,
}

/// A chunk of a collective's data.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Its first sequence number.
    pub seq: u64,
    /// Its offset in the data.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

/// A collective's sequence numbers, and the chunks of its data.
#[derive(Clone, Copy, Debug)]
pub struct PshmCall {
    team: &'static PshmTeam,
    start: u64,
    end: u64,
    bytes: usize,
    chunk: usize,
    chunks: usize,
    stride: u64,
}

impl PshmCall {
    /// Whether this process is `member`.
    pub fn is_member(self, member: usize) -> bool {
        self.team.me() == member
    }

    /// Chunk `number`.
    fn chunk(self, number: usize) -> Chunk {
        let offset = number * self.chunk;
        Chunk {
            seq: self.start + number as u64 * self.stride,
            offset,
            bytes: self.chunk.min(self.bytes - offset),
        }
    }

    /// Whether data does not fit into an inline slot: then it is staged, or its address is
    /// published with the first sequence number.
    fn is_long(self) -> bool {
        self.bytes > INLINE_SLOT_BYTES
    }

    /// The first `bytes` of the slot of `member` for `seq`.
    fn slot(self, member: usize, seq: u64, bytes: usize) -> Span {
        let (buffer, slot) = self.team.buffers().slot_of(member, seq);
        let at = if self.is_long() {
            buffer.staging_slot(slot)
        } else {
            buffer.inline_slot(slot)
        };
        Span { at, bytes }
    }

    /// Waits until the own slot for `seq` may be written. Returns its first `bytes`.
    async fn wait_room(self, seq: u64, bytes: usize) -> Span {
        self.team.until_retired(|| self.team.buffers().has_room(seq)).await;
        self.slot(self.team.me(), seq, bytes)
    }

    /// Publishes the own slot for `seq` and wakes `readers`.
    fn publish(self, seq: u64, readers: Readers) {
        self.team.buffers().publish(seq);
        match readers {
            Readers::One(reader) => self.team.wake(reader),
            Readers::All => (0..self.team.count()).for_each(|member| self.team.wake(member)),
        }
    }

    /// Publishes the own slot for `seq`, where no member can continue before all have published. On
    /// an oversubscribed host many members may sleep, and only the last to publish wakes them. If
    /// two members both miss the other's store, sleepers check again when their bounded sleep ends.
    fn publish_to_all(self, seq: u64) {
        let team = self.team;
        if !wait::is_oversubscribed() {
            return self.publish(seq, Readers::All);
        }
        team.buffers().publish(seq);
        fence(Ordering::SeqCst);
        if (0..team.count()).all(|member| team.buffers().has_published(member, seq)) {
            (0..team.count()).for_each(|member| team.wake(member));
        }
    }

    /// Waits until `member` has published `seq`.
    async fn wait_published(self, member: usize, seq: u64) {
        until(|| {
            let has_published = self.team.buffers().has_published(member, seq);
            if !has_published {
                self.team.note_missing(member);
            }
            has_published
        })
        .await;
    }

    /// This collective needs nothing below `seq` any more.
    fn retire(self, seq: u64) {
        let team = self.team;
        let before = team.retire(self.end, seq);
        // With short data, a writer that waits for room can continue when the last member has
        // retired the slot; only that one wakes it.
        let wakes = |&member: &usize| {
            self.is_long() || !wait::is_oversubscribed() || team.buffers().all_but_have_retired(member, before + 1)
        };
        team.buffers()
            .waiting()
            .filter(wakes)
            .for_each(|member| team.wake(member));
    }

    /// This collective needs nothing any more.
    fn retire_all(self) {
        self.retire(self.end);
    }

    /// Waits until `member` needs nothing of this collective.
    async fn wait_retired(self, member: usize) {
        self.team
            .until_retired(|| self.team.buffers().has_retired(member, self.end))
            .await;
    }
}
