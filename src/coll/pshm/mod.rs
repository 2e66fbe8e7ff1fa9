//! What collectives do in the shared memory of a neighbourhood: they meet ([`barrier`]), pass data ([`pipeline`]) and combine it ([`reduce`]) through
//! lanes ([`crate::shm::coll_buffers`]).
//!
//! A collective takes its positions when it is called, so that all members, who call in the same order, agree about them. What fits a note is shown
//! beside the position's number; longer data goes through the staging area in chunks, so that showing one and reading the one before overlap;
//! and long data in a segment that neighbours map is not copied at all: its address is shown. Nobody waits but in an async function that
//! the engine polls, and several collectives of a team may be under way as far as slots reach.

pub mod barrier;
pub mod pipeline;
pub mod pool;
pub mod reduce;

use std::collections::VecDeque;
use std::sync::atomic::{fence, Ordering};

use super::p2p::Span;
use super::{choose, until};
use crate::runtime;
use crate::shm::coll_buffers::Lanes;
use crate::shm::memory::{NOTE, STAGE};
use crate::stall;
use crate::sync::TryLock;
use crate::wait;

/// The members of a team in this neighbourhood, and their lanes.
#[derive(Debug)]
pub struct Near {
    lanes: Lanes,
    /// Members' places in the neighbourhood.
    places: Box<[usize]>,
    tickets: TryLock<Tickets>,
}

/// Collectives of the team that are under way here, oldest first.
#[derive(Debug, Default)]
struct Tickets {
    /// The first position that nobody has taken.
    next: u64,
    open: VecDeque<Ticket>,
}

#[derive(Debug)]
struct Ticket {
    end: u64,
    /// The collective needs nothing below this.
    passed: u64,
}

impl Near {
    /// Members with `lanes`, at `places` of the neighbourhood.
    pub fn new(lanes: Lanes, places: Box<[usize]>) -> Self {
        Self {
            lanes,
            places,
            tickets: TryLock::new(Tickets::default()),
        }
    }

    /// Members.
    pub fn count(&self) -> usize {
        self.lanes.count()
    }

    /// The own place among them.
    pub fn me(&self) -> usize {
        self.lanes.me()
    }

    /// Takes positions for data of `bytes` in elements of `element`: `stride` for each chunk. Data of no bytes has one chunk without any.
    pub fn enter(&'static self, bytes: usize, element: usize, stride: u64) -> Passage {
        debug_assert!(bytes <= NOTE || element <= STAGE);
        let chunk = if bytes <= NOTE { bytes } else { choose::chunk(bytes, element) };
        let chunks = bytes.div_ceil(chunk.max(1)).max(1);
        let mut tickets = self.tickets.lock();
        let start = tickets.next;
        let end = start + chunks as u64 * stride;
        tickets.next = end;
        tickets.open.push_back(Ticket { end, passed: start });
        Passage {
            near: self,
            start,
            end,
            bytes,
            chunk,
            chunks,
            stride,
        }
    }

    /// The collective whose positions end at `end` needs nothing below `position`. Returns below what none of the team needed anything before.
    fn pass(&self, end: u64, position: u64) -> u64 {
        let mut tickets = self.tickets.lock();
        if let Some(ticket) = tickets.open.iter_mut().find(|ticket| ticket.end == end) {
            ticket.passed = position;
        }
        while tickets.open.front().is_some_and(|ticket| ticket.passed == ticket.end) {
            tickets.open.pop_front();
        }
        let next = tickets.next;
        self.lanes.pass(tickets.open.front().map_or(next, |ticket| ticket.passed))
    }

    /// For a report about a stall.
    fn note_missing(&self, member: usize) {
        stall::note(|| {
            let rank = runtime::get().nbrhd.rank(self.places[member]);
            format!("a collective in shared memory has nothing yet from rank {rank}")
        });
    }

    /// The same of the first member that does not show `position`.
    fn note_first_missing(&self, position: u64) {
        if stall::is_watching() {
            if let Some(member) = (0..self.count()).find(|&member| !self.lanes.shows(member, position)) {
                self.note_missing(member);
            }
        }
    }

    /// Wakes `member` if it sleeps.
    fn wake(&self, member: usize) {
        if member != self.me() {
            runtime::get().comm.wake(self.places[member]);
        }
    }

    /// Waits for what others pass, and is known to.
    async fn until_passed(&self, ready: impl Fn() -> bool) {
        if ready() {
            return;
        }
        self.lanes.wait(true);
        until(ready).await;
        self.lanes.wait(false);
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
    pub position: u64,
    /// Its place in the data.
    pub offset: usize,
    /// Its length.
    pub bytes: usize,
}

/// A collective's positions, and how its data is cut.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    near: &'static Near,
    start: u64,
    end: u64,
    bytes: usize,
    chunk: usize,
    chunks: usize,
    stride: u64,
}

impl Passage {
    /// Whether the own place is `member`.
    pub fn is_at(self, member: usize) -> bool {
        self.near.me() == member
    }

    /// A chunk by its number.
    fn chunk(self, number: usize) -> Chunk {
        let offset = number * self.chunk;
        Chunk {
            position: self.start + number as u64 * self.stride,
            offset,
            bytes: self.chunk.min(self.bytes - offset),
        }
    }

    /// Whether data is staged, or at least its address is shown beside the first position.
    fn is_long(self) -> bool {
        self.bytes > NOTE
    }

    /// The first `bytes` of what `member` shows at a position.
    fn slot(self, member: usize, position: u64, bytes: usize) -> Span {
        let (lane, slot) = self.near.lanes.place(member, position);
        let at = if self.is_long() { lane.stage(slot) } else { lane.note(slot) };
        Span { at, bytes }
    }

    /// Waits for room in the own slot for a position. Its first `bytes`.
    async fn room(self, position: u64, bytes: usize) -> Span {
        self.near.until_passed(|| self.near.lanes.has_room(position)).await;
        self.slot(self.near.me(), position, bytes)
    }

    /// Shows the own slot for a position to `readers`.
    fn show(self, position: u64, readers: Readers) {
        self.near.lanes.show(position);
        match readers {
            Readers::One(reader) => self.near.wake(reader),
            Readers::All => (0..self.near.count()).for_each(|member| self.near.wake(member)),
        }
    }

    /// Shows the own slot for a position at which nobody can go on before all show theirs. With more ranks than cores many may sleep, and only the
    /// last one wakes them; should two find that the other is missing, the sleepers look again after a while, as sleepers do.
    fn show_among_all(self, position: u64) {
        let near = self.near;
        if !wait::is_crowded() {
            return self.show(position, Readers::All);
        }
        near.lanes.show(position);
        fence(Ordering::SeqCst);
        if (0..near.count()).all(|member| near.lanes.shows(member, position)) {
            (0..near.count()).for_each(|member| near.wake(member));
        }
    }

    /// Waits until `member` shows a position.
    async fn shown(self, member: usize, position: u64) {
        until(|| {
            let shows = self.near.lanes.shows(member, position);
            if !shows {
                self.near.note_missing(member);
            }
            shows
        })
        .await;
    }

    /// Nothing below `position` is needed here any more.
    fn pass(self, position: u64) {
        let near = self.near;
        let before = near.pass(self.end, position);
        // Who waits for room beside short data can go on when the last of all has passed; so only the last wakes it.
        let wakes = |&member: &usize| self.is_long() || !wait::is_crowded() || near.lanes.all_but_have_passed(member, before + 1);
        near.lanes.waiting().filter(wakes).for_each(|member| near.wake(member));
    }

    /// Nothing at all is needed here any more.
    fn leave(self) {
        self.pass(self.end);
    }

    /// Waits until `member` needs nothing of this collective any more.
    async fn left(self, member: usize) {
        self.near.until_passed(|| self.near.lanes.has_passed(member, self.end)).await;
    }
}
