//! The memory that the supervisor and all ranks of a job share: its phase, a barrier, and room for exchanges.
//!
//! Everything is an atomic or is reached through raw pointers: any process may die between any two instructions, and none of the waits
//! below may then last for ever. What keeps them finite is the supervisor, which advances the phase when a rank dies.

use std::mem::size_of;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use crate::os::{futex, mem};
use crate::wait::Episodes;

/// How far the job is with ending. It only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Phase {
    /// Nobody has called exit.
    Running = 0,
    /// Some rank has; the others may be on their way.
    Announced = 1,
    /// Whoever is inside GASNet must call exit now.
    Leave = 2,
    /// All ranks that exist are in exit: they may go.
    Go = 3,
}

impl Phase {
    fn from_raw(raw: u32) -> Self {
        match raw {
            0 => Self::Running,
            1 => Self::Announced,
            2 => Self::Leave,
            _ => Self::Go,
        }
    }
}

/// What one rank tells the supervisor, and the other ranks of its host, without a system call.
#[repr(C, align(64))]
pub struct RankLine {
    /// Grows while a thread waits in GASNet for something that has not come, once an exit is announced.
    pub waits: AtomicU32,
    /// Grows while a thread polls in vain, once an exit is announced.
    pub polls: AtomicU32,
    /// Grows while the rank's last output waits for a slow reader.
    pub patience: AtomicU32,
    /// Process number of a rank that others may look for, or 0.
    pub pid: AtomicU32,
    /// Address of the word by which they know that they have found it.
    pub witness: AtomicUsize,
    /// The rank's process, set at its start.
    pub process: AtomicU32,
    /// 1 once the rank has called exit.
    pub in_exit: AtomicU32,
    /// 1 while the rank is frozen for a debugger.
    pub frozen: AtomicU32,
    /// Phases of the named barrier that it has entered.
    pub barrier: AtomicU32,
}

#[repr(C, align(64))]
struct Header {
    phase: AtomicU32,
    /// Exit code of the job; valid from `Announced` on.
    code: AtomicU32,
    /// Ranks in the current barrier, on a line of its own.
    arrived: RankLine,
    /// Number of the current barrier: what waiters sleep on.
    generation: RankLine,
    /// When the ranks sleep rather than yield.
    episodes: Episodes,
}

/// Bytes that a rank contributes to one round of an exchange.
const SLOT_BYTES: usize = 4096;

/// A view of the shared memory. The mapping is never taken away.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    base: usize,
    ranks: u32,
}

// Layout: header, one line per rank, then the slots: two sets, for even and odd rounds.
impl Board {
    /// Allocates the memory of a job of `ranks`, before any fork.
    pub fn create(ranks: u32) -> std::io::Result<Self> {
        let bytes = Self::slots_offset(ranks) + 2 * ranks as usize * SLOT_BYTES;
        Ok(Self {
            base: mem::map_for_children(bytes)?,
            ranks,
        })
    }

    fn slots_offset(ranks: u32) -> usize {
        size_of::<Header>() + ranks as usize * size_of::<RankLine>()
    }

    fn header(&self) -> &'static Header {
        // SAFETY: the mapping starts with a header, is zeroed (a valid value), consists of atomics, and is never unmapped.
        unsafe { &*(self.base as *const Header) }
    }

    /// The line of one rank.
    pub fn line(&self, rank: u32) -> &'static RankLine {
        assert!(rank < self.ranks);
        let lines = (self.base + size_of::<Header>()) as *const RankLine;
        // SAFETY: `rank` was checked; the lines consist of atomics and are never unmapped.
        unsafe { &*lines.add(rank as usize) }
    }

    /// The word behind [`Board::phase`], for a check that costs one load.
    pub fn phase_word(&self) -> &'static AtomicU32 {
        &self.header().phase
    }

    /// How far the job is with ending.
    pub fn phase(&self) -> Phase {
        Phase::from_raw(self.header().phase.load(Ordering::Acquire))
    }

    /// Advances the phase and wakes all who sleep here.
    pub fn advance(&self, phase: Phase) {
        self.header().phase.fetch_max(phase as u32, Ordering::AcqRel);
        futex::wake_all(&self.header().phase);
        futex::wake_all(&self.header().generation.waits);
    }

    /// Sleeps until the phase is no longer `seen`, at most for `limit`.
    pub fn wait_phase(&self, seen: Phase, limit: Duration) {
        futex::wait(&self.header().phase, seen as u32, limit);
    }

    /// The job's exit code.
    pub fn code(&self) -> i32 {
        self.header().code.load(Ordering::Relaxed) as i32
    }

    /// Sets the job's exit code. Supervisor only, before it advances the phase.
    pub fn set_code(&self, code: i32) {
        self.header().code.store(code as u32, Ordering::Relaxed);
    }

    /// When the ranks sleep rather than yield.
    pub fn episodes(&self) -> &'static Episodes {
        &self.header().episodes
    }

    /// Enters the barrier; returns a ticket for [`Board::barrier_done`].
    ///
    /// SYNC POINT job-barrier: the arrivals (acquire-release) and the new generation (release) pair with the acquire load in
    /// `barrier_done`: what any rank wrote before it entered is visible to every rank that has seen the barrier done.
    pub fn barrier_enter(&self) -> u32 {
        let header = self.header();
        let ticket = header.generation.waits.load(Ordering::Acquire);
        if header.arrived.waits.fetch_add(1, Ordering::AcqRel) + 1 == self.ranks {
            header.arrived.waits.store(0, Ordering::Relaxed);
            header.generation.waits.store(ticket.wrapping_add(1), Ordering::Release);
            futex::wake_all(&header.generation.waits);
        }
        ticket
    }

    /// Whether all ranks have entered the barrier of `ticket`.
    pub fn barrier_done(&self, ticket: u32) -> bool {
        self.header().generation.waits.load(Ordering::Acquire) != ticket
    }

    /// Sleeps until that may have changed, at most for `limit`.
    pub fn barrier_sleep(&self, ticket: u32, limit: Duration) {
        futex::wait(&self.header().generation.waits, ticket, limit);
    }

    /// Bytes per rank and round.
    pub const fn slot_bytes() -> usize {
        SLOT_BYTES
    }

    fn slot(&self, round: u32, rank: u32) -> *mut u8 {
        assert!(rank < self.ranks);
        let set = (round & 1) as usize * self.ranks as usize;
        (self.base + Self::slots_offset(self.ranks) + (set + rank as usize) * SLOT_BYTES) as *mut u8
    }

    /// Puts `bytes` (at most [`Board::slot_bytes`]) into the slot of `rank`, which is the caller's own.
    pub fn write_slot(&self, round: u32, rank: u32, bytes: &[u8]) {
        assert!(bytes.len() <= SLOT_BYTES);
        // SAFETY: the slot has room, and nobody reads it before the barrier that ends this round: readers of the round before last,
        // which used the same slot, entered last round's barrier after they had read.
        unsafe { self.slot(round, rank).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Copies what `rank` wrote in this round, after the round's barrier.
    pub fn read_slot(&self, round: u32, rank: u32, into: &mut [u8]) {
        assert!(into.len() <= SLOT_BYTES);
        // SAFETY: as above; the owner writes again only two rounds later, after a barrier that the caller has not yet entered.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(self.slot(round, rank), into.len()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_grow() {
        let board = Board::create(3).unwrap();
        assert_eq!(board.phase(), Phase::Running);
        board.advance(Phase::Leave);
        board.advance(Phase::Announced);
        assert_eq!(board.phase(), Phase::Leave);
        assert!(Phase::Go > Phase::Leave);
    }

    #[test]
    fn slots_do_not_overlap() {
        let board = Board::create(3).unwrap();
        for round in 0..2 {
            for rank in 0..3 {
                board.write_slot(round, rank, &[(round * 3 + rank) as u8; SLOT_BYTES]);
            }
        }
        for round in 0..2 {
            for rank in 0..3 {
                let mut bytes = [9; SLOT_BYTES];
                board.read_slot(round, rank, &mut bytes);
                assert!(bytes.iter().all(|&b| b == (round * 3 + rank) as u8));
            }
        }
    }

    #[test]
    fn barriers_of_threads() {
        let board = Board::create(4).unwrap();
        let count = AtomicU32::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 1..=500 {
                        count.fetch_add(1, Ordering::Relaxed);
                        let ticket = board.barrier_enter();
                        while !board.barrier_done(ticket) {
                            board.barrier_sleep(ticket, Duration::from_secs(1));
                        }
                        assert!(count.load(Ordering::Relaxed) >= 4 * round);
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 2000);
    }
}
