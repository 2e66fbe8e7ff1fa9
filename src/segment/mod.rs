//! `gex_Segment_t`, and the directory of all ranks' bound segments. [`attach`] makes the primordial
//! one, [`create`] others, [`publish`] announces them to a team; [`resolve`] looks them up,
//! [`reach`] selects the access method, and [`configuration`] GASNet-1's segment configurations.

pub mod attach;
pub mod configuration;
pub mod create;
pub mod disposition;
mod numa;
pub mod publish;
pub mod reach;
pub mod resolve;
pub mod window;

use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::mk::Kind;
use gasnet_conduit::{RemoteSegment, SegmentKey};

/// A local segment.
#[derive(Debug)]
pub struct Segment {
    /// First byte.
    pub base: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Whose memory it is.
    pub memory: Memory,
    /// The conduit's name for it.
    pub key: SegmentKey,
    /// Whose device's memory it is; none for host memory.
    pub kind: Option<&'static Kind>,
    /// Client data (`cdata`).
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Segment {
    /// A segment that lives until `create::destroy`, or for ever.
    fn leak(
        base: usize,
        bytes: usize,
        memory: Memory,
        key: SegmentKey,
        kind: Option<&'static Kind>,
    ) -> &'static mut Self {
        Box::leak(Box::new(Self {
            base,
            bytes,
            memory,
            key,
            kind,
            cdata: AtomicPtr::new(ptr::null_mut()),
        }))
    }
}

impl Segment {
    /// As peers know it.
    pub fn as_remote(&self) -> RemoteSegment {
        RemoteSegment {
            base: self.base,
            bytes: self.bytes,
            key: self.key,
            on_device: self.kind.is_some(),
        }
    }
}

/// Where the memory of a segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Attached: shared with neighbours, for the rest of the process.
    Attached,
    /// Mapped by the library for this segment.
    Mapped,
    /// The client's.
    Client,
    /// The library's, on the segment's device.
    Device,
}

/// Bound segments of primordial endpoints, by job rank, and how neighbours' addresses map here.
#[derive(Debug)]
pub struct Directory {
    /// As their owners see them.
    pub segments: Vec<RemoteSegment>,
    /// What to add to a neighbour's address to get ours; by index in the neighbourhood.
    pub deltas: Vec<isize>,
}
