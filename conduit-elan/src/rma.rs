//! Puts, gets, and puts that notify. libelan copies a small source at the call. A longer one is
//! used in place, if the network reaches it, else it is copied through buffers.

use crate::buffers::{Buffer, Use, BUFFER};
use crate::ffi::ChannelSlot;
use crate::net::Net;
use crate::pending::{CompletionAction, Flight};
use crate::send::{length, HEAD};
use crate::transfers::{Direction, Transfer};
use gasnet_conduit::{
    Busy, Class, Completion, Get, LocalCompletion, Put, PutNotify, RemoteMemory, RemoteSegment, Rma, SendBuffer,
    SourceUse, Upcalls,
};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_sys::atomic::{AtomicUsize, Mutex, Ordering};

/// Room for the header and the arguments of a Long beside its payload.
const ARGUMENTS: usize = 128;

/// Where a put in one piece reads its source.
struct Source {
    address: usize,
    /// The buffer that it lies in.
    buffer: Option<Buffer>,
    /// Whether the client may not change it yet.
    is_in_use: bool,
}

impl Net {
    /// Counts an operation of the client. Busy: there are too many. Those for replies are never too
    /// many: the others may wait for processes that wait for them.
    fn begin_operation(&self, purpose: Use) -> Result<(), Busy> {
        if self.is_stopped() {
            return Err(Busy);
        }
        let may_begin = |count: u32| count < self.most_operations || purpose == Use::Reply;
        let more = |count: u32| may_begin(count).then_some(count + 1);
        let begun = self.operations.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        begun.map(|_| ()).map_err(|_| Busy)
    }

    /// One is complete.
    #[inline]
    pub fn end_operation(&self) {
        self.operations.fetch_sub(1, Ordering::Relaxed);
    }

    /// A place in a channel, and its number, if any has one.
    #[inline]
    pub fn take_channel(&self) -> Option<(ChannelSlot<'_>, usize)> {
        let last = self.last_channel.load(Ordering::Relaxed);
        let numbers = (last..self.channels.len()).chain(0..last);
        let mut places = numbers.filter_map(|number| Some((self.channels[number].take()?, number)));
        let (slot, number) = places.next()?;
        if number != last {
            self.last_channel.store(number, Ordering::Relaxed);
        }
        Some((slot, number))
    }

    /// Where a put reads its source. None: through buffers, in pieces. Busy: it needs a buffer.
    fn source(&self, put: &Put, purpose: Use) -> Result<Option<Source>, Busy> {
        let in_place = |is_in_use| Source {
            address: put.from.address,
            buffer: None,
            is_in_use,
        };
        if put.bytes <= self.shim.info.small_put as usize {
            return Ok(Some(in_place(false)));
        }
        let is_addressable = self.shim.is_addressable(put.from.address, put.bytes);
        if put.bytes > BUFFER || put.source == SourceUse::Later && is_addressable {
            return Ok(is_addressable.then(|| in_place(true)));
        }
        let mut buffer = self.buffers.take(purpose).ok_or(Busy)?;
        // SAFETY: the source.
        let source = unsafe { std::slice::from_raw_parts(put.from.address as *const u8, put.bytes) };
        buffer.prefix(put.bytes).copy_from_slice(source);
        Ok(Some(Source {
            address: buffer.address(),
            buffer: Some(buffer),
            is_in_use: false,
        }))
    }

    /// The network address of memory in a peer's segment.
    #[inline]
    fn remote(&self, memory: &RemoteMemory) -> u64 {
        if memory.segment == RemoteSegment::ALL_MEMORY {
            return memory.address as u64;
        }
        self.segments.address(memory)
    }

    /// Starts a put in one piece. `done` says what its completion means, from whether its source is
    /// in use, and its buffer.
    fn start_put(
        &self,
        put: &Put,
        source: Source,
        (slot, channel): (ChannelSlot<'_>, usize),
        done: impl FnOnce(bool, Option<Buffer>) -> CompletionAction,
    ) -> LocalCompletion {
        let to = self.remote(&put.to);
        // SAFETY: addressable or small; the runtime keeps the source until local completion, and
        // `done` keeps its buffer.
        let event = unsafe {
            self.shim
                .put(&slot, source.address, to, put.bytes, self.vp(put.to.peer))
        };
        slot.keep();
        self.flights.add(Flight {
            event,
            channel: Some(channel),
            done: done(source.is_in_use, source.buffer),
        });
        if source.is_in_use {
            LocalCompletion::Later
        } else {
            LocalCompletion::AtReturn
        }
    }

    fn transfer(&self, put: &Put, purpose: Use) -> Transfer {
        Transfer {
            way: Direction::Put,
            purpose,
            local: put.from.address,
            remote: self.remote(&put.to),
            bytes: put.bytes,
            vp: self.vp(put.to.peer),
            cookie: put.cookie,
            message: Mutex::default(),
            missing: AtomicUsize::new(put.bytes),
        }
    }

    fn put_now(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        let place = self.take_channel().ok_or(Busy)?;
        let Some(source) = self.source(put, Use::Other)? else {
            drop(place);
            self.begin(self.transfer(put, Use::Other));
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
        let (from, vp) = (self.remote(&get.from), self.vp(get.from.peer));
        let (to, into) = if self.shim.is_addressable(get.to.address, get.bytes) {
            (get.to.address, None)
        } else if get.bytes <= BUFFER {
            let buffer = self.buffers.take(Use::Other).ok_or(Busy)?;
            (buffer.address(), Some((buffer, get.to.address, get.bytes)))
        } else {
            self.begin(Transfer {
                way: Direction::Get,
                purpose: Use::Other,
                local: get.to.address,
                remote: from,
                bytes: get.bytes,
                vp,
                cookie: get.cookie,
                message: Mutex::default(),
                missing: AtomicUsize::new(get.bytes),
            });
            return Ok(());
        };
        // SAFETY: addressable, and kept by the runtime or by `done` until completion.
        let event = unsafe { self.shim.get(from, to, get.bytes, vp) };
        let done = CompletionAction::Get(get.cookie, into);
        self.flights.add(Flight {
            event,
            channel: None,
            done,
        });
        Ok(())
    }

    fn notify_now(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let place = self.take_channel().ok_or(Busy)?;
        let message = self.prepare(put.to.peer, class, parts)?;
        let source = match reserved {
            Some(buffer) => Ok(Some(Source {
                address: put.from.address,
                buffer: Some(self.buffers.reclaim(buffer)),
                is_in_use: false,
            })),
            None => self.source(put, Use::of(class)),
        };
        match source {
            Err(Busy) => {
                self.cancel_queued(message);
                Err(Busy)
            }
            Ok(None) => {
                drop(place);
                let message = Mutex::new(Some(message));
                self.begin(Transfer {
                    message,
                    ..self.transfer(put, Use::of(class))
                });
                Ok(LocalCompletion::Later)
            }
            Ok(Some(source)) => Ok(self.start_put(put, source, place, |is_in_use, buffer| {
                CompletionAction::Payload(Box::new(message), is_in_use.then_some(put.cookie), buffer)
            })),
        }
    }

    /// Counts an operation, and starts it.
    fn operation<T>(&self, purpose: Use, start: impl FnOnce() -> Result<T, Busy>) -> Result<T, Busy> {
        self.begin_operation(purpose)?;
        let started = start();
        if started.is_err() {
            self.end_operation();
        }
        started
    }

    /// Something is complete. Returns whether that is progress.
    pub fn end_flight(&self, channel: Option<usize>, done: CompletionAction, upcalls: &mut dyn Upcalls) -> bool {
        if let Some(channel) = channel {
            self.channels[channel].give_back();
        }
        match done {
            CompletionAction::Sent(buffer) => self.buffers.give(buffer),
            // Else a process that waits for credits asks at once again, and never sleeps.
            CompletionAction::Counts(peer) => {
                let answer = self.credits.answered(peer);
                if answer.is_none() {
                    upcalls.peer_lost(peer, "it counts messages that it was not sent");
                }
                return answer.unwrap_or(true);
            }
            CompletionAction::Put(cookie, part, buffer) => {
                self.end_copied(buffer);
                upcalls.done(cookie, part);
            }
            CompletionAction::Payload(message, cookie, buffer) => {
                self.send_queued(*message);
                self.end_copied(buffer);
                if let Some(cookie) = cookie {
                    upcalls.done(cookie, Completion::Source);
                }
            }
            CompletionAction::Get(cookie, into) => {
                if let Some((buffer, to, bytes)) = into {
                    // SAFETY: the destination, which the runtime keeps until completion; buffers
                    // are aligned.
                    unsafe { copy_out(buffer.address(), to, bytes) };
                    self.buffers.give(buffer);
                }
                self.end_operation();
                upcalls.done(cookie, Completion::Both);
            }
            CompletionAction::Piece(transfer, mut buffer, piece) => {
                self.end_piece(&transfer, piece, buffer.prefix(piece.1), upcalls);
                self.buffers.give(buffer);
            }
        }
        true
    }

    fn end_copied(&self, buffer: Option<Buffer>) {
        if let Some(buffer) = buffer {
            self.buffers.give(buffer);
        }
        self.end_operation();
    }
}

impl Rma for Net {
    /// Elan4's addresses are those of the process.
    fn reaches_all_memory(&self) -> bool {
        self.shim.info.elan == 4
    }

    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy> {
        self.operation(Use::Other, || self.put_now(put))
    }

    fn get(&self, get: &Get) -> Result<(), Busy> {
        self.operation(Use::Other, || self.get_now(get))
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.shim.info.queue_bytes as usize - HEAD - ARGUMENTS
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        debug_assert!(length(parts) <= BUFFER);
        self.operation(Use::of(class), || self.notify_now(put, reserved, class, parts))
    }
}
