//! How this process gets at the memory behind an endpoint: the one place that decides it.

use crate::am::Location;
use crate::conduit::{Capabilities, RemoteSegment, SegmentKey};
use crate::os::mem;
use crate::runtime::Runtime;
use crate::segment::configuration::{is_everything, Configuration};
use crate::shm::kernel_copy::Neighbour;
use crate::thread::{self, Serving};

/// A way to memory of an endpoint.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// It is mapped here, at this address.
    Mapped(*mut u8),
    /// The kernel copies between the two processes. It may come to refuse that, or meet memory that it cannot copy; then messages do it.
    Kernel(Neighbour<'a>),
    /// The conduit's own put and get, with this segment.
    Network(RemoteSegment),
    /// The owner does it, asked by messages.
    Messages,
}

/// All memory of a process, as the segment of its primordial endpoint in EVERYTHING, and as conduits with
/// [`Capabilities::ANY_ADDRESS`] name it.
pub const ALL_MEMORY: RemoteSegment = RemoteSegment {
    base: 0,
    bytes: usize::MAX,
    key: SegmentKey { words: [0; 8] },
};

/// Whether a transfer is one that clients may rely on to be a single load or store. The kernel's copies need not be.
const fn is_word(address: usize, bytes: usize) -> bool {
    matches!(bytes, 2 | 4 | 8) && address % bytes == 0
}

impl Runtime {
    /// The way to `[address, address + bytes)` of the segment of `place`. Fatal when that is outside, or no segment is known.
    #[inline]
    pub fn reach(&self, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        match self.map_near(place, address, bytes) {
            Some(here) => Reach::Mapped(here),
            None => self.reach_elsewhere(place, address, bytes),
        }
    }

    fn reach_elsewhere(&self, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        let segment = match self.segment_of(place) {
            Some(segment) if segment.contains(address, bytes) => segment,
            _ => self.outside_segment(place, address, bytes),
        };
        if self.is_neighbour(place.rank) {
            let kernel = (!is_word(address, bytes))
                .then(|| self.kernel_copy.neighbour(place.rank))
                .flatten();
            return kernel.map_or(Reach::Messages, Reach::Kernel);
        }
        let able = self.conduit.capabilities();
        match Configuration::get() {
            _ if !able.has(Capabilities::RMA) => Reach::Messages,
            Configuration::Fast => Reach::Network(segment),
            _ if able.has(Capabilities::ANY_ADDRESS) => Reach::Network(ALL_MEMORY),
            _ => Reach::Messages,
        }
    }

    /// Whether large transfers to and from the segment of `place`, which is not mapped here, leave its owner alone.
    pub fn spares_owner(&self, place: Location) -> bool {
        if self.is_neighbour(place.rank) {
            return self.kernel_copy.neighbour(place.rank).is_some();
        }
        let able = self.conduit.capabilities();
        able.has(Capabilities::RMA) && (Configuration::get() == Configuration::Fast || able.has(Capabilities::ANY_ADDRESS))
    }
}

/// Runs `body`, which touches `[address, address + bytes)` of this process for process `source`. In EVERYTHING that may be no memory at
/// all: the report of a fault then says whose doing it is.
pub fn serving<R>(source: u32, address: usize, bytes: usize, body: impl FnOnce() -> R) -> R {
    if !is_everything() {
        return body();
    }
    let current = &thread::current().serving;
    let outer = current.replace(Some(Serving { source, address, bytes }));
    let result = body();
    current.set(outer);
    result
}

/// As [`serving`], for a `body` that hands the range to the kernel: that would answer with an error where the processor faults.
pub fn serving_read<R>(source: u32, address: usize, bytes: usize, body: impl FnOnce() -> R) -> R {
    serving(source, address, bytes, || {
        if is_everything() {
            let pages = (address..address + bytes)
                .step_by(mem::page_size())
                .chain([address + bytes - 1]);
            for page in pages {
                // SAFETY: the client answers for the range; a fault here is the report that it deserves.
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
        assert!(!is_word(12, 8) && !is_word(2, 4) && !is_word(1, 2) && !is_word(16, 16) && !is_word(0, 0) && !is_word(0, 1));
    }

    #[test]
    fn all_memory_is_inside_all_memory() {
        assert!(ALL_MEMORY.contains(0, 1) && ALL_MEMORY.contains(usize::MAX - 8, 8) && !ALL_MEMORY.contains(usize::MAX - 8, 9));
    }
}
