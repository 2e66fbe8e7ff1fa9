//! Buffers in memory of the network, of one size: for long messages that are sent or received, and
//! for copies of memory that the network does not reach.

use crate::ffi::Shim;
use gasnet_conduit::{Class, SendBuffer};
use gasnet_conduit_util::pool::{Chunk, Item, Pool};
use gasnet_sys::atomic::Ordering;
use std::convert::Infallible;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

/// Bytes of a buffer: the largest Medium, with room for arguments and header.
pub const BUFFER: usize = 65 << 10;

/// A buffer that its holder has for itself.
pub type Buffer = Item<(), BufferMemory>;

/// The memory of a buffer, which the network takes back when the process detaches.
#[derive(Debug)]
pub struct BufferMemory(NonNull<u8>);

// SAFETY: memory that its holder has alone.
unsafe impl Send for BufferMemory {}

// SAFETY: zero, aligned to a cache line, and there as long as the process is attached.
unsafe impl Chunk for BufferMemory {
    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }
}

impl BufferMemory {
    /// One of the network's memory. None: that is exhausted.
    pub fn new(shim: &Shim) -> Option<Self> {
        let bytes = Buffer::HEAD + BUFFER;
        let memory = shim.alloc(bytes)?;
        // SAFETY: as many bytes.
        unsafe { memory.as_ptr().write_bytes(0, bytes) };
        Some(Self(memory))
    }

    /// Gives it back to the network.
    pub fn free(self, shim: &Shim) {
        // SAFETY: from `new`, and the holder, who gives it up, had it alone.
        unsafe { shim.free(self.0) };
    }
}

/// Purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A reply, or its payload: both arrive whatever the receiver does, so that the buffer becomes
    /// free.
    Reply,
    /// Anything else. Some buffers are left for replies: requests, of which all others may be full,
    /// are not received by those who wait for a buffer to reply.
    Other,
}

impl Use {
    /// That of a message, and of a payload before it.
    pub fn of(class: Class) -> Self {
        match class {
            Class::Reply => Self::Reply,
            Class::Request => Self::Other,
        }
    }
}

/// The buffers from which a process sends.
#[derive(Debug)]
pub struct Buffers {
    pool: Pool<(), BufferMemory>,
    /// Those that are left for replies.
    kept: usize,
    /// Most that clients have at a time.
    reservable: usize,
    /// Those that they have.
    reserved: AtomicUsize,
}

impl Buffers {
    /// Buffers in these memories, at least eight. Half of them are for messages that arrive, by
    /// class.
    pub fn new(memories: Vec<BufferMemory>) -> (Self, [Vec<Buffer>; 2]) {
        let (count, pool) = (memories.len(), Pool::new(BUFFER, memories.len()));
        for memory in memories {
            let Ok(()) = pool.grow(1, |_| Ok::<_, Infallible>(memory), |_| ());
        }
        let take = |count| (0..count).filter_map(|_| pool.take()).collect();
        let (free, offered) = (count / 2, count - count / 2);
        let offers = [take(offered / 2), take(offered - offered / 2)];
        let buffers = Self {
            pool,
            kept: free / 4,
            reservable: free / 4,
            reserved: AtomicUsize::new(0),
        };
        (buffers, offers)
    }

    /// Takes one, if any is free for this use.
    #[inline]
    pub fn take(&self, purpose: Use) -> Option<Buffer> {
        self.pool.take_beyond(if purpose == Use::Reply { 0 } else { self.kept })
    }

    /// Takes one for a client, which may keep it for any time, if enough are left.
    pub fn reserve(&self) -> Option<SendBuffer> {
        let is_within = self.reserved.fetch_add(1, Ordering::Relaxed) < self.reservable;
        let buffer = is_within.then(|| self.pool.take_beyond(self.kept)).flatten();
        if buffer.is_none() {
            self.reserved.fetch_sub(1, Ordering::Relaxed);
        }
        buffer.map(|buffer| SendBuffer(buffer.into_address() as *mut u8))
    }

    /// The buffer that a client has, which is the conduit's again.
    ///
    /// # Safety
    /// From [`Buffers::reserve`] of these, once.
    pub unsafe fn reserved(&self, buffer: SendBuffer) -> Buffer {
        self.reserved.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: by contract.
        unsafe { Buffer::from_address(buffer.0 as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit_util::mapped::Mapped;

    #[test]
    fn clients_have_a_quarter_at_most() {
        let memories: Vec<_> = std::iter::repeat_with(|| Mapped::new(Buffer::HEAD + BUFFER).unwrap())
            .take(32)
            .collect();
        let chunk = |memory: &Mapped| BufferMemory(NonNull::new(memory.address() as *mut u8).unwrap());
        let (buffers, offers) = Buffers::new(memories.iter().map(chunk).collect());
        assert_eq!(offers.map(|offers| offers.len()), [8, 8]);
        let mut all: Vec<_> = std::iter::from_fn(|| buffers.reserve()).collect();
        assert_eq!(all.len(), 4);
        // SAFETY: each from `reserve`, once.
        let release = |buffer| unsafe { buffers.reserved(buffer) }.release();
        release(all.pop().unwrap());
        all.extend(buffers.reserve());
        assert!(all.len() == 4 && buffers.reserve().is_none());
        // Those that are left for replies are not for clients.
        all.into_iter().for_each(release);
        let taken: Vec<_> = std::iter::from_fn(|| buffers.take(Use::Other)).collect();
        assert!(taken.len() == 12 && buffers.reserve().is_none());
        buffers.take(Use::Reply).unwrap().release();
        taken.into_iter().for_each(Buffer::release);
        assert!(buffers.reserve().is_some());
    }
}
