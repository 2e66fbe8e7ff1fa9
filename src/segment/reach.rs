//! Selects how this process accesses the memory of an endpoint. No other module decides it.

use crate::mk::MemRef;
use crate::runtime::Runtime;
use crate::segment::configuration::{is_everything, Configuration};
use crate::shm::kernel_copy::Neighbour;
use crate::thread::{self, Serving};
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::{Capabilities, JobRank, RemoteSegment, SegmentKey};
use gasnet_sys::mem;

/// An access method for memory of an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// This process copies it itself: it is mapped here, or memory of a device of this process.
    Here(MemRef),
    /// The kernel copies between the two processes. It may refuse, or find memory that it cannot
    /// copy; messages then carry the data.
    Kernel(Neighbour<'a>),
    /// The conduit's own put and get, with this segment.
    Network(RemoteSegment),
    /// Messages; the owner copies.
    Messages,
}

/// All memory of a process, as the segment of its primordial endpoint in EVERYTHING, and as
/// conduits with [`Capabilities::ANY_ADDRESS`] name it.
pub const ALL_MEMORY: RemoteSegment = RemoteSegment {
    base: 0,
    bytes: usize::MAX,
    key: SegmentKey { words: [0; 8] },
    on_device: false,
};

/// Whether a transfer is one that clients may rely on to be a single load or store. The kernel's
/// copies need not be.
const fn is_word(address: usize, bytes: usize) -> bool {
    matches!(bytes, 2 | 4 | 8) && address % bytes == 0
}

impl Runtime {
    /// The way to `[address, address + bytes)` of the segment of `place`. Fatal when that is
    /// outside, or no segment is known.
    #[inline]
    pub fn reach(&self, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        match self.mapped_address(place, address, bytes) {
            Some(here) => Reach::Here(MemRef::host(here)),
            None => self.reach_elsewhere(place, address, bytes),
        }
    }

    fn reach_elsewhere(&self, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        let segment = match self.segment_of(place) {
            Some(segment) if segment.contains(address, bytes) => segment,
            _ => self.outside_segment(place, address, bytes),
        };
        if place.ep & ANYWHERE != 0 && place.rank == self.rank() {
            return self
                .own_mem(place.ep, address, bytes)
                .map_or(Reach::Messages, Reach::Here);
        }
        if segment.on_device {
            return self.reach_device(place, address, segment);
        }
        if self.is_neighbour(place.rank) {
            let kernel = (!is_word(address, bytes))
                .then(|| self.kernel_copy().neighbour(place.rank))
                .flatten();
            return kernel.map_or(Reach::Messages, Reach::Kernel);
        }
        let able = self.conduit().capabilities();
        match Configuration::get() {
            _ if !able.has(Capabilities::RMA) => Reach::Messages,
            Configuration::Fast if place.ep & ANYWHERE == 0 => Reach::Network(segment),
            _ if able.has(Capabilities::ANY_ADDRESS) => Reach::Network(ALL_MEMORY),
            _ => Reach::Messages,
        }
    }

    /// The same for memory of a device.
    fn reach_device(&self, place: Location, address: usize, segment: RemoteSegment) -> Reach<'_> {
        if place.rank == self.rank() {
            let kind = self.device_of(place.ep);
            return Reach::Here(MemRef { kind, address });
        }
        if self.conduit_reaches_devices() && !self.is_neighbour(place.rank) {
            return Reach::Network(segment);
        }
        Reach::Messages
    }

    /// Whether large transfers to and from the segment of `place`, which is not mapped here, leave
    /// its owner alone.
    pub fn spares_owner(&self, place: Location) -> bool {
        if self.is_neighbour(place.rank) {
            return self.kernel_copy().neighbour(place.rank).is_some();
        }
        let able = self.conduit().capabilities();
        let registered = Configuration::get() == Configuration::Fast && place.ep & ANYWHERE == 0;
        able.has(Capabilities::RMA) && (registered || able.has(Capabilities::ANY_ADDRESS))
    }
}

/// Whether what a message names through endpoint `ep` of this process may be no memory at all.
fn is_unchecked(ep: EpIndex) -> bool {
    is_everything() || ep & ANYWHERE != 0
}

/// Runs `body`, which touches `[address, address + bytes)` of this process for process `source`,
/// which named endpoint `ep`. In EVERYTHING, and outside segments, that may be no memory at all:
/// the report of a fault then names `source`.
pub fn serving<R>(source: JobRank, ep: EpIndex, address: usize, bytes: usize, body: impl FnOnce() -> R) -> R {
    if !is_unchecked(ep) {
        return body();
    }
    let current = &thread::current().serving;
    let outer = current.replace(Some(Serving { source, address, bytes }));
    let result = body();
    current.set(outer);
    result
}

/// As [`serving`], for a `body` that hands the range to the kernel: that would answer with an error
/// where the processor faults.
pub fn serving_read<R>(source: JobRank, ep: EpIndex, address: usize, bytes: usize, body: impl FnOnce() -> R) -> R {
    serving(source, ep, address, bytes, || {
        if is_unchecked(ep) {
            let pages = (address..address + bytes)
                .step_by(mem::page_size())
                .chain([address + bytes - 1]);
            for page in pages {
                // SAFETY: the client answers for the range; a fault here is the report that it
                // deserves.
                let _ = unsafe { (page as *const u8).read_volatile() };
            }
        }
        body()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_one_store_writes() {
        assert!(is_word(16, 8) && is_word(4, 4) && is_word(2, 2));
        assert!(
            !is_word(12, 8) && !is_word(2, 4) && !is_word(1, 2) && !is_word(16, 16) && !is_word(0, 0) && !is_word(0, 1)
        );
    }

    #[test]
    fn all_memory_is_inside_all_memory() {
        assert!(
            ALL_MEMORY.contains(0, 1)
                && ALL_MEMORY.contains(usize::MAX - 8, 8)
                && !ALL_MEMORY.contains(usize::MAX - 8, 9)
        );
    }
}
