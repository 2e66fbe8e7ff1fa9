//! Puts and gets.
//!
//! The completion of a put by UCX is that of its source. A flush of its peer, which polls start,
//! one at a time for each peer, completes all puts that were started before. A put whose source is
//! not free at return is flushed after it is, so that both are reported in order.

use crate::ffi::{Endpoint, Source, Started, Target, Turn};
use crate::link::Link;
use crate::memory::Segments;
use crate::operations::{AfterPut, Kind, OwnedOperation, Pool, Reaped};
use gasnet_conduit::{Busy, Cookie, Get, JobRank, LocalCompletion, Put, RemoteMemory, Rma, SourceUse};
use std::sync::Arc;

/// Most operations without bytes of their own: puts, gets, flushes.
const OPERATIONS: usize = 1 << 20;
/// Bytes of the largest put that is copied so that its source is free at return.
const BOUNCE: usize = 8 << 10;
/// Most copies under way, those of atomics included.
const BOUNCES: usize = 1024;

/// One-sided operations of a process.
pub struct OneSided {
    // First: it has keys and memory of the worker.
    pub segments: Segments,
    // Before the operations that the worker has.
    pub link: Box<Link>,
    /// Whether there are atomics.
    pub has_atomics: bool,
    operations: Pool,
    /// Operations with bytes of their own.
    pub bounces: Pool,
}

impl OneSided {
    /// Nothing is under way.
    pub fn new(link: Box<Link>, has_atomics: bool, reaped: &Arc<Reaped>) -> Self {
        Self {
            segments: Segments::default(),
            link,
            has_atomics,
            operations: Pool::new(0, OPERATIONS, reaped),
            bounces: Pool::new(BOUNCE, BOUNCES, reaped),
        }
    }

    /// Calls a function with the remote side of an operation. Connects to the peer, and unpacks the
    /// key, at the first use.
    #[inline]
    pub fn with_target<R>(
        &self,
        memory: &RemoteMemory,
        start: impl FnOnce(&Turn<'_>, Target<'_>) -> R,
    ) -> Result<R, Busy> {
        let link = &self.link;
        link.is_present(memory.peer)?;
        // SAFETY: the runtime forgets a segment only when no operation uses it.
        let learned = unsafe { self.segments.learned.get(memory.segment.0) };
        let learned = learned.unwrap_or_else(|| panic!("defect: {memory:?} was not learned"));
        let turn = link.worker.turn();
        let endpoint = link.endpoint(&turn, memory.peer)?;
        let key = match learned.key.get() {
            Some(key) => key,
            None => match turn.unpack(endpoint, learned.packed()) {
                Ok(key) => learned.key.get_or_init(|| key),
                Err(why) => return Err(link.refused(memory.peer, "reading a key (ucp_ep_rkey_unpack)", why)),
            },
        };
        let target = Target {
            endpoint,
            address: memory.address as u64,
            key,
        };
        Ok(start(&turn, target))
    }

    /// Starts an operation with a peer, whose call is `start`. Returns it if it is complete
    /// already.
    pub fn begin(
        &self,
        mut held: OwnedOperation,
        (kind, cookie): (Kind, Cookie),
        remote: &RemoteMemory,
        start: impl FnOnce(&Turn<'_>, Target<'_>, &OwnedOperation) -> Started,
    ) -> Result<Option<OwnedOperation>, Busy> {
        (held.kind, held.cookie, held.peer) = (kind, cookie, remote.peer);
        let Ok(started) = self.with_target(remote, |turn, target| start(turn, target, &held)) else {
            held.release();
            return Err(Busy);
        };
        held.started(started).map_err(|(held, why)| self.link.failed(held, why))
    }

    /// Starts flushes of the peers that have puts to complete, except those for which there is no
    /// operation now.
    pub fn flush(&self, turn: &Turn<'_>) {
        let peers = &self.link.peers;
        for _ in 0..peers.to_flush.len() {
            let Some(peer) = peers.to_flush.pop() else {
                break;
            };
            match (peers.endpoint(peer), self.operations.take()) {
                (Some(endpoint), Some(held)) => self.flush_peer(turn, peer, endpoint, held),
                _ => peers.to_flush.push(peer),
            }
        }
    }

    fn flush_peer(&self, turn: &Turn<'_>, peer: JobRank, endpoint: Endpoint, mut held: OwnedOperation) {
        let puts = self.link.peers.take_unflushed(peer);
        (held.kind, held.peer) = (Kind::Flush(puts), peer);
        let started = turn.flush::<OwnedOperation>(endpoint, held.context());
        match held.started(started) {
            Ok(Some(done)) => done.reap(Ok(())),
            Ok(None) => {}
            Err((held, why)) => held.reap(Err(why)),
        }
    }
}

impl OneSided {
    /// Starts a put, after whose arrival `after` follows.
    pub fn begin_put(&self, put: &Put, after: AfterPut) -> Result<LocalCompletion, Busy> {
        let is_copied = put.source == SourceUse::Now && put.bytes <= BOUNCE;
        let pool = if is_copied { &self.bounces } else { &self.operations };
        let Some(mut held) = pool.take() else {
            after.release();
            return Err(Busy);
        };
        let mut source = Source {
            address: put.from.address,
            bytes: put.bytes,
        };
        if is_copied {
            let room = held.bytes(put.bytes);
            // SAFETY: the runtime keeps the source readable until local completion.
            unsafe {
                room.as_mut_ptr()
                    .copy_from_nonoverlapping(put.from.address as *const u8, put.bytes);
            };
            source.address = held.address();
        }
        let (kind, after) = if is_copied {
            (Kind::BouncedPut, Some(after))
        } else {
            (Kind::Put(after), None)
        };
        let begun = self.begin(held, (kind, put.cookie), &put.to, |turn, target, held| {
            // SAFETY: the operation's own bytes, or those that the runtime keeps until completion.
            unsafe { turn.put::<OwnedOperation>(target, source, held.context()) }
        });
        let Ok(mut done) = begun else {
            if let Some(after) = after {
                after.release();
            }
            return Err(Busy);
        };
        // Whatever follows a put whose source is in use still is with its operation.
        let after = after.or_else(|| done.as_mut().and_then(OwnedOperation::take_after));
        if let Some(done) = done {
            done.release();
        }
        Ok(match after {
            Some(after) => {
                self.link.peers.await_put(put.to.peer, after);
                LocalCompletion::AtReturn
            }
            None => LocalCompletion::Later,
        })
    }
}

impl Rma for OneSided {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.begin_put(put, AfterPut::Report(put.cookie))
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let held = self.operations.take().ok_or(Busy)?;
        let to = Source {
            address: get.to.address,
            bytes: get.bytes,
        };
        let done = self.begin(held, (Kind::Get, get.cookie), &get.from, |turn, target, held| {
            // SAFETY: the runtime keeps the destination until completion.
            unsafe { turn.get::<OwnedOperation>(target, to, held.context()) }
        })?;
        if let Some(done) = done {
            done.reap(Ok(()));
        }
        Ok(())
    }
}
