//! A peer, as the work requests of a send queue need it that leads to several.

use crate::ffi::Pair;
use crate::ports::MOST_PATHS;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicBool;

/// The end of a connection at its peer. Without XRC its rank is all.
pub struct XrcPeer {
    pub peer: JobRank,
    /// The peer's receive queues, by path.
    pub receive_queues: [u32; MOST_PATHS],
    /// Whether any work request was posted to them.
    is_used: AtomicBool,
    /// The pairs by which the peer sends to this process, by path; none without XRC.
    pub receive_pairs: Box<[Pair]>,
}

impl XrcPeer {
    /// Without XRC.
    pub fn new(peer: JobRank) -> Self {
        Self {
            peer,
            receive_queues: [0; MOST_PATHS],
            is_used: AtomicBool::new(false),
            receive_pairs: Box::new([]),
        }
    }

    /// Whether they are for XRC.
    pub fn is_for_xrc(&self) -> bool {
        !self.receive_pairs.is_empty()
    }

    /// The peer's receive queue of a path, for a work request.
    #[inline]
    pub fn use_receive_queue(&self, path: usize) -> u32 {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
        self.receive_queues[path]
    }

    /// Whether there was any work request.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// The number of the pair that receives from the peer on a path, where `pair` sends.
    pub fn receiver(&self, path: usize, pair: &Pair) -> u32 {
        self.receive_pairs.get(path).unwrap_or(pair).number
    }
}
