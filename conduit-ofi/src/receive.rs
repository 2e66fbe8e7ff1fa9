//! Receive buffers, and messages that are delivered later than they arrive.
//!
//! A buffer takes many messages where the provider has `FI_MULTI_RECV`, else one. It is posted
//! again when all its messages are delivered. A reference for each message that a thread has taken
//! from the queue, and one for the provider's, count that. References are taken under the lock
//! under which the queue is read: a thread that reads the end of a buffer cannot overtake one that
//! has read a message in it and not counted it yet.

pub mod deliver;
pub mod outsiders;
pub mod place;

use crate::ffi::{bits, Completion, Endpoint, Errno};
use crate::operations::{self, grow, take, Kind, OwnedOperation, Pool};
use crate::receive::place::Extent;
use crate::versions::End;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicUsize;

/// The provider's reference, in [`Slot::references`]. Messages count 1 each.
const POSTED: usize = 1 << 32;

/// The buffer in reserve: no handler runs on a message in it, so it can always be posted again, and
/// what handlers in other buffers wait for can arrive.
pub const RESERVE: usize = 0;

/// A receive buffer.
#[derive(Default)]
struct Slot {
    references: AtomicUsize,
    /// Bytes of the messages that have arrived.
    arrived: AtomicUsize,
    /// End of the last of them, in the buffer.
    end: AtomicUsize,
    /// The buffer's operation, while the provider has it.
    context: AtomicUsize,
}

/// Whether a completion is of a message, not only of the end of a buffer. A message without bytes
/// is none.
pub fn has_message(completion: &Completion) -> bool {
    completion.flags & bits::RECV != 0 && completion.len > 0
}

/// The shape of receive buffers.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// Length of each.
    pub bytes: usize,
    /// They take many messages each; else one.
    pub many: Option<Many>,
}

/// Buffers for many messages each.
#[derive(Clone, Copy, Debug)]
pub struct Many {
    /// The provider ends a buffer when it has less room than this.
    pub least: usize,
    /// Sign of the end of a buffer.
    pub end: End,
}

impl Many {
    /// Whether the provider reports the end of a buffer with these flags of a completion.
    fn is_reported_by(self, flags: u64) -> bool {
        match self.end {
            End::Reported => flags & bits::MULTI_RECV != 0,
            End::Apart => flags & (bits::MULTI_RECV | bits::RECV) == bits::MULTI_RECV,
            End::Counted | End::Unknown => false,
        }
    }
}

/// The receive buffers of an endpoint.
pub struct Receives {
    slots: Box<[Slot]>,
    /// Buffers that could not be posted. Every poll tries again.
    unposted: PendingQueue<OwnedOperation>,
    shape: Buffers,
    // Last, as the buffers are in it.
    pool: Pool,
}

impl Receives {
    /// Allocates `count` buffers.
    pub fn new(endpoint: &Endpoint, count: usize, shape: Buffers) -> Result<Self, Errno> {
        let pool = Pool::new(shape.bytes, count);
        grow(&pool, endpoint, count)?;
        Ok(Self {
            slots: std::iter::repeat_with(Slot::default).take(count).collect(),
            unposted: PendingQueue::default(),
            shape,
            pool,
        })
    }

    /// Posts all buffers.
    pub fn post_all(&self, endpoint: &Endpoint) -> Result<(), Errno> {
        for index in 0..self.slots.len() {
            let mut held = take(&self.pool, endpoint).ok_or(Errno(libc::ENOMEM))?;
            held.kind = Kind::Receive(index);
            self.post(endpoint, held)?;
        }
        Ok(())
    }

    /// Whether a buffer takes many messages.
    pub fn takes_many(&self) -> bool {
        self.shape.many.is_some()
    }

    fn slot(&self, held: &OwnedOperation) -> (usize, &Slot) {
        let Kind::Receive(index) = held.kind else {
            panic!("defect: {:?} is no receive", held.kind);
        };
        (index, &self.slots[index])
    }

    /// Posts a buffer, later if the provider has no room now.
    fn post(&self, endpoint: &Endpoint, held: OwnedOperation) -> Result<(), Errno> {
        let (_, slot) = self.slot(&held);
        slot.arrived.store(0, Ordering::Relaxed);
        slot.end.store(0, Ordering::Relaxed);
        slot.references.store(POSTED, Ordering::Relaxed);
        slot.context.store(held.context() as usize, Ordering::Relaxed);
        // SAFETY: the buffer and its operation are the provider's until `end`.
        let posted = unsafe { endpoint.receive(held.source(self.shape.bytes), self.takes_many(), held.context()) };
        match held.started(posted) {
            Err((held, Errno::AGAIN)) => {
                self.unposted.push(held);
                Ok(())
            }
            posted => posted.map_err(|(_, why)| why),
        }
    }

    /// Tries again to post what could not be posted.
    #[inline]
    pub fn retry(&self, endpoint: &Endpoint) -> Result<(), Errno> {
        if self.unposted.is_empty() {
            return Ok(());
        }
        let mut unposted = self.unposted.take_all().into_iter();
        unposted.try_for_each(|held| self.post(endpoint, held))
    }

    /// Takes a reference for the message of a completion, if it [has one](has_message); under the
    /// lock of the queue. False if the message does not lie in the buffer: it has none then.
    #[inline]
    pub fn refer(&self, endpoint: &Endpoint, index: usize, completion: &mut Completion) -> Result<bool, Errno> {
        let (slot, has_message) = (&self.slots[index], has_message(completion));
        let extent = self.extent(index, completion).filter(|_| has_message);
        let is_over = match self.shape.many {
            None => true,
            Some(many) if many.end == End::Counted => extent.is_some_and(|extent| self.fills(slot, extent, many.least)),
            Some(many) => many.is_reported_by(completion.flags),
        };
        let is_inside = !has_message || extent.is_some_and(|extent| extent.is_whole);
        if !is_inside {
            completion.flags &= bits::MULTI_RECV;
        } else if has_message {
            slot.references.fetch_add(1, Ordering::Relaxed);
        }
        // The provider ends a buffer once: its reference is there.
        let is_posted = slot.references.load(Ordering::Relaxed) >= POSTED;
        if is_over && is_posted && slot.references.fetch_sub(POSTED, Ordering::AcqRel) == POSTED {
            self.post_again(endpoint, index)?;
        }
        Ok(is_inside)
    }

    /// Counts a message in a buffer. True if all messages that fit have arrived.
    fn fills(&self, slot: &Slot, Extent { offset, bytes, .. }: Extent, least: usize) -> bool {
        let arrived = slot.arrived.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let end = slot.end.fetch_max(offset + bytes, Ordering::Relaxed);
        let end = end.max(offset + bytes);
        arrived == end && self.shape.bytes - end < least
    }

    /// Address of a buffer.
    #[inline]
    fn first(&self, index: usize) -> usize {
        self.slots[index].context.load(Ordering::Relaxed) + operations::HEAD
    }

    /// The message of a completion in its buffer.
    #[inline]
    fn extent(&self, index: usize, completion: &Completion) -> Option<Extent> {
        let message = (self.message(index, completion), completion.len);
        place::extent(message, (self.first(index), self.shape.bytes))
    }

    /// Whether a message of `bytes` bytes was cut off by the end of its buffer, rather than by the
    /// peer that sent less than it had announced.
    #[cold]
    pub fn cuts_off(&self, index: usize, completion: &Completion, bytes: usize) -> bool {
        let of = Completion {
            len: bytes,
            ..*completion
        };
        completion.buf.is_null() || self.extent(index, &of).is_some_and(|extent| !extent.is_whole)
    }

    /// Whether this is the context of a receive.
    pub fn owns(&self, context: *const std::ffi::c_void) -> bool {
        operations::owns(&self.pool, context)
    }

    /// Address of the message of a completion.
    #[inline]
    pub fn message(&self, index: usize, completion: &Completion) -> usize {
        if self.takes_many() {
            completion.buf as usize
        } else {
            self.first(index)
        }
    }

    /// Drops the reference of a message. The last one posts the buffer again.
    #[inline]
    pub fn release(&self, endpoint: &Endpoint, index: usize) -> Result<(), Errno> {
        // The thread that posts the buffer sees what others did with its messages.
        if self.slots[index].references.fetch_sub(1, Ordering::AcqRel) != 1 {
            return Ok(());
        }
        self.post_again(endpoint, index)
    }

    #[cold]
    fn post_again(&self, endpoint: &Endpoint, index: usize) -> Result<(), Errno> {
        let context = self.slots[index].context.load(Ordering::Relaxed) as *mut std::ffi::c_void;
        // SAFETY: the provider is done with the buffer, and all its messages are delivered.
        let held = unsafe { OwnedOperation::from_context(context) };
        held.map_or(Ok(()), |held| self.post(endpoint, held))
    }
}
