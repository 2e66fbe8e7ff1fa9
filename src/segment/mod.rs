//! `gex_Segment_t`. [`attach`] makes the primordial one, [`create`] others, [`publish`] announces
//! them to a team. [`directory`] and [`published`] hold the segments of others, [`resolve`] looks
//! them up, [`reach`] selects the access method, and [`admit`] guards the own memory;
//! [`configuration`] has GASNet-1's segment configurations.

pub mod admit;
pub mod attach;
pub mod configuration;
pub mod create;
pub mod directory;
pub mod disposition;
mod numa;
pub mod publish;
pub mod published;
pub mod reach;
pub mod resolve;
pub mod window;

use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::mk::MemoryKind;
use crate::thread;
use configuration::Configuration;
use directory::Learned;
use gasnet_conduit::{Abilities, ConduitError, JobRank, Registration, RemoteSegment, SegmentMemory, Segments};

/// A local segment.
#[derive(Debug)]
pub struct Segment {
    /// First byte.
    pub base: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Source of its memory.
    pub memory: Memory,
    /// The conduit's name for it, if it is registered.
    pub registration: Option<Registration>,
    /// The conduit's number for it as a target of this process's own atomics.
    learned: Learned,
    /// Its memory kind; none for host memory.
    pub kind: Option<&'static MemoryKind>,
    /// Client data (`cdata`).
    pub cdata: AtomicPtr<std::ffi::c_void>,
}

impl Segment {
    /// A segment that lives until `create::destroy`, or for ever.
    fn leak(
        base: usize,
        bytes: usize,
        memory: Memory,
        registration: Option<Registration>,
        kind: Option<&'static MemoryKind>,
    ) -> &'static mut Self {
        Box::leak(Box::new(Self {
            base,
            bytes,
            memory,
            registration,
            learned: Learned::new(),
            kind,
            cdata: AtomicPtr::new(ptr::null_mut()),
        }))
    }
}

impl Segment {
    /// Its bounds.
    #[inline]
    pub fn bounds(&self) -> Bounds {
        Bounds {
            base: self.base,
            bytes: self.bytes,
            on_device: self.kind.is_some(),
        }
    }

    /// The conduit's number for it as a target of operations of its owner, `rank`.
    fn as_target(&self, segments: &dyn Segments, rank: JobRank) -> Option<RemoteSegment> {
        let registration = self.registration.as_ref()?;
        let learn = || thread::in_conduit(|| segments.learn(rank, &self.memory(), &registration.key));
        Some(self.learned.get_or(learn))
    }

    /// Its memory, as the conduit takes it.
    pub fn memory(&self) -> SegmentMemory {
        segment_memory(self.base, self.bytes, self.kind)
    }
}

/// Memory of a device, or of the host, as the conduit takes it.
fn segment_memory(base: usize, bytes: usize, kind: Option<&MemoryKind>) -> SegmentMemory {
    SegmentMemory {
        base,
        bytes,
        device: kind.map(|kind| kind.driver().owner().device),
    }
}

/// Registers host memory, if the conduit is to reach it. In LARGE it need not.
fn register(abilities: &Abilities<'_>, memory: &SegmentMemory) -> Result<Option<Registration>, ConduitError> {
    let Some(segments) = abilities.segments else {
        return Ok(None);
    };
    if Configuration::get() == Configuration::Large {
        let is_allowed = memory.bytes <= segments.max_bytes();
        return Ok(is_allowed
            .then(|| thread::in_conduit(|| segments.register(memory)).ok())
            .flatten());
    }
    thread::in_conduit(|| segments.register(memory)).map(Some)
}

/// Registers memory of a device, if the conduit can reach it by puts and gets.
fn register_device(abilities: &Abilities<'_>, memory: &SegmentMemory, kind: &MemoryKind) -> Option<Registration> {
    let segments = abilities.segments.filter(|_| abilities.rma.is_some())?;
    let dmabuf = || kind.driver().export(memory.base, memory.bytes);
    thread::in_conduit(|| segments.register_device(memory, &dmabuf))
}

/// The memory of a bound segment, in its owner's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// First byte.
    pub base: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// Whether it is memory of a device.
    pub on_device: bool,
}

impl Bounds {
    /// All memory of a process, as the segment of its primordial endpoint in EVERYTHING.
    pub const ALL_MEMORY: Self = Self::host(0, usize::MAX);

    /// Of host memory.
    pub const fn host(base: usize, bytes: usize) -> Self {
        Self {
            base,
            bytes,
            on_device: false,
        }
    }

    /// Whether `[address, address + bytes)` lies inside.
    #[inline]
    pub const fn contains(&self, address: usize, bytes: usize) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.bytes && bytes <= self.bytes - offset
    }
}

/// Source of the memory of a segment.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_memory_is_inside_all_memory() {
        let all = Bounds::ALL_MEMORY;
        assert!(all.contains(0, 1) && all.contains(usize::MAX - 8, 8) && !all.contains(usize::MAX - 8, 9));
    }
}
