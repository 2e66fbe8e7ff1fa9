//! Scratch space of live teams, lent by clients, for the debug flavour: it belongs to one team
//! until that ends, and its segment lives as long.

use super::Scratch;
use crate::segment::Segment;
use gasnet_sys::atomic::Mutex;

/// With the address of the segment that it is in.
static LENT: Mutex<Vec<(usize, Scratch)>> = Mutex::new(Vec::new());

/// What is lent of a segment.
pub fn lent_from(segment: &Segment) -> Option<Scratch> {
    let lent = gasnet_sys::lock(&LENT);
    let of = std::ptr::from_ref(segment) as usize;
    lent.iter()
        .find(|(segment, _)| *segment == of)
        .map(|&(_, scratch)| scratch)
}

/// One more is lent, from a segment if there is one. Returns what was lent before and has some of
/// the same memory.
pub fn lend(segment: Option<&Segment>, new: Scratch) -> Option<Scratch> {
    let mut lent = gasnet_sys::lock(&LENT);
    let same = lent.iter().find(|(_, old)| old.overlaps(new)).map(|&(_, old)| old);
    lent.push((segment.map_or(0, |s| std::ptr::from_ref(s) as usize), new));
    same
}

/// Its team has ended.
pub fn give_back(old: Scratch) {
    let mut lent = gasnet_sys::lock(&LENT);
    if let Some(at) = lent.iter().position(|&(_, scratch)| scratch == old) {
        lent.swap_remove(at);
    }
}

impl Scratch {
    fn overlaps(self, other: Self) -> bool {
        self.address < other.address.saturating_add(other.bytes)
            && other.address < self.address.saturating_add(self.bytes)
    }
}
