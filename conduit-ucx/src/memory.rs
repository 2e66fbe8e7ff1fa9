//! Registered memory and keys.

pub mod refused;
mod segments;

use crate::ffi::{Region, RemoteKey};
use gasnet_conduit_util::slot_table::SlotTable;
use std::sync::OnceLock;

/// Segments of this process, and those of peers that it has learned.
#[derive(Default)]
pub struct Segments {
    pub own: SlotTable<Region>,
    pub learned: SlotTable<Learned>,
}

/// A segment of a peer.
pub struct Learned {
    /// As the peer has packed it.
    packed: Box<[u8]>,
    /// The same for its endpoint, from the first use on.
    pub key: OnceLock<RemoteKey>,
}

impl Learned {
    /// The packed key.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }
}
