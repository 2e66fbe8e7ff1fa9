//! Operations under way, and the pools that they come from.
//!
//! An [`Operation`] is what the context of a call to the provider points to, from the call until
//! its completion. Packets, bounced puts and gets, and posted receives have bytes behind it, in
//! registered memory where the provider asks for that.

use crate::ffi::{bits, Endpoint, Errno, Region, Remote, Source};
use crate::memory::wants_registration;
use gasnet_conduit::{Class, Cookie, JobRank};
use gasnet_conduit_util::mapped::Mapped;
use gasnet_conduit_util::pool::{self, Item};
use std::ffi::c_void;

/// Kind of an operation.
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
        /// The first `bytes` bytes.
        bytes: usize,
    },
}

impl Kind {
    /// Name for messages.
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

/// The rest of a put or get that is longer than an operation of the provider.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Whether local memory is used in place.
    pub access: Access,
    /// Local memory: what is not started yet.
    pub local: Source,
    /// Remote memory for it.
    pub remote: Remote,
}

impl Rest {
    /// The rest after the first `bytes` bytes.
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

/// An operation. The provider's scratch space comes first. With its pool it has three cache lines.
#[repr(C)]
pub struct Operation {
    /// `struct fi_context2`, which the provider may write at any time while it has the operation.
    context: [u64; 8],
    /// Kind of the operation.
    pub kind: Kind,
    /// With whom.
    pub peer: JobRank,
    /// Cookie of its report.
    pub cookie: Cookie,
    /// Parts that follow.
    pub rest: Option<Rest>,
    /// Registration of the local memory, for this operation only. It is rare, and boxed.
    pub region: Option<Box<Region>>,
    /// Descriptor of the bytes behind this.
    descriptor: *mut c_void,
}

impl Operation {
    /// A put whose memory is copied has smaller parts than its target counts, so a message
    /// announces all of them.
    pub fn announce_copy_at_end(&mut self) {
        let is_copied = self.rest.is_some_and(|rest| rest.access == Access::Copied);
        if let (Kind::PutNotify { by_message, .. }, true) = (&mut self.kind, is_copied) {
            *by_message = true;
        }
    }
}

/// Bytes from the context of an operation to the bytes behind it.
pub const HEAD: usize = Item::<Operation, Chunk>::HEAD;
const _: () = assert!(HEAD == 192);

// SAFETY: the descriptor is the provider's name of memory, which any thread may use.
unsafe impl Send for Operation {}

/// An operation that its holder has for itself.
pub struct OwnedOperation(Item<Operation, Chunk>);

impl std::ops::Deref for OwnedOperation {
    type Target = Item<Operation, Chunk>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for OwnedOperation {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl OwnedOperation {
    /// Gives it to the provider, as the context of a call.
    pub fn into_context(self) -> *mut c_void {
        self.0.into_head_address() as *mut c_void
    }

    /// Gives it to the provider if the call with its context has succeeded.
    #[inline]
    pub fn started(self, call: Result<(), Errno>) -> Result<(), (Self, Errno)> {
        match call {
            Ok(()) => {
                self.into_context();
                Ok(())
            }
            Err(why) => Err((self, why)),
        }
    }

    /// Takes it back.
    ///
    /// # Safety
    /// From [`OwnedOperation::into_context`], and the provider is done with it, or the call has
    /// failed.
    pub unsafe fn from_context(context: *mut c_void) -> Option<Self> {
        // SAFETY: the caller's.
        unsafe { Item::from_head_address(context as usize) }.map(Self)
    }

    /// Takes it back from a client.
    ///
    /// # Safety
    /// The address of its bytes, once.
    pub unsafe fn from_address(address: usize) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { Item::from_address(address) })
    }

    /// The context of a call that is made while this is still held.
    pub fn context(&self) -> *mut c_void {
        self.0.head_address() as *mut c_void
    }

    /// The first `bytes` bytes behind it, as memory of a call.
    pub fn source(&self, bytes: usize) -> Source {
        Source {
            address: self.address(),
            bytes,
            descriptor: self.descriptor,
        }
    }

    /// Puts it back into its pool.
    pub fn release(mut self) {
        self.kind = Kind::Idle;
        self.rest = None;
        self.region = None;
        self.0.release();
    }
}

/// Operations of one size.
pub type Pool = pool::Pool<Operation, Chunk>;

/// Memory of several operations.
#[derive(Debug)]
pub struct Chunk {
    // Before the memory that it is of.
    region: Option<Region>,
    /// Mapped, so that only pages with data in them take memory.
    memory: Mapped,
    bytes: usize,
}

// SAFETY: mapped memory.
unsafe impl pool::Chunk for Chunk {
    fn address(&self) -> usize {
        self.memory.address()
    }
}

/// Whether this is the address of an operation of the pool.
#[cold]
pub fn owns(pool: &Pool, context: *const c_void) -> bool {
    pool.owns(context as usize, |chunk| chunk.bytes)
}

/// Takes an operation, or makes more. None if there are as many as there may be.
#[inline]
pub fn take(pool: &Pool, endpoint: &Endpoint) -> Option<OwnedOperation> {
    let free = pool.take().or_else(|| {
        grow(pool, endpoint, 32).ok()?;
        pool.take()
    });
    free.map(OwnedOperation)
}

/// Makes up to `more` operations, within the pool's limit.
pub fn grow(pool: &Pool, endpoint: &Endpoint, more: usize) -> Result<(), Errno> {
    let registers = pool.bytes() > 0 && wants_registration(endpoint.info());
    let head = |chunk: &Chunk| Operation {
        context: [0; 8],
        kind: Kind::Idle,
        peer: JobRank(0),
        cookie: Cookie::new(0),
        rest: None,
        region: None,
        descriptor: chunk.region.as_ref().map_or(std::ptr::null_mut(), Region::descriptor),
    };
    pool.grow(more, |bytes| Chunk::new(bytes, registers.then_some(endpoint)), head)
}

impl Chunk {
    /// Memory, registered with an endpoint if there is one.
    fn new(bytes: usize, endpoint: Option<&Endpoint>) -> Result<Self, Errno> {
        let mut chunk = Self {
            region: None,
            memory: Mapped::new(bytes).map_err(|_| Errno(libc::ENOMEM))?,
            bytes,
        };
        if let Some(endpoint) = endpoint {
            let access = bits::SEND | bits::RECV | bits::READ | bits::WRITE;
            // SAFETY: mapped, and unmapped after the region is closed.
            chunk.region = Some(unsafe { endpoint.register_lasting(chunk.memory.address(), bytes, access)? });
        }
        Ok(chunk)
    }
}
