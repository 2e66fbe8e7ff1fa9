//! Puts and gets.
//!
//! A put that fits a work request is inline. Local memory in a segment is used in place. Other
//! memory is copied through a buffer if it is small, and used in place if the HCA pages on demand.
//! Else it is copied up to a limit, and registered for the one operation above it. Neither
//! registration can go stale: the one follows the page tables, the other lives as long as its
//! operation.
//!
//! What needs more than one work request, or a registration, is a [`Transfer`].

use crate::buffers::pools::SMALL;
use crate::buffers::{AsLocal, Buffer, Buffers};
use crate::ffi::{Local, Remote, Work};
use crate::memory::on_demand::Direction;
use crate::net::Net;
use crate::route::Route;
use crate::send::queue::CompletionAction;
use crate::send::{buffer_of, Grant, ROOM};
use crate::transfers::{Extent, Transfer};
use gasnet_conduit::{
    Busy, Class, Completion, Get, LocalCompletion, LocalMemory, Put, PutNotify, RemoteMemory, Rma, SendBuffer,
    SourceUse,
};
use gasnet_conduit_util::report::Report;

/// Where local memory is for a work request.
enum Place {
    /// There.
    Direct(u32),
    /// In a copy, which was made for a put and is to be made for a get.
    Copy(Buffer),
    /// More than one work request is needed, or a registration.
    Long,
}

impl Net {
    /// The pool for copies of so many bytes.
    fn copies(&self, bytes: usize) -> &Buffers {
        if bytes <= self.pools.small_copies.pool.bytes() {
            &self.pools.small_copies
        } else {
            &self.pools.large_copies
        }
    }

    /// How local memory takes part in an operation; `copies` prefers a copy.
    #[inline(always)]
    fn place(
        &self,
        (memory, bytes): (&LocalMemory, usize),
        rail: usize,
        (direction, copies): (Direction, bool),
    ) -> Result<Place, Busy> {
        let own = self.segments.local(memory, rail);
        let known = own.or_else(|| self.on_demand(memory, rail, direction));
        let most = match known {
            Some(_) if own.is_none() && !copies => self.settings.bounce.min(SMALL),
            _ => self.settings.bounce,
        };
        if (copies || own.is_none()) && bytes <= most && memory.device.is_none() {
            let buffer = self.copies(bytes).take(self.domains()).ok_or(Busy)?;
            return Ok(Place::Copy(buffer));
        }
        Ok(match known {
            Some((lkey, room)) if bytes <= room => Place::Direct(lkey),
            _ => Place::Long,
        })
    }

    /// The key of local memory, and the bytes from its address to where another one counts: that of
    /// its segment, or that of all memory.
    pub fn local(&self, memory: &LocalMemory, rail: usize, direction: Direction) -> Option<(u32, usize)> {
        let own = self.segments.local(memory, rail);
        own.or_else(|| self.on_demand(memory, rail, direction))
    }

    /// That of all memory, if the HCA pages on demand.
    #[inline]
    fn on_demand(&self, memory: &LocalMemory, rail: usize, direction: Direction) -> Option<(u32, usize)> {
        let all = self.rails[rail].on_demand.as_ref()?;
        memory.device.is_none().then_some((all.lkey(direction), usize::MAX))
    }

    /// The key of a peer's memory, if one work request reaches all of it.
    #[inline(always)]
    pub fn remote(&self, memory: &RemoteMemory, bytes: usize, path: usize) -> Option<Remote> {
        let (rkey, room) = self.segments.remote(memory, self.paths[path].rail);
        (bytes <= room.min(self.paths[path].max_message)).then_some(Remote {
            address: memory.address,
            rkey,
        })
    }

    /// Posts one work request of an operation.
    #[inline(always)]
    pub fn post(&self, queue: Route<'_>, work: Work, done: CompletionAction, what: &str) -> Result<(), Busy> {
        let Some(mut turn) = queue.turn(self.rail(&queue)) else {
            done.release();
            return Err(Busy);
        };
        // SAFETY: the runtime keeps its memory until completion, and buffers are released then.
        let posted = unsafe { turn.post(work, done) };
        drop(turn);
        posted.map_err(|(done, why)| {
            done.release();
            self.refused(queue, what, why)
        })
    }

    /// Posts a put or an atomic, and what its remote completion needs.
    #[inline(always)]
    pub fn post_fenced(
        &self,
        queue: Route<'_>,
        (work, remote): (Work, Remote),
        done: CompletionAction,
        what: &str,
    ) -> Result<(), Busy> {
        if !self.is_fenced {
            return self.post(queue, work, done, what);
        }
        let Some(mut turn) = queue.turn_of_two(self.rail(&queue)) else {
            done.release();
            return Err(Busy);
        };
        // SAFETY: the runtime keeps its memory until completion, and buffers are released then.
        let posted = unsafe { turn.post(work, CompletionAction::Nothing) };
        if let Err((_, why)) = posted {
            drop(turn);
            done.release();
            return Err(self.refused(queue, what, why));
        }
        let fence = self.fence(queue.path, remote);
        // SAFETY: the scratch memory lives as long as the conduit.
        let posted = unsafe { turn.post(fence, done) };
        drop(turn);
        if let Err((done, why)) = posted {
            // There was room for both, so this is no lack of it.
            done.release();
            let text = format!("{}: fencing {what} failed: {why}", self.name(queue.path));
            self.peers.states.lose(queue.peer(), text);
        }
        Ok(())
    }

    /// A read of a byte that was written. An HCA answers it after the bytes of earlier puts and
    /// atomics are in memory, where every other HCA and all CPUs find them; the acknowledgement of
    /// an operation says only that the HCA has them.
    pub fn fence(&self, path: usize, remote: Remote) -> Work {
        Work::read(&self.pools.scratch.local(self.paths[path].rail, 1), remote)
    }
}

/// What a put transfers.
fn extent_of(put: &Put) -> Extent {
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

impl Rma for Net {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let connection = self.reach(put.to.peer)?.ok_or(Busy)?;
        if put.bytes > self.stripes.put {
            let report = (put.cookie, Completion::Both);
            self.begin_stripes(connection, extent_of(put), self.stripes.put, report)?;
            return Ok(LocalCompletion::Later);
        }
        let queue = connection.queue(put.bytes);
        let rail = self.paths[queue.path].rail;
        let remote = self.remote(&put.to, put.bytes, queue.path);
        if let Some(remote) = remote {
            let local = |lkey| Local {
                address: put.from.address,
                bytes: put.bytes,
                lkey,
            };
            if put.bytes <= self.inline && put.from.device.is_none() {
                let mut work = Work::write(&local(0), remote);
                work.inline();
                self.post_fenced(
                    queue,
                    (work, remote),
                    CompletionAction::Put(put.cookie, Completion::Remote),
                    "a put",
                )?;
                return Ok(LocalCompletion::AtReturn);
            }
            match self.place(
                (&put.from, put.bytes),
                rail,
                (Direction::Out, put.source == SourceUse::Now),
            )? {
                Place::Direct(lkey) => {
                    let work = Work::write(&local(lkey), remote);
                    self.post_fenced(
                        queue,
                        (work, remote),
                        CompletionAction::Put(put.cookie, Completion::Both),
                        "a put",
                    )?;
                    return Ok(LocalCompletion::Later);
                }
                Place::Copy(mut buffer) => {
                    copy_in(&mut buffer, put.from.address, put.bytes);
                    let work = Work::write(&buffer.local(rail, put.bytes), remote);
                    self.post_fenced(
                        queue,
                        (work, remote),
                        CompletionAction::PutCopy(put.cookie, buffer),
                        "a put",
                    )?;
                    return Ok(LocalCompletion::AtReturn);
                }
                Place::Long => {}
            }
        }
        self.may_begin()?;
        let report = Report::Part(put.cookie, Completion::Both);
        self.begin(Transfer::new(extent_of(put), queue.path, report));
        Ok(LocalCompletion::Later)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let connection = self.reach(get.from.peer)?.ok_or(Busy)?;
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
        let queue = connection.queue(get.bytes);
        let rail = self.paths[queue.path].rail;
        if let Some(remote) = self.remote(&get.from, get.bytes, queue.path) {
            match self.place((&get.to, get.bytes), rail, (Direction::In, false))? {
                Place::Direct(lkey) => {
                    let local = Local {
                        address: get.to.address,
                        bytes: get.bytes,
                        lkey,
                    };
                    let done = CompletionAction::Get(get.cookie);
                    return self.post(queue, Work::read(&local, remote), done, "a get");
                }
                Place::Copy(mut buffer) => {
                    buffer.copy_to = (get.to.address, get.bytes);
                    let work = Work::read(&buffer.local(rail, get.bytes), remote);
                    return self.post(queue, work, CompletionAction::GetCopy(get.cookie, buffer), "a get");
                }
                Place::Long => {}
            }
        }
        self.may_begin()?;
        let report = Report::Part(get.cookie, Completion::Both);
        self.begin(Transfer::new(extent, queue.path, report));
        Ok(())
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.settings.packed
    }

    /// The message follows the put on the same queue pair: a receiver completes it after the bytes
    /// of the put (InfiniBand specification, volume 1, 9.5, "transaction ordering").
    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let Some(grant) = self.grant(put.to.peer, class)? else {
            if let Some(reserved) = reserved {
                buffer_of(reserved).release();
            }
            return Ok(LocalCompletion::AtReturn);
        };
        let started = self.put_then_send(put, reserved, &grant, parts);
        if started.is_err() {
            grant.revoke(&self.peers, put.to.peer);
        }
        started
    }
}

impl Net {
    fn put_then_send(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        grant: &Grant<'_>,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let queue = grant.connection.queue(put.bytes);
        let rail = self.paths[queue.path].rail;
        let Some(remote) = self.remote(&put.to, put.bytes, queue.path) else {
            return self.put_long_then_send(put, reserved, grant, parts);
        };
        let local = |lkey| Local {
            address: put.from.address,
            bytes: put.bytes,
            lkey,
        };
        // The reserved buffer stays the client's if this is refused.
        let is_reserved = reserved.is_some();
        let (work, done) = match reserved {
            Some(reserved) => {
                let buffer = buffer_of(reserved);
                let lkey = buffer.local(rail, 0).lkey;
                (Work::write(&local(lkey), remote), CompletionAction::Buffer(buffer))
            }
            None if put.bytes <= self.inline && put.from.device.is_none() => {
                let mut work = Work::write(&local(0), remote);
                work.inline();
                (work, CompletionAction::Nothing)
            }
            None => match self.place(
                (&put.from, put.bytes),
                rail,
                (Direction::Out, put.source == SourceUse::Now),
            )? {
                Place::Direct(lkey) => (
                    Work::write(&local(lkey), remote),
                    CompletionAction::Put(put.cookie, Completion::Source),
                ),
                Place::Copy(mut buffer) => {
                    copy_in(&mut buffer, put.from.address, put.bytes);
                    (
                        Work::write(&buffer.local(rail, put.bytes), remote),
                        CompletionAction::Buffer(buffer),
                    )
                }
                Place::Long => return self.put_long_then_send(put, None, grant, parts),
            },
        };
        let free_unless_reserved = |done: CompletionAction| match done {
            CompletionAction::Buffer(buffer) if is_reserved => {
                buffer.into_address();
            }
            done => done.release(),
        };
        let local_completion = match done {
            CompletionAction::Put(..) => LocalCompletion::Later,
            _ => LocalCompletion::AtReturn,
        };
        let mut room = ROOM;
        let message = match self.message(grant.class, parts, &mut room) {
            Ok(message) => message,
            Err(busy) => {
                free_unless_reserved(done);
                return Err(busy);
            }
        };
        let Some(mut turn) = queue.turn_of_two(self.rail(&queue)) else {
            free_unless_reserved(done);
            message.release();
            return Err(Busy);
        };
        // SAFETY: the runtime keeps its memory until local completion, and buffers are released
        // then.
        if let Err((done, why)) = unsafe { turn.post(work, done) } {
            drop(turn);
            free_unless_reserved(done);
            message.release();
            return Err(self.refused(queue, "a put", why));
        }
        let sent = self.post_message(&mut turn, message, self.word(grant));
        drop(turn);
        if let Err(why) = sent {
            // There was room for both, so this is no lack of it.
            let text = format!("{}: sending a message failed: {why}", self.name(queue.path));
            self.peers.states.lose(queue.peer(), text);
        }
        Ok(local_completion)
    }

    /// The same with a put of several work requests, or of memory that is to be registered.
    #[cold]
    fn put_long_then_send(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        grant: &Grant<'_>,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        self.may_begin()?;
        let queue = grant.connection.queue(put.bytes);
        let (buffer, bytes) = self.buffered(grant.class, parts)?;
        let source = reserved.map(buffer_of);
        let (report, completion) = match &source {
            Some(_) => (Report::Nothing, LocalCompletion::AtReturn),
            None => (Report::Part(put.cookie, Completion::Source), LocalCompletion::Later),
        };
        let transfer = Transfer::new(extent_of(put), queue.path, report);
        self.begin(transfer.with_message(source, (buffer, bytes, self.word(grant))));
        Ok(completion)
    }
}
