//! The words of a barrier in the shared memory of a neighbourhood, and the names that meet there.
//!
//! Even and odd phases have words of their own, so that a rank that is one phase ahead disturbs nobody; nobody is two phases ahead,
//! since a phase completes only when all ranks have entered it, which they do after they saw the phase before complete.
//!
//! Few ranks of a single neighbourhood do not count: each has words of its own, and looks at those of all ([`Flags`]).
//!
//! SYNC POINT barrier-word: the store in [`Flags::arrive`] (release) pairs with the loads in [`Flags::result`] (acquire).
//! SYNC POINT barrier-arrive: each arrival's increment (acquire-release) orders what came before it for the last to arrive.
//! SYNC POINT barrier-ready: [`Cells::set_ready`] (release) pairs with [`Cells::is_ready`] (acquire): the same, for the first rank.
//! SYNC POINT barrier-release: the store of `done` (release) in [`Cells::release`] pairs with the load in [`Cells::result`] (acquire).

use gasnet_sys::atomic::{AtomicU32, AtomicU64, Ordering};

/// What a rank brings to a barrier, and what comes out of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Matches anything.
    Anonymous,
    /// Must agree with other names.
    Named(i32),
    /// Names differed, or somebody said so.
    Mismatch,
}

impl Name {
    /// What comes out when two parts of a barrier bring `self` and `other`.
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
}

/// The words of one parity.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Cell {
    /// Ranks that arrived in this phase.
    arrived: AtomicU32,
    /// 1 + the phase in which all neighbours have arrived.
    ready: AtomicU32,
    /// 1 + the last phase that is complete.
    done: AtomicU32,
    /// The merged name of this phase.
    name: AtomicU64,
    /// The name that came out.
    result: AtomicU64,
}

/// A barrier's words; all zero at first.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cells([Cell; 2]);

impl Cells {
    fn cell(&self, phase: u32) -> &Cell {
        &self.0[(phase & 1) as usize]
    }

    /// One of `ranks` arrives with `name`. Whether it is the last.
    pub fn arrive(&self, phase: u32, ranks: u32, name: Name) -> bool {
        let cell = self.cell(phase);
        if name != Name::Anonymous {
            let merged = |old| Some(Name::unpack(old).merge(name).pack());
            let _ = cell.name.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
        }
        cell.arrived.fetch_add(1, Ordering::AcqRel) + 1 == ranks
    }

    /// What all arrivals brought; for the last of them, or after [`Cells::is_ready`].
    pub fn name(&self, phase: u32) -> Name {
        Name::unpack(self.cell(phase).name.load(Ordering::Relaxed))
    }

    /// The last arrival tells the first rank.
    pub fn set_ready(&self, phase: u32) {
        self.cell(phase).ready.store(phase.wrapping_add(1), Ordering::Release);
    }

    /// Whether all have arrived.
    pub fn is_ready(&self, phase: u32) -> bool {
        self.cell(phase).ready.load(Ordering::Acquire) == phase.wrapping_add(1)
    }

    /// The phase is complete and `name` came out. The words are left as the phase after the next needs them.
    pub fn release(&self, phase: u32, name: Name) {
        let cell = self.cell(phase);
        cell.arrived.store(0, Ordering::Relaxed);
        cell.name.store(0, Ordering::Relaxed);
        cell.result.store(name.pack(), Ordering::Relaxed);
        cell.done.store(phase.wrapping_add(1), Ordering::Release);
    }

    /// What came out of `phase`, if it is complete.
    #[inline]
    pub fn result(&self, phase: u32) -> Option<Name> {
        let cell = self.cell(phase);
        (cell.done.load(Ordering::Acquire) == phase.wrapping_add(1)).then(|| Name::unpack(cell.result.load(Ordering::Relaxed)))
    }
}

/// Most ranks with words of their own.
pub const MAX_FLAGS: usize = 16;
/// Where the number of the phase begins in a word, behind a name.
const PHASE_SHIFT: u32 = 34;

/// A rank's words, by the parity of the phase: 1 + the phase in which it arrived last, and the name that it brought.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct RankFlags([AtomicU64; 2]);

/// The words of few ranks; all zero at first.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Flags([RankFlags; MAX_FLAGS]);

impl Flags {
    const fn word(phase: u32, name: u64) -> u64 {
        (phase.wrapping_add(1) as u64) << PHASE_SHIFT | name
    }

    /// `rank` arrives with `name`.
    pub fn arrive(&self, phase: u32, rank: usize, name: Name) {
        self.0[rank].0[(phase & 1) as usize].store(Self::word(phase, name.pack()), Ordering::Release);
    }

    /// What came out of `phase`, if all of `ranks` have arrived.
    #[inline]
    pub fn result(&self, phase: u32, ranks: usize) -> Option<Name> {
        let mut result = Name::Anonymous;
        for own in &self.0[..ranks] {
            let word = own.0[(phase & 1) as usize].load(Ordering::Acquire);
            if word >> PHASE_SHIFT != Self::word(phase, 0) >> PHASE_SHIFT {
                return None;
            }
            result = result.merge(Name::unpack(word & ((1 << PHASE_SHIFT) - 1)));
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
