//! A started conduit: its parts.

use crate::connect_timeout::ConnectTimeouts;
use crate::link::Link;
use crate::receive::deliver::Receiver;
use crate::rma::OneSided;
use crate::send::Messages;
use crate::stale_shm::StaleShm;
use crate::wire::{Kind, HEADER};
use gasnet_conduit::{
    Abilities, Atomics, Busy, Class, JobRank, Network, PollScope, PutNotify, Rma, Segments, Stop, Upcalls, Wake,
};
use std::sync::atomic::AtomicU64;

/// A started conduit.
pub struct Net {
    /// Completions that a poll takes at most.
    pub completions: usize,
    /// When the last poll began, by the time-stamp counter.
    pub last_poll: AtomicU64,
    /// Peers to which operations wait.
    pub connect_timeouts: ConnectTimeouts,
    pub stale_shm: StaleShm,
    pub messages: Messages,
    pub receiver: Receiver,
    // Last: what is above has regions of its endpoint.
    pub rma: OneSided,
}

impl Net {
    /// The endpoint and its peers.
    #[inline]
    pub fn link(&self) -> &Link {
        &self.rma.link
    }
}

impl Network for Net {
    fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        self.messages.send(self.link(), peer, class, parts)
    }

    fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        self.poll(scope, upcalls)
    }

    /// An orderly stop tells peers that were contacted that this is no crash.
    fn stop(&self, how: Stop) {
        let link = self.link();
        if link.peers.states.stop() {
            return;
        }
        self.stale_shm.remove();
        if how == Stop::Signal {
            return;
        }
        let mut message = [0; HEADER];
        link.header(Kind::Bye, 0).encode(0, &mut message);
        for peer in link.peers.contacted() {
            // If that fails, the peer is gone, or it reads of the end from its node agent.
            let _ = self.messages.send_header(link, &message, peer);
        }
    }

    fn abilities(&self) -> Abilities<'_> {
        let (rma, offered) = (&self.rma, self.rma.abilities);
        Abilities {
            send_buffers: Some(self),
            segments: offered.rma.then_some(rma as &dyn Segments),
            rma: offered.rma.then_some(rma as &dyn Rma),
            put_notify: offered.rma.then_some(self as &dyn PutNotify),
            atomics: (offered.atomics != 0).then_some(rma as &dyn Atomics),
            wake: self.link().endpoint.wake.map(|_| self as &dyn Wake),
            ..Abilities::default()
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: nobody else has this any more; regions are dropped next.
        unsafe { self.rma.close() };
    }
}
