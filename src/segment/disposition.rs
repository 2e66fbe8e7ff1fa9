//! The flags that say where addresses lie (GASNet-EX 0.19, "SEGMENT DISPOSITION"). Two of them change what an address is: an offset in the
//! bound segment. Two allow remote memory outside that segment: it is named by the endpoint's index with [`ANYWHERE`], on the wire, too. The
//! others are promises of the client; the debug flavour checks that of the bound segment.

use crate::runtime;
use crate::segment::configuration::is_everything;
use crate::types::{EpIndex, Location, ANYWHERE};

/// `GEX_FLAG_SELF_SEG_BOUND`: the local range is in the segment of the local endpoint.
pub const SELF_BOUND: u32 = 0x1_0000;
/// `GEX_FLAG_SELF_SEG_OFFSET`: local addresses count from the base of the local endpoint's segment.
pub const SELF_OFFSET: u32 = 0x2_0000;
/// `GEX_FLAG_SELF_SEG_UNKNOWN` and `GEX_FLAG_SELF_SEG_SOME`: the local range may lie outside the segment of an endpoint on a device.
const SELF_OUTSIDE: u32 = 0xc000;
/// `GEX_FLAG_PEER_SEG_UNKNOWN` and `GEX_FLAG_PEER_SEG_SOME`: the remote range may lie outside the peer's segment.
pub const PEER_OUTSIDE: u32 = 0xc_0000;
/// `GEX_FLAG_PEER_SEG_BOUND`: the remote range is in the segment of the peer.
pub const PEER_BOUND: u32 = 0x10_0000;
/// `GEX_FLAG_PEER_SEG_OFFSET`: remote addresses count from the base of the peer's segment.
pub const PEER_OFFSET: u32 = 0x20_0000;

/// All of the local side, of which a call may have one.
pub const SELF: u32 = 0x3_c000;
/// All of the remote side, likewise.
const PEER: u32 = 0x3c_0000;

/// Where the remote range `[address, address + bytes)` of a call is looked for.
#[inline]
pub fn place(peer: Location, address: usize, bytes: usize, flags: u32) -> Location {
    narrow(reaching(peer, flags), address, bytes)
}

/// The segment of `peer`, or, if the flags allow that, all memory of its process.
#[inline]
pub const fn reaching(peer: Location, flags: u32) -> Location {
    let Location { rank, ep } = peer;
    if flags & PEER_OUTSIDE == 0 {
        peer
    } else {
        Location { rank, ep: ep | ANYWHERE }
    }
}

/// Back from all memory of a process to the endpoint's segment, which is nearer, if the range lies in that. Not to what EVERYTHING takes for a
/// segment: that is all memory but devices'.
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

/// Where local addresses are looked for: in the device segment of endpoint `ep`, if it has one, or in all memory of this process.
#[inline]
pub const fn own(ep: EpIndex, flags: u32) -> EpIndex {
    if flags & SELF_OUTSIDE == 0 {
        ep
    } else {
        ep | ANYWHERE
    }
}

/// Whether any address is an offset.
#[inline]
pub fn has_offsets(flags: u32) -> bool {
    flags & (SELF_OFFSET | PEER_OFFSET) != 0
}

/// What local addresses of a call count from. Fatal when `ep` has no segment and they are offsets.
pub fn own_base(ep: EpIndex, flags: u32) -> usize {
    let rt = runtime::get();
    if flags & SELF_OFFSET == 0 {
        return 0;
    }
    rt.base_of(Location { rank: rt.rank(), ep })
}

/// What remote addresses of a call count from. Fatal when no segment of the peer is known and they are offsets.
#[inline]
pub fn peer_base(peer: Location, flags: u32) -> usize {
    if flags & PEER_OFFSET == 0 {
        return 0;
    }
    runtime::get().base_of(peer)
}

/// Ends the job if a call has two flags for one side, or if a local range (an address, no offset) is not where its flag says.
pub fn check(flags: u32, ep: EpIndex, local: usize, bytes: usize, function: &str) {
    let rt = runtime::get();
    for (side, of) in [(SELF, "SELF"), (PEER, "PEER")] {
        if (flags & side).count_ones() > 1 {
            fatal!(
                "rank {}: {function}: flags {flags:#x} have more than one GEX_FLAG_{of}_SEG_*; they exclude each other",
                rt.rank()
            );
        }
    }
    if flags & (SELF_BOUND | SELF_OFFSET) != 0 && bytes > 0 && rt.own_mem(ep, local, bytes).is_none() {
        fatal!(
            "rank {}: {function}: the local range [{local:#x}, {:#x}) is not in the bound segment of endpoint {ep}, as \
             GEX_FLAG_SELF_SEG_BOUND or _OFFSET promises",
            rt.rank(),
            local.wrapping_add(bytes)
        );
    }
}
