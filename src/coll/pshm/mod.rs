//! What collectives do in the shared memory of a neighbourhood: they meet ([`barrier`]), pass data ([`pipeline`]) and combine it ([`reduce`]) through
//! lanes ([`crate::shm::coll_buffers`]).
//!
//! A collective takes its positions when it is called, so that all members, who call in the same order, agree about them. What fits a note is shown
//! beside the position's number; longer data goes through the staging area in chunks, so that showing one and reading the one before overlap;
//! and long data in a segment that neighbours map is not copied at all: its address is shown. Nobody waits but in an async function that
//! the engine polls, and several collectives of a team may be under way as far as slots reach.

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
    /// Takes positions for data of `bytes` in elements of `element`: `stride` for each chunk. Data of no bytes has one chunk without any.
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

    /// For a report about a stall.
    fn note_missing(&self, member: usize) {
        stall::note(|| {
            let rank = runtime::get().nbrhd().rank(self.nbrhd_index(member));
            format!("a collective in shared memory has nothing yet from rank {rank}")
        });
    }

    /// The same of the first member that does not show `seq`.
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
            runtime::get().comm().wake(self.nbrhd_index(member));
        }
    }

    /// Waits for what others pass, and is known to.
    async fn until_retired(&self, ready: impl Fn() -> bool) {
        if ready() {
            return;
        }
        self.buffers().set_waiting(true);
        until(ready).await;
        self.buffers().set_waiting(false);
    }
}

/// Who reads what a member shows.
#[derive(Clone, Copy, Debug)]
pub enum Readers {
    /// This member.
    One(usize),
    /// All other members.
    All,
}

/// A chunk of a collective's data.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Its first position.
    pub seq: u64,
    /// Its place in the data.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

/// A collective's positions, and how its data is cut.
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
    /// Whether the own place is `member`.
    pub fn is_member(self, member: usize) -> bool {
        self.team.me() == member
    }

    /// A chunk by its number.
    fn chunk(self, number: usize) -> Chunk {
        let offset = number * self.chunk;
        Chunk {
            seq: self.start + number as u64 * self.stride,
            offset,
            bytes: self.chunk.min(self.bytes - offset),
        }
    }

    /// Whether data is staged, or at least its address is shown beside the first position.
    fn is_long(self) -> bool {
        self.bytes > INLINE_SLOT_BYTES
    }

    /// The first `bytes` of what `member` shows at a position.
    fn slot(self, member: usize, seq: u64, bytes: usize) -> Span {
        let (buffer, slot) = self.team.buffers().slot_of(member, seq);
        let at = if self.is_long() {
            buffer.staging_slot(slot)
        } else {
            buffer.inline_slot(slot)
        };
        Span { at, bytes }
    }

    /// Waits for room in the own slot for a position. Its first `bytes`.
    async fn wait_room(self, seq: u64, bytes: usize) -> Span {
        self.team.until_retired(|| self.team.buffers().has_room(seq)).await;
        self.slot(self.team.me(), seq, bytes)
    }

    /// Shows the own slot for a position to `readers`.
    fn publish(self, seq: u64, readers: Readers) {
        self.team.buffers().publish(seq);
        match readers {
            Readers::One(reader) => self.team.wake(reader),
            Readers::All => (0..self.team.count()).for_each(|member| self.team.wake(member)),
        }
    }

    /// Shows the own slot for a position at which nobody can go on before all show theirs. With more ranks than cores many may sleep, and only the
    /// last one wakes them; should two find that the other is missing, the sleepers look again after a while, as sleepers do.
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

    /// Waits until `member` shows a position.
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

    /// Nothing below `seq` is needed here any more.
    fn retire(self, seq: u64) {
        let team = self.team;
        let before = team.retire(self.end, seq);
        // Who waits for room beside short data can go on when the last of all has passed; so only the last wakes it.
        let wakes = |&member: &usize| {
            self.is_long() || !wait::is_oversubscribed() || team.buffers().all_but_have_retired(member, before + 1)
        };
        team.buffers().waiting().filter(wakes).for_each(|member| team.wake(member));
    }

    /// Nothing at all is needed here any more.
    fn retire_all(self) {
        self.retire(self.end);
    }

    /// Waits until `member` needs nothing of this collective any more.
    async fn wait_retired(self, member: usize) {
        self.team
            .until_retired(|| self.team.buffers().has_retired(member, self.end))
            .await;
    }
}
