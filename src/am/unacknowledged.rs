//! Packets of puts that a thread has received and not yet acknowledged.
#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};

use crate::types::Location;
use gasnet_conduit::JobRank;

/// Most of them: their acknowledgement fits into the smallest Medium.
pub const MOST: usize = 32;
/// Number of the transfer, and bytes that have arrived.
pub type Entry = [u64; 2];

/// Those of one sender.
#[derive(Debug)]
pub struct Unacknowledged {
    from: Cell<Location>,
    count: Cell<usize>,
    /// Its memory is kept. Not in place: threads' states are made on small stacks.
    entries: RefCell<Vec<Entry>>,
}

impl Unacknowledged {
    /// None.
    pub const fn none() -> Self {
        Self {
            from: Cell::new(Location {
                rank: JobRank(0),
                ep: 0,
            }),
            count: Cell::new(0),
            entries: RefCell::new(Vec::new()),
        }
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.count.get() == 0
    }

    /// Adds one, if it is of the same sender and there is room.
    pub fn add(&self, from: Location, entry: Entry) -> bool {
        let count = self.count.get();
        if count == MOST || count > 0 && self.from.get() != from {
            return false;
        }
        self.from.set(from);
        self.entries.borrow_mut().push(entry);
        self.count.set(count + 1);
        true
    }

    /// Empties it into `copy`. Returns the sender, and its entries there.
    pub fn take<'a>(&self, copy: &'a mut [Entry; MOST]) -> (Location, &'a [Entry]) {
        let count = self.count.replace(0);
        let mut entries = self.entries.borrow_mut();
        copy[..count].copy_from_slice(&entries);
        entries.clear();
        (self.from.get(), &copy[..count])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_one_sender_and_an_end() {
        let [one, other] = [1, 2].map(|rank| Location {
            rank: JobRank(rank),
            ep: 0,
        });
        let (batch, mut copy) = (Unacknowledged::none(), [[0; 2]; MOST]);
        assert!(batch.is_empty() && batch.add(one, [7, 8]) && !batch.add(other, [9, 9]));
        for number in 1..MOST as u64 {
            assert!(batch.add(one, [number, 1]));
        }
        assert!(!batch.add(one, [9, 9]));
        let (from, entries) = batch.take(&mut copy);
        assert!(from == one && entries.len() == MOST && entries[0] == [7, 8] && entries[5] == [5, 1]);
        assert!(batch.is_empty() && batch.add(other, [9, 9]));
    }
}
