//! The segment of an endpoint, its kind of memory, and its address in this process.

use super::configuration::is_everything;
use super::published::{self, Published};
use super::window::Window;
use super::{Bounds, Memory, Segment};
use crate::endpoint::{self, Endpoint};
use crate::mk::{MemRef, MemoryKind};
use crate::runtime::Runtime;
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::{JobRank, LocalSegment, RemoteSegment, Segments};

impl Runtime {
    /// The bound segment of the primordial endpoint of `rank`, after Attach.
    pub fn primordial_segment(&self, rank: JobRank) -> Option<Bounds> {
        self.directory.get()?.bounds(rank)
    }

    /// The conduit's number for the bound segment of an endpoint, with which its memory is reached
    /// by `segments`. None if no segment is known here, or it is not registered.
    pub fn remote_segment(&self, segments: &dyn Segments, place: Location) -> Option<RemoteSegment> {
        if endpoint::is_attached(place.ep) {
            return self.directory.get()?.remote_segment(segments, place.rank);
        }
        if place.rank == self.rank {
            return self.endpoint(place.ep)?.bound()?.as_target(segments, place.rank);
        }
        published::find(place)?.remote_segment(segments)
    }

    /// The conduit's number for the registered segment of this process that a range lies in.
    #[inline]
    pub fn registered_segment(&self, memory: MemRef, bytes: usize) -> LocalSegment {
        if self.abilities.segments.is_none() {
            return LocalSegment::NONE;
        }
        let on_same = |kind: Option<&MemoryKind>| kind.map(std::ptr::from_ref) == memory.kind.map(std::ptr::from_ref);
        self.bound_segments()
            .find(|s| s.bounds().contains(memory.address, bytes) && on_same(s.kind))
            .and_then(|s| s.registration.as_ref())
            .map_or(LocalSegment::NONE, |registration| registration.segment)
    }

    /// The memory that others may access through an endpoint: its bound segment, if this process
    /// knows it, but all memory through a primordial endpoint in EVERYTHING, and where the client
    /// allows that.
    pub fn segment_of(&self, place: Location) -> Option<Bounds> {
        if place.ep & ANYWHERE != 0 || (place.ep == 0 && is_everything()) {
            return Some(Bounds::ALL_MEMORY);
        }
        self.bound_segment(place)
    }

    /// The bound segment of an endpoint, if this process knows it: its own, one that was attached,
    /// or one that was published to it. A segment of a primordial endpoint in EVERYTHING
    /// counts in queries and offsets only.
    pub fn bound_segment(&self, place: Location) -> Option<Bounds> {
        if endpoint::is_attached(place.ep) {
            return self.primordial_segment(place.rank);
        }
        if place.rank == self.rank {
            return self.endpoint(place.ep)?.bound().map(Segment::bounds);
        }
        published::find(place).map(Published::bounds)
    }

    /// The offset of a range in the bound segment of an endpoint; none if it is not inside.
    pub fn offset_of(&self, place: Location, address: usize, bytes: usize) -> Option<u64> {
        let segment = self.bound_segment(place)?;
        segment
            .contains(address, bytes)
            .then(|| (address - segment.base) as u64)
    }

    /// First byte of an endpoint's segment, in its owner's address space. Fatal when none is known.
    pub fn base_of(&self, place: Location) -> usize {
        let known = self.bound_segment(place).or_else(|| self.segment_of(place));
        known.map_or_else(|| self.outside_segment(place, 0, 0), |segment| segment.base)
    }

    /// The device that an endpoint of this process has its segment on. None for host memory, and
    /// without segment.
    #[inline]
    pub fn device_of(&self, ep: EpIndex) -> Option<&'static MemoryKind> {
        if ep == 0 {
            return None;
        }
        self.endpoint(ep)?.bound()?.kind
    }

    /// Whether local addresses of endpoint `ep` may be of a device.
    #[inline]
    pub fn may_be_on_device(&self, ep: EpIndex) -> bool {
        if ep & ANYWHERE == 0 {
            return self.device_of(ep).is_some();
        }
        endpoint::others().any(|other| other.bound().is_some_and(|segment| segment.kind.is_some()))
    }

    /// Whether an endpoint, here or elsewhere, has its segment on a device.
    #[inline]
    pub fn is_on_device(&self, place: Location) -> bool {
        place.ep != 0 && self.segment_of(place).is_some_and(|s| s.on_device)
    }

    /// Whether this process can load and store the memory of an endpoint's segment. Of all memory
    /// of a process some may be on a device.
    #[inline]
    pub fn can_touch(&self, place: Location) -> bool {
        if endpoint::is_attached(place.ep) {
            self.is_neighbour(place.rank)
        } else {
            place.rank == self.rank && place.ep & ANYWHERE == 0 && self.device_of(place.ep).is_none()
        }
    }

    /// Address here of `[address, address + bytes)` of an endpoint's segment, if this process can
    /// touch it. Fatal when it is outside.
    #[inline]
    pub fn mapped_address(&self, place: Location, address: usize, bytes: usize) -> Option<*mut u8> {
        Window::of(self, place).map(|window| window.here(address, bytes))
    }

    /// Address here of `[address, address + bytes)` of neighbour `rank`. Fatal when it is outside
    /// the neighbour's segment.
    #[inline]
    pub fn map_neighbour(&self, rank: JobRank, address: usize, bytes: usize) -> *mut u8 {
        Window::neighbour(self, Location { rank, ep: 0 }).here(address, bytes)
    }

    /// Whether neighbours see `[address, address + bytes)` of this process in their mapping of its
    /// attached segment.
    pub fn neighbours_map(&self, address: *mut u8, bytes: usize) -> bool {
        self.endpoint0
            .bound()
            .is_some_and(|segment| segment.memory == Memory::Attached)
            && self
                .primordial_segment(self.rank)
                .is_some_and(|segment| segment.contains(address as usize, bytes))
    }

    /// Whether `place` is all memory of this process: clients reach their own by puts, gets, Longs
    /// and atomics, before Attach and beyond the segment, and the reference lets them. The debug
    /// flavour holds them to the segment, as the specification does.
    #[inline]
    pub fn is_own_memory(&self, place: Location) -> bool {
        !cfg!(feature = "debug-checks") && place.rank == self.rank && endpoint::is_attached(place.ep)
    }

    /// Ends the job: a remote address is not in its owner's segment.
    #[cold]
    pub fn outside_segment(&self, place: Location, address: usize, bytes: usize) -> ! {
        let Location { rank, ep } = place;
        let known = match self.segment_of(place) {
            None if !endpoint::is_attached(ep) => {
                format!("no segment of its endpoint {ep} is known here; bind one and publish it")
            }
            None => "no segment is attached".to_string(),
            Some(s) => format!("its segment is [{:#x}, {:#x})", s.base, s.base + s.bytes),
        };
        fatal!(
            "rank {}: the remote range [{address:#x}, {:#x}) is not in the segment of rank {rank}: {known}. Only \
             memory of the bound segment can be the remote side of a put, a get or a Long.",
            self.rank,
            address.wrapping_add(bytes)
        )
    }

    /// Whether a range lies in the bound segment of an endpoint of this process, and is host
    /// memory.
    pub fn in_own_segment(&self, ep: EpIndex, address: usize, bytes: usize) -> bool {
        if endpoint::is_attached(ep) {
            return self
                .primordial_segment(self.rank)
                .is_some_and(|s| s.contains(address, bytes));
        }
        let own = Location { rank: self.rank, ep };
        self.segment_of(own)
            .is_some_and(|s| s.contains(address, bytes) && !s.on_device)
    }

    /// A range of the bound segment of an endpoint of this process, whosever memory that is. None
    /// when it is outside.
    pub fn own_mem(&self, ep: EpIndex, address: usize, bytes: usize) -> Option<MemRef> {
        if ep & ANYWHERE != 0 {
            // Primordial endpoints have host memory.
            let around = endpoint::others()
                .filter_map(Endpoint::bound)
                .find(|s| s.bounds().contains(address, bytes));
            let kind = around.and_then(|segment| segment.kind);
            return Some(MemRef { kind, address });
        }
        let Some(kind) = self.device_of(ep) else {
            return self
                .in_own_segment(ep, address, bytes)
                .then(|| MemRef::host(address as *const u8));
        };
        let own = Location { rank: self.rank, ep };
        let inside = self.segment_of(own).is_some_and(|s| s.contains(address, bytes));
        inside.then_some(MemRef {
            kind: Some(kind),
            address,
        })
    }

    /// The local side of an operation of endpoint `ep`: an address of the device that its segment
    /// is on, else any host memory (GASNet-EX 0.19, "Local addressing"). Fatal when it leaves the
    /// device's segment, unless the client allows that ([`own`](super::disposition::own)).
    #[inline]
    pub fn local_mem(&self, ep: EpIndex, local: *const u8, bytes: usize) -> MemRef {
        if ep & ANYWHERE != 0 {
            return self.own_mem(ep, local as usize, bytes).unwrap_or(MemRef::host(local));
        }
        match self.device_of(ep) {
            None => MemRef::host(local),
            Some(kind) => self
                .own_mem(ep, local as usize, bytes)
                .unwrap_or_else(|| self.local_outside(ep, kind, local, bytes)),
        }
    }

    #[cold]
    fn local_outside(&self, ep: EpIndex, kind: &MemoryKind, local: *const u8, bytes: usize) -> MemRef {
        if bytes == 0 {
            return MemRef::host(local);
        }
        let segment = self.segment_of(Location { rank: self.rank, ep });
        let (base, end) = segment.map_or((0, 0), |s| (s.base, s.base + s.bytes));
        fatal!(
            "rank {}: the local range of {bytes} bytes at {local:?} is not in the segment of endpoint {ep}, \
             [{base:#x}, {end:#x}) on {kind}. An endpoint with a device segment takes local addresses of that segment \
             only; use another endpoint for host memory (GASNet-EX 0.19, \"Local addressing\").",
            self.rank
        )
    }
}
