//! Long operations ([`crate::transfers`]): begun, posted as there is room, and ended.

use super::{copy_in, Operations};
use crate::buffers::AsLocal;
use crate::ffi::{Access, Errno, Local, Remote, Work};
use crate::memory::advice::advised;
use crate::memory::Registered;
use crate::operations::CompletionAction;
use crate::peers::Connection;
use crate::route::Route;
use crate::send::queue::Refused;
use crate::transfers::{Extent, Following, LocalAccess, Transfer};
use gasnet_conduit::config;
use gasnet_conduit::{Busy, Completion, Cookie, SegmentMemory};
use gasnet_conduit_util::credits;
use gasnet_conduit_util::report::{ParentOperation, Report};
use gasnet_sys::atomic::Ordering;
use std::sync::Arc;

impl Operations {
    /// Posts what waited for room.
    #[cold]
    pub fn restart(&self) {
        for transfer in self.stalled.take_all() {
            self.advance(transfer);
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
        self.stalled.admit()?;
        let count = connection.pairs.queues.len().min(extent.bytes.div_ceil(stripe));
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
        let fabric = self.fabric();
        let rail = fabric.paths[transfer.path].rail;
        let Extent { memory, bytes, .. } = transfer.rest;
        let is_known = || fabric.local(&memory, rail, transfer.rest.is_get).is_some();
        if matches!(transfer.way, LocalAccess::InPlace) && !is_known() {
            match self.register(&transfer) {
                Ok(registered) => transfer.way = LocalAccess::Registered(registered),
                Err(why) if memory.device.is_some() => {
                    let (name, why) = (fabric.name(transfer.path), advised(why));
                    let text = format!("{name}: {bytes} bytes of device memory cannot be registered: {why}");
                    fabric.peers.states.lose(transfer.rest.peer_memory.peer, text);
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
                self.fabric().rank,
                self.fabric().name(path),
                memory.address
            ));
        }
    }

    /// Registers local memory for one operation, within the limit of such registrations.
    fn register(&self, transfer: &Transfer) -> Result<Registered, Errno> {
        if !credits::take(&self.registrations, 1) {
            return Err(Errno::NO_MEMORY);
        }
        // The source of a put may be read-only memory.
        let access = if transfer.rest.is_get {
            Access::LOCAL
        } else {
            Access::LOCAL_READ
        };
        let fabric = self.fabric();
        let domain = &fabric.rails[fabric.paths[transfer.path].rail].domain;
        let memory = SegmentMemory::host(transfer.rest.memory.address, transfer.rest.bytes);
        // SAFETY: the runtime keeps the memory until the operation is complete.
        let registered = unsafe { fabric.segments.pin(&[domain], &memory, access) };
        registered.inspect_err(|_| self.give_back_registration())
    }

    fn give_back_registration(&self) {
        self.registrations.fetch_add(1, Ordering::Relaxed);
    }

    /// Posts what there is room for. The rest waits for a poll.
    pub fn advance(&self, mut transfer: Box<Transfer>) {
        let fabric = self.fabric();
        let Some(connection) = fabric.peers.connection(transfer.rest.peer_memory.peer) else {
            return;
        };
        let (queue, path) = (connection.route(transfer.path), &fabric.paths[transfer.path]);
        loop {
            let Some(mut guard) = fabric.lock_queue(queue) else {
                return self.stalled.push(transfer);
            };
            if transfer.rest.bytes == 0 {
                transfer.is_last = true;
                let work = self.tail(&transfer, path.rail);
                // SAFETY: buffers are released after completion.
                let posted = unsafe { guard.post(work, CompletionAction::Part(transfer)) };
                drop(guard);
                return self.posted(queue, posted);
            }
            let Some((local, remote)) = self.part(&mut transfer, path.rail, path.max_message) else {
                drop(guard);
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
                let posted = unsafe { guard.post(work, CompletionAction::Part(transfer)) };
                drop(guard);
                return self.posted(queue, posted);
            }
            // SAFETY: as above.
            let posted = unsafe { guard.post(work, CompletionAction::Nothing) };
            drop(guard);
            if let Err((_, why)) = posted {
                return self.posted(queue, Err((CompletionAction::Part(transfer), why)));
            }
            transfer.rest = transfer.rest.after(local.bytes);
        }
    }

    /// The work request behind the last byte: the message, or a fence.
    fn tail(&self, transfer: &Transfer, rail: usize) -> Work {
        if let Some(Following { buffer, bytes, word }) = &transfer.message {
            return Work::send(&buffer.local(rail, *bytes), *word);
        }
        let mut last = transfer.rest.peer_memory;
        last.address -= 1;
        let (rkey, _) = self.fabric().segments.remote(&last, rail);
        let address = last.address;
        self.fence(transfer.path, Remote { address, rkey })
    }

    /// The memory of the next work request of an operation. None if it needs a buffer and there is
    /// none.
    fn part(&self, transfer: &mut Transfer, rail: usize, most: usize) -> Option<(Local, Remote)> {
        let Extent {
            is_get,
            peer_memory,
            memory,
            bytes,
        } = transfer.rest;
        let (rkey, remote_room) = self.fabric().segments.remote(&peer_memory, rail);
        let remote = Remote {
            address: peer_memory.address,
            rkey,
        };
        let most = bytes.min(remote_room).min(most);
        let (lkey, room) = match &mut transfer.way {
            LocalAccess::InPlace => self
                .fabric()
                .local(&memory, rail, transfer.rest.is_get)
                .unwrap_or((0, usize::MAX)),
            LocalAccess::Registered(registered) => registered.key(memory.address),
            LocalAccess::Reserved(source) => (source.local(rail, 0).lkey, usize::MAX),
            LocalAccess::Copied(piece) => {
                let copies = &self.messages.pools.large_copies;
                let mut buffer = copies.take(self.fabric().domains())?;
                let bytes = most.min(copies.pool.bytes());
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
            let _ = self.fabric().refused(queue, transfer.name(), why);
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
        if let Some(message) = transfer.message {
            message.buffer.release();
        }
        match transfer.way {
            LocalAccess::Reserved(source) => source.release(),
            LocalAccess::Registered(registered) => {
                drop(registered);
                self.give_back_registration();
            }
            LocalAccess::InPlace | LocalAccess::Copied(_) => {}
        }
        transfer.report
    }
}
