//! Self-tests of the library: `gasnett_run_diagnostics`, for the reference's test program
//! `testinternal`.
//!
//! Sections have letters, in the order of [`SECTIONS`]. All ranks pass the same arguments, so they
//! enter the sections that communicate together. The tests use the functions of clients. Failed
//! checks are counted, and the first ones are printed.

mod local;
mod messages;
pub mod stalled;
mod threads;
mod transfers;

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use gasnet_tools::process::{print_line, Label};

use crate::abi::coll::{gasnetx_Coll_AllGatherNB, gex_Coll_BarrierNB};
use crate::abi::event::gex_Event_Wait;
use crate::flags::Flags;
use crate::runtime;
use crate::segment::configuration;
use crate::sync::Mode;
use crate::team;
use crate::team::TeamHandle;
use crate::types::{Location, Rank};

pub use messages::handlers;

/// Maximum number of failed checks that are printed.
const MAX_PRINTED: u32 = 20;

/// Part of a segment that the tests may use.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    /// Address of the first byte at its owner.
    pub base: usize,
    /// Length.
    pub bytes: usize,
}

impl Area {
    /// Part `index` of `count` equal parts.
    #[must_use]
    pub fn part(self, index: usize, count: usize) -> Self {
        let bytes = (self.bytes / count) & !63;
        Self {
            base: self.base + index * bytes,
            bytes,
        }
    }
}

/// A run: the arguments of the call, and the number of failures.
#[derive(Debug)]
pub struct Run {
    /// The arguments.
    pub args: RunArgs,
    /// Own rank in it.
    pub rank: Rank,
    /// Its size.
    pub size: u32,
    /// The area in this rank's segment.
    pub own: Area,
    /// The area in the peer's segment.
    pub remote: Area,
    /// Owns the memory of `own` with segment configuration EVERYTHING, in which no segment has an
    /// end.
    _memory: Vec<u64>,
    errors: AtomicU32,
}

/// The thread mode that a section needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needs {
    /// One thread.
    Nothing,
    /// Several threads outside GASNet.
    Threads,
    /// Several threads inside GASNet at once.
    ParallelThreads,
}

type Section = (&'static str, Needs, fn(&Run));

/// Bytes per rank that the tests allocate with segment configuration EVERYTHING.
const OWN_BYTES: usize = 1 << 20;

const SECTIONS: [Section; 14] = [
    ("numbers and bytes", Needs::Nothing, local::bytes),
    ("timers", Needs::Nothing, local::timers),
    ("allocation", Needs::Nothing, local::allocation),
    ("atomics", Needs::Nothing, local::atomics),
    ("atomics of several threads", Needs::Threads, threads::atomics),
    ("fences", Needs::Threads, threads::fences),
    ("mutexes and condition variables", Needs::Threads, threads::conditions),
    ("handler-safe locks", Needs::ParallelThreads, threads::locks),
    ("puts, gets and values", Needs::Nothing, transfers::patterns),
    ("events and access regions", Needs::Nothing, transfers::events),
    ("Active Messages", Needs::Nothing, messages::exchange),
    ("concurrent collectives", Needs::Nothing, transfers::collectives),
    (
        "puts and gets of several threads",
        Needs::ParallelThreads,
        transfers::of_threads,
    ),
    (
        "Active Messages of several threads",
        Needs::ParallelThreads,
        messages::of_threads,
    ),
];

/// The arguments of a [`Run`].
#[derive(Clone, Copy, Debug)]
pub struct RunArgs {
    /// Repetitions of small tests.
    pub iterations: u32,
    /// Threads in the sections with several threads.
    pub threads: usize,
    /// Seed of the patterns.
    pub seed: u64,
    /// The team.
    pub tm: TeamHandle,
    /// Peer to which this rank sends.
    pub peer: Rank,
    /// The address in this rank's segment from which the area extends to the end.
    pub own: usize,
    /// The same in the peer's segment.
    pub remote: usize,
}

impl Run {
    /// A run in the segments, or in memory of its own where there are none. Collective.
    pub fn new(args: RunArgs) -> Self {
        let RunArgs {
            tm, peer, own, remote, ..
        } = args;
        let team = team::team(tm, "gasnett_run_diagnostics");
        let rt = runtime::get();
        let rest = |place: Location, base: usize| {
            let segment = rt.bound_segment(place).filter(|s| s.contains(base, 0));
            let bytes = segment.map_or(0, |s| s.base + s.bytes - base);
            Area { base, bytes }
        };
        let here = Location {
            rank: rt.rank,
            ep: team.ep,
        };
        let bytes = if configuration::is_everything() { OWN_BYTES } else { 0 };
        let mut memory = vec![0; bytes / size_of::<u64>()];
        let (own, remote) = if bytes == 0 {
            (rest(here, own), rest(team.locate(peer), remote))
        } else {
            let own = memory.as_mut_ptr() as usize;
            let mut bases = vec![0usize; team.size as usize];
            let (to, from) = (bases.as_mut_ptr().cast(), (&raw const own).cast());
            // SAFETY: it takes no arrays.
            gex_Event_Wait(unsafe { gasnetx_Coll_AllGatherNB(tm, to, from, size_of::<usize>(), Flags::NONE) });
            let area = |base| Area { base, bytes };
            (area(own), area(bases[peer.index()]))
        };
        Self {
            args: RunArgs {
                iterations: args.iterations.max(1),
                threads: args.threads.max(1),
                ..args
            },
            rank: team.rank,
            size: team.size,
            own,
            remote,
            _memory: memory,
            errors: AtomicU32::new(0),
        }
    }

    /// Runs the sections with the letters `wanted`, or all if empty. Returns the number of failed
    /// checks. Collective.
    pub fn sections(&self, wanted: &str) -> u32 {
        let mode = Mode::get();
        for (letter, (name, needs, section)) in ('A'..).zip(SECTIONS) {
            let allowed = match needs {
                Needs::Nothing => true,
                Needs::Threads => mode != Mode::Seq,
                Needs::ParallelThreads => mode == Mode::Par,
            };
            if !allowed || !(wanted.is_empty() || wanted.contains(letter)) {
                continue;
            }
            self.barrier();
            let before = self.errors.load(Ordering::Relaxed);
            section(self);
            self.barrier();
            let failed = self.errors.load(Ordering::Relaxed) - before;
            if failed > 0 || self.rank == Rank(0) {
                let result = if failed == 0 {
                    "good".to_owned()
                } else {
                    format!("{failed} ERRORs")
                };
                print_line(format_args!("{letter}: {name}: {result}"));
            }
        }
        if self.rank == Rank(0) {
            print_line(format_args!("diagnosis done"));
        }
        self.errors.load(Ordering::Relaxed)
    }

    /// A barrier of the team.
    pub fn barrier(&self) {
        gex_Event_Wait(gex_Coll_BarrierNB(self.args.tm, Flags::NONE));
    }

    /// Counts a failed check.
    pub fn check(&self, good: bool, what: fmt::Arguments<'_>) {
        if !good && self.errors.fetch_add(1, Ordering::Relaxed) < MAX_PRINTED {
            print_line(format_args!("*** ERROR ({Label}): diagnosis: {what}"));
        }
    }
}

/// Random numbers for patterns (SplitMix64, Steele, Lea and Flood 2014).
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() % limit.max(1) as u64) as usize
    }

    /// Fills memory; the same seed gives the same bytes.
    pub fn fill(&mut self, memory: &mut [u8]) {
        for chunk in memory.chunks_mut(8) {
            let word = self.word().to_ne_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// A vector of `bytes` random bytes.
    pub fn bytes(&mut self, bytes: usize) -> Vec<u8> {
        let mut memory = vec![0; bytes];
        self.fill(&mut memory);
        memory
    }
}
