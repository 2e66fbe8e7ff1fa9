//! Fixed tables of objects in shared memory. A key is index and generation, so the key of a
//! destroyed object names nothing, even when its place has been used again (up to 256 times).

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::lock::Lock;

/// The head of every entry of a table.
#[repr(C)]
pub struct Entry {
    /// Guards the object; initialised once, when the place is first used.
    pub lock: Lock,
    /// Slot + 1 of the process that made it; 0: free.
    pub owner: AtomicU32,
    generation: AtomicU32,
    next_free: AtomicU32,
}

impl Entry {
    /// The slot of the process that made it; `u32::MAX` if the place is free.
    #[inline(always)]
    pub fn slot(&self) -> u32 {
        self.owner.load(Relaxed).wrapping_sub(1)
    }
}

pub trait HasEntry {
    fn entry(&self) -> &Entry;
}

/// Implements [`HasEntry`] for structs with the field `entry`.
#[macro_export]
macro_rules! has_entry {
    ($($type:ty),*) => { $(impl $crate::table::HasEntry for $type {
        fn entry(&self) -> &$crate::table::Entry {
            &self.entry
        }
    })* };
}

/// Stores fields of an object that others do not know yet.
pub fn set<const N: usize>(fields: [(&AtomicU32, u32); N]) {
    for (field, value) in fields {
        field.store(value, Relaxed);
    }
}

/// All zero, a table is empty.
#[repr(C)]
pub struct Table<T, const N: usize> {
    /// Places below this have been used. Index 0 never is.
    top: AtomicU32,
    free: AtomicU32,
    items: [T; N],
}

/// Bits of the index in a key; the generation is above them.
pub const INDEX_BITS: u32 = 16;
/// Values of the generation.
const GENERATIONS: u32 = 0xff;

/// The index in a key.
pub fn index_of(key: u32) -> u32 {
    key & ((1 << INDEX_BITS) - 1)
}

impl<T: HasEntry, const N: usize> Table<T, N> {
    /// Takes a place. The caller holds the fabric's allocation lock. Places are used again only
    /// when all have been used, so that late packets find no object.
    pub fn take(&self, owner: u32) -> Option<u32> {
        let top = self.top.load(Relaxed).max(1);
        let index = if (top as usize) < N {
            self.top.store(top + 1, Relaxed);
            self.items[top as usize].entry().lock.init();
            top
        } else {
            let index = self.free.load(Relaxed);
            if index == 0 {
                return None;
            }
            self.free
                .store(self.items[index as usize].entry().next_free.load(Relaxed), Relaxed);
            index
        };
        self.items[index as usize].entry().owner.store(owner + 1, Relaxed);
        Some(index)
    }

    /// Gives a place back, under the same lock; its key is no longer valid.
    pub fn give(&self, index: u32) {
        let entry = self.items[index as usize].entry();
        entry
            .generation
            .store((entry.generation.load(Relaxed) + 1) & GENERATIONS, Relaxed);
        entry.owner.store(0, Relaxed);
        entry.next_free.store(self.free.load(Relaxed), Relaxed);
        self.free.store(index, Relaxed);
    }

    pub fn at(&self, index: u32) -> &T {
        &self.items[index as usize]
    }

    /// The key of an index.
    pub fn key(&self, index: u32) -> u32 {
        const { assert!(N <= 1 << INDEX_BITS) };
        self.at(index).entry().generation.load(Relaxed) << INDEX_BITS | index
    }

    /// The live object of a key.
    pub fn find(&self, key: u32) -> Option<&T> {
        let index = index_of(key);
        if index == 0 || index as usize >= N {
            return None;
        }
        let entry = self.items[index as usize].entry();
        let live = entry.owner.load(Relaxed) != 0 && entry.generation.load(Relaxed) == key >> INDEX_BITS & GENERATIONS;
        live.then(|| self.at(index))
    }

    /// Indices that have been used; some are free.
    pub fn used(&self) -> std::ops::Range<u32> {
        1..self.top.load(Relaxed).max(1)
    }

    /// Objects of all processes.
    pub fn count(&self) -> usize {
        let places = 1..self.top.load(Relaxed);
        places.filter(|&i| self.at(i).entry().owner.load(Relaxed) != 0).count()
    }

    /// Indices of the objects of one process.
    pub fn owned(&self, owner: u32) -> impl Iterator<Item = u32> + '_ {
        (1..self.top.load(Relaxed)).filter(move |&i| self.at(i).entry().owner.load(Relaxed) == owner + 1)
    }
}
