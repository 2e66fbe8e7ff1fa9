//! Sending. A message that fits goes to the receiver's queue; a longer one to its port, from a
//! buffer. Which class it has says which queue, or the tag.

use crate::buffers::{Buffer, Use, BUFFER};
use crate::net::Net;
use crate::pending::{CompletionAction, Flight};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use std::mem::MaybeUninit;

/// What precedes a message in a queue: its sender and its length, 32 bits each, and as much again,
/// so that messages are aligned.
pub const HEAD: usize = 16;
/// Most bytes of a slot of a queue; libelan's have 320 or 2048.
pub const MOST_SLOT: usize = 2048;

/// The memory of a slot.
#[repr(C, align(16))]
pub struct Slot(pub MaybeUninit<[u8; MOST_SLOT]>);

impl Slot {
    pub const fn new() -> Self {
        Self(MaybeUninit::uninit())
    }

    /// Writes a message with its head. Returns all of it.
    #[inline]
    fn fill(&mut self, own: JobRank, bytes: usize, parts: &[&[u8]]) -> &[u8] {
        assert!(HEAD + bytes <= MOST_SLOT, "defect: {bytes} bytes in a slot");
        let start = self.0.as_mut_ptr().cast::<u8>();
        let head = u128::from(own.0) | (bytes as u128) << 32;
        // SAFETY: aligned, and the parts have `bytes` bytes together, for which there is room.
        unsafe {
            start.cast::<u128>().write(head);
            gather(parts, start.add(HEAD));
            std::slice::from_raw_parts(start, HEAD + bytes)
        }
    }

    /// The number of the sender of a message, and the message. None: its length is impossible.
    ///
    /// # Safety
    /// A message was received in it.
    #[inline]
    pub unsafe fn message(&mut self, slot_bytes: usize) -> (JobRank, Option<&mut [u8]>) {
        let start = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: by contract, a whole slot was written.
        let head = unsafe { start.cast::<u128>().read() };
        let bytes = (head >> 32) as u32 as usize;
        let fits = bytes <= slot_bytes - HEAD;
        // SAFETY: as above.
        let message = fits.then(|| unsafe { std::slice::from_raw_parts_mut(start.add(HEAD), bytes) });
        (JobRank(head as u32), message)
    }
}

/// Copies parts one after the other.
///
/// # Safety
/// There is room for all of them.
unsafe fn gather(parts: &[&[u8]], mut to: *mut u8) {
    for part in parts {
        // SAFETY: by contract.
        unsafe {
            to.copy_from_nonoverlapping(part.as_ptr(), part.len());
            to = to.add(part.len());
        }
    }
}

/// Bytes of a message.
pub fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// A message that has its credit and waits for the payload that it announces.
#[derive(Debug)]
pub struct QueuedMessage {
    peer: JobRank,
    class: Class,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// With its head.
    Short(AlignedCopy),
    Long(Buffer, usize),
}

impl Net {
    /// Takes a credit for a message, and reads the peer's counts if there are few.
    #[inline]
    fn take_credit(&self, peer: JobRank, class: Class) -> Result<(), Busy> {
        if self.is_stopped() {
            return Err(Busy);
        }
        let credit = self.credits.take(peer, class);
        if credit.asks {
            self.ask(peer);
        }
        if credit.is_there {
            Ok(())
        } else {
            Err(Busy)
        }
    }

    #[cold]
    fn ask(&self, peer: JobRank) {
        let (from, to) = self.credits.ask(peer, self.rank);
        // SAFETY: memory of the network, which nobody reads before the answer is there.
        let event = unsafe { self.shim.get(from, to, crate::credits::COUNTS, self.vp(peer)) };
        self.flights.add(Flight {
            event,
            channel: None,
            done: CompletionAction::Counts(peer),
        });
    }

    /// Whether a message goes to the queue.
    #[inline]
    pub fn is_short(&self, bytes: usize) -> bool {
        HEAD + bytes <= self.shim.info.queue_bytes as usize
    }

    /// See [`gasnet_conduit::Network::send`].
    #[inline]
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes = length(parts);
        self.take_credit(peer, class)?;
        if self.is_short(bytes) {
            let message = &mut Slot::new();
            let message = message.fill(self.rank, bytes, parts);
            self.shim
                .queue_send(&self.queues[class as usize], self.vp(peer), message);
            return Ok(());
        }
        let Some(buffer) = self.copy(class, parts, bytes) else {
            self.credits.give_back(peer, class);
            return Err(Busy);
        };
        self.send_buffer(peer, class, buffer, bytes);
        Ok(())
    }

    /// A buffer with a message, if one is free.
    fn copy(&self, class: Class, parts: &[&[u8]], bytes: usize) -> Option<Buffer> {
        assert!(bytes <= BUFFER, "defect: a message of {bytes} bytes");
        let buffer = self.buffers.take(Use::of(class))?;
        // SAFETY: as many bytes fit.
        unsafe { gather(parts, buffer.address() as *mut u8) };
        Some(buffer)
    }

    /// Sends a buffer, which has its credit.
    fn send_buffer(&self, peer: JobRank, class: Class, buffer: Buffer, bytes: usize) {
        let memory = (buffer.address(), bytes);
        // SAFETY: memory of the network, which is kept until it was sent.
        let event = unsafe { self.shim.port_send(&self.port, self.vp(peer), class as u32, memory) };
        self.flights.add(Flight {
            event,
            channel: None,
            done: CompletionAction::Sent(buffer),
        });
    }

    /// Prepares a message that is sent later, and then is not refused.
    pub fn prepare(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<QueuedMessage, Busy> {
        let bytes = length(parts);
        self.take_credit(peer, class)?;
        let content = if self.is_short(bytes) {
            Some(Content::Short(AlignedCopy::new(
                Slot::new().fill(self.rank, bytes, parts),
            )))
        } else {
            self.copy(class, parts, bytes)
                .map(|buffer| Content::Long(buffer, bytes))
        };
        let Some(content) = content else {
            self.credits.give_back(peer, class);
            return Err(Busy);
        };
        Ok(QueuedMessage { peer, class, content })
    }

    /// Sends it.
    pub fn send_queued(&self, message: QueuedMessage) {
        let QueuedMessage { peer, class, content } = message;
        match content {
            Content::Short(mut message) => {
                let queue = &self.queues[class as usize];
                self.shim.queue_send(queue, self.vp(peer), message.bytes());
            }
            Content::Long(buffer, bytes) => self.send_buffer(peer, class, buffer, bytes),
        }
    }

    /// Gives up a message that was prepared.
    pub fn cancel_queued(&self, message: QueuedMessage) {
        self.credits.give_back(message.peer, message.class);
        if let Content::Long(buffer, _) = message.content {
            self.buffers.give(buffer);
        }
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        BUFFER
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= BUFFER, "defect: a buffer of {bytes} bytes");
        self.buffers.reserve().ok_or(Busy)
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        if self.is_short(bytes) {
            // SAFETY: the client has written so many bytes of the buffer.
            let message = unsafe { std::slice::from_raw_parts(buffer.0, bytes) };
            self.send(peer, class, &[message])?;
            self.release(buffer);
            return Ok(());
        }
        self.take_credit(peer, class)?;
        self.send_buffer(peer, class, self.buffers.reclaim(buffer), bytes);
        Ok(())
    }

    fn release(&self, buffer: SendBuffer) {
        self.buffers.give(self.buffers.reclaim(buffer));
    }
}
