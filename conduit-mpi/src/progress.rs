//! Polling.
#![forbid(unsafe_code)]

use crate::ffi::{Failure, Handle};
use crate::link::Link;
use crate::operations::Done;
use gasnet_conduit::{PollScope, Upcalls};

/// Most packets that a poll delivers.
const MOST: usize = 64;

impl<H: Handle> Link<H> {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        while delivered < MOST {
            // Another thread that does the same is not waited for.
            let Some(mut turn) = self.try_turn() else { break };
            let next = turn.next(self.world.functions, scope);
            drop(turn);
            match next {
                Ok(Some(Done::Received(class, address))) => delivered += self.deliver(class, address, upcalls),
                Ok(Some(Done::Sent(buffer))) => buffer.release(),
                Ok(None) => break,
                Err(Failure(why)) => {
                    self.peers.states.fail(&why);
                    break;
                }
            }
        }
        if self.peers.has_work() && !self.peers.states.is_stopped() {
            self.serve_peers(upcalls);
        }
        delivered
    }

    /// Returns credits to the peers that are owed much, and reports losses.
    #[cold]
    fn serve_peers(&self, upcalls: &mut dyn Upcalls) {
        for peer in self.peers.limits.take_owing(|rank| Some(self.peers.credits(rank))) {
            self.return_credits(peer);
        }
        self.peers.states.report(upcalls);
    }
}
