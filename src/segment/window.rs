//! A segment that this process can touch, as it sees it: looked up once, for calls that reach many
//! pieces of it.

use crate::endpoint;
use crate::runtime::{self, Runtime};
use crate::types::{EpIndex, Location};

/// The host memory of an endpoint's segment and where it is here.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    place: Location,
    /// First byte, as its owner sees it.
    base: usize,
    /// Length.
    bytes: usize,
    /// From the owner's addresses to those of this process.
    delta: isize,
}

impl Window {
    /// The bound segment of an endpoint. None if this process cannot touch it, or it is memory of a
    /// device. Before Attach it is empty.
    #[inline]
    pub fn of(rt: &Runtime, place: Location) -> Option<Self> {
        if endpoint::is_attached(place.ep) {
            return rt.is_neighbour(place.rank).then(|| Self::neighbour(rt, place));
        }
        rt.can_touch(place).then(|| Self::own(rt, place.ep))
    }

    /// The attached segment of a neighbour.
    #[inline]
    pub fn neighbour(rt: &Runtime, place: Location) -> Self {
        let (base, bytes, delta) = rt.directory.get().map_or((0, 0, 0), |directory| {
            let index = rt.nbrhd_index(place.rank);
            let segment = directory.neighbour(index);
            (segment.base, segment.bytes, directory.deltas[index])
        });
        Self {
            place,
            base,
            bytes,
            delta,
        }
    }

    /// The segment of another endpoint of this process, which is no device's.
    fn own(rt: &Runtime, ep: EpIndex) -> Self {
        let place = Location { rank: rt.rank, ep };
        let segment = rt.segment_of(place).filter(|segment| !segment.on_device);
        let (base, bytes) = segment.map_or((0, 0), |segment| (segment.base, segment.bytes));
        Self {
            place,
            base,
            bytes,
            delta: 0,
        }
    }

    /// Address here of `[address, address + bytes)`. Fatal when it is outside, in every flavour: a
    /// wrong address would corrupt this process. Its own memory is the exception
    /// ([`Runtime::is_own_memory`]).
    #[inline]
    pub fn here(&self, address: usize, bytes: usize) -> *mut u8 {
        let offset = address.wrapping_sub(self.base);
        if offset <= self.bytes && bytes <= self.bytes - offset {
            return address.wrapping_add_signed(self.delta) as *mut u8;
        }
        if bytes > 0 && !runtime::get().is_own_memory(self.place) {
            runtime::get().outside_segment(self.place, address, bytes);
        }
        address as *mut u8
    }
}
