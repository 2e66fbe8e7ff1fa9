//! Puts and gets. libelan copies a small source at the call. A longer one is used in place, if the
//! network reaches it, else it is copied through buffers.

use crate::buffers::{Buffer, Use, BUFFER};
use crate::channels::Channels;
use crate::ffi::ChannelSlot;
use crate::link::Link;
use crate::memory::Memory;
use crate::operations::{CompletionAction, PendingOperation};
use crate::transfers::{Direction, Operation, Transfer, Transfers};
use gasnet_conduit::{Busy, Completion, Get, LocalCompletion, Put, Rma, SourceUse};
use gasnet_sys::atomic::{AtomicU32, Ordering};
use std::ops::Range;
use std::sync::Arc;

/// Source of a put in one piece.
pub struct Source {
    pub address: usize,
    /// The buffer that it lies in.
    pub buffer: Option<Buffer>,
    /// Whether the client may not change it yet.
    pub is_in_use: bool,
}

/// One-sided operations of a process.
#[derive(Debug)]
pub struct OneSided {
    /// Channels for puts.
    pub channels: Channels,
    /// Operations of the client under way, and the most.
    operations: AtomicU32,
    most_operations: u32,
    transfers: Transfers,
    /// Segments.
    pub memory: Memory,
    /// The way into the network.
    pub link: Link,
}

impl OneSided {
    /// Nothing is under way, and at most `most_operations` operations of the client may be.
    pub fn new(link: Link, channels: Channels, most_operations: u32) -> Self {
        Self {
            channels,
            operations: AtomicU32::new(0),
            most_operations,
            transfers: Transfers::default(),
            memory: Memory::new(Arc::clone(&link.shim)),
            link,
        }
    }

    /// Counts an operation of the client, and starts it. Busy: there are too many. Those for
    /// replies are never too many: the others may wait for processes that wait for them.
    pub fn operation<T>(&self, purpose: Use, start: impl FnOnce() -> Result<T, Busy>) -> Result<T, Busy> {
        if self.link.is_stopped() {
            return Err(Busy);
        }
        let may_begin = |count: u32| count < self.most_operations || purpose == Use::Reply;
        let more = |count: u32| may_begin(count).then_some(count + 1);
        let begun = self.operations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        begun.map_err(|_| Busy)?;
        let started = start();
        if started.is_err() {
            self.end_operation();
        }
        started
    }

    /// Counts a completed operation.
    #[inline]
    pub fn end_operation(&self) {
        self.operations.fetch_sub(1, Ordering::Relaxed);
    }

    /// The source of a put. None: through buffers, in pieces. Busy: it needs a buffer.
    pub fn source(&self, put: &Put, purpose: Use) -> Result<Option<Source>, Busy> {
        let Link { shim, buffers, .. } = &self.link;
        let in_place = |is_in_use| Source {
            address: put.from.address,
            buffer: None,
            is_in_use,
        };
        if put.bytes <= shim.info.small_put as usize {
            return Ok(Some(in_place(false)));
        }
        let is_addressable = shim.is_addressable(put.from.address, put.bytes);
        if put.bytes > BUFFER || put.source == SourceUse::Later && is_addressable {
            return Ok(is_addressable.then(|| in_place(true)));
        }
        let mut buffer = buffers.take(purpose).ok_or(Busy)?;
        // SAFETY: the source.
        let source = unsafe { std::slice::from_raw_parts(put.from.address as *const u8, put.bytes) };
        buffer.bytes(put.bytes).copy_from_slice(source);
        Ok(Some(Source {
            address: buffer.address(),
            buffer: Some(buffer),
            is_in_use: false,
        }))
    }

    /// Starts a put in one piece. `done` makes the action of its completion from whether its source
    /// is in use, and its buffer.
    pub fn start_put(
        &self,
        put: &Put,
        source: Source,
        place: ChannelSlot<'_>,
        done: impl FnOnce(bool, Option<Buffer>) -> CompletionAction,
    ) -> LocalCompletion {
        let Link { shim, peers, .. } = &self.link;
        let (to, vp) = (self.memory.address(&put.to), peers.vp(put.to.peer));
        // SAFETY: addressable or small; the runtime keeps the source until local completion, and
        // `done` keeps its buffer.
        let event = unsafe { shim.put(&place, source.address, to, put.bytes, vp) };
        self.link.pending.add(PendingOperation {
            event,
            channel: Some(place.keep()),
            done: done(source.is_in_use, source.buffer),
        });
        if source.is_in_use {
            LocalCompletion::Later
        } else {
            LocalCompletion::AtReturn
        }
    }

    /// A put in pieces.
    pub fn put_in_pieces(&self, put: &Put, purpose: Use) -> Operation {
        Operation {
            direction: Direction::Put,
            purpose,
            local: put.from.address,
            remote: self.memory.address(&put.to),
            bytes: put.bytes,
            vp: self.link.peers.vp(put.to.peer),
            cookie: put.cookie,
        }
    }

    fn put_now(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let place = self.channels.take().ok_or(Busy)?;
        let Some(source) = self.source(put, Use::Other)? else {
            drop(place);
            self.begin(Transfer::new(self.put_in_pieces(put, Use::Other), None));
            return Ok(LocalCompletion::Later);
        };
        Ok(self.start_put(put, source, place, |is_in_use, buffer| {
            let part = if is_in_use {
                Completion::Both
            } else {
                Completion::Remote
            };
            CompletionAction::Put(put.cookie, part, buffer)
        }))
    }

    fn get_now(&self, get: &Get) -> Result<(), Busy> {
        let Link {
            shim, buffers, pending, ..
        } = &self.link;
        let (from, vp) = (self.memory.address(&get.from), self.link.peers.vp(get.from.peer));
        let (to, into) = if shim.is_addressable(get.to.address, get.bytes) {
            (get.to.address, None)
        } else if get.bytes <= BUFFER {
            let buffer = buffers.take(Use::Other).ok_or(Busy)?;
            (buffer.address(), Some((buffer, get.to.address, get.bytes)))
        } else {
            let operation = Operation {
                direction: Direction::Get,
                purpose: Use::Other,
                local: get.to.address,
                remote: from,
                bytes: get.bytes,
                vp,
                cookie: get.cookie,
            };
            self.begin(Transfer::new(operation, None));
            return Ok(());
        };
        // SAFETY: addressable, and kept by the runtime or by `done` until completion.
        let event = unsafe { shim.get(from, to, get.bytes, vp) };
        let done = CompletionAction::Get(get.cookie, into);
        pending.add(PendingOperation {
            event,
            channel: None,
            done,
        });
        Ok(())
    }

    /// Begins a transfer.
    pub fn begin(&self, transfer: Transfer) {
        self.transfers.add(transfer);
        self.advance_transfers();
    }

    /// Begins pieces while there are buffers and places in channels.
    pub fn advance_transfers(&self) {
        self.transfers
            .advance(|transfer, piece| self.begin_piece(transfer, piece));
    }

    fn begin_piece(&self, transfer: &Arc<Transfer>, piece: Range<usize>) -> bool {
        let Link {
            shim, buffers, pending, ..
        } = &self.link;
        let operation = &transfer.operation;
        let Some(mut buffer) = buffers.take(operation.purpose) else {
            return false;
        };
        let (remote, bytes) = (operation.remote + piece.start as u64, piece.len());
        let (event, channel) = match operation.direction {
            Direction::Put => {
                let Some(place) = self.channels.take() else {
                    buffer.release();
                    return false;
                };
                let from = (operation.local + piece.start) as *const u8;
                // SAFETY: the source, which the runtime keeps until local completion.
                let source = unsafe { std::slice::from_raw_parts(from, bytes) };
                buffer.bytes(bytes).copy_from_slice(source);
                // SAFETY: the buffer is kept until completion.
                let event = unsafe { shim.put(&place, buffer.address(), remote, bytes, operation.vp) };
                (event, Some(place.keep()))
            }
            // SAFETY: as above.
            Direction::Get => (unsafe { shim.get(remote, buffer.address(), bytes, operation.vp) }, None),
        };
        pending.add(PendingOperation {
            event,
            channel,
            done: CompletionAction::Piece(Arc::clone(transfer), buffer, piece),
        });
        true
    }
}

impl Rma for OneSided {
    /// Elan4's addresses are those of the process.
    fn reaches_all_memory(&self) -> bool {
        self.link.shim.info.elan == 4
    }

    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.operation(Use::Other, || self.put_now(put))
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        self.operation(Use::Other, || self.get_now(get))
    }
}
