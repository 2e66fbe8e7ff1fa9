//! A started conduit.
#![forbid(unsafe_code)]

use crate::ffi::Handle;
use crate::link::Link;
use gasnet_conduit::{Abilities, Busy, Class, JobRank, Network, PollScope, Rma, Segments, Stop, Upcalls};
use std::sync::atomic::Ordering;

/// A started conduit.
pub struct Net<H: 'static>(pub &'static Link<H>);

impl<H: Handle> Network for Net<H> {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.0.send(peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.0.poll(scope, upcalls)
    }

    fn abilities(&self) -> Abilities<'_> {
        let link = self.0;
        let has_window = link.memory.is_some();
        Abilities {
            send_buffers: Some(link),
            segments: has_window.then_some(link as &dyn Segments),
            rma: has_window.then_some(link as &dyn Rma),
            ..Abilities::default()
        }
    }

    /// Peers need no word of it: MPI has no connections that break.
    fn stop(&self, how: Stop) {
        if how == Stop::Signal {
            self.0.by_signal.store(true, Ordering::Relaxed);
        }
        self.0.peers.states.stop();
    }
}
