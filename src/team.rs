//! `gex_TM_t`: teams, TM-pairs, and the fixed head that inline code in `gasnetex.h` reads.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::am::{EpIndex, Location};
use crate::conduit::JobRank;
use crate::runtime;

/// `gasneti_tm_head_t`: part of the ABI (`docs/abi.md`). Inline code copies when `rank - first < count`.
///
/// SYNC POINT fast-path: `deltas` and `first` are stored before `count` (release).
#[repr(C)]
#[derive(Debug)]
pub struct Head {
    first: AtomicU32,
    count: AtomicU32,
    deltas: AtomicPtr<isize>,
}

const _: () = assert!(size_of::<Head>() == 16);

const TAG_TEAM: usize = 1;
const TAG_PAIR: usize = 2;
const TAG_MASK: usize = 3;

/// A team of endpoints. The head comes first.
#[repr(C)]
#[derive(Debug)]
pub struct Team {
    head: Head,
    /// The caller's rank in it.
    pub rank: u32,
    /// Its size.
    pub size: u32,
    /// As passed at creation.
    pub flags: u32,
    /// The local member's endpoint.
    pub ep: EpIndex,
    /// The client's own.
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Team {
    /// The primordial team: every rank's primordial endpoint.
    pub fn primordial(rank: JobRank, size: u32, flags: u32) -> Self {
        Self {
            head: Head {
                first: AtomicU32::new(0),
                count: AtomicU32::new(0),
                deltas: AtomicPtr::new(ptr::null_mut()),
            },
            rank,
            size,
            flags,
            ep: 0,
            cdata: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Lets inline code reach `neighbours`' segments.
    pub fn open_fast_path(&self, neighbours: Range<JobRank>, deltas: &'static [isize]) {
        if !cfg!(feature = "debug-checks") {
            self.head.first.store(neighbours.start, Ordering::Relaxed);
            self.head.deltas.store(deltas.as_ptr().cast_mut(), Ordering::Relaxed);
            self.head.count.store(neighbours.end - neighbours.start, Ordering::Release);
        }
    }

    /// The handle.
    pub fn handle(&'static self) -> usize {
        ptr::from_ref(self) as usize | TAG_TEAM
    }

    /// The member with `rank`.
    pub fn locate(&self, rank: u32) -> Location {
        Location { rank, ep: 0 }
    }

    /// The rank of the member that lives in process `rank`, if any.
    pub fn rank_of(&self, rank: JobRank) -> Option<u32> {
        (rank < self.size).then_some(rank)
    }
}

/// What a `gex_TM_t` names.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    /// A team.
    Team(&'static Team),
    /// A TM-pair: local and remote endpoint index.
    Pair(EpIndex, EpIndex),
}

/// Decodes a handle.
#[inline]
pub fn decode(handle: usize) -> Named {
    match handle & TAG_MASK {
        // SAFETY: a handle with the team tag was made by `Team::handle` from a 'static team (client contract).
        TAG_TEAM => Named::Team(unsafe { &*((handle & !TAG_MASK) as *const Team) }),
        TAG_PAIR => Named::Pair((handle >> 18) as EpIndex, (handle >> 2) as EpIndex),
        _ => crate::fatal!(
            "{handle:#x} is not a gex_TM_t: it was not returned by gex_Client_Init or gex_TM_Pair, or it was destroyed"
        ),
    }
}

/// The team that a handle names; fatal for TM-pairs, which `what` does not accept.
#[inline]
pub fn team(handle: usize, what: &str) -> &'static Team {
    match decode(handle) {
        Named::Team(team) => team,
        Named::Pair(..) => crate::fatal!("rank {}: {what} was given a TM-pair; it needs a team", runtime::get().rank),
    }
}

/// A TM-pair's handle.
pub fn pair(local: EpIndex, remote: EpIndex) -> usize {
    (local as usize) << 18 | (remote as usize) << 2 | TAG_PAIR
}

/// The local endpoint and the peer that `(handle, rank)` names.
#[inline]
pub fn resolve(handle: usize, rank: u32) -> (EpIndex, Location) {
    match decode(handle) {
        Named::Team(team) => {
            if cfg!(feature = "debug-checks") && rank >= team.size {
                crate::fatal!(
                    "rank {}: rank {rank} is not in a team of {} members",
                    runtime::get().rank,
                    team.size
                );
            }
            (team.ep, team.locate(rank))
        }
        Named::Pair(local, remote) => {
            if cfg!(feature = "debug-checks") && rank >= runtime::get().size {
                crate::fatal!(
                    "rank {}: job rank {rank} does not exist in a job of {}",
                    runtime::get().rank,
                    runtime::get().size
                );
            }
            (local, Location { rank, ep: remote })
        }
    }
}
