//! Puts and gets.
//!
//! A put that fits a work request is inline. Local memory in a segment is used in place. Other
//! memory is copied through a buffer if it is small, and used in place if the HCA pages on demand.
//! Else it is copied up to a limit, and registered for the one operation above it. Neither
//! registration can go stale: the one follows the page tables, the other lives as long as its
//! operation.
//!
//! What needs more than one work request, or a registration, is a [`Transfer`].

mod long;

use crate::buffers::pools::SMALL;
use crate::buffers::{AsLocal, Buffer, Buffers};
use crate::fabric::Fabric;
use crate::ffi::{Local, Remote, Work};
use crate::operations::CompletionAction;
use crate::route::Route;
use crate::send::Messages;
use crate::settings::Settings;
use crate::transfers::{Extent, Stripes, Transfer};
use gasnet_conduit::{Busy, Completion, Cookie, Get, LocalCompletion, Put, RemoteMemory, Rma, SourceUse};
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_conduit_util::report::Report;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Puts, gets and atomics.
pub struct Operations {
    // First: its queue pairs use the memory of all that follows.
    pub messages: Messages,
    /// Long operations that wait for room.
    #[allow(clippy::vec_box, reason = "they move between work requests and this list")]
    pub stalled: PendingQueue<Box<Transfer>>,
    stripes: Stripes,
    /// Registrations of local memory for one operation that may still be made.
    registrations: AtomicU32,
    /// Whether an operation was copied because its memory could not be registered.
    has_copied: AtomicBool,
    /// Most bytes of a put that is copied.
    bounce: usize,
    /// Most bytes of a packed Long.
    pub packed: usize,
    /// Whether puts are fenced, because a host has several HCAs.
    is_fenced: bool,
    /// Whether the HCAs of all processes have atomics.
    pub has_atomics: bool,
}

/// The local memory of a work request.
pub enum Place {
    /// There.
    Direct(u32),
    /// In a copy, which was made for a put and is to be made for a get.
    Copy(Buffer),
    /// More than one work request is needed, or a registration.
    Long,
}

impl Operations {
    /// None yet, without atomics. `processes` of this host share the HCAs. Puts are fenced if a
    /// host `has_several_hcas`.
    pub fn new(messages: Messages, settings: &Settings, has_several_hcas: bool, processes: usize) -> Self {
        let Fabric { paths, rails, .. } = &messages.fabric;
        let regions = rails.iter().map(|rail| rail.context.attributes.max_mr).min();
        let registrations = settings.registrations(regions.unwrap_or(0), processes);
        let longest = paths.iter().map(|path| path.max_message).min();
        Self {
            stalled: PendingQueue::default(),
            stripes: Stripes::new(
                settings.put_stripe,
                settings.get_stripe,
                paths.len(),
                longest.unwrap_or(usize::MAX),
            ),
            registrations: AtomicU32::new(u32::try_from(registrations).unwrap_or(u32::MAX)),
            has_copied: AtomicBool::new(false),
            bounce: settings.bounce,
            packed: settings.packed,
            is_fenced: settings.fenced.unwrap_or(has_several_hcas),
            has_atomics: false,
            messages,
        }
    }

    #[inline]
    pub fn fabric(&self) -> &Fabric {
        &self.messages.fabric
    }

    /// The pool for copies of `bytes` bytes.
    fn copies(&self, bytes: usize) -> &Buffers {
        let pools = &self.messages.pools;
        if bytes <= pools.small_copies.pool.bytes() {
            &pools.small_copies
        } else {
            &pools.large_copies
        }
    }

    /// How local memory takes part in an operation; `copies` prefers a copy.
    #[inline(always)]
    pub fn place(&self, extent: &Extent, rail: usize, copies: bool) -> Result<Place, Busy> {
        let (fabric, Extent { memory, bytes, .. }) = (self.fabric(), *extent);
        let own = fabric.segments.local(&memory, rail);
        let known = own.or_else(|| fabric.on_demand(&memory, rail, extent.is_get));
        let most = match known {
            Some(_) if own.is_none() && !copies => self.bounce.min(SMALL),
            _ => self.bounce,
        };
        if (copies || own.is_none()) && bytes <= most && memory.device.is_none() {
            let buffer = self.copies(bytes).take(fabric.domains()).ok_or(Busy)?;
            return Ok(Place::Copy(buffer));
        }
        Ok(match known {
            Some((lkey, room)) if bytes <= room => Place::Direct(lkey),
            _ => Place::Long,
        })
    }

    /// Posts a put or an atomic, and what its remote completion needs.
    #[inline(always)]
    pub fn post_fenced(
        &self,
        queue: Route<'_>,
        work: Work,
        remote: Remote,
        done: CompletionAction,
    ) -> Result<(), Busy> {
        let fabric = self.fabric();
        if !self.is_fenced {
            return fabric.post(queue, work, done);
        }
        let Some(mut guard) = fabric.lock_for_two(queue) else {
            done.release();
            return Err(Busy);
        };
        // SAFETY: the runtime keeps its memory until completion, and buffers are released then.
        let posted = unsafe { guard.post(work, CompletionAction::Nothing) };
        if let Err((_, why)) = posted {
            drop(guard);
            let what = done.name();
            done.release();
            return Err(fabric.refused(queue, what, why));
        }
        let fence = self.fence(queue.path, remote);
        // SAFETY: the scratch memory lives as long as the conduit.
        let posted = unsafe { guard.post(fence, done) };
        drop(guard);
        if let Err((done, why)) = posted {
            // There was room for both, so this is no lack of it.
            let what = done.name();
            done.release();
            let text = format!("{}: fencing {what} failed: {why}", fabric.name(queue.path));
            fabric.peers.states.lose(queue.peer(), text);
        }
        Ok(())
    }

    /// A read of a byte that was written. An HCA answers it after the bytes of earlier puts and
    /// atomics are in memory, where every other HCA and all CPUs find them; the acknowledgement of
    /// an operation says only that the HCA has them.
    pub fn fence(&self, path: usize, remote: Remote) -> Work {
        let rail = self.fabric().paths[path].rail;
        Work::read(&self.messages.pools.scratch.local(rail, 1), remote)
    }
}

/// The transfer of a put.
pub fn extent_of(put: &Put) -> Extent {
    Extent {
        is_get: false,
        peer_memory: put.to,
        memory: put.from,
        bytes: put.bytes,
    }
}

/// Copies the source of a put.
pub fn copy_in(buffer: &mut Buffer, from: usize, bytes: usize) {
    let room = buffer.bytes(bytes);
    // SAFETY: the runtime keeps the source readable until local completion.
    unsafe { room.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, bytes) };
}

/// The local memory of a put in one work request.
#[inline(always)]
pub fn in_place(put: &Put, lkey: u32) -> Local {
    Local {
        address: put.from.address,
        bytes: put.bytes,
        lkey,
    }
}

impl Operations {
    /// Whether a put fits a work request.
    #[inline(always)]
    fn is_inline(&self, put: &Put) -> bool {
        put.bytes <= self.fabric().inline && put.from.device.is_none()
    }

    /// Passes the work request of a put on, with its completion action. None if it needs more than
    /// one, or a registration. `NOTIFIES`: only local completion is reported.
    #[inline(always)]
    pub fn put_at_once<const NOTIFIES: bool, R>(
        &self,
        put: &Put,
        rail: usize,
        remote: Remote,
        post: impl FnOnce(Work, CompletionAction) -> R,
    ) -> Result<Option<R>, Busy> {
        let done = |part| match (NOTIFIES, part) {
            (true, Completion::Remote) => CompletionAction::Nothing,
            (true, _) => CompletionAction::Put(put.cookie, Completion::Source),
            _ => CompletionAction::Put(put.cookie, part),
        };
        if self.is_inline(put) {
            let mut work = Work::write(&in_place(put, 0), remote);
            work.inline();
            return Ok(Some(post(work, done(Completion::Remote))));
        }
        match self.place(&extent_of(put), rail, put.source == SourceUse::Now)? {
            Place::Direct(lkey) => {
                let work = Work::write(&in_place(put, lkey), remote);
                Ok(Some(post(work, done(Completion::Both))))
            }
            Place::Copy(mut buffer) => {
                copy_in(&mut buffer, put.from.address, put.bytes);
                let work = Work::write(&buffer.local(rail, put.bytes), remote);
                let done = if NOTIFIES {
                    CompletionAction::Buffer(buffer)
                } else {
                    CompletionAction::PutCopy(put.cookie, buffer)
                };
                Ok(Some(post(work, done)))
            }
            Place::Long => Ok(None),
        }
    }
}

/// When the source of a put with this completion action is free.
#[inline(always)]
pub fn local_completion(done: &CompletionAction) -> LocalCompletion {
    match done {
        CompletionAction::Put(_, Completion::Source | Completion::Both) => LocalCompletion::Later,
        _ => LocalCompletion::AtReturn,
    }
}

impl Rma for Operations {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let connection = self.messages.reach(put.to.peer)?.ok_or(Busy)?;
        if put.bytes > self.stripes.put {
            let report = (put.cookie, Completion::Both);
            self.begin_stripes(connection, extent_of(put), self.stripes.put, report)?;
            return Ok(LocalCompletion::Later);
        }
        let queue = connection.queue_of_thread(put.bytes);
        if let Some(remote) = self.fabric().remote(&put.to, put.bytes, &queue) {
            let started = self.put_at_once::<false, _>(put, queue.rail, remote, |work, done| {
                let local_completion = local_completion(&done);
                self.post_fenced(queue, work, remote, done).map(|()| local_completion)
            })?;
            if let Some(started) = started {
                return started;
            }
        }
        self.stalled.admit()?;
        let report = Report::Part(put.cookie, Completion::Both);
        self.begin(Transfer::new(extent_of(put), queue.path, report));
        Ok(LocalCompletion::Later)
    }

    fn small_put(&self) -> usize {
        if self.is_fenced {
            return 0;
        }
        self.fabric().inline.min(self.stripes.put)
    }

    fn put_small(&self, to: RemoteMemory, from: *const u8, bytes: usize, cookie: Cookie) -> Result<Option<()>, Busy> {
        let connection = self.messages.reach(to.peer)?.ok_or(Busy)?;
        let (queue, fabric) = (connection.queue_of_thread(bytes), self.fabric());
        let Some(remote) = fabric.remote(&to, bytes, &queue) else {
            return Ok(None);
        };
        let source = Local {
            address: from as usize,
            bytes,
            lkey: 0,
        };
        let mut work = Work::write(&source, remote);
        work.inline();
        let done = CompletionAction::Put(cookie, Completion::Remote);
        fabric.post(queue, work, done).map(Some)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let connection = self.messages.reach(get.from.peer)?.ok_or(Busy)?;
        let extent = Extent {
            is_get: true,
            peer_memory: get.from,
            memory: get.to,
            bytes: get.bytes,
        };
        if get.bytes > self.stripes.get {
            let report = (get.cookie, Completion::Both);
            return self.begin_stripes(connection, extent, self.stripes.get, report);
        }
        let (queue, fabric) = (connection.queue_of_thread(get.bytes), self.fabric());
        let rail = queue.rail;
        if let Some(remote) = fabric.remote(&get.from, get.bytes, &queue) {
            match self.place(&extent, rail, false)? {
                Place::Direct(lkey) => {
                    let local = Local {
                        address: get.to.address,
                        bytes: get.bytes,
                        lkey,
                    };
                    return fabric.post(queue, Work::read(&local, remote), CompletionAction::Get(get.cookie));
                }
                Place::Copy(mut buffer) => {
                    buffer.copy_to = (get.to.address, get.bytes);
                    let work = Work::read(&buffer.local(rail, get.bytes), remote);
                    return fabric.post(queue, work, CompletionAction::GetCopy(get.cookie, buffer));
                }
                Place::Long => {}
            }
        }
        self.stalled.admit()?;
        let report = Report::Part(get.cookie, Completion::Both);
        self.begin(Transfer::new(extent, queue.path, report));
        Ok(())
    }
}
