//! Puts and gets.
//!
//! The completion of a put by UCX is that of its source. A flush of its peer, which polls start,
//! one at a time for each peer, completes all puts that were started before. A put whose source is
//! not free at return is flushed after it is, so that both are reported in order. UCX asks for
//! write access to the source of a large put, which constants do not have: they are copied.

use crate::ffi::{Endpoint, MemoryType, Source, Started, Status, Target, Turn};
use crate::link::Link;
use crate::memory::refused::Refused;
use crate::memory::Segments;
use crate::operations::{AfterPut, Kind, OwnedOperation, Pool, Reaped};

use gasnet_conduit::{Busy, Cookie, Get, JobRank, LocalCompletion, Put, RemoteMemory, Rma, SourceUse};
use std::sync::Arc;

/// Most operations without bytes of their own: puts, gets, flushes.
const OPERATIONS: usize = 1 << 20;
/// Bytes of the largest put that is always copied: that costs less than a report of its source.
const SMALL: usize = 256;
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
    /// Memory that is put as a copy.
    refused: Refused,
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
            refused: Refused::default(),
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
    /// already. One whose call failed comes back with the reason.
    fn try_begin(
        &self,
        mut held: OwnedOperation,
        kind: Kind,
        remote: &RemoteMemory,
        start: impl FnOnce(&Turn<'_>, Target<'_>, &OwnedOperation) -> Started,
    ) -> Result<Option<OwnedOperation>, Option<(OwnedOperation, Status)>> {
        (held.kind, held.peer) = (kind, remote.peer);
        let Ok(started) = self.with_target(remote, |turn, target| start(turn, target, &held)) else {
            held.release();
            return Err(None);
        };
        held.started(started).map_err(Some)
    }

    /// The same. A failure loses the peer.
    pub fn begin(
        &self,
        held: OwnedOperation,
        kind: Kind,
        remote: &RemoteMemory,
        start: impl FnOnce(&Turn<'_>, Target<'_>, &OwnedOperation) -> Started,
    ) -> Result<Option<OwnedOperation>, Busy> {
        self.try_begin(held, kind, remote, start)
            .map_err(|failed| match failed {
                Some((held, why)) => self.link.failed(held, why),
                None => Busy,
            })
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
        let source = Source {
            address: put.from.address,
            bytes: put.bytes,
        };
        let memory = MemoryType::of(put.from.device);
        let is_host = memory == MemoryType::HOST;
        if is_host && put.source == SourceUse::Now && put.bytes <= BOUNCE {
            return self
                .put_bounced(&put.to, source, after)
                .map(|()| LocalCompletion::AtReturn);
        }
        if self.refused.has(source) {
            return self.put_copy(put, after);
        }
        let Some(held) = self.operations.take() else {
            after.release();
            return Err(Busy);
        };
        let begun = self.try_begin(held, Kind::Put(put.cookie, after), &put.to, |turn, target, held| {
            // SAFETY: the runtime keeps the source readable and unchanged until completion.
            unsafe { turn.put::<OwnedOperation>(target, (source, memory), held.context()) }
        });
        match begun {
            Ok(None) => Ok(LocalCompletion::Later),
            Ok(Some(mut done)) => {
                if let Some(after) = done.take_after() {
                    self.link.peers.await_put(put.to.peer, after);
                }
                done.release();
                Ok(LocalCompletion::AtReturn)
            }
            Err(None) => Err(Busy),
            Err(Some((held, why))) if !is_host => Err(self.link.failed(held, why)),
            Err(Some((mut held, why))) => match held.take_after() {
                Some(after) => {
                    held.release();
                    self.refused.note(source);
                    self.put_copy(put, after)
                }
                None => Err(self.link.failed(held, why)),
            },
        }
    }

    /// Puts a copy in an operation's own bytes.
    fn put_bounced(&self, to: &RemoteMemory, source: Source, after: AfterPut) -> Result<(), Busy> {
        let Some(mut held) = self.bounces.take() else {
            after.release();
            return Err(Busy);
        };
        let room = held.bytes(source.bytes);
        // SAFETY: the runtime keeps the source readable until local completion.
        unsafe {
            room.as_mut_ptr()
                .copy_from_nonoverlapping(source.address as *const u8, source.bytes);
        };
        let copy = Source {
            address: held.address(),
            ..source
        };
        self.put_from_copy(to, (held, copy, Vec::new()), after)
    }

    /// Puts a copy on the heap, which UCX can register.
    #[cold]
    pub fn put_copy(&self, put: &Put, after: AfterPut) -> Result<LocalCompletion, Busy> {
        let Some(held) = self.operations.take() else {
            after.release();
            return Err(Busy);
        };
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(put.from.address as *const u8, put.bytes) }.to_vec();
        let copy = Source {
            address: bytes.as_ptr() as usize,
            bytes: put.bytes,
        };
        self.put_from_copy(&put.to, (held, copy, bytes), after)?;
        Ok(LocalCompletion::AtReturn)
    }

    fn put_from_copy(
        &self,
        to: &RemoteMemory,
        (held, copy, bytes): (OwnedOperation, Source, Vec<u8>),
        after: AfterPut,
    ) -> Result<(), Busy> {
        let begun = self.begin(held, Kind::CopiedPut(bytes), to, |turn, target, held| {
            // SAFETY: of the operation until its completion.
            unsafe { turn.put::<OwnedOperation>(target, (copy, MemoryType::HOST), held.context()) }
        });
        let Ok(done) = begun else {
            after.release();
            return Err(Busy);
        };
        if let Some(done) = done {
            done.release();
        }
        self.link.peers.await_put(to.peer, after);
        Ok(())
    }
}

impl Rma for OneSided {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.begin_put(put, AfterPut::Report(put.cookie))
    }

    fn small_put(&self) -> usize {
        SMALL
    }

    fn put_small(&self, to: RemoteMemory, from: *const u8, bytes: usize, cookie: Cookie) -> Result<Option<()>, Busy> {
        let address = from as usize;
        self.put_bounced(&to, Source { address, bytes }, AfterPut::Report(cookie))
            .map(Some)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let held = self.operations.take().ok_or(Busy)?;
        let to = Source {
            address: get.to.address,
            bytes: get.bytes,
        };
        let memory = MemoryType::of(get.to.device);
        let done = self.begin(held, Kind::Get(get.cookie), &get.from, |turn, target, held| {
            // SAFETY: the runtime keeps the destination until completion.
            unsafe { turn.get::<OwnedOperation>(target, (to, memory), held.context()) }
        })?;
        if let Some(done) = done {
            done.reap(Ok(()));
        }
        Ok(())
    }
}
