//! Names that every level of the runtime uses.

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

/// An endpoint anywhere in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Process.
    pub rank: JobRank,
    /// Endpoint in it.
    pub ep: EpIndex,
}

/// What `gex_VIS_SetPeerCompletionHandler` armed.
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
pub enum Category {
    /// Arguments only.
    Short = 1,
    /// With a payload in a library buffer.
    Medium = 2,
    /// With a payload that is at its destination already.
    Long = 3,
}
