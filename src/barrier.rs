//! The barrier of GASNet-1, over the whole job, and the network stage of it and of teams' barriers.
//! Anonymous barriers match any name; two names must agree.
//!
//! It has two stages. The ranks of a neighbourhood count arrivals in shared memory. When all have
//! arrived, their leader takes part in a barrier of the leaders, and then releases its neighbours.
//! That barrier is the network's own ([`rounds`]), or a [`stage`] of words.
//!
//! With a single neighbourhood, the last arrival releases all. Few ranks use flags instead: each
//! reads those of all.

pub mod blocks;
pub mod of_team;
mod plan;
pub mod rounds;
pub mod split_phase;
pub mod stage;

use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::sync::OnceLock;

pub use crate::shm::barrier_cells::Name;
use crate::shm::barrier_cells::{Cells, Flags, MAX_FLAGS};
use crate::shm::layout::CONTROL;
use crate::shm::Comm;
use crate::{runtime, wait};
use blocks::Part;
use gasnet_conduit::JobRank;
use gasnet_job as job;
use stage::Stage;

const CELLS_AT: usize = 256;
const FLAGS_AT: usize = 1024;
const _: () = assert!(CELLS_AT + size_of::<Cells>() <= FLAGS_AT && FLAGS_AT + size_of::<Flags>() <= CONTROL);

/// The barrier. The phase entered last is `entered - 1`.
#[derive(Debug)]
pub struct Barrier {
    cells: &'static Cells,
    /// Used instead of the cells, by few ranks in a single neighbourhood.
    flags: Option<&'static Flags>,
    /// Own index in the neighbourhood.
    me: usize,
    ranks: u32,
    entered: AtomicU32,
    /// Whether the job is one neighbourhood.
    is_alone: bool,
    /// The network stage. Only at a leader, and only in a job of several neighbourhoods.
    stage: Option<Stage>,
}

static JOB_BARRIER: OnceLock<Barrier> = OnceLock::new();

/// Sets the GASNet-1 barrier of this process.
pub fn install(barrier: Barrier) {
    let _ = JOB_BARRIER.set(barrier);
}

/// The GASNet-1 barrier. A fatal error before initialisation.
#[inline]
pub fn of_job() -> &'static Barrier {
    JOB_BARRIER.get().unwrap_or_else(|| {
        runtime::get();
        unreachable!("initialisation installs the barrier before the runtime")
    })
}

impl Barrier {
    /// The barrier of the neighbourhood of `comm`. `oversubscribed`: leaders share cores.
    pub fn new(comm: &Comm, leaders: &[JobRank], rank: JobRank, oversubscribed: bool) -> Self {
        // SAFETY: the control page has room for the cells.
        let cells = unsafe { comm.control().add(CELLS_AT) }.cast::<Cells>();
        // SAFETY: aligned, zero at first use, never unmapped, and all atomics.
        let cells = unsafe { &*cells };
        // SAFETY: the control page has room for the words.
        let flags = unsafe { comm.control().add(FLAGS_AT) }.cast::<Flags>();
        // SAFETY: as above.
        let flags = unsafe { &*flags };
        let is_alone = leaders.len() == 1;
        let few = is_alone && comm.ranks() <= MAX_FLAGS;
        let index = leaders.iter().position(|&l| l == rank).filter(|_| !is_alone);
        let stage = index.map(|index| {
            let steps = plan::of(index, leaders.len(), oversubscribed);
            let leader = |index: usize| blocks::participant(leaders[index], blocks::NAMED, Part::Network);
            Stage::new(&steps, leader, blocks::words(blocks::NAMED, Part::Network))
        });
        Self {
            cells,
            flags: few.then_some(flags),
            me: comm.me(),
            ranks: comm.ranks() as u32,
            entered: AtomicU32::new(0),
            is_alone,
            stage,
        }
    }

    /// Phases that this rank has entered.
    pub fn entered(&self) -> u32 {
        self.entered.load(Ordering::Relaxed)
    }

    /// Enters the next phase with `name`. The previous phase must be complete. Does not block.
    pub fn enter(&self, name: Name) {
        let phase = self.entered.fetch_add(1, Ordering::Relaxed);
        if let Some(job) = job::current() {
            job.note_barrier(phase.wrapping_add(1));
        }
        if let Some(flags) = self.flags {
            flags.arrive(phase, self.me, name);
            // On an oversubscribed host many ranks may sleep, and only the last arrival wakes them.
            // If two arrivals miss each other, sleepers check again.
            fence(Ordering::SeqCst);
            if !wait::is_oversubscribed() || flags.result(phase, self.ranks as usize).is_some() {
                Self::wake();
            }
            return;
        }
        if self.cells.arrive(phase, self.ranks, name) {
            if self.is_alone {
                self.release(phase, self.cells.name(phase));
            } else {
                self.cells.set_ready(phase);
                self.test();
            }
        }
    }

    fn release(&self, phase: u32, name: Name) {
        self.cells.release(phase, name);
        Self::wake();
    }

    fn wake() {
        if let Some(rt) = runtime::try_get() {
            rt.comm.wake_all();
        }
    }

    /// The result of the phase entered last, if it is complete. Advances the network stage.
    #[inline]
    pub fn test(&self) -> Option<Name> {
        let phase = self.entered.load(Ordering::Relaxed).wrapping_sub(1);
        if let Some(flags) = self.flags {
            return flags.result(phase, self.ranks as usize);
        }
        if let Some(stage) = self.stage.as_ref().filter(|_| self.cells.is_ready(phase)) {
            if let Some(rounds) = rounds::get() {
                rounds.reach_named(phase, || self.cells.name(phase));
            } else if let Some(name) = stage.advance(phase, self.cells.name(phase), blocks::write) {
                self.release(phase, name);
            }
        }
        self.cells.result(phase)
    }
}
