//! The flags that say where addresses lie (GASNet-EX 0.19, "SEGMENT DISPOSITION"). Two of them
//! change what an address is: an offset in the bound segment. Two allow remote memory outside that
//! segment: it is named by the endpoint's index with [`ANYWHERE`], on the wire, too. The others are
//! promises of the client; the debug flavour checks that of the bound segment.

use crate::flags::Flags;
use crate::runtime;
use crate::segment::configuration::is_everything;
use crate::types::{EpIndex, Location, ANYWHERE};

/// Place of the remote range `[address, address + bytes)` of a call: endpoint, with [`ANYWHERE`]
/// if the flags allow any address.
#[inline]
pub fn remote_location(peer: Location, address: usize, bytes: usize, flags: Flags) -> Location {
    narrow(reaching(peer, flags), address, bytes)
}

/// The segment of `peer`, or, if the flags allow that, all memory of its process.
#[inline]
pub const fn reaching(peer: Location, flags: Flags) -> Location {
    let Location { rank, ep } = peer;
    if flags.has(Flags::PEER_SEG_OUTSIDE) {
        Location {
            rank,
            ep: ep | ANYWHERE,
        }
    } else {
        peer
    }
}

/// Back from all memory of a process to the endpoint's segment, which is nearer, if the range lies
/// in that. Not to what EVERYTHING takes for a segment: that is all memory but devices'.
#[inline]
pub fn narrow(place: Location, address: usize, bytes: usize) -> Location {
    if place.ep & ANYWHERE == 0 || (place.ep == ANYWHERE && is_everything()) {
        return place;
    }
    let peer = Location {
        rank: place.rank,
        ep: place.ep & !ANYWHERE,
    };
    let inside = runtime::get()
        .segment_of(peer)
        .is_some_and(|segment| segment.contains(address, bytes));
    if inside {
        peer
    } else {
        place
    }
}

/// Place of local addresses: in the device segment of endpoint `ep`, if it has one, or in all
/// memory of this process.
#[inline]
pub const fn own(ep: EpIndex, flags: Flags) -> EpIndex {
    if flags.has(Flags::SELF_SEG_OUTSIDE) {
        ep | ANYWHERE
    } else {
        ep
    }
}

/// Whether any address is an offset.
#[inline]
pub fn has_offsets(flags: Flags) -> bool {
    flags.has(Flags::SELF_SEG_OFFSET | Flags::PEER_SEG_OFFSET)
}

/// Base of local addresses of a call. Fatal when `ep` has no segment and they are offsets.
pub fn own_base(ep: EpIndex, flags: Flags) -> usize {
    let rt = runtime::get();
    if !flags.has(Flags::SELF_SEG_OFFSET) {
        return 0;
    }
    rt.base_of(Location { rank: rt.rank, ep })
}

/// Base of remote addresses of a call. Fatal when no segment of the peer is known and they
/// are offsets.
#[inline]
pub fn peer_base(peer: Location, flags: Flags) -> usize {
    if !flags.has(Flags::PEER_SEG_OFFSET) {
        return 0;
    }
    runtime::get().base_of(peer)
}

/// Ends the job if a call has two flags for one side, or if a local range (an address, no offset)
/// is not where its flag says.
pub fn check(flags: Flags, ep: EpIndex, local: usize, bytes: usize, function: &str) {
    let rt = runtime::get();
    for (side, of) in [(Flags::SELF_SEG, "SELF"), (Flags::PEER_SEG, "PEER")] {
        if (flags & side).count() > 1 {
            fatal!(
                "rank {}: {function}: flags {flags:#x} have more than one GEX_FLAG_{of}_SEG_*; they exclude each other",
                rt.rank
            );
        }
    }
    if flags.has(Flags::SELF_SEG_BOUND | Flags::SELF_SEG_OFFSET) && bytes > 0 && rt.own_mem(ep, local, bytes).is_none()
    {
        fatal!(
            "rank {}: {function}: the local range [{local:#x}, {:#x}) is not in the bound segment of endpoint {ep}, as \
             GEX_FLAG_SELF_SEG_BOUND or _OFFSET promises",
            rt.rank,
            local.wrapping_add(bytes)
        );
    }
}
