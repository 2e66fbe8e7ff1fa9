//! Polling.
#![forbid(unsafe_code)]

use crate::ffi::{Failure, Handle};
use crate::link::Link;
use crate::operations::Done;
use gasnet_conduit::{Class, PollScope, Upcalls};

/// Most packets that a poll delivers.
const MOST: usize = 64;

impl<H: Handle> Link<H> {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (mut delivered, mut vacant, mut goes_on) = (0, None, true);
        loop {
            // Another thread that does the same is not waited for.
            let turn = if vacant.is_none() { self.try_turn() } else { self.turn() };
            let Some(mut turn) = turn else { break };
            if let Some((class, address)) = vacant.take() {
                turn.vacate(class, address);
            }
            if !goes_on || delivered >= MOST {
                break;
            }
            self.receive_again(&mut turn);
            let next = turn.next(self.world.functions, scope);
            drop(turn);
            match next {
                Ok(Some(Done::Received(class, address))) => {
                    delivered += self.deliver(class, address, upcalls);
                    vacant = Some((class, address));
                    // A thread waits for the reply, rather than for another call of MPI.
                    goes_on = class == Class::Request;
                }
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
