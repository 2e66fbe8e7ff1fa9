//! Registered buffers: for messages that are not inline, and for copies of local memory. Pools grow
//! in chunks, each registered with every HCA of the process.

pub mod pools;

use crate::ffi::{Access, Domain, Errno, Local};
use crate::memory::mapped::Pinned;
use crate::ports::MOST_RAILS;
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_conduit_util::pool::{Item, Pool};
use gasnet_sys::maybe_locked::Sharing;

/// State of a buffer.
#[derive(Debug)]
pub struct Head {
    /// Keys of the chunk, by rail.
    lkeys: [u32; MOST_RAILS],
    /// Destination of the bytes after a read, and their number. For the user of the buffer.
    pub copy_to: (usize, usize),
}

/// A buffer that its holder has for itself.
pub type Buffer = Item<Head, Pinned>;

/// A buffer as memory of work requests.
pub trait AsLocal {
    /// Its first `bytes` bytes.
    fn local(&self, rail: usize, bytes: usize) -> Local;

    /// Copies what was read into it to its destination.
    fn copy_out(&self);
}

impl AsLocal for Buffer {
    #[inline]
    fn local(&self, rail: usize, bytes: usize) -> Local {
        Local {
            address: self.address(),
            bytes,
            lkey: self.lkeys[rail],
        }
    }

    #[inline]
    fn copy_out(&self) {
        let (to, bytes) = self.copy_to;
        // SAFETY: the runtime keeps the destination writable until completion.
        unsafe { copy_out(self.address(), to, bytes) };
    }
}

/// Buffers of one size.
pub struct Buffers {
    pub pool: Pool<Head, Pinned>,
    access: Access,
}

impl Buffers {
    /// An empty pool of up to `most` buffers of `bytes` bytes.
    pub fn new(bytes: usize, most: usize, access: Access, sharing: Sharing) -> Self {
        Self {
            pool: Pool::of_threads(bytes, most, sharing),
            access,
        }
    }

    /// Takes a buffer, or makes more. None if there are as many as there may be, or no more can be
    /// registered.
    #[inline]
    pub fn take<'a>(&self, domains: impl Iterator<Item = &'a Domain>) -> Option<Buffer> {
        self.pool.take().or_else(|| {
            self.grow(domains).ok()?;
            self.pool.take()
        })
    }

    /// Makes more buffers, within the limit.
    #[cold]
    pub fn grow<'a>(&self, domains: impl Iterator<Item = &'a Domain>) -> Result<(), Errno> {
        /// Bytes of a chunk: few registrations, and little in vain.
        const CHUNK: usize = 1 << 20;
        let head = |chunk: &Pinned| {
            let mut lkeys = [0; MOST_RAILS];
            for (place, lkey) in lkeys.iter_mut().zip(chunk.lkeys()) {
                *place = lkey;
            }
            Head { lkeys, copy_to: (0, 0) }
        };
        let more = (CHUNK / self.pool.each()).max(4);
        self.pool
            .grow(more, |bytes| Pinned::new(bytes, domains, self.access), head)
    }
}
