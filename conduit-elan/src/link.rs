//! The way of messages and operations into the network.

use crate::buffers::Buffers;
use crate::ffi::{Port, Shim};
use crate::operations::PendingOperations;
use crate::peers::Peers;
use gasnet_sys::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// libelan as this process uses it.
#[derive(Debug)]
pub struct Link {
    pub peers: Peers,
    pub port: Port,
    pub buffers: Buffers,
    pub pending: PendingOperations,
    is_stopped: AtomicBool,
    /// The thread of the barrier uses it, too.
    pub shim: Arc<Shim>,
}

impl Link {
    /// Nothing is under way.
    pub fn new(peers: Peers, port: Port, buffers: Buffers, shim: Arc<Shim>) -> Self {
        Self {
            peers,
            port,
            buffers,
            pending: PendingOperations::default(),
            is_stopped: AtomicBool::new(false),
            shim,
        }
    }

    /// Whether the conduit was stopped.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Stops the conduit.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}
