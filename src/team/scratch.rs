//! What clients have lent to live teams as scratch space, for the debug flavour: it belongs to one team until that ends, and its segment lives
//! as long.

use std::sync::{Mutex, PoisonError};

use super::Scratch;
use crate::segment::Segment;

/// With the address of the segment that it is in.
static LENT: Mutex<Vec<(usize, Scratch)>> = Mutex::new(Vec::new());

/// What is lent of a segment.
pub fn lent_from(segment: &Segment) -> Option<Scratch> {
    let lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    let of = std::ptr::from_ref(segment) as usize;
    lent.iter().find(|(segment, _)| *segment == of).map(|&(_, scratch)| scratch)
}

/// One more is lent, from a segment if there is one. The error is one that has some of the same memory.
pub fn lend(segment: Option<&Segment>, new: Scratch) -> Result<(), Scratch> {
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&(_, old)) = lent.iter().find(|(_, old)| old.overlaps(new)) {
        return Err(old);
    }
    lent.push((segment.map_or(0, |s| std::ptr::from_ref(s) as usize), new));
    Ok(())
}

/// Its team has ended.
pub fn give_back(old: Scratch) {
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    lent.retain(|&(_, scratch)| scratch != old);
}

impl Scratch {
    fn overlaps(self, other: Self) -> bool {
        self.address < other.address.saturating_add(other.bytes) && other.address < self.address.saturating_add(self.bytes)
    }
}
