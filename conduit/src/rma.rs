//! One-sided operations: registered memory, puts, gets and remote atomics. A network offers them
//! in [`crate::Abilities`].

use std::fmt;
use std::os::fd::OwnedFd;

use crate::{Busy, Class, ConduitError, Cookie, JobRank, LocalCompletion, SendBuffer};

/// The device of a device segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// CUDA device of this number.
    Cuda(u32),
    /// HIP device of this number.
    Hip(u32),
    /// Level Zero device of this number.
    LevelZero(u32),
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(number) => write!(f, "CUDA device {number}"),
            Self::Hip(number) => write!(f, "HIP device {number}"),
            Self::LevelZero(number) => write!(f, "Level Zero device {number}"),
        }
    }
}

/// The memory of a segment, in its owner's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentMemory {
    /// First byte.
    pub base: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// The device that it lies on; none for host memory.
    pub device: Option<Device>,
}

impl SegmentMemory {
    /// Host memory.
    pub const fn host(base: usize, bytes: usize) -> Self {
        Self {
            base,
            bytes,
            device: None,
        }
    }
}

/// A dmabuf with the memory of a device segment.
#[derive(Debug)]
pub struct Dmabuf {
    /// Close-on-exec. Registrations made with it (`ibv_reg_dmabuf_mr`, `FI_MR_DMABUF`) and mappings
    /// hold the buffer, so it may be closed after them.
    pub fd: OwnedFd,
    /// Offset in the buffer of the segment's first byte.
    pub offset: usize,
}

/// The conduit's number for a registered segment of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct LocalSegment(pub u32);

impl LocalSegment {
    /// Memory outside all segments.
    pub const NONE: Self = Self(u32::MAX);
}

/// The conduit's number for a segment of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct RemoteSegment(pub u32);

impl RemoteSegment {
    /// All memory of the peer ([`Rma::reaches_all_memory`]).
    pub const ALL_MEMORY: Self = Self(u32::MAX);
}

/// The result of [`Segments::register`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The conduit's number for the segment.
    pub segment: LocalSegment,
    /// Key with which peers access it: at most [`Segments::max_key_bytes`], opaque to the runtime,
    /// which passes it to [`Segments::learn`] there.
    pub key: Vec<u8>,
}

/// Registered memory. A conduit with [`Rma`] or [`Atomics`] has it.
pub trait Segments: Sync {
    /// Most bytes of a key. The same in all processes.
    fn max_key_bytes(&self) -> usize {
        0
    }

    /// Maximum total bytes of the segments that this process can register.
    fn max_bytes(&self) -> usize {
        usize::MAX
    }

    /// Makes host memory accessible to peers.
    fn register(&self, memory: &SegmentMemory) -> Result<Registration, ConduitError>;

    /// Makes memory of a device accessible to peers, neighbours included, and to own operations as
    /// their local side. `dmabuf` exports it, each time anew; None where driver or device cannot,
    /// which leaves registration by address. None if the network does not reach the memory:
    /// messages then carry its data.
    fn register_device(&self, memory: &SegmentMemory, dmabuf: &dyn Fn() -> Option<Dmabuf>) -> Option<Registration> {
        let _ = (memory, dmabuf);
        None
    }

    /// Reverts `register` and `register_device`. No peer uses the segment any more.
    fn deregister(&self, segment: LocalSegment);

    /// Takes note of a segment of `peer`, before its first use. Does not block. A peer's segment is
    /// learned once, and again after [`Segments::forget`].
    fn learn(&self, peer: JobRank, memory: &SegmentMemory, key: &[u8]) -> Result<RemoteSegment, ConduitError>;

    /// Reverts `learn`. No operation on the segment is under way.
    fn forget(&self, peer: JobRank, segment: RemoteSegment) {
        let _ = (peer, segment);
    }
}

/// The remote side of an operation: memory inside a segment that was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The owner.
    pub peer: JobRank,
    /// The owner's segment.
    pub segment: RemoteSegment,
    /// Address of the first byte, in the owner's address space.
    pub address: usize,
}

/// The local side of an operation: any memory of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalMemory {
    /// Address of the first byte.
    pub address: usize,
    /// The segment that all of it lies in, or [`LocalSegment::NONE`].
    pub segment: LocalSegment,
    /// The device that it lies on; none for host memory. Memory of a device is always in a segment.
    pub device: Option<Device>,
}

/// The waiter for the source of a put or the payload of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceUse {
    /// Nobody yet. The conduit does not copy a large source.
    Later,
    /// The initiating thread, before it continues (`GEX_EVENT_NOW`). The conduit copies a source up
    /// to a limit of its own, so that local completion is [`LocalCompletion::AtReturn`].
    Now,
}

/// A put.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    /// Destination.
    pub to: RemoteMemory,
    /// Source, unchanged until local completion.
    pub from: LocalMemory,
    /// At least 1; no upper limit (the conduit splits).
    pub bytes: usize,
    /// The waiter for the source.
    pub source: SourceUse,
    /// Names it.
    pub cookie: Cookie,
}

/// A get.
#[derive(Clone, Copy, Debug)]
pub struct Get {
    /// Source.
    pub from: RemoteMemory,
    /// Destination, not read or written by others until completion.
    pub to: LocalMemory,
    /// At least 1; no upper limit. Any alignment.
    pub bytes: usize,
    /// Names it.
    pub cookie: Cookie,
}

/// Puts and gets by the network.
pub trait Rma: Sync {
    /// Whether operations reach all host memory of a peer, registered or not, by
    /// [`RemoteSegment::ALL_MEMORY`] (the segment configurations LARGE and EVERYTHING). If not,
    /// those go over packets.
    fn reaches_all_memory(&self) -> bool {
        false
    }

    /// Starts a put. Remote completion means that the bytes are visible at the target to everything
    /// sent afterwards, on any rail. Where the completion of the network guarantees less, the
    /// conduit adds the rest.
    fn put(&self, put: &Put) -> Result<LocalCompletion, Busy>;

    /// Most bytes that [`Rma::put_small`] takes. 0: none.
    fn small_put(&self) -> usize {
        0
    }

    /// Starts a put of 1 to [`Rma::small_put`] bytes from host memory, which is free at return.
    /// Reported once, as [`crate::Completion::Remote`], which means what it means of
    /// [`Rma::put`]. None: that call must do it.
    fn put_small(&self, to: RemoteMemory, from: *const u8, bytes: usize, cookie: Cookie) -> Result<Option<()>, Busy> {
        let _ = (to, from, bytes, cookie);
        Ok(None)
    }

    /// Starts a get. Reported once, as [`crate::Completion::Both`].
    fn get(&self, get: &Get) -> Result<(), Busy>;
}

/// Puts that notify their target, for Longs whose payload does not travel in their packet.
pub trait PutNotify: Sync {
    /// The payload of a Long up to this many bytes travels in its packet.
    fn packed_limit(&self) -> usize;

    /// Starts a put and sends a packet, the concatenation of `parts`, which are copied before
    /// return. It is delivered as one of [`crate::Network::send`], after the bytes of the put are
    /// visible at its destination. Of the put only local completion is reported: by the result, or
    /// as [`crate::Completion::Source`].
    ///
    /// With `reserved` the source lies in that send buffer, which is the conduit's again unless
    /// this is refused. Then local completion is at return.
    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy>;
}

/// A remote atomic.
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    /// The target: 4 or 8 aligned bytes of host memory.
    pub target: RemoteMemory,
    /// Its type, a `GEX_DT_*` bit ([`crate::atomic_codes`]).
    pub dt: u32,
    /// A `GEX_OP_*` bit.
    pub op: u32,
    /// The bits of values, in the low bytes. Of a compare-and-swap the first is expected, the
    /// second is new.
    pub operands: [u64; 2],
    /// Destination of the old value; null if the operation does not fetch.
    pub fetched: *mut u8,
    /// Names it.
    pub cookie: Cookie,
}

/// Remote atomics by the network. They need not be atomic to those of a CPU, so their peer may be a
/// neighbour or this process: an atomic domain whose operations are all supported uses them for all
/// targets. The segments of neighbours and of this process are then learned, too.
pub trait Atomics: Sync {
    /// Whether `op` on type `dt` is supported. The same in all processes.
    fn supports(&self, dt: u32, op: u32) -> bool;

    /// Starts an atomic. Reported once, as [`crate::Completion::Both`].
    fn atomic(&self, atomic: &Atomic) -> Result<(), Busy>;
}
