//! Scratch space that clients pass for teams. Collectives have buffers of their own: scratch space
//! is only kept until the team is destroyed. The debug flavour checks it and lists that of all live
//! teams, because it belongs to one team until that ends, and its segment lives as long.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Scratch, Team};
use crate::endpoint::Endpoint;
use crate::flags::Flags;
use crate::runtime;
use crate::segment::Segment;
use crate::types::{EpIndex, Location, Rank};
use gasnet_sys::atomic::Mutex;

/// Size that queries recommend: nothing is stored there, so this is the least that clients can
/// handle as a size.
const RECOMMENDED_BYTES: usize = 64;

/// Scratch space of live teams, with the address of the segment that it is in.
static LIVE: Mutex<Vec<(usize, Scratch)>> = Mutex::new(Vec::new());

/// The scratch space that the client passes to `function` for a member with endpoint `ep`.
pub fn accept(ep: EpIndex, address: usize, bytes: usize, flags: Flags, function: &str) -> Scratch {
    let rt = runtime::get();
    let own = Location { rank: rt.rank, ep };
    if let Some(device) = rt.endpoint(ep).and_then(Endpoint::bound).and_then(|s| s.kind) {
        fatal!(
            "rank {}: {function}: scratch space must be host memory, but the segment of endpoint {ep} is on \
             {device}. Pass GEX_FLAG_TM_NO_SCRATCH.",
            rt.rank
        );
    }
    let offset = flags.has(Flags::SCRATCH_SEG_OFFSET);
    let base = rt.bound_segment(own).filter(|_| offset).map_or(0, |s| s.base);
    let address = base.wrapping_add(address);
    let scratch = Scratch { address, bytes };
    if cfg!(feature = "debug-checks") {
        if bytes == 0 || !rt.in_own_segment(ep, address, bytes) {
            let (base, length) = rt.segment_of(own).map_or((0, 0), |s| (s.base, s.bytes));
            fatal!(
                "rank {}: {function}: the scratch space of {bytes} bytes at {address:#x} is not inside the bound \
                 segment, {length} bytes at {base:#x}. Pass GEX_FLAG_TM_NO_SCRATCH to pass none.",
                rt.rank
            );
        }
        add(rt.endpoint(ep).and_then(Endpoint::bound), scratch, function);
    }
    scratch
}

/// Adds `scratch`, which is in `segment` if there is one, to that of live teams. Overlap is only a
/// warning: the reference's testratomic does this, and nothing writes to scratch space.
fn add(segment: Option<&Segment>, scratch: Scratch, function: &str) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let mut live = gasnet_sys::lock(&LIVE);
    let other = live.iter().find(|(_, other)| other.overlaps(scratch)).map(|l| l.1);
    live.push((segment.map_or(0, |s| std::ptr::from_ref(s) as usize), scratch));
    drop(live);
    if let Some(other) = other.filter(|_| !WARNED.swap(true, Ordering::Relaxed)) {
        gasnet_tools::process::warn(format_args!(
            "{function}: the scratch space of {} bytes at {:#x} overlaps that of a live team, {} bytes at {:#x}",
            scratch.bytes, scratch.address, other.bytes, other.address
        ));
    }
}

/// The answer to a query of the scratch size for a team of `parent`'s members. A process without a
/// member in the new team needs none.
pub fn recommended(parent: &Team, takes_part: bool, flags: Flags, function: &str) -> usize {
    static WARNED: AtomicBool = AtomicBool::new(false);
    if flags.has(Flags::TM_SCRATCH_SIZE_MIN) && parent.rank == Rank(0) && !WARNED.swap(true, Ordering::Relaxed) {
        gasnet_tools::process::warn(format_args!(
            "{function}: GEX_FLAG_TM_SCRATCH_SIZE_MIN is deprecated since GASNet-EX 0.11 and will be removed. Pass \
             GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED instead."
        ));
    }
    if takes_part {
        RECOMMENDED_BYTES
    } else {
        0
    }
}

/// Scratch space of a live team in `segment`.
pub fn of_segment(segment: &Segment) -> Option<Scratch> {
    let address = std::ptr::from_ref(segment) as usize;
    let live = gasnet_sys::lock(&LIVE);
    live.iter().find(|&&(segment, _)| segment == address).map(|l| l.1)
}

/// Removes the scratch space of a team that has ended.
pub fn remove(scratch: Scratch) {
    let mut live = gasnet_sys::lock(&LIVE);
    if let Some(at) = live.iter().position(|&(_, other)| other == scratch) {
        live.swap_remove(at);
    }
}

impl Scratch {
    fn overlaps(self, other: Self) -> bool {
        self.address < other.address.saturating_add(other.bytes)
            && other.address < self.address.saturating_add(self.bytes)
    }
}
