//! Operations of several work requests: longer than the network's largest message, across the
//! border of two regions, or of local memory that must be registered first.
//!
//! The work requests of an operation follow one another on one queue pair. They complete in order,
//! so the last one stands for all. If memory cannot be registered, it is copied in pieces, of which
//! each waits for the one before. Large operations may be divided into stripes, one for each path.

use crate::buffers::{AsLocal, Buffer};
use crate::ffi::{Access, Errno, Local, Remote, Work};
use crate::memory::limits::advised;
use crate::memory::on_demand::Direction;
use crate::memory::Registered;
use crate::net::Net;
use crate::peers::Connection;
use crate::rma::copy_in;
use crate::route::Route;
use crate::send::queue::{CompletionAction, Refused};
use gasnet_conduit::config;
use gasnet_conduit::{Busy, Completion, Cookie, LocalMemory, RemoteMemory, SegmentMemory};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::report::{ParentOperation, Report};
use gasnet_sys::atomic::Ordering;
use std::sync::Arc;

/// Most operations that wait for room, beyond which it is the client that waits.
const STALLED: usize = 256;

/// What is to be transferred.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub is_get: bool,
    pub peer_memory: RemoteMemory,
    pub memory: LocalMemory,
    pub bytes: usize,
}

impl Extent {
    fn direction(&self) -> Direction {
        if self.is_get {
            Direction::In
        } else {
            Direction::Out
        }
    }

    /// Without its first bytes.
    fn after(mut self, bytes: usize) -> Self {
        self.memory.address += bytes;
        self.peer_memory.address += bytes;
        self.bytes -= bytes;
        self
    }
}

/// What is left of an operation.
#[derive(Debug)]
pub struct Transfer {
    /// What is not posted yet.
    rest: Extent,
    path: usize,
    way: LocalAccess,
    /// The message that follows, in a buffer: its length, and the word beside it.
    message: Option<(Buffer, usize, u32)>,
    /// Whether its last work request is posted.
    is_last: bool,
    report: Report,
}

/// How work requests reach the local memory.
#[derive(Debug)]
pub enum LocalAccess {
    /// By the key of its segment, or of all memory.
    InPlace,
    /// By a registration with the path's HCA for this operation only.
    Registered(Registered),
    /// It lies in a reserved buffer.
    Reserved(Buffer),
    /// In copies of pieces: the one under way, and its length.
    Copied(Option<(Buffer, usize)>),
}

/// Sizes above which operations are striped over the paths.
#[derive(Clone, Copy, Debug)]
pub struct Stripes {
    pub put: usize,
    pub get: usize,
}

impl Stripes {
    /// With the sizes that are wanted, of which 0 means none, for so many paths with messages of up
    /// to `most` bytes.
    pub fn new((put, get): (usize, usize), paths: usize, most: usize) -> Self {
        let size = |wanted: usize| match (paths, wanted) {
            (1, _) => usize::MAX,
            (_, 0) => most,
            _ => wanted.min(most),
        };
        Self {
            put: size(put),
            get: size(get),
        }
    }
}

impl Transfer {
    /// All of an operation, in place if that is possible.
    pub fn new(extent: Extent, path: usize, report: Report) -> Box<Self> {
        Box::new(Self {
            rest: extent,
            path,
            way: LocalAccess::InPlace,
            message: None,
            is_last: false,
            report,
        })
    }

    /// A put from a reserved buffer, or from a place that is to be found, and a message that
    /// follows it.
    pub fn with_message(mut self: Box<Self>, source: Option<Buffer>, message: (Buffer, usize, u32)) -> Box<Self> {
        self.way = source.map_or(LocalAccess::InPlace, LocalAccess::Reserved);
        self.message = Some(message);
        self
    }

    /// What it is in messages.
    pub fn name(&self) -> &'static str {
        if self.rest.is_get {
            "a get"
        } else {
            "a put"
        }
    }

    /// A piece has arrived: what was read is copied to its destination, and the buffer is free.
    fn take_piece(&mut self) {
        let LocalAccess::Copied(piece) = &mut self.way else {
            return;
        };
        let Some((buffer, bytes)) = piece.take() else { return };
        if self.rest.is_get {
            // SAFETY: the runtime keeps the destination writable until the operation is reported.
            unsafe { copy_out(buffer.address(), self.rest.memory.address, bytes) };
        }
        buffer.release();
        self.rest = self.rest.after(bytes);
    }

    /// A piece was not posted.
    fn forget_piece(&mut self) {
        if let LocalAccess::Copied(piece) = &mut self.way {
            if let Some((buffer, _)) = piece.take() {
                buffer.release();
            }
        }
    }
}

impl Net {
    /// Whether another operation may begin.
    pub fn may_begin(&self) -> Result<(), Busy> {
        if self.stalled.len() < STALLED {
            Ok(())
        } else {
            Err(Busy)
        }
    }

    /// Divides an operation of more than `stripe` bytes into stripes, at most one for each path.
    #[cold]
    pub fn begin_stripes(
        &self,
        connection: &Connection,
        extent: Extent,
        stripe: usize,
        report: (Cookie, Completion),
    ) -> Result<(), Busy> {
        /// Stripes begin at pages of their operation.
        const PAGE: usize = 4096;
        self.may_begin()?;
        let count = connection.queues.len().min(extent.bytes.div_ceil(stripe));
        let each = extent.bytes.div_ceil(count).next_multiple_of(PAGE);
        let whole = ParentOperation::new(extent.bytes.div_ceil(each), report);
        for (path, first) in (0..extent.bytes).step_by(each).enumerate() {
            let mut stripe = extent.after(first);
            stripe.bytes = stripe.bytes.min(each);
            self.begin(Transfer::new(stripe, path, Report::Parent(Arc::clone(&whole))));
        }
        Ok(())
    }

    /// Starts an operation. If it cannot be, its peer is lost.
    #[cold]
    pub fn begin(&self, mut transfer: Box<Transfer>) {
        let rail = self.paths[transfer.path].rail;
        let Extent { memory, bytes, .. } = transfer.rest;
        let is_known = || self.local(&memory, rail, transfer.rest.direction()).is_some();
        if matches!(transfer.way, LocalAccess::InPlace) && !is_known() {
            match self.register(&transfer) {
                Ok(registered) => transfer.way = LocalAccess::Registered(registered),
                Err(why) if memory.device.is_some() => {
                    let (name, why) = (self.name(transfer.path), advised(why));
                    let text = format!("{name}: {bytes} bytes of device memory cannot be registered: {why}");
                    self.peers.states.lose(transfer.rest.peer_memory.peer, text);
                    self.end(*transfer);
                    return;
                }
                Err(why) => {
                    self.note_copied(&transfer, why);
                    transfer.way = LocalAccess::Copied(None);
                }
            }
        }
        self.advance(transfer);
    }

    /// Reports the first operation that is copied because its memory cannot be registered.
    fn note_copied(&self, transfer: &Transfer, why: Errno) {
        if config::get().get_or_default(&config::VERBOSEENV) && !self.has_copied.swap(true, Ordering::Relaxed) {
            let (path, what, Extent { memory, bytes, .. }) = (transfer.path, transfer.name(), transfer.rest);
            gasnet_conduit::print_line(format_args!(
                "GASNet: ibv: rank {}: {}: {what} copies {bytes} bytes at {:#x}, which cannot be registered: {why}. \
                 Later such operations are not reported.",
                self.rank,
                self.name(path),
                memory.address
            ));
        }
    }

    /// Registers local memory for one operation, within the limit of such registrations.
    fn register(&self, transfer: &Transfer) -> Result<Registered, Errno> {
        if self.registrations.fetch_add(1, Ordering::Relaxed) >= self.most_registrations {
            self.registrations.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno::NO_MEMORY);
        }
        // The source of a put may be read-only memory.
        let access = if transfer.rest.is_get {
            Access::LOCAL
        } else {
            Access::LOCAL_READ
        };
        let domain = &self.rails[self.paths[transfer.path].rail].domain;
        let memory = SegmentMemory::host(transfer.rest.memory.address, transfer.rest.bytes);
        // SAFETY: the runtime keeps the memory until the operation is complete.
        let registered = unsafe { self.segments.pin(&[domain], &memory, access) };
        registered.inspect_err(|_| {
            self.registrations.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Posts what there is room for. The rest waits for a poll.
    pub fn advance(&self, mut transfer: Box<Transfer>) {
        let Some(connection) = self.peers.connection(transfer.rest.peer_memory.peer) else {
            return;
        };
        let (queue, path) = (connection.route(transfer.path), &self.paths[transfer.path]);
        let rail = &self.rails[path.rail];
        loop {
            let Some(mut turn) = queue.turn(rail) else {
                return self.stalled.push(transfer);
            };
            if transfer.rest.bytes == 0 {
                transfer.is_last = true;
                let work = self.tail(&transfer, path.rail);
                // SAFETY: buffers are released after completion.
                let posted = unsafe { turn.post(work, CompletionAction::Part(transfer)) };
                drop(turn);
                return self.posted(queue, posted);
            }
            let Some((local, remote)) = self.part(&mut transfer, path.rail, path.max_message) else {
                drop(turn);
                return self.stalled.push(transfer);
            };
            let work = if transfer.rest.is_get {
                Work::read(&local, remote)
            } else {
                Work::write(&local, remote)
            };
            let is_followed = transfer.message.is_some() || self.is_fenced && !transfer.rest.is_get;
            transfer.is_last = local.bytes == transfer.rest.bytes && !is_followed;
            if transfer.is_last || matches!(transfer.way, LocalAccess::Copied(_)) {
                // SAFETY: the runtime keeps the memory until the operation is reported.
                let posted = unsafe { turn.post(work, CompletionAction::Part(transfer)) };
                drop(turn);
                return self.posted(queue, posted);
            }
            // SAFETY: as above.
            let posted = unsafe { turn.post(work, CompletionAction::Nothing) };
            drop(turn);
            if let Err((_, why)) = posted {
                return self.posted(queue, Err((CompletionAction::Part(transfer), why)));
            }
            transfer.rest = transfer.rest.after(local.bytes);
        }
    }

    /// The work request behind the last byte: the message, or a fence.
    fn tail(&self, transfer: &Transfer, rail: usize) -> Work {
        if let Some((buffer, bytes, word)) = &transfer.message {
            return Work::send(&buffer.local(rail, *bytes), *word);
        }
        let mut last = transfer.rest.peer_memory;
        last.address -= 1;
        let (rkey, _) = self.segments.remote(&last, rail);
        let address = last.address;
        self.fence(transfer.path, Remote { address, rkey })
    }

    /// What the next work request of an operation transfers. None if it needs a buffer and there is
    /// none.
    fn part(&self, transfer: &mut Transfer, rail: usize, most: usize) -> Option<(Local, Remote)> {
        let Extent {
            is_get,
            peer_memory,
            memory,
            bytes,
        } = transfer.rest;
        let (rkey, remote_room) = self.segments.remote(&peer_memory, rail);
        let remote = Remote {
            address: peer_memory.address,
            rkey,
        };
        let most = bytes.min(remote_room).min(most);
        let (lkey, room) = match &mut transfer.way {
            LocalAccess::InPlace => self
                .local(&memory, rail, transfer.rest.direction())
                .unwrap_or((0, usize::MAX)),
            LocalAccess::Registered(registered) => registered.key(memory.address),
            LocalAccess::Reserved(source) => (source.local(rail, 0).lkey, usize::MAX),
            LocalAccess::Copied(piece) => {
                let mut buffer = self.pools.large_copies.take(self.domains())?;
                let bytes = most.min(self.pools.large_copies.pool.bytes());
                if !is_get {
                    copy_in(&mut buffer, memory.address, bytes);
                }
                let local = buffer.local(rail, bytes);
                *piece = Some((buffer, bytes));
                return Some((local, remote));
            }
        };
        let local = Local {
            address: memory.address,
            bytes: most.min(room),
            lkey,
        };
        Some((local, remote))
    }

    /// Keeps an operation whose work request found no room.
    fn posted(&self, queue: Route<'_>, posted: Result<(), Refused>) {
        if let Err((CompletionAction::Part(mut transfer), why)) = posted {
            transfer.is_last = false;
            transfer.forget_piece();
            if why == Errno::NO_MEMORY {
                return self.stalled.push(transfer);
            }
            let _ = self.refused(queue, transfer.name(), why);
            self.end(*transfer);
        }
    }

    /// A work request of an operation that reports is complete. Returns what is reported, if it was
    /// the last one.
    pub fn advance_or_end(&self, mut transfer: Box<Transfer>) -> Option<(Cookie, Completion)> {
        transfer.take_piece();
        if !transfer.is_last {
            self.advance(transfer);
            return None;
        }
        self.end(*transfer).completed()
    }

    /// Frees what an operation has. Returns what it reports.
    fn end(&self, transfer: Transfer) -> Report {
        if let Some((message, ..)) = transfer.message {
            message.release();
        }
        match transfer.way {
            LocalAccess::Reserved(source) => source.release(),
            LocalAccess::Registered(registered) => {
                drop(registered);
                self.registrations.fetch_sub(1, Ordering::Relaxed);
            }
            LocalAccess::InPlace | LocalAccess::Copied(_) => {}
        }
        transfer.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_striped_only_over_several_paths() {
        let sizes = |wanted, paths| {
            let stripes = Stripes::new(wanted, paths, 1 << 30);
            (stripes.put, stripes.get)
        };
        assert_eq!(sizes((4096, 0), 1), (usize::MAX, usize::MAX));
        assert_eq!(sizes((4096, 0), 2), (4096, 1 << 30));
        assert_eq!(sizes((1 << 40, 8192), 2), (1 << 30, 8192));
    }
}
