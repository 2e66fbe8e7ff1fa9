//! Registered buffers: for messages that are not inline, and for copies of local memory.
//!
//! A buffer belongs to one pool for ever: the pool's list has it, or the thread that took it, or a
//! queue pair until its work request completes. Pools grow in chunks, each registered with every
//! HCA of the process.

use crate::ffi::{Access, Domain, Errno, Local};
use crate::mapped::Pinned;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

/// Most HCAs of a process.
pub const MOST_RAILS: usize = 8;

/// What precedes the bytes of a buffer.
#[repr(C, align(64))]
pub struct Head {
    /// Keys of the chunk, by rail.
    lkeys: [u32; MOST_RAILS],
    pool: *const Shared,
    /// Where the bytes go when they have been read, and how many. For the user of the buffer.
    pub copy_to: (usize, usize),
}

/// A buffer that the holder has for itself.
#[derive(Debug)]
pub struct Buffer(NonNull<Head>);

// SAFETY: the holder has it alone.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer is only read.
unsafe impl Sync for Buffer {}

impl std::ops::Deref for Buffer {
    type Target = Head;
    fn deref(&self) -> &Head {
        // SAFETY: the holder has it alone, and pools live as long as the conduit.
        unsafe { self.0.as_ref() }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Head {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl Buffer {
    /// Address of its bytes, aligned to a cache line.
    #[inline]
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize + size_of::<Head>()
    }

    /// Its first `bytes` bytes, as memory of a work request.
    #[inline]
    pub fn local(&self, rail: usize, bytes: usize) -> Local {
        Local {
            address: self.address(),
            bytes,
            lkey: self.lkeys[rail],
        }
    }

    /// The key by which peers read it through an HCA, if its pool is for that.
    pub fn rkey(&self, rail: usize) -> u32 {
        // SAFETY: pools live as long as the conduit.
        let chunks = lock(unsafe { &(*self.pool).chunks });
        let before = chunks.iter().filter(|chunk| chunk.address() <= self.address());
        let own = before.max_by_key(|chunk| chunk.address());
        own.expect("defect: a buffer outside its pool").rkey(rail)
    }

    /// Its first `bytes` bytes.
    #[inline]
    pub fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        // SAFETY: the holder has it, and its pool lives.
        let most = unsafe { (*self.pool).bytes };
        assert!(bytes <= most, "defect: {bytes} bytes in a buffer of {most}");
        // SAFETY: as many, which were zero at first, and the holder has them alone.
        unsafe { std::slice::from_raw_parts_mut(self.address() as *mut u8, bytes) }
    }

    /// Puts it back into its pool.
    pub fn release(self) {
        // SAFETY: pools live as long as the conduit.
        let pool = unsafe { &*self.pool };
        lock(&pool.free).push(self);
    }

    /// Address of its bytes, by which [`Buffer::from_address`] finds it again.
    pub fn into_address(self) -> usize {
        self.address()
    }

    /// The buffer with these bytes.
    ///
    /// # Safety
    /// From [`Buffer::into_address`], once.
    pub unsafe fn from_address(address: usize) -> Self {
        let head = (address - size_of::<Head>()) as *mut Head;
        Self(NonNull::new(head).expect("defect: a buffer at address 0"))
    }
}

/// Buffers of one size.
pub struct Pool(Box<Shared>);

/// What the buffers of a pool refer to.
struct Shared {
    free: Mutex<Vec<Buffer>>,
    /// Bytes of each.
    bytes: usize,
    /// The largest number of them.
    most: usize,
    /// How many there are.
    count: AtomicUsize,
    /// Their memory.
    chunks: Mutex<Vec<Pinned>>,
    access: Access,
}

impl Pool {
    /// An empty pool of up to `most` buffers of `bytes` bytes.
    pub fn new(bytes: usize, most: usize, access: Access) -> Self {
        Self(Box::new(Shared {
            free: Mutex::default(),
            bytes: bytes.next_multiple_of(64),
            most,
            count: AtomicUsize::new(0),
            chunks: Mutex::default(),
            access,
        }))
    }

    /// Bytes of each buffer.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The largest number of them.
    pub fn most(&self) -> usize {
        self.0.most
    }

    /// Bytes of all buffers that there are, and that there may be.
    pub fn all_bytes(&self) -> (usize, usize) {
        let each = size_of::<Head>() + self.0.bytes;
        (each * self.0.count.load(Ordering::Relaxed), each * self.0.most)
    }

    /// Takes a buffer, or makes more. None if there are as many as there may be, or no more can be
    /// registered.
    #[inline]
    pub fn take<'a>(&self, domains: impl Iterator<Item = &'a Domain>) -> Option<Buffer> {
        if let Some(buffer) = lock(&self.0.free).pop() {
            return Some(buffer);
        }
        self.grow(domains).ok()?;
        lock(&self.0.free).pop()
    }

    /// Makes more buffers, within the limit.
    #[cold]
    pub fn grow<'a>(&self, domains: impl Iterator<Item = &'a Domain>) -> Result<(), Errno> {
        /// Bytes of a chunk: few registrations, and little in vain.
        const CHUNK: usize = 1 << 20;
        let mut chunks = lock(&self.0.chunks);
        let count = self.0.count.load(Ordering::Relaxed);
        let each = size_of::<Head>() + self.0.bytes;
        let more = (CHUNK / each).max(4).min(self.0.most - count);
        if more == 0 {
            return Ok(());
        }
        let bytes = each * more;
        let chunk = Pinned::new(bytes, domains, self.0.access)?;
        let mut lkeys = [0; MOST_RAILS];
        for (place, lkey) in lkeys.iter_mut().zip(chunk.lkeys()) {
            *place = lkey;
        }
        let mut free = lock(&self.0.free);
        for index in 0..more {
            let head = (chunk.address() + index * each) as *mut Head;
            let value = Head {
                lkeys,
                pool: &raw const *self.0,
                copy_to: (0, 0),
            };
            // SAFETY: inside the chunk, and aligned, as `each` is.
            unsafe { head.write(value) };
            free.extend(NonNull::new(head).map(Buffer));
        }
        chunks.push(chunk);
        self.0.count.store(count + more, Ordering::Relaxed);
        Ok(())
    }
}
