//! Polling.

use crate::net::Net;
use crate::operations::{AfterPut, Kind, OwnedOperation};
use crate::send::post;
use crate::wire;
use gasnet_conduit::{Class, Completion as Part, PollScope, Upcalls};
use gasnet_conduit_util::aligned_copy::copy_out;

/// Calls of UCX's progress in a poll, as long as they do something. One takes what few transports
/// have.
const ROUNDS: usize = 8;
/// Most completions that a poll reaps.
const MOST: usize = 256;

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let link = self.link();
        if link.peers.states.is_stopped() {
            return 0;
        }
        // Over transports without remote DMA that executes operations of peers, which no upcall
        // shows: a thread that serves them should not sleep.
        let mut delivered = usize::from(self.progress(ROUNDS));
        if !link.reaped.is_empty() {
            delivered += self.reap(upcalls);
        }
        if !link.arrivals.is_empty() {
            delivered += link.deliver(Class::Reply, upcalls);
            if scope == PollScope::All {
                delivered += link.deliver(Class::Request, upcalls);
            }
        }
        if link.peers.has_work() {
            self.serve_peers(upcalls);
        }
        delivered
    }

    /// Lets UCX work, at most `rounds` times, until something has come for an upcall: another round
    /// may enter the kernel. Another thread that does the same is not waited for. Returns whether
    /// it did something.
    pub fn progress(&self, rounds: usize) -> bool {
        let link = self.link();
        let Some(turn) = link.worker.try_turn() else {
            return false;
        };
        if !link.peers.to_flush.is_empty() {
            self.rma.flush(&turn);
        }
        let mut has_worked = false;
        for _ in 0..rounds {
            if !turn.progress() {
                break;
            }
            has_worked = true;
            if link.has_upcalls() {
                break;
            }
        }
        has_worked
    }

    /// Reports operations that are complete. Returns the number of upcalls.
    fn reap(&self, upcalls: &mut dyn Upcalls) -> usize {
        let reaped = &self.link().reaped;
        let mut delivered = 0;
        for _ in 0..MOST {
            if reaped.is_empty() {
                break;
            }
            match reaped.pop() {
                Some((held, Ok(()))) => delivered += self.done(held, upcalls),
                Some((held, Err(why))) => {
                    let _ = self.link().failed(held, why);
                }
                None => break,
            }
        }
        delivered
    }

    /// An operation of ours is complete.
    fn done(&self, mut held: OwnedOperation, upcalls: &mut dyn Upcalls) -> usize {
        let peer = held.peer;
        let kind = std::mem::replace(&mut held.kind, Kind::Idle);
        if let Kind::Atomic { fetched, result, .. } = &kind {
            if *fetched != 0 {
                // SAFETY: the runtime keeps the destination writable until completion, and the
                // bytes of an operation are aligned.
                unsafe { copy_out(result.address, *fetched, result.bytes) };
            }
        }
        held.release();
        match kind {
            Kind::Idle | Kind::Packet(_) | Kind::CopiedPut(_) => 0,
            Kind::Put(cookie, after) => {
                upcalls.done(cookie, Part::Source);
                self.link().peers.await_put(peer, after);
                1
            }
            Kind::Flush(mut puts) => {
                let delivered = puts.drain(..).map(|put| self.arrived(put, upcalls)).sum();
                self.link().peers.note_flushed(peer, puts);
                delivered
            }
            Kind::Get(cookie) | Kind::Atomic { cookie, .. } => {
                upcalls.done(cookie, Part::Both);
                1
            }
        }
    }

    /// A put has arrived. Returns the number of upcalls.
    fn arrived(&self, after: AfterPut, upcalls: &mut dyn Upcalls) -> usize {
        match after {
            AfterPut::Report(cookie) => {
                upcalls.done(cookie, Part::Remote);
                1
            }
            AfterPut::Send(message, bytes) => {
                if let Kind::Packet(class) = message.kind {
                    // If that fails, the peer is lost.
                    let _ = post(self.link(), message, wire::Kind::Packet(class), bytes);
                }
                0
            }
        }
    }

    /// Returns credits to the peers that are owed half a window, and reports losses.
    #[cold]
    fn serve_peers(&self, upcalls: &mut dyn Upcalls) {
        let link = self.link();
        for peer in link.peers.limits.take_owing(|rank| Some(link.peers.credits(rank))) {
            self.messages.return_credits(link, peer);
        }
        link.peers.states.report(upcalls);
    }
}
