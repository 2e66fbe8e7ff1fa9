//! The alternate path of a queue pair.
#![forbid(unsafe_code)]

use crate::ffi::{Address, LocalPort};
use crate::ports::Path;
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicBool;

/// The two paths of a queue pair.
pub struct Migration {
    /// The peer's ports: of the path, and of the alternate one.
    peer_ports: [Address; 2],
    /// Whether the queue pair is on the alternate path.
    has_moved: AtomicBool,
}

impl Migration {
    /// Those of a queue pair on its first path.
    pub fn new(peer_ports: [Address; 2]) -> Self {
        let has_moved = AtomicBool::new(false);
        Self { peer_ports, has_moved }
    }

    /// The queue pair has moved to its other path.
    pub fn note_moved(&self) {
        self.has_moved.fetch_xor(true, Ordering::Relaxed);
    }

    /// The ports of a path: the one that the queue pair uses, and the other one.
    pub fn ports<'a>(&self, path: &'a Path) -> Option<(&'a LocalPort, &'a LocalPort)> {
        let (first, second) = (&path.port, path.alternate.as_ref()?);
        let has_moved = self.has_moved.load(Ordering::Relaxed);
        Some(if has_moved { (second, first) } else { (first, second) })
    }

    /// The peer's port of the path that the queue pair is not on.
    pub fn unused_peer_port(&self) -> &Address {
        let has_moved = self.has_moved.load(Ordering::Relaxed);
        &self.peer_ports[usize::from(!has_moved)]
    }
}
