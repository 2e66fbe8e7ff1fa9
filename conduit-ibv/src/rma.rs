//! Puts and gets.
//!
//! A put that fits a work request is inline. Local memory in a segment is used in place. Other
//! memory is copied through a buffer if it is small, and used in place if the HCA pages on demand.
//! Else it is copied up to a limit, and registered for the one operation above it. Neither
//! registration can go stale: the one follows the page tables, the other lives as long as its
//! operation.
//!
//! An operation of several work requests, because it is longer than the network's largest message
//! or crosses the border of two regions, posts them one after another on one queue pair
//! ([`Transfer`]). They complete in order, so the last one stands for all.

use crate::buffers::{Buffer, Pool};
use crate::memory::Registered;
use crate::net::{advised, Net, SMALL};
use crate::send::{buffer_of, Grant, ROOM};
use crate::send_queue::{Done, SendQueue};
use crate::verbs::{Access, Errno, Local, Remote, Work};
use gasnet_conduit::{
    Busy, Class, Completion, Cookie, Get, LocalCompletion, LocalMemory, Put, PutNotify, RemoteMemory, Rma,
    SegmentMemory, SendBuffer, SourceUse,
};
use gasnet_sys::atomic::Ordering;
use gasnet_sys::lock;

/// Most long operations that wait for room, beyond which it is the client that waits.
const STALLED: usize = 256;

/// What is left of an operation of several work requests.
#[derive(Debug)]
pub struct Transfer {
    is_get: bool,
    peer_memory: RemoteMemory,
    memory: LocalMemory,
    /// Bytes that are not posted yet.
    bytes: usize,
    path: usize,
    /// Registration of the local memory with the path's HCA, for this operation only.
    registered: Option<Registered>,
    /// The buffer that the source lies in, if it is a reserved one.
    source: Option<Buffer>,
    /// The message that follows, in a buffer: its length, and the word beside it.
    message: Option<(Buffer, usize, u32)>,
    /// What is reported at the end.
    report: Option<(Cookie, Completion)>,
}

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
    fn copies(&self, bytes: usize) -> &Pool {
        if bytes <= self.small_copies.bytes() {
            &self.small_copies
        } else {
            &self.large_copies
        }
    }

    /// How local memory takes part in an operation; `copies` prefers a copy.
    #[inline(always)]
    fn place(&self, memory: &LocalMemory, bytes: usize, (rail, copies): (usize, bool)) -> Result<Place, Busy> {
        let own = self.segments.local(memory, rail);
        let known = own.or_else(|| self.on_demand(memory, rail));
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
    fn local(&self, memory: &LocalMemory, rail: usize) -> Option<(u32, usize)> {
        let own = self.segments.local(memory, rail);
        own.or_else(|| self.on_demand(memory, rail))
    }

    /// That of all memory, if the HCA pages on demand.
    #[inline]
    fn on_demand(&self, memory: &LocalMemory, rail: usize) -> Option<(u32, usize)> {
        let all = self.rails[rail].on_demand.as_ref()?;
        memory.device.is_none().then_some((all.lkey, usize::MAX))
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
    pub fn post(&self, queue: &SendQueue, work: Work, done: Done, what: &str) -> Result<(), Busy> {
        let Some(mut turn) = queue.turn(self.rail(queue)) else {
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

    /// Whether another long operation may begin.
    fn may_begin(&self) -> Result<(), Busy> {
        if self.stalled_count.load(Ordering::Relaxed) < STALLED {
            Ok(())
        } else {
            Err(Busy)
        }
    }

    /// Posts a put or an atomic, and what its remote completion needs.
    #[inline(always)]
    pub fn post_fenced(
        &self,
        queue: &SendQueue,
        (work, remote): (Work, Remote),
        done: Done,
        what: &str,
    ) -> Result<(), Busy> {
        if !self.is_fenced {
            return self.post(queue, work, done, what);
        }
        let Some(mut turn) = queue.turn_of_two(self.rail(queue)) else {
            done.release();
            return Err(Busy);
        };
        // SAFETY: the runtime keeps its memory until completion, and buffers are released then.
        let posted = unsafe { turn.post(work, Done::Nothing) };
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
            self.peers.fates.lose(queue.peer, text);
        }
        Ok(())
    }

    /// A read of a byte that was written. An HCA answers it after the bytes of earlier puts and
    /// atomics are in memory, where every other HCA and all CPUs find them; the acknowledgement of
    /// an operation says only that the HCA has them.
    fn fence(&self, path: usize, remote: Remote) -> Work {
        Work::read(&self.scratch.local(self.paths[path].rail, 1), remote)
    }

    /// Starts an operation of several work requests, or of memory that is to be registered.
    #[cold]
    fn begin(&self, queue: &SendQueue, mut transfer: Box<Transfer>) -> Result<(), Busy> {
        let rail = self.paths[transfer.path].rail;
        if transfer.source.is_none() && self.local(&transfer.memory, rail).is_none() {
            // The source of a put may be read-only memory.
            let access = if transfer.is_get {
                Access::LOCAL
            } else {
                Access::LOCAL_READ
            };
            let (address, bytes) = (transfer.memory.address, transfer.bytes);
            let (domain, memory) = (&self.rails[rail].domain, SegmentMemory::host(address, bytes));
            // SAFETY: the runtime keeps the memory until the operation is complete.
            match unsafe { self.segments.pin(&[domain], &memory, access) } {
                Ok(registered) => transfer.registered = Some(registered),
                Err(why) => {
                    let name = self.name(queue.path);
                    let why = advised(why);
                    let text = format!("{name}: {bytes} bytes of local memory cannot be registered: {why}");
                    self.peers.fates.lose(queue.peer, text);
                    return Err(Busy);
                }
            }
        }
        self.advance(transfer);
        Ok(())
    }

    /// Posts what there is room for. The rest waits for a poll.
    pub fn advance(&self, mut transfer: Box<Transfer>) {
        let Some(connection) = self.peers.connection(transfer.peer_memory.peer) else {
            return;
        };
        let (queue, path) = (&connection.queues[transfer.path], &self.paths[transfer.path]);
        let rail = &self.rails[path.rail];
        loop {
            let Some(mut turn) = queue.turn(rail) else {
                return self.stall(transfer);
            };
            if transfer.bytes == 0 {
                let work = if let Some((buffer, bytes, word)) = &transfer.message {
                    Work::send(&buffer.local(path.rail, *bytes), *word)
                } else {
                    let mut last = transfer.peer_memory;
                    last.address -= 1;
                    let (rkey, _) = self.segments.remote(&last, path.rail);
                    let address = last.address;
                    self.fence(transfer.path, Remote { address, rkey })
                };
                // SAFETY: buffers are released after completion.
                let posted = unsafe { turn.post(work, Done::Part(transfer)) };
                drop(turn);
                return self.posted(queue, posted);
            }
            let (local, remote) = self.part(&transfer, path.rail, path.max_message);
            let work = if transfer.is_get {
                Work::read(&local, remote)
            } else {
                Work::write(&local, remote)
            };
            let bytes = local.bytes;
            let is_followed = transfer.message.is_some() || self.is_fenced && !transfer.is_get;
            if bytes == transfer.bytes && !is_followed {
                // SAFETY: the runtime keeps the memory until the operation is reported.
                let posted = unsafe { turn.post(work, Done::Part(transfer)) };
                drop(turn);
                return self.posted(queue, posted);
            }
            // SAFETY: as above.
            let posted = unsafe { turn.post(work, Done::Nothing) };
            drop(turn);
            if let Err((_, why)) = posted {
                return self.posted(queue, Err((Done::Part(transfer), why)));
            }
            transfer.bytes -= bytes;
            transfer.memory.address += bytes;
            transfer.peer_memory.address += bytes;
        }
    }

    /// What the next work request of an operation transfers.
    fn part(&self, transfer: &Transfer, rail: usize, most: usize) -> (Local, Remote) {
        let (lkey, local_room) = match (&transfer.registered, &transfer.source) {
            (Some(registered), _) => registered.key(transfer.memory.address),
            (_, Some(source)) => (source.local(rail, 0).lkey, usize::MAX),
            _ => self.local(&transfer.memory, rail).unwrap_or((0, usize::MAX)),
        };
        let (rkey, remote_room) = self.segments.remote(&transfer.peer_memory, rail);
        let local = Local {
            address: transfer.memory.address,
            bytes: transfer.bytes.min(local_room).min(remote_room).min(most),
            lkey,
        };
        let remote = Remote {
            address: transfer.peer_memory.address,
            rkey,
        };
        (local, remote)
    }

    /// Keeps an operation whose last work request found no room.
    fn posted(&self, queue: &SendQueue, posted: Result<(), crate::send_queue::Refused>) {
        if let Err((Done::Part(mut transfer), why)) = posted {
            if why == Errno::NO_MEMORY {
                return self.stall(transfer);
            }
            transfer.free();
            let _ = self.refused(queue, transfer.name(), why);
        }
    }

    fn stall(&self, transfer: Box<Transfer>) {
        let mut stalled = lock(&self.stalled);
        stalled.push(transfer);
        self.stalled_count.store(stalled.len(), Ordering::Release);
    }
}

impl Transfer {
    /// All of a put.
    fn of_put(put: &Put, path: usize, report: Option<(Cookie, Completion)>) -> Box<Self> {
        Box::new(Self {
            is_get: false,
            peer_memory: put.to,
            memory: put.from,
            bytes: put.bytes,
            path,
            registered: None,
            source: None,
            message: None,
            report,
        })
    }

    /// What it is in messages.
    pub fn name(&self) -> &'static str {
        if self.is_get {
            "a get"
        } else {
            "a put"
        }
    }

    fn free(&mut self) {
        let buffers = self.message.take().map(|(buffer, ..)| buffer).into_iter();
        buffers.chain(self.source.take()).for_each(Buffer::release);
    }

    /// Its last work request is complete: what is reported.
    pub fn end(mut self) -> Option<(Cookie, Completion)> {
        self.free();
        self.report
    }
}

/// Copies the source of a put.
fn copy_in(buffer: &mut Buffer, from: usize, bytes: usize) {
    let room = buffer.bytes(bytes);
    // SAFETY: the runtime keeps the source readable until local completion.
    unsafe { room.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, bytes) };
}

impl Rma for Net {
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let connection = self.reach(put.to.peer)?.ok_or(Busy)?;
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
                    Done::Put(put.cookie, Completion::Remote),
                    "a put",
                )?;
                return Ok(LocalCompletion::AtReturn);
            }
            match self.place(&put.from, put.bytes, (rail, put.source == SourceUse::Now))? {
                Place::Direct(lkey) => {
                    let work = Work::write(&local(lkey), remote);
                    self.post_fenced(queue, (work, remote), Done::Put(put.cookie, Completion::Both), "a put")?;
                    return Ok(LocalCompletion::Later);
                }
                Place::Copy(mut buffer) => {
                    copy_in(&mut buffer, put.from.address, put.bytes);
                    let work = Work::write(&buffer.local(rail, put.bytes), remote);
                    self.post_fenced(queue, (work, remote), Done::PutCopy(put.cookie, buffer), "a put")?;
                    return Ok(LocalCompletion::AtReturn);
                }
                Place::Long => {}
            }
        }
        self.may_begin()?;
        let report = Some((put.cookie, Completion::Both));
        self.begin(queue, Transfer::of_put(put, queue.path, report))?;
        Ok(LocalCompletion::Later)
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        let connection = self.reach(get.from.peer)?.ok_or(Busy)?;
        let queue = connection.queue(get.bytes);
        let rail = self.paths[queue.path].rail;
        if let Some(remote) = self.remote(&get.from, get.bytes, queue.path) {
            match self.place(&get.to, get.bytes, (rail, false))? {
                Place::Direct(lkey) => {
                    let local = Local {
                        address: get.to.address,
                        bytes: get.bytes,
                        lkey,
                    };
                    let done = Done::Get(get.cookie);
                    return self.post(queue, Work::read(&local, remote), done, "a get");
                }
                Place::Copy(mut buffer) => {
                    buffer.copy_to = (get.to.address, get.bytes);
                    let work = Work::read(&buffer.local(rail, get.bytes), remote);
                    return self.post(queue, work, Done::GetCopy(get.cookie, buffer), "a get");
                }
                Place::Long => {}
            }
        }
        self.may_begin()?;
        let transfer = Transfer {
            is_get: true,
            peer_memory: get.from,
            memory: get.to,
            bytes: get.bytes,
            path: queue.path,
            registered: None,
            source: None,
            message: None,
            report: Some((get.cookie, Completion::Both)),
        };
        self.begin(queue, Box::new(transfer))
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
                (Work::write(&local(lkey), remote), Done::Buffer(buffer))
            }
            None if put.bytes <= self.inline && put.from.device.is_none() => {
                let mut work = Work::write(&local(0), remote);
                work.inline();
                (work, Done::Nothing)
            }
            None => match self.place(&put.from, put.bytes, (rail, put.source == SourceUse::Now))? {
                Place::Direct(lkey) => (
                    Work::write(&local(lkey), remote),
                    Done::Put(put.cookie, Completion::Source),
                ),
                Place::Copy(mut buffer) => {
                    copy_in(&mut buffer, put.from.address, put.bytes);
                    (
                        Work::write(&buffer.local(rail, put.bytes), remote),
                        Done::Buffer(buffer),
                    )
                }
                Place::Long => return self.put_long_then_send(put, None, grant, parts),
            },
        };
        let free_unless_reserved = |done: Done| match done {
            Done::Buffer(buffer) if is_reserved => {
                buffer.into_address();
            }
            done => done.release(),
        };
        let local_completion = match done {
            Done::Put(..) => LocalCompletion::Later,
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
        let Some(mut turn) = queue.turn_of_two(self.rail(queue)) else {
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
            self.peers.fates.lose(queue.peer, text);
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
            Some(_) => (None, LocalCompletion::AtReturn),
            None => (Some((put.cookie, Completion::Source)), LocalCompletion::Later),
        };
        let mut transfer = Transfer::of_put(put, queue.path, report);
        transfer.source = source;
        transfer.message = Some((buffer, bytes, self.word(grant)));
        self.begin(queue, transfer)?;
        Ok(completion)
    }
}
