//! Names that every level of the runtime uses.

use std::fmt;

use gasnet_conduit::JobRank;

/// Most arguments of a handler (`gex_AM_MaxArgs`).
pub const MAX_ARGS: usize = 16;

/// A handler argument (`gex_AM_Arg_t`).
pub type Arg = i32;

/// Index of an endpoint within its process (`gex_EP_Index_t`).
pub type EpIndex = u16;

/// Added to the index of an endpoint where addresses may lie anywhere in its process, and not in
/// its segment only (`segment::disposition`).
pub const ANYWHERE: EpIndex = 0x8000;

/// Rank of a member in a team (`gex_Rank_t`).
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// As an index into a table with one entry per member.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The process with this number, for ranks with a TM-pair or `GEX_FLAG_RANK_IS_JOBRANK`: those
    /// are ranks in the job.
    #[inline]
    pub const fn as_job_rank(self) -> JobRank {
        JobRank(self.0)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An endpoint anywhere in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Process.
    pub rank: JobRank,
    /// Endpoint in it.
    pub ep: EpIndex,
}

/// The handler that `gex_VIS_SetPeerCompletionHandler` armed.
#[derive(Clone, Copy, Debug)]
pub struct PeerCompletion {
    /// Handler at the peer.
    pub handler: u8,
    /// The client's payload, which stays until the put is complete.
    pub payload: *const u8,
    /// Its length in bytes.
    pub bytes: usize,
}

/// The three AM categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AmCategory {
    /// Arguments only.
    Short = 1,
    /// With a payload in a library buffer.
    Medium = 2,
    /// With a payload that is at its destination already.
    Long = 3,
}
