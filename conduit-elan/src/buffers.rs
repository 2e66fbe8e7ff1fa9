//! Buffers in memory of the network, of one size: for long messages that are sent or received, and
//! for copies of memory that the network does not reach.

use crate::ffi::Shim;
use gasnet_conduit::{Class, SendBuffer};
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::collections::HashSet;
use std::ptr::NonNull;

/// Bytes of a buffer: the largest Medium, with room for arguments and header.
pub const BUFFER: usize = 65 << 10;

/// A buffer that its holder has for itself.
#[derive(Debug)]
#[must_use = "a buffer that is not given back is lost"]
pub struct Buffer(NonNull<u8>);

// SAFETY: memory that its holder has alone.
unsafe impl Send for Buffer {}

impl Buffer {
    /// One of the network's memory. None: that is exhausted.
    pub fn new(shim: &Shim) -> Option<Self> {
        let memory = shim.alloc(BUFFER)?;
        // SAFETY: as many bytes.
        unsafe { memory.as_ptr().write_bytes(0, BUFFER) };
        Some(Self(memory))
    }

    /// Gives it back to the network.
    pub fn free(self, shim: &Shim) {
        // SAFETY: from `new`, and the holder, who gives it up, had it alone.
        unsafe { shim.free(self.0) };
    }

    /// First byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    /// Its first bytes.
    #[inline]
    pub fn prefix(&mut self, bytes: usize) -> &mut [u8] {
        assert!(bytes <= BUFFER, "defect: {bytes} bytes in a buffer");
        // SAFETY: as many, initialised by `new`, which the holder has alone.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), bytes) }
    }
}

#[derive(Debug, Default)]
struct Pool {
    free: Vec<Buffer>,
    /// Addresses of those that clients have.
    reserved: HashSet<usize>,
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
    pool: Mutex<Pool>,
    /// Those that are left for replies.
    kept: usize,
    /// Most that clients have at a time.
    reservable: usize,
}

impl Buffers {
    /// These, at least four: for replies, for clients, and two.
    pub fn new(free: Vec<Buffer>) -> Self {
        let (kept, reservable) = (free.len() / 4, free.len() / 4);
        let reserved = HashSet::new();
        Self {
            pool: Mutex::new(Pool { free, reserved }),
            kept,
            reservable,
        }
    }

    /// Takes one, if any is free for this use.
    #[inline]
    pub fn take(&self, purpose: Use) -> Option<Buffer> {
        let mut pool = lock(&self.pool);
        let kept = if purpose == Use::Reply { 0 } else { self.kept };
        (pool.free.len() > kept).then(|| pool.free.pop())?
    }

    #[inline]
    pub fn give(&self, buffer: Buffer) {
        lock(&self.pool).free.push(buffer);
    }

    /// Takes one for a client.
    pub fn reserve(&self) -> Option<SendBuffer> {
        let mut pool = lock(&self.pool);
        if pool.reserved.len() >= self.reservable || pool.free.len() <= self.kept {
            return None;
        }
        let buffer = pool.free.pop()?;
        pool.reserved.insert(buffer.address());
        Some(SendBuffer(buffer.0.as_ptr()))
    }

    /// The client's buffer is the conduit's again.
    ///
    /// # Panics
    /// If no client has it.
    pub fn reclaim(&self, buffer: SendBuffer) -> Buffer {
        let was_there = lock(&self.pool).reserved.remove(&(buffer.0 as usize));
        let memory = NonNull::new(buffer.0).filter(|_| was_there);
        Buffer(memory.expect("defect: a send buffer that was not reserved"))
    }
}
