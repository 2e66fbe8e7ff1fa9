//! Buffers in memory of the network, of one size: for long messages that are sent or received, and
//! for copies of memory that the network does not reach.

use crate::ffi::Shim;
use gasnet_conduit::{Class, SendBuffer};
use gasnet_conduit_util::pool::{Chunk, Item, Pool};
use std::convert::Infallible;
use std::ptr::NonNull;

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
    /// Those that are left for replies, and those that are left to clients' messages.
    kept: usize,
    unreserved: usize,
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
            unreserved: free / 2,
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
        let buffer = self.pool.take_beyond(self.unreserved)?;
        Some(SendBuffer(buffer.into_address() as *mut u8))
    }

    /// The buffer that a client has.
    pub fn reserved(buffer: SendBuffer) -> Buffer {
        // SAFETY: the runtime returns what `reserve` has given it, once.
        unsafe { Buffer::from_address(buffer.0 as usize) }
    }
}
