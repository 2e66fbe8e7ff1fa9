//! The barrier of a host's ranks, in the job control block. `proofs/models/` compiles this file,
//! too.
//!
//! SYNC POINT job-barrier: the arrivals (acquire-release) and the new generation (release) pair
//! with the acquire load in [`Barrier::is_done`]. Writes of a rank before it entered are visible to
//! every rank that has seen the barrier done. The node agent, which releases the barrier of a job
//! with several hosts, is notified through a socket, which orders memory as a lock does.

use std::time::Duration;

use gasnet_sys::atomic::{AtomicU32, Ordering};
use gasnet_sys::futex;
use gasnet_sys::padded::Padded;

/// See the module documentation. All zero before the first barrier.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Barrier {
    /// Ranks in the current barrier.
    arrived: Padded<AtomicU32>,
    /// Number of the current barrier. Waiters sleep on this word.
    generation: Padded<AtomicU32>,
}

impl Barrier {
    /// Enters the barrier of `ranks`. Returns a ticket for [`Barrier::is_done`], and whether the
    /// caller is the last, after whom the barrier may be released.
    pub fn enter(&self, ranks: u32) -> (u32, bool) {
        // The generation cannot change before the caller has arrived.
        let ticket = self.generation.load(Ordering::Relaxed);
        let last = self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == ranks;
        (ticket, last)
    }

    /// Releases the barrier that all ranks have entered.
    pub fn release(&self) {
        self.arrived.store(0, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
        self.wake();
    }

    /// Whether all ranks have entered the barrier of `ticket`.
    pub fn is_done(&self, ticket: u32) -> bool {
        self.generation.load(Ordering::Acquire) != ticket
    }

    /// Sleeps until the barrier may be done, at most for `limit`.
    pub fn sleep(&self, ticket: u32, limit: Duration) {
        futex::wait(&self.generation, ticket, limit);
    }

    /// Wakes all sleepers.
    pub fn wake(&self) {
        futex::wake_all(&self.generation);
    }
}
