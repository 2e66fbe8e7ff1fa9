//! The shared words of a barrier within a neighbourhood, and the barrier names that they merge.
//!
//! Even and odd phases use separate words, so a rank that is one phase ahead does not interfere. No
//! rank is two phases ahead: a phase completes only when all ranks have entered it, and a rank
//! enters it only after it saw the previous phase complete.
//!
//! [`Cells`] count arrivals. Few ranks in a single neighbourhood do not count: each has its own
//! flags, and reads those of all ([`Flags`]).
//!
//! SYNC POINT barrier-flag: the store in [`Flags::arrive`] (release) pairs with the loads in
//! [`Flags::result`] (acquire).
//! SYNC POINT barrier-arrive: each arrival's increment (acquire-release) orders all earlier
//! arrivals before the last one.
//! SYNC POINT barrier-ready: [`Cells::set_ready`] (release) pairs with [`Cells::is_ready`]
//! (acquire): the same order, for the leader.
//! SYNC POINT barrier-release: the store of `done` (release) in [`Cells::release`] pairs with the
//! load in [`Cells::result`] (acquire).

use gasnet_sys::atomic::{AtomicU32, AtomicU64, Ordering};
use gasnet_sys::padded::Padded;

/// The name that a rank passes to a barrier, or the merged name of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Matches anything.
    Anonymous,
    /// Must match other names.
    Named(i32),
    /// Names differed, or a rank passed the mismatch flag.
    Mismatch,
}

impl Name {
    /// The merged name of two parts of a barrier.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        match (self, other) {
            (Self::Anonymous, x) | (x, Self::Anonymous) => x,
            (Self::Named(a), Self::Named(b)) if a == b => self,
            _ => Self::Mismatch,
        }
    }

    /// As a word, never 0.
    pub const fn pack(self) -> u64 {
        match self {
            Self::Anonymous => 1 << 32,
            Self::Named(id) => 2 << 32 | id as u32 as u64,
            Self::Mismatch => 3 << 32,
        }
    }

    /// From a word; 0 is anonymous.
    pub const fn unpack(raw: u64) -> Self {
        match raw >> 32 {
            0 | 1 => Self::Anonymous,
            2 => Self::Named(raw as u32 as i32),
            _ => Self::Mismatch,
        }
    }

    /// As a word of a phase, never 0. Phases with the same low 30 bits have the same words.
    pub const fn of_phase(self, phase: u32) -> u64 {
        (phase.wrapping_add(1) as u64) << PHASE_SHIFT | self.pack()
    }

    /// From a word, if it is of this phase.
    pub const fn in_phase(word: u64, phase: u32) -> Option<Self> {
        if (word ^ Self::Anonymous.of_phase(phase)) >> PHASE_SHIFT == 0 {
            Some(Self::unpack(word & ((1 << PHASE_SHIFT) - 1)))
        } else {
            None
        }
    }
}

/// The words of one parity.
#[repr(C)]
#[derive(Debug, Default)]
struct Cell {
    /// Ranks that have arrived in this phase.
    arrived: AtomicU32,
    /// 1 + the phase in which all ranks of the neighbourhood have arrived.
    ready: AtomicU32,
    /// 1 + the last complete phase.
    done: AtomicU32,
    /// The merged name of this phase.
    name: AtomicU64,
    /// The merged name of the last complete phase.
    result: AtomicU64,
}

/// The words of a counting barrier. All zero initially.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cells([Padded<Cell>; 2]);

impl Cells {
    fn cell(&self, phase: u32) -> &Cell {
        &self.0[(phase & 1) as usize]
    }

    /// Arrival of one of `ranks` ranks, with `name`. Returns whether it is the last.
    pub fn arrive(&self, phase: u32, ranks: u32, name: Name) -> bool {
        let cell = self.cell(phase);
        if name != Name::Anonymous {
            let merged = |old| Some(Name::unpack(old).merge(name).pack());
            let _ = cell.name.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
        }
        cell.arrived.fetch_add(1, Ordering::AcqRel) + 1 == ranks
    }

    /// The merged name of all arrivals. Only for the last arrival, or after [`Cells::is_ready`].
    pub fn name(&self, phase: u32) -> Name {
        Name::unpack(self.cell(phase).name.load(Ordering::Relaxed))
    }

    /// The last arrival notifies the leader.
    pub fn set_ready(&self, phase: u32) {
        self.cell(phase).ready.store(phase.wrapping_add(1), Ordering::Release);
    }

    /// Whether all ranks of the neighbourhood have arrived.
    pub fn is_ready(&self, phase: u32) -> bool {
        self.cell(phase).ready.load(Ordering::Acquire) == phase.wrapping_add(1)
    }

    /// Completes the phase with `name`, and resets the words for the phase after the next.
    pub fn release(&self, phase: u32, name: Name) {
        let cell = self.cell(phase);
        cell.arrived.store(0, Ordering::Relaxed);
        cell.name.store(0, Ordering::Relaxed);
        cell.result.store(name.pack(), Ordering::Relaxed);
        cell.done.store(phase.wrapping_add(1), Ordering::Release);
    }

    /// The merged name of `phase`, if it is complete.
    #[inline]
    pub fn result(&self, phase: u32) -> Option<Name> {
        let cell = self.cell(phase);
        (cell.done.load(Ordering::Acquire) == phase.wrapping_add(1))
            .then(|| Name::unpack(cell.result.load(Ordering::Relaxed)))
    }
}

/// Maximum number of ranks with flags of their own.
pub const MAX_FLAGS: usize = 16;
/// Bit of a word at which the phase begins; the name is below.
const PHASE_SHIFT: u32 = 34;

/// The flags of each rank, by parity of the phase: 1 + the phase of its last arrival, and its name.
/// All zero initially.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Flags([Padded<[AtomicU64; 2]>; MAX_FLAGS]);

impl Flags {
    /// Arrival of `neighbour` with `name`.
    pub fn arrive(&self, phase: u32, neighbour: usize, name: Name) {
        self.0[neighbour].0[(phase & 1) as usize].store(name.of_phase(phase), Ordering::Release);
    }

    /// The merged name of `phase`, if all of `ranks` ranks have arrived.
    #[inline]
    pub fn result(&self, phase: u32, ranks: usize) -> Option<Name> {
        let mut result = Name::Anonymous;
        for own in &self.0[..ranks] {
            let word = own.0[(phase & 1) as usize].load(Ordering::Acquire);
            result = result.merge(Name::in_phase(word, phase)?);
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_phase_and_name() {
        let flags = Flags::default();
        for phase in [0, 1, 2, 1 << 30, u32::MAX - 1] {
            for name in [Name::Anonymous, Name::Named(-1), Name::Named(i32::MAX), Name::Mismatch] {
                flags.arrive(phase, 0, name);
                assert_eq!(flags.result(phase, 1), Some(name));
                assert_eq!(flags.result(phase, 2), None);
                assert_eq!(flags.result(phase.wrapping_add(2), 1), None);
            }
        }
    }

    #[test]
    fn names_merge_as_the_specification_says() {
        use Name::{Anonymous, Mismatch, Named};
        assert_eq!(Anonymous.merge(Named(3)), Named(3));
        assert_eq!(Named(3).merge(Named(3)), Named(3));
        assert_eq!(Named(3).merge(Named(4)), Mismatch);
        assert_eq!(Mismatch.merge(Anonymous), Mismatch);
        for name in [Anonymous, Named(-1), Named(0), Named(i32::MAX), Mismatch] {
            assert_eq!(Name::unpack(name.pack()), name);
        }
    }
}
