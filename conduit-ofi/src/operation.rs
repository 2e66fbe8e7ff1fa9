//! Operations under way, and the pools that they come from.
//!
//! An [`Operation`] is what the context of a call to the provider points to, from the call until
//! its completion. Packets, bounced puts and gets, and posted receives have bytes behind it, in
//! registered memory where the provider asks for that. Each operation belongs to one pool for ever:
//! the pool's list has it, or the thread that took it, or the provider.

use crate::ffi::{bits, Endpoint, Errno, Region, Remote, Source};
use crate::memory::wants_registration;
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit::{Class, Cookie, JobRank};
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a pool, or being filled.
    Idle,
    /// A posted receive: the number of its buffer.
    Receive(usize),
    /// A packet of ours.
    Packet(Class),
    /// A put. Its source was free at the start, or not.
    Put {
        /// See above.
        source_is_free: bool,
    },
    /// The put of a Long.
    PutNotify {
        /// Its number.
        number: u32,
        /// Parts that are not announced yet.
        parts: u32,
        /// A message announces them when the put is complete. If not, each part carries data for
        /// the target's queue, and its completion is that of the source only.
        by_message: bool,
        /// Whether the completion of the source is reported.
        reports: bool,
    },
    /// A get. Its bytes are copied from this operation's own to an address, with their number.
    Get {
        /// See above.
        copy_to: Option<(usize, usize)>,
    },
    /// An atomic. Its old value is copied to an address, if that is not null, from the operation's
    /// own bytes.
    Atomic {
        /// To here.
        fetched: usize,
        /// From here.
        result: usize,
        /// So many bytes.
        bytes: usize,
    },
}

impl Kind {
    /// A put whose memory is copied has smaller parts than its target counts, so a message
    /// announces all of them.
    pub fn announce_at_end(&mut self, access: Access) {
        if let (Self::PutNotify { by_message, .. }, Access::Copied) = (self, access) {
            *by_message = true;
        }
    }

    /// What it is in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle | Self::Receive(_) => "a receive",
            Self::Packet(Class::Request) => "sending a request",
            Self::Packet(Class::Reply) => "sending a reply",
            Self::Put { .. } | Self::PutNotify { .. } => "a put",
            Self::Get { .. } => "a get",
            Self::Atomic { .. } => "an atomic",
        }
    }
}

/// Local memory of a put or get to the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Used in place: the operation's own bytes, a send buffer, or memory of a device.
    Fixed,
    /// Used in place; copied if the provider refuses that.
    Client,
    /// Copied through the operation's own bytes, part by part.
    Copied,
}

/// What is left of a put or get that is longer than an operation of the provider.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Whether local memory is used in place.
    pub access: Access,
    /// Local memory: what is not started yet.
    pub local: Source,
    /// Where that goes.
    pub remote: Remote,
}

impl Rest {
    /// What is left after the first `bytes` bytes.
    pub fn after(self, bytes: usize) -> Option<Self> {
        (bytes < self.local.bytes).then(|| Self {
            local: Source {
                address: self.local.address + bytes,
                bytes: self.local.bytes - bytes,
                ..self.local
            },
            remote: Remote {
                address: self.remote.address + bytes as u64,
                ..self.remote
            },
            ..self
        })
    }
}

/// An operation. The provider's scratch space comes first.
#[repr(C, align(64))]
pub struct Operation {
    /// `struct fi_context2`, which the provider may write at any time while it has the operation.
    context: [u64; 8],
    /// What it does.
    pub kind: Kind,
    /// With whom.
    pub peer: JobRank,
    /// What it is reported with.
    pub cookie: Cookie,
    /// What follows.
    pub rest: Option<Rest>,
    /// Registration of the local memory, for this operation only. It is rare, and boxed so that an
    /// operation has three cache lines.
    pub region: Option<Box<Region>>,
    /// Descriptor of the bytes behind this.
    descriptor: *mut c_void,
    /// The pool.
    pool: *const Shared,
}

/// An operation that the holder has for itself.
pub struct OwnedOperation(NonNull<Operation>);

// SAFETY: the holder has it alone.
unsafe impl Send for OwnedOperation {}

impl std::ops::Deref for OwnedOperation {
    type Target = Operation;
    fn deref(&self) -> &Operation {
        // SAFETY: the holder has it alone, and pools live as long as the conduit.
        unsafe { self.0.as_ref() }
    }
}

impl std::ops::DerefMut for OwnedOperation {
    fn deref_mut(&mut self) -> &mut Operation {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }
}

impl OwnedOperation {
    /// Gives it to the provider, as the context of a call.
    pub fn into_context(self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// Takes it back.
    ///
    /// # Safety
    /// From [`OwnedOperation::into_context`], and the provider is done with it, or the call has failed.
    pub unsafe fn from_context(context: *mut c_void) -> Option<Self> {
        NonNull::new(context.cast()).map(Self)
    }

    /// The context of a call that is made while this is still held.
    pub fn context(&self) -> *mut c_void {
        self.0.as_ptr().cast()
    }

    /// Address of the bytes behind it.
    pub fn address(&self) -> usize {
        self.0.as_ptr() as usize + size_of::<Operation>()
    }

    /// The first `bytes` bytes behind it, as memory of a call.
    pub fn source(&self, bytes: usize) -> Source {
        Source {
            address: self.address(),
            bytes,
            descriptor: self.descriptor,
        }
    }

    /// How many bytes are behind it.
    pub fn room(&self) -> usize {
        // SAFETY: pools live as long as the conduit.
        unsafe { (*self.pool).bytes }
    }

    /// The first `bytes` bytes behind it.
    pub fn bytes(&mut self, bytes: usize) -> &mut [u8] {
        let most = self.room();
        assert!(bytes <= most, "defect: {bytes} bytes in an operation with {most}");
        // SAFETY: a pool's operations have as many, the holder has them alone, and they were zero at first.
        unsafe { std::slice::from_raw_parts_mut(self.address() as *mut u8, bytes) }
    }

    /// Puts it back into its pool.
    pub fn release(mut self) {
        self.kind = Kind::Idle;
        self.rest = None;
        self.region = None;
        // SAFETY: pools live as long as the conduit.
        let pool = unsafe { &*self.pool };
        lock(&pool.free).push(self);
    }
}

/// Operations of one size.
pub struct Pool(Box<Shared>);

/// What the operations of a pool refer to.
struct Shared {
    free: Mutex<Vec<OwnedOperation>>,
    /// Bytes behind each.
    bytes: usize,
    /// The largest number of them.
    most: usize,
    /// How many there are.
    count: AtomicUsize,
    chunks: Mutex<Vec<Chunk>>,
}

/// Memory of several operations.
struct Chunk {
    // Before the memory that it is of.
    region: Option<Region>,
    /// Mapped, so that only pages with data in them take memory.
    memory: Mapped,
    bytes: usize,
}

impl Pool {
    /// An empty pool of up to `most` operations with `bytes` bytes each.
    pub fn new(bytes: usize, most: usize) -> Self {
        Self(Box::new(Shared {
            free: Mutex::default(),
            bytes: bytes.next_multiple_of(64),
            most,
            count: AtomicUsize::new(0),
            chunks: Mutex::default(),
        }))
    }

    /// Bytes behind each operation.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Whether this is the address of one of its operations.
    #[cold]
    pub fn owns(&self, context: *const c_void) -> bool {
        let each = size_of::<Operation>() + self.0.bytes;
        lock(&self.0.chunks).iter().any(|chunk| {
            let offset = (context as usize).checked_sub(chunk.memory.address());
            offset.is_some_and(|offset| offset < chunk.bytes && offset % each == 0)
        })
    }

    /// Whether it has no operation yet.
    pub fn is_empty(&self) -> bool {
        self.0.count.load(Ordering::Relaxed) == 0
    }

    /// Takes an operation, or makes more. None if there are as many as there may be.
    #[inline]
    pub fn take(&self, endpoint: &Endpoint) -> Option<OwnedOperation> {
        if let Some(held) = lock(&self.0.free).pop() {
            return Some(held);
        }
        self.grow(endpoint, 32).ok()?;
        lock(&self.0.free).pop()
    }

    /// Makes up to `more` operations, within the limit.
    pub fn grow(&self, endpoint: &Endpoint, more: usize) -> Result<(), Errno> {
        let mut chunks = lock(&self.0.chunks);
        let count = self.0.count.load(Ordering::Relaxed);
        let more = more.min(self.0.most - count);
        let each = size_of::<Operation>() + self.0.bytes;
        if more == 0 {
            return Ok(());
        }
        let bytes = each * more;
        let mut chunk = Chunk {
            region: None,
            memory: Mapped::new(bytes).map_err(|_| Errno(libc::ENOMEM))?,
            bytes,
        };
        let address = chunk.memory.address();
        let mut descriptor = std::ptr::null_mut();
        if self.0.bytes > 0 && wants_registration(endpoint.info()) {
            let access = bits::SEND | bits::RECV | bits::READ | bits::WRITE;
            // SAFETY: mapped, and unmapped after the region is closed.
            let region = unsafe { endpoint.register(address, bytes, access)? };
            descriptor = region.descriptor();
            chunk.region = Some(region);
        }
        let mut free = lock(&self.0.free);
        for index in 0..more {
            let operation = (address + index * each) as *mut Operation;
            let value = Operation {
                context: [0; 8],
                kind: Kind::Idle,
                peer: JobRank(0),
                cookie: Cookie::new(0),
                rest: None,
                region: None,
                descriptor,
                pool: &raw const *self.0,
            };
            // SAFETY: inside the chunk, aligned, and large enough.
            unsafe { operation.write(value) };
            free.extend(NonNull::new(operation).map(OwnedOperation));
        }
        chunks.push(chunk);
        self.0.count.store(count + more, Ordering::Relaxed);
        Ok(())
    }
}
