//! Messages: assembled from their parts, and posted.

use super::Messages;
use crate::buffers::{AsLocal, Buffer};
use crate::fabric::Fabric;
use crate::ffi::{Errno, Local, Work};
use crate::operations::CompletionAction;
use crate::peers::Connection;
use crate::send::queue::QueueGuard;
use crate::wire::{self, Kind};
use gasnet_conduit::{Busy, Class};
use gasnet_conduit_util::parts::{concatenate, length};
use std::mem::MaybeUninit;

/// Most bytes of an inline message of several parts.
const INLINE: usize = 256;

/// Memory in which the parts of an inline message are put together.
pub type Room = [MaybeUninit<u8>; INLINE];

/// An empty room.
pub const ROOM: Room = [const { MaybeUninit::uninit() }; INLINE];

/// A message that waits for its work request.
pub enum Message<'a> {
    /// Bytes that the work request takes over.
    Inline(&'a [u8]),
    /// In a buffer, with its length.
    Buffered(Buffer, usize),
}

impl Message<'_> {
    /// It is not sent.
    pub fn release(self) {
        if let Self::Buffered(buffer, _) = self {
            buffer.release();
        }
    }
}

impl Messages {
    /// Assembles a packet.
    #[inline]
    pub fn message<'a>(&self, class: Class, parts: &[&'a [u8]], room: &'a mut Room) -> Result<Message<'a>, Busy> {
        let bytes = length(parts);
        assert!(
            bytes <= self.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        if bytes <= self.fabric.inline {
            if let [whole] = parts {
                return Ok(Message::Inline(whole));
            }
            if bytes <= INLINE {
                // SAFETY: the room has at least as many bytes.
                unsafe { concatenate(parts, room.as_mut_ptr().cast()) };
                // SAFETY: as many were written.
                return Ok(Message::Inline(unsafe {
                    std::slice::from_raw_parts(room.as_ptr().cast(), bytes)
                }));
            }
        }
        let (buffer, bytes) = self.buffered(class, parts)?;
        Ok(Message::Buffered(buffer, bytes))
    }

    /// Assembles a packet in a buffer.
    pub fn buffered(&self, class: Class, parts: &[&[u8]]) -> Result<(Buffer, usize), Busy> {
        let bytes = length(parts);
        let index = usize::from(class == Class::Reply);
        let pool = if bytes <= self.pools.small[index].pool.bytes() {
            &self.pools.small[index]
        } else {
            &self.pools.large[index]
        };
        let mut buffer = pool.take(self.fabric.domains()).ok_or(Busy)?;
        // SAFETY: the buffer has at least as many bytes.
        unsafe { concatenate(parts, buffer.bytes(bytes).as_mut_ptr()) };
        Ok((buffer, bytes))
    }

    /// Sends a message that is no packet.
    pub fn send_note(&self, connection: &Connection, bytes: &[u8], credits: u32) -> Result<(), Busy> {
        let mut room = ROOM;
        let message = self.message(Class::Reply, &[bytes], &mut room)?;
        let word = wire::encode(Kind::Note, self.fabric.rank, credits);
        self.fabric.transmit(connection, message, word)
    }
}

impl Fabric {
    /// Sends a message, with a word beside it.
    #[inline]
    pub fn transmit(&self, connection: &Connection, message: Message<'_>, word: u32) -> Result<(), Busy> {
        let queue = connection.queue(0);
        let Some(mut guard) = self.lock_queue(queue) else {
            message.release();
            return Err(Busy);
        };
        let posted = Self::post_message(&mut guard, message, word);
        drop(guard);
        posted.map_err(|why| self.refused(queue, "sending a message", why))
    }

    /// Posts a message, under the lock of its queue. If that fails, its buffer is free.
    #[inline]
    pub fn post_message(guard: &mut QueueGuard<'_>, message: Message<'_>, word: u32) -> Result<(), Errno> {
        let rail = guard.queue.rail;
        let posted = match message {
            Message::Inline(bytes) => {
                let local = Local {
                    address: bytes.as_ptr() as usize,
                    bytes: bytes.len(),
                    lkey: 0,
                };
                let mut work = Work::send(&local, word);
                work.inline();
                // SAFETY: the bytes are read before this returns.
                unsafe { guard.post(work, CompletionAction::Nothing) }
            }
            Message::Buffered(buffer, bytes) => {
                let work = Work::send(&buffer.local(rail, bytes), word);
                // SAFETY: the buffer is released after completion.
                unsafe { guard.post(work, CompletionAction::Buffer(buffer)) }
            }
        };
        posted.map_err(|(done, why)| {
            done.release();
            why
        })
    }

    /// Tells a peer that this process has stopped, unless another thread is posting: in a program
    /// for one thread, too, any may end the job.
    pub fn say_bye(&self, connection: &Connection) -> Result<(), Errno> {
        let route = connection.queue(0);
        let guard = route.queue.try_lock(route.xrc_peer, &self.rail(&route).room);
        let mut guard = guard.ok_or(Errno::NO_MEMORY)?;
        guard.signal();
        let word = wire::encode(Kind::Bye, self.rank, 0);
        Self::post_message(&mut guard, Message::Inline(&[]), word)
    }
}
