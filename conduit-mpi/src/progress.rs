//! Polling.
#![forbid(unsafe_code)]

use crate::ffi::{Failure, Handle};
use crate::link::{Held, Link};
use crate::operations::Done;
use crate::receive::Arrival;
use gasnet_conduit::{Class, PollScope, Upcalls};

/// Most packets that a poll delivers.
const MOST: usize = 64;

impl<H: Handle> Link<H> {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        if scope == PollScope::All && !self.held.is_empty() {
            delivered += self.deliver_held(upcalls);
        }
        if self.memory.is_some() {
            delivered += self.flush(upcalls);
        }
        let (mut vacant, mut goes_on) = (None, true);
        loop {
            // Another thread that does the same is not waited for.
            let turn = if vacant.is_none() { self.try_turn() } else { self.turn() };
            let Some(mut turn) = turn else { break };
            if let Some(buffer) = vacant.take() {
                turn.vacate(buffer);
            }
            if !goes_on || delivered >= MOST {
                break;
            }
            self.receive_again(&mut turn);
            let next = turn.next(self.world.functions);
            drop(turn);
            match next {
                Ok(Some(Done::Received(mut buffer))) => {
                    let arrival = self.deliver(&mut buffer, scope, upcalls);
                    delivered += usize::from(matches!(arrival, Arrival::Delivered(_)));
                    // A thread waits for the reply, rather than for another call of MPI.
                    goes_on = !matches!(arrival, Arrival::Delivered(Class::Reply));
                    vacant = match arrival {
                        Arrival::Held(source, bytes) => self.hold(Held { source, bytes, buffer }),
                        _ => Some(buffer),
                    };
                }
                Ok(Some(Done::Sent(buffer))) => buffer.release(),
                Ok(Some(Done::Transferred(transfer))) => {
                    self.transferred(&transfer, upcalls);
                    delivered += 1;
                }
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
