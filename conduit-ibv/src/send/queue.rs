//! The send queue of a queue pair, and what its work requests are for.
//!
//! Work requests of a queue pair complete in order, so a ring of the hardware's queue says what
//! each is for, and one completion retires all work requests before it. Only those that leave
//! nothing to do ([`CompletionAction::Nothing`]) may have no completion of their own; one in a
//! quarter of the queue has. If the queue pair fails, each of them has one: so all count when the
//! completion queue is shorter than the send queues together.
//!
//! A thread that posts holds the lock of this queue alone. A thread that retires holds the lock
//! under which the completion queue is read.

use crate::ffi::{Errno, Pair, Work};
use crate::migration::alternate::Migration;
use crate::operations::CompletionAction;
use crate::ports::Path;
use crate::rail::room::CompletionRoom;
use crate::xrc::peer::XrcPeer;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Ordering;
use gasnet_sys::maybe_locked::{MaybeLocked, MaybeLockedGuard, Sharing};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32};
use std::sync::OnceLock;

/// A queue pair and its work requests under way.
#[repr(align(64))]
pub struct SendQueue {
    /// The peer, or one of several.
    peer: JobRank,
    /// The peer of each work request, by its place in the ring, if there are several.
    peers: Box<[AtomicU32]>,
    /// Whether a work request has failed; those after it are flushed.
    has_failed: AtomicBool,
    /// The path: which port, of which HCA.
    pub path: usize,
    /// Index of that HCA.
    pub rail: usize,
    /// Most bytes of a work request.
    pub longest: usize,
    pub pair: Pair,
    /// Its paths, if it has an alternate one.
    pub migration: OnceLock<Migration>,
    /// Most work requests under way.
    depth: u32,
    /// At least as long; a power of two.
    ring: Box<[UnsafeCell<CompletionAction>]>,
    head: MaybeLocked<Head>,
    /// Work requests that were posted, which the holder of the lock writes.
    posted: AtomicU32,
    /// Work requests that are retired.
    tail: AtomicU32,
    /// Receive buffers that its pair has posted, if they are not shared.
    pub receives: AtomicI64,
}

// SAFETY: an entry of the ring between tail and head belongs to the thread that retires it, all
// others to the thread that has the lock of the head.
unsafe impl Sync for SendQueue {}

struct Head {
    /// The last work requests, which have no completion of their own.
    unsignalled: u32,
}

/// Bits of a pointer to a queue in the name of a work request. Above them is the low part of its
/// position, below them nothing, as queues are aligned.
const POINTER: u32 = 48;
/// The name of a completed receive has this bit.
const RECEIVE: u64 = 1;

/// The subject of a completion, by its name.
pub enum Named<'a> {
    /// A receive buffer.
    Receive(usize),
    /// The low part of a position in a send queue.
    Sent(&'a SendQueue, u16),
}

/// The name of a receive buffer.
pub const fn name_of_receive(buffer: usize) -> u64 {
    (buffer as u64) << 1 | RECEIVE
}

/// Reads a name.
///
/// # Safety
/// It is of a completion of this process, and its queue lives.
#[inline]
pub unsafe fn named<'a>(name: u64) -> Named<'a> {
    if name & RECEIVE != 0 {
        return Named::Receive((name >> 1) as usize);
    }
    let pointer = (name & ((1 << POINTER) - 1)) as *const SendQueue;
    // SAFETY: the caller's.
    Named::Sent(unsafe { &*pointer }, (name >> POINTER) as u16)
}

/// The right to post work requests.
pub struct QueueGuard<'a> {
    pub queue: &'a SendQueue,
    /// The peer that they are for.
    peer: &'a XrcPeer,
    room: &'a CompletionRoom,
    /// Completions that room was taken for.
    reserved: usize,
    head: MaybeLockedGuard<'a, Head>,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        if self.reserved > 0 {
            self.room.give_back(self.reserved);
        }
    }
}

/// A work request that the HCA refused, and what it was for.
pub type Refused = (CompletionAction, Errno);

impl SendQueue {
    /// Most work requests of a queue.
    pub const MOST: usize = 1 << 14;

    /// The queue of a pair, and of the work requests that it takes, on the path at a place. It
    /// leads to a peer; to several if `has_others`.
    pub fn new(
        peer: JobRank,
        (place, path): (usize, &Path),
        (pair, depth): (Pair, usize),
        has_others: bool,
        sharing: Sharing,
    ) -> Self {
        assert!((1..=Self::MOST).contains(&depth), "defect: a queue of {depth}");
        let length = depth.next_power_of_two();
        Self {
            peer,
            peers: std::iter::repeat_with(|| AtomicU32::new(0))
                .take(if has_others { length } else { 0 })
                .collect(),
            has_failed: AtomicBool::new(false),
            path: place,
            rail: path.rail,
            longest: path.max_message,
            pair,
            migration: OnceLock::new(),
            depth: depth as u32,
            ring: std::iter::repeat_with(|| UnsafeCell::new(CompletionAction::Nothing))
                .take(length)
                .collect(),
            head: MaybeLocked::new(Head { unsignalled: 0 }, sharing),
            posted: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            receives: AtomicI64::new(0),
        }
    }

    /// The right to post `count` work requests to a peer of this queue. None if there is no room.
    #[inline]
    pub fn lock<'a>(&'a self, peer: &'a XrcPeer, room: &'a CompletionRoom, count: u32) -> Option<QueueGuard<'a>> {
        self.guard(self.head.lock(), peer, room, count)
    }

    /// The same at the end of the job, while another thread may be posting: None also then.
    #[cold]
    pub fn try_lock<'a>(&'a self, peer: &'a XrcPeer, room: &'a CompletionRoom) -> Option<QueueGuard<'a>> {
        self.guard(self.head.try_lock()?, peer, room, 1)
    }

    #[inline(always)]
    fn guard<'a>(
        &'a self,
        head: MaybeLockedGuard<'a, Head>,
        peer: &'a XrcPeer,
        room: &'a CompletionRoom,
        count: u32,
    ) -> Option<QueueGuard<'a>> {
        let posted = self.posted.load(Ordering::Relaxed);
        let used = posted.wrapping_sub(self.tail.load(Ordering::Acquire));
        (used + count <= self.depth).then_some(QueueGuard {
            queue: self,
            peer,
            room,
            reserved: 0,
            head,
        })
    }

    /// The peer of the work request with this low part of its position, and whether it is the first
    /// that has failed.
    pub fn note_failure(&self, low: u16) -> (JobRank, bool) {
        let peer = self.peers.get(usize::from(low) & (self.ring.len() - 1));
        let peer = peer.map_or(self.peer, |peer| JobRank(peer.load(Ordering::Relaxed)));
        (peer, !self.has_failed.swap(true, Ordering::Relaxed))
    }

    /// Whether any work request was posted.
    pub fn is_used(&self) -> bool {
        self.posted.load(Ordering::Relaxed) > 0
    }

    /// Whether any work request was retired.
    pub fn has_retired(&self) -> bool {
        self.tail.load(Ordering::Relaxed) > 0
    }

    /// Whether every work request is complete.
    pub fn is_empty(&self) -> bool {
        self.posted.load(Ordering::Relaxed) == self.tail.load(Ordering::Acquire)
    }

    /// Retires the work requests up to the one with this low part of its position, and returns how
    /// many these are. Passes on what is to be done: at most once for each completion.
    ///
    /// # Safety
    /// One thread at a time, for each completion once, in order.
    #[inline(always)]
    pub unsafe fn retire(&self, low: u16, mut each: impl FnMut(CompletionAction)) -> usize {
        let mut tail = self.tail.load(Ordering::Relaxed);
        let count = low.wrapping_sub(tail as u16).wrapping_add(1);
        debug_assert!(
            u32::from(count) <= self.depth,
            "defect: {count} retired of {}",
            self.depth
        );
        for _ in 0..count {
            let entry = &self.ring[tail as usize & (self.ring.len() - 1)];
            // SAFETY: between tail and head, so it belongs to this thread.
            let done = std::mem::replace(unsafe { &mut *entry.get() }, CompletionAction::Nothing);
            if !matches!(done, CompletionAction::Nothing) {
                each(done);
            }
            tail = tail.wrapping_add(1);
        }
        self.tail.store(tail, Ordering::Release);
        usize::from(count)
    }
}

impl QueueGuard<'_> {
    /// Gives the next work request a completion, which retires all before it.
    pub fn signal(&mut self) {
        self.head.unsignalled = self.queue.depth;
    }

    /// Takes room for this number of completions. False if there is too little.
    pub fn take_room_for(&mut self, completions: usize) -> bool {
        while self.reserved < completions {
            if !self.room.take() {
                return false;
            }
            self.reserved += 1;
        }
        true
    }

    /// Posts a work request. One that leaves something to do has a completion of its own.
    ///
    /// # Safety
    /// As of [`Pair::post`].
    #[inline(always)]
    pub unsafe fn post(&mut self, mut work: Work, done: CompletionAction) -> Result<(), Refused> {
        let (queue, head) = (self.queue, &mut *self.head);
        if self.reserved > 0 {
            self.reserved -= 1;
        } else if !self.room.take() {
            return Err((done, Errno::NO_MEMORY));
        }
        let is_due = head.unsignalled >= queue.depth / 4 || self.room.is_short();
        let is_signalled = is_due || !matches!(done, CompletionAction::Nothing);
        if is_signalled {
            work.signal();
        }
        let position = queue.posted.load(Ordering::Relaxed);
        work.name(std::ptr::from_ref(queue) as u64 | u64::from(position) << POINTER);
        let place = position as usize & (queue.ring.len() - 1);
        if let Some(peer) = queue.peers.get(place) {
            peer.store(self.peer.peer.0, Ordering::Relaxed);
            work.receive_queue(self.peer.use_receive_queue(queue.path));
        }
        let entry = &queue.ring[place];
        // SAFETY: this thread has the lock, and the entry is not between tail and head.
        unsafe { *entry.get() = done };
        // SAFETY: the caller's.
        if let Err(why) = unsafe { queue.pair.post(&mut work) } {
            // SAFETY: as above.
            let done = std::mem::replace(unsafe { &mut *entry.get() }, CompletionAction::Nothing);
            self.room.give_back(1);
            return Err((done, why));
        }
        queue.posted.store(position.wrapping_add(1), Ordering::Relaxed);
        head.unsignalled = if is_signalled { 0 } else { head.unsignalled + 1 };
        Ok(())
    }
}
