//! Selects how this process accesses the memory of an endpoint. No other module decides it.

use crate::endpoint;
use crate::mk::MemRef;
use crate::runtime::Runtime;
use crate::segment::admit;
use crate::segment::configuration::is_everything;
use crate::shm::kernel_copy::Neighbour;
use crate::thread::{self, Serving};
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::{JobRank, LocalSegment, RemoteSegment, Rma, Segments};
use gasnet_sys::mem;

/// An access method for memory of an endpoint.
#[derive(Clone, Copy)]
pub enum Reach<'a> {
    /// This process copies it itself: it is mapped here, or memory of a device of this process.
    Here(MemRef),
    /// The kernel copies between the two processes. It may refuse, or find memory that it cannot
    /// copy; messages then carry the data.
    Kernel(Neighbour<'a>),
    /// The conduit's own put and get, with this segment.
    Network(&'static dyn Rma, RemoteSegment),
    /// Messages; the owner copies.
    Messages,
}

/// Whether a transfer is one that clients may rely on to be a single load or store. The kernel's
/// copies need not be.
const fn is_word(address: usize, bytes: usize) -> bool {
    matches!(bytes, 2 | 4 | 8) && address % bytes == 0
}

impl Runtime {
    /// The way to `[address, address + bytes)` of the segment of `place`. Fatal when that is
    /// outside, or no segment is known.
    #[inline(always)]
    pub fn reach(&self, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        if let Some((rma, segment)) = self.reach_far(place, address, bytes) {
            return Reach::Network(rma, segment);
        }
        match self.mapped_address(place, address, bytes) {
            Some(here) => Reach::Here(MemRef::host(here)),
            None => self.reach_elsewhere(place, address, bytes),
        }
    }

    /// The conduit's way to a range of the attached segment of a process that is no neighbour: that
    /// of most operations on a network. None: there is another way, or none.
    #[inline(always)]
    pub fn reach_far(
        &self,
        place: Location,
        address: usize,
        bytes: usize,
    ) -> Option<(&'static dyn Rma, RemoteSegment)> {
        let (rma, segments) = self.abilities.rma.zip(self.abilities.segments)?;
        Some((rma, self.far_segment(segments, place, address, bytes)?))
    }

    /// The conduit's number for the attached segment of a process that is no neighbour, if the
    /// range lies in it.
    #[inline(always)]
    pub fn far_segment(
        &self,
        segments: &dyn Segments,
        place: Location,
        address: usize,
        bytes: usize,
    ) -> Option<RemoteSegment> {
        if !endpoint::is_attached(place.ep) {
            return None;
        }
        let recent = &thread::current().recent;
        let known = recent.find(place.rank, address, bytes);
        known.or_else(|| self.look_up_far(segments, place.rank, address, bytes))
    }

    #[inline(never)]
    fn look_up_far(
        &self,
        segments: &dyn Segments,
        rank: JobRank,
        address: usize,
        bytes: usize,
    ) -> Option<RemoteSegment> {
        if self.is_neighbour(rank) {
            return None;
        }
        let directory = self.directory.get()?;
        let bounds = directory.elsewhere(rank)?;
        let segment = directory.remote_segment(segments, rank)?;
        thread::current()
            .recent
            .note(rank, (bounds.base, bounds.bytes), segment);
        bounds.contains(address, bytes).then_some(segment)
    }

    fn reach_elsewhere(&self, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        let segment = match self.segment_of(place) {
            Some(segment) if segment.contains(address, bytes) => segment,
            _ => self.outside_segment(place, address, bytes),
        };
        if place.ep & ANYWHERE != 0 && place.rank == self.rank {
            return self
                .own_mem(place.ep, address, bytes)
                .map_or(Reach::Messages, Reach::Here);
        }
        if segment.on_device && place.rank == self.rank {
            let kind = self.device_of(place.ep);
            return Reach::Here(MemRef { kind, address });
        }
        if self.is_neighbour(place.rank) && !segment.on_device {
            // The kernel asks nobody; the owner refuses what is in none of its segments.
            let is_refusable = place.ep & ANYWHERE != 0 && admit::is_limited();
            let kernel = (!is_word(address, bytes) && !is_refusable)
                .then(|| self.kernel_copy.neighbour(place.rank))
                .flatten();
            return kernel.map_or(Reach::Messages, Reach::Kernel);
        }
        self.reach_by_network(place)
    }

    /// The way to the segment of `place`, of a neighbour too, that does without its host and its
    /// kernel. Neighbours' device memory takes it: no driver here reaches memory of another
    /// process's device, and with messages the owner copies, in two steps and in its polls.
    fn reach_by_network(&self, place: Location) -> Reach<'_> {
        match self.abilities.rma.zip(self.network_segment(place)) {
            Some((rma, segment)) => Reach::Network(rma, segment),
            None => Reach::Messages,
        }
    }

    /// The way to memory of `place` for a transfer whose local side is `local`, of any device.
    #[inline(always)]
    pub fn reach_from(&self, local: MemRef, place: Location, address: usize, bytes: usize) -> Reach<'_> {
        let way = self.reach(place, address, bytes);
        if local.kind.is_none() || matches!(way, Reach::Here(_)) {
            return way;
        }
        // The kernel does not copy memory of devices, and a conduit only what it has registered.
        match self.registered_segment(local, bytes) {
            LocalSegment::NONE => Reach::Messages,
            _ => self.reach_by_network(place),
        }
    }

    /// The conduit's number for the memory of `place` that its puts and gets reach, if they reach
    /// it.
    #[inline]
    pub fn network_segment(&self, place: Location) -> Option<RemoteSegment> {
        // Memory that no segment names may be of a device, which only its owner knows.
        if place.ep & ANYWHERE != 0 {
            return None;
        }
        let abilities = &self.abilities;
        let segment = abilities
            .segments
            .and_then(|segments| self.remote_segment(segments, place));
        let reaches_all = || abilities.reaches_all_memory() && !self.is_on_device(place);
        segment.or_else(|| reaches_all().then_some(RemoteSegment::ALL_MEMORY))
    }

    /// Whether large transfers to and from the segment of `place`, which is not mapped here, leave
    /// its owner alone.
    pub fn spares_owner(&self, place: Location) -> bool {
        if self.is_neighbour(place.rank) && !self.is_on_device(place) {
            return self.kernel_copy.neighbour(place.rank).is_some();
        }
        matches!(self.reach_by_network(place), Reach::Network(..))
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
}
