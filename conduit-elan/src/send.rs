//! Sending. A message that fits goes to the receiver's queue; a longer one to its port, from a
//! buffer. Its class decides on the queue, or the tag.

mod buffers;

use crate::buffers::{Buffer, Use, BUFFER};
use crate::credits::{Credits, COUNTS};
use crate::ffi::{Local, Queue};
use crate::link::Link;
use crate::operations::{CompletionAction, PendingOperation};
use crate::wire::{Content, QueuedMessage, Slot, HEAD};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::parts::{concatenate, length};

/// Whether a message goes to the queue.
#[inline]
pub fn is_short(link: &Link, bytes: usize) -> bool {
    HEAD + bytes <= link.shim.info.queue_bytes as usize
}

/// Messages of a process.
#[derive(Debug)]
pub struct Messages {
    /// By class.
    pub queues: [Queue; 2],
    /// Credits at peers.
    pub credits: Credits,
}

impl Messages {
    /// Takes a credit for a message, and reads the peer's counts if there are few.
    #[inline]
    pub fn take_credit(&self, link: &Link, peer: JobRank, class: Class) -> Result<(), Busy> {
        if link.is_stopped() {
            return Err(Busy);
        }
        let credit = self.credits.take(peer, class);
        if credit.asks {
            self.ask(link, peer);
        }
        if credit.is_there {
            Ok(())
        } else {
            Err(Busy)
        }
    }

    #[cold]
    fn ask(&self, link: &Link, peer: JobRank) {
        let (from, to) = self.credits.ask(peer, link.peers.rank);
        // SAFETY: memory of the network, which nobody reads before the answer is there.
        let event = unsafe { link.shim.get(from, to, COUNTS, link.peers.vp(peer)) };
        link.pending.add(PendingOperation {
            event,
            channel: None,
            done: CompletionAction::Counts(peer),
        });
    }

    /// See [`gasnet_conduit::Network::send`].
    #[inline]
    pub fn send(&self, link: &Link, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes = length(parts);
        self.take_credit(link, peer, class)?;
        if is_short(link, bytes) {
            let message = &mut Slot::new();
            let message = message.fill(link.peers.rank, bytes, parts);
            let vp = link.peers.vp(peer);
            link.shim.queue_send(&self.queues[class as usize], vp, message);
            return Ok(());
        }
        let Some(content) = copy(link, class, parts, bytes) else {
            self.credits.give_back(peer, class);
            return Err(Busy);
        };
        self.send_queued(link, QueuedMessage { peer, class, content });
        Ok(())
    }

    /// Prepares a message that is sent later, and then is not refused.
    pub fn prepare(&self, link: &Link, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<QueuedMessage, Busy> {
        let bytes = length(parts);
        self.take_credit(link, peer, class)?;
        let content = if is_short(link, bytes) {
            let mut slot = Slot::new();
            let message = slot.fill(link.peers.rank, bytes, parts);
            Some(Content::Short(AlignedCopy::new(message)))
        } else {
            copy(link, class, parts, bytes)
        };
        let Some(content) = content else {
            self.credits.give_back(peer, class);
            return Err(Busy);
        };
        Ok(QueuedMessage { peer, class, content })
    }

    /// Sends a message that has its credit.
    pub fn send_queued(&self, link: &Link, message: QueuedMessage) {
        let QueuedMessage { peer, class, content } = message;
        let vp = link.peers.vp(peer);
        match content {
            Content::Short(mut message) => link.shim.queue_send(&self.queues[class as usize], vp, message.bytes()),
            Content::Long(buffer, bytes) => {
                let address = buffer.address();
                let memory = Local { address, bytes };
                // SAFETY: memory of the network, which is kept until it was sent.
                let event = unsafe { link.shim.port_send(&link.port, vp, class as u32, memory) };
                link.pending.add(PendingOperation {
                    event,
                    channel: None,
                    done: CompletionAction::Sent(buffer),
                });
            }
        }
    }

    /// Gives up a message that was prepared.
    pub fn cancel_queued(&self, message: QueuedMessage) {
        self.credits.give_back(message.peer, message.class);
        if let Content::Long(buffer, _) = message.content {
            buffer.release();
        }
    }
}

/// A long message in a buffer, if one is free.
fn copy(link: &Link, class: Class, parts: &[&[u8]], bytes: usize) -> Option<Content> {
    assert!(bytes <= BUFFER, "defect: a message of {bytes} bytes");
    let buffer: Buffer = link.buffers.take(Use::of(class))?;
    // SAFETY: as many bytes fit.
    unsafe { concatenate(parts, buffer.address() as *mut u8) };
    Some(Content::Long(buffer, bytes))
}
