//! Puts and gets by one-sided calls.
//!
//! A request of MPI's shows that the source of a put is free, or that a get is there. A put has
//! arrived after a flush of its peer, for which it waits until the next poll: one flush completes
//! all puts to the peer. Small puts have no request, nor has what MPI's counts cut into pieces: the
//! request of the last one tells nothing about the others.
//!
//! Atomics are Active Messages: MPI keeps those of one kind atomic to each other, not those of
//! several (MPI 3.0, 11.7.1, `same_op_no_op`), and most MPIs need the target for them.

use crate::ffi::{Failure, Handle, Remote, Request, Window};
use crate::link::{Link, Turn};
use crate::operations::{Transfer, TransferKind, Unflushed};
use gasnet_conduit::{Busy, Completion, Cookie, Get, JobRank, LocalCompletion, Put, RemoteMemory, Rma, Upcalls};

/// Bytes of the largest put without a request.
const SMALL: usize = 4 << 10;

impl<H: Handle> Link<H> {
    fn window(&self) -> &Window<H> {
        let memory = self.memory.as_ref();
        &memory.expect("defect: an operation without a window").window
    }

    fn remote(&self, memory: &RemoteMemory) -> Remote {
        Remote {
            rank: self.peers.place(memory.peer).rank,
            address: memory.address,
        }
    }

    /// A request of a put or get is complete.
    pub fn transferred(&self, transfer: &Transfer, upcalls: &mut dyn Upcalls) {
        let &Transfer { peer, cookie, kind } = transfer;
        if kind == TransferKind::Get {
            return upcalls.done(cookie, Completion::Both);
        }
        upcalls.done(cookie, Completion::Source);
        if let Some(mut turn) = self.turn() {
            let part = Completion::Remote;
            turn.unflushed.push(Unflushed { peer, cookie, part });
        }
    }

    /// An operation was started, or its peer is lost.
    fn started(
        &self,
        turn: &mut Turn<'_, H>,
        (peer, cookie, kind): (JobRank, Cookie, TransferKind),
        started: Result<Option<Request<H>>, Failure>,
    ) {
        match started {
            Ok(Some(request)) => turn.transferring(request, Transfer { peer, cookie, kind }),
            Ok(None) => {
                let part = Completion::Both;
                turn.unflushed.push(Unflushed { peer, cookie, part });
            }
            Err(Failure(why)) => self.peers.states.lose(peer, why),
        }
    }

    /// Flushes the peers of operations that wait for that, and reports them. Returns their number.
    pub fn flush(&self, upcalls: &mut dyn Upcalls) -> usize {
        let Some(mut turn) = self.try_turn() else { return 0 };
        if turn.unflushed.is_empty() {
            return 0;
        }
        let mut waiting = std::mem::take(&mut turn.unflushed);
        waiting.sort_unstable_by_key(|operation| operation.peer);
        for of_peer in waiting.chunk_by(|one, other| one.peer == other.peer) {
            let peer = of_peer[0].peer;
            // SAFETY: this thread has MPI.
            if let Err(Failure(why)) = unsafe { self.window().flush(self.peers.place(peer).rank) } {
                self.peers.states.lose(peer, why);
            }
        }
        drop(turn);
        let count = waiting.len();
        for Unflushed { cookie, part, .. } in waiting.drain(..) {
            upcalls.done(cookie, part);
        }
        // Its room serves later operations.
        if let Some(mut turn) = self.try_turn() {
            if turn.unflushed.is_empty() {
                turn.unflushed = waiting;
            }
        }
        count
    }
}

impl<H: Handle> Rma for Link<H> {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let mut turn = self.turn().ok_or(Busy)?;
        // SAFETY: the runtime keeps the source until local completion, and the peer its segment.
        let started = unsafe {
            let to = self.remote(&put.to);
            self.window().put(to, put.from.address, put.bytes, put.bytes > SMALL)
        };
        self.started(&mut turn, (put.to.peer, put.cookie, TransferKind::Put), started);
        Ok(LocalCompletion::Later)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let mut turn = self.turn().ok_or(Busy)?;
        // SAFETY: the runtime keeps the destination until completion, and the peer its segment.
        let started = unsafe {
            let from = self.remote(&get.from);
            self.window().get(from, get.to.address, get.bytes, true)
        };
        self.started(&mut turn, (get.from.peer, get.cookie, TransferKind::Get), started);
        Ok(())
    }
}
