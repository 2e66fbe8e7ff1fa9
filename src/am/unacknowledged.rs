//! Packets of puts that a thread has received and not yet acknowledged.
#![forbid(unsafe_code)]

use std::cell::{Cell, OnceCell};

use crate::types::Location;

/// Most of them: their acknowledgement fits into the smallest Medium.
pub const MOST: usize = 32;
/// Number of the transfer, and bytes that have arrived.
pub type Entry = [u64; 2];

/// Those of one sender. Apart from the thread's state, which is made on small stacks.
#[derive(Debug)]
pub struct Unacknowledged(OnceCell<Box<Batch>>);

#[derive(Debug)]
struct Batch {
    from: Cell<Location>,
    count: Cell<usize>,
    entries: [Cell<Entry>; MOST],
}

impl Unacknowledged {
    /// None.
    pub const fn none() -> Self {
        Self(OnceCell::new())
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.get().is_none_or(|batch| batch.count.get() == 0)
    }

    /// Adds one, if it is of the same sender and there is room.
    pub fn add(&self, from: Location, entry: Entry) -> bool {
        let batch = self.0.get_or_init(|| {
            Box::new(Batch {
                from: Cell::new(from),
                count: Cell::new(0),
                entries: [const { Cell::new([0; 2]) }; MOST],
            })
        });
        let count = batch.count.get();
        if count == MOST || count > 0 && batch.from.get() != from {
            return false;
        }
        batch.from.set(from);
        batch.entries[count].set(entry);
        batch.count.set(count + 1);
        true
    }

    /// Empties it into `copy`. Returns the sender, and its entries there; None if there are none.
    pub fn take<'a>(&self, copy: &'a mut [Entry; MOST]) -> Option<(Location, &'a [Entry])> {
        let batch = self.0.get()?;
        let count = batch.count.replace(0);
        for (to, entry) in copy.iter_mut().zip(&batch.entries[..count]) {
            *to = entry.get();
        }
        (count > 0).then_some((batch.from.get(), &copy[..count]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::JobRank;

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
        let (from, entries) = batch.take(&mut copy).unwrap();
        assert!(from == one && entries.len() == MOST && entries[0] == [7, 8] && entries[5] == [5, 1]);
        assert!(batch.is_empty() && batch.add(other, [9, 9]));
    }
}
