//! Segments in the window for one-sided calls. Displacements in it are addresses, so peers need no
//! keys.

mod segments;

use crate::ffi::{Handle, Window};
use gasnet_conduit::SegmentMemory;
use gasnet_sys::atomic::Mutex;

/// The window, and the memory of this process in it.
pub struct Memory<H: 'static> {
    pub window: Window<H>,
    attached: Mutex<Vec<Attached>>,
}

/// Memory in the window. MPI attaches no byte twice, so other segments may lie inside.
struct Attached {
    number: u32,
    memory: SegmentMemory,
    segments: u32,
}

impl Attached {
    fn covers(&self, other: &SegmentMemory) -> bool {
        let SegmentMemory { base, bytes, .. } = self.memory;
        base <= other.base && other.base + other.bytes <= base + bytes
    }
}

impl<H: Handle> Memory<H> {
    /// Without segments.
    pub fn new(window: Window<H>) -> Self {
        Self {
            window,
            attached: Mutex::default(),
        }
    }
}
