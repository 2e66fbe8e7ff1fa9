//! The barrier of GASNet-1, over the whole job. Anonymous barriers match any name; two names must
//! agree.
//!
//! It has two stages. The ranks of a neighbourhood count arrivals in shared memory. When all have
//! arrived, their leader takes part in a barrier of the leaders, and then releases its neighbours.
//! That barrier is the network's own ([`rounds`]), or its steps are packets ([`plan`]).
//!
//! With a single neighbourhood, the last arrival releases all. Few ranks use flags instead: each
//! reads those of all.
//!
//! SYNC POINT barrier-step: the store into the inbox in [`on_step`] (release) pairs with the
//! exchange that empties it (acquire).

mod plan;
pub mod rounds;
pub mod split_phase;

use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::am::{inject, internal, Arg, Message};
pub use crate::shm::barrier_cells::Name;
use crate::shm::barrier_cells::{Cells, Flags, MAX_FLAGS};
use crate::shm::layout::CONTROL;
use crate::shm::Comm;
use crate::sync::TryLock;
use crate::types::Location;
use crate::{runtime, wait};
use gasnet_conduit::{Class, JobRank};
use gasnet_job as job;
use plan::{Step, SLOTS};

const CELLS_AT: usize = 256;
const FLAGS_AT: usize = 1024;
const _: () = assert!(CELLS_AT + size_of::<Cells>() <= FLAGS_AT && FLAGS_AT + size_of::<Flags>() <= CONTROL);

/// Words from other leaders, by parity of the phase and slot ([`plan`]): a packed name, or 0.
type Inbox = [[AtomicU64; SLOTS]; 2];

static INBOX: Inbox = [const { [const { AtomicU64::new(0) }; SLOTS] }; 2];

/// The network stage of one phase.
#[derive(Debug)]
struct Network {
    phase: u32,
    /// Completed steps of the plan.
    done: usize,
    name: Name,
}

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
    /// The network stage. Only at a leader, and only in a job of several neighbourhoods.
    network: Option<TryLock<Network>>,
    /// The leaders of all neighbourhoods, and this rank's steps among them.
    leaders: Vec<JobRank>,
    plan: Vec<Step>,
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
    pub fn new(comm: &Comm, leaders: Vec<JobRank>, rank: JobRank, oversubscribed: bool) -> Self {
        // SAFETY: the control page has room for the cells.
        let cells = unsafe { comm.control().add(CELLS_AT) }.cast::<Cells>();
        // SAFETY: aligned, zero at first use, never unmapped, and all atomics.
        let cells = unsafe { &*cells };
        // SAFETY: the control page has room for the words.
        let flags = unsafe { comm.control().add(FLAGS_AT) }.cast::<Flags>();
        // SAFETY: as above.
        let flags = unsafe { &*flags };
        let few = leaders.len() == 1 && comm.ranks() <= MAX_FLAGS;
        let index = leaders.iter().position(|&l| l == rank);
        let network = (leaders.len() > 1 && index.is_some()).then(|| {
            TryLock::new(Network {
                phase: 0,
                done: 0,
                name: Name::Anonymous,
            })
        });
        Self {
            cells,
            flags: few.then_some(flags),
            me: comm.me(),
            ranks: comm.ranks() as u32,
            entered: AtomicU32::new(0),
            network,
            plan: index.map_or_else(Vec::new, |index| plan::of(index, leaders.len(), oversubscribed)),
            leaders,
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
            if self.leaders.len() > 1 {
                self.cells.set_ready(phase);
                self.test();
            } else {
                self.release(phase, self.cells.name(phase));
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
        if let Some(network) = &self.network {
            if self.cells.is_ready(phase) {
                if let Some(rounds) = rounds::get() {
                    rounds.reach_named(phase, || self.cells.name(phase));
                } else if let Some(mut network) = network.try_lock() {
                    self.advance(&mut network, phase);
                }
            }
        }
        self.cells.result(phase)
    }

    fn advance(&self, network: &mut Network, phase: u32) {
        if self.cells.result(phase).is_some() {
            return;
        }
        if network.phase != phase.wrapping_add(1) {
            let name = self.cells.name(phase);
            *network = Network {
                phase: phase.wrapping_add(1),
                done: 0,
                name,
            };
        }
        while let Some(step) = self.plan.get(network.done) {
            match *step {
                Step::Send { index, slot } => {
                    if !Self::send(self.leaders[index], phase, slot, network.name) {
                        return;
                    }
                }
                Step::Receive { slot } => match INBOX[(phase & 1) as usize][slot].swap(0, Ordering::Acquire) {
                    0 => return,
                    name => network.name = network.name.merge(Name::unpack(name)),
                },
            }
            network.done += 1;
        }
        self.release(phase, network.name);
    }

    fn send(to: JobRank, phase: u32, slot: usize, name: Name) -> bool {
        let raw = name.pack();
        let args = [(phase & 1) as Arg, slot as Arg, (raw >> 32) as Arg, raw as Arg];
        let message = Message::internal(
            Class::Request,
            Location { rank: to, ep: 0 },
            internal::BARRIER,
            &args,
            None,
        );
        inject::try_send(&message).is_ok()
    }
}

/// Handles a step of another leader. False if it is malformed.
pub fn on_step(args: &[Arg]) -> bool {
    let &[parity, slot, tag, id] = args else {
        return false;
    };
    let slot = INBOX.get(parity as usize).and_then(|slots| slots.get(slot as usize));
    let Some(slot) = slot else { return false };
    if !(1..=3).contains(&tag) {
        return false;
    }
    slot.store((tag as u64) << 32 | u64::from(id as u32), Ordering::Release);
    true
}
