//! A started conduit: its parts.

use crate::link::Link;
use crate::rma::OneSided;
use crate::send::Messages;
use crate::wire::Kind;
use gasnet_conduit::{
    Abilities, Atomics, Busy, Class, JobRank, Network, PollScope, PutNotify, Rma, Segments, SendBuffers, Stop, Upcalls,
    Wake,
};

/// Calls of UCX's progress at the end, as long as they do something.
const LAST_ROUNDS: usize = 64;

/// A started conduit.
pub struct Net {
    // First: the worker in it uses operations of the messages until it is gone.
    pub rma: OneSided,
    pub messages: Messages,
}

impl Net {
    /// The worker and its peers.
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

    /// An orderly stop tells peers that this process is connected with that this is no crash. It
    /// makes no connection: all ranks stop at about the same time, and UCX prints errors if it
    /// connects to a process that has ended. UCX is left alone: its worker has operations under
    /// way, and other threads may be inside.
    fn stop(&self, how: Stop) {
        let link = self.link();
        if link.peers.states.is_stopped() {
            return;
        }
        if how == Stop::Orderly {
            for peer in link.peers.connected() {
                // If that fails, the peer is gone, or it learns of the end from its node agent.
                let _ = self.messages.send_header(link, peer, Kind::Bye, 0);
            }
            // Messages may wait behind others.
            (0..LAST_ROUNDS).take_while(|_| self.progress(1)).for_each(drop);
        }
        link.peers.states.stop();
    }

    fn abilities(&self) -> Abilities<'_> {
        let rma = &self.rma;
        Abilities {
            segments: Some(rma as &dyn Segments),
            rma: Some(rma as &dyn Rma),
            put_notify: Some(self as &dyn PutNotify),
            send_buffers: Some(self as &dyn SendBuffers),
            atomics: rma.has_atomics.then_some(rma as &dyn Atomics),
            wake: Some(self as &dyn Wake),
            ..Abilities::default()
        }
    }
}
