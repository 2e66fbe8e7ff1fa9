//! Values with numbers, looked up without a lock.

use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::OnceLock;

/// Slots inside of the table; the first block has twice as many, and each further block is twice as
/// long.
const FIRST: usize = 64;
/// As many blocks as numbers of 31 bits need.
const BLOCKS: usize = 25;

type Block<T> = Box<[AtomicPtr<T>]>;

/// A table that only grows. Numbers of removed values are used again.
#[derive(Debug)]
pub struct SlotTable<T> {
    first: [AtomicPtr<T>; FIRST],
    blocks: Box<[OnceLock<Block<T>>]>,
    numbers: Mutex<Numbers>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// Numbers below this were given out.
    next: usize,
    free: Vec<usize>,
}

/// Block and slot of a number that is not inside of the table.
const fn place(number: usize) -> (usize, usize) {
    let block = (number / FIRST + 1).ilog2() as usize - 1;
    (block, number - FIRST * ((2 << block) - 1))
}

impl<T> Default for SlotTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> SlotTable<T> {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            first: [const { AtomicPtr::new(ptr::null_mut()) }; FIRST],
            blocks: std::iter::repeat_with(OnceLock::new).take(BLOCKS).collect(),
            numbers: Mutex::default(),
        }
    }

    /// Adds a value, and returns its number.
    pub fn add(&self, value: T) -> u32 {
        let mut numbers = lock(&self.numbers);
        let number = numbers.free.pop().unwrap_or_else(|| {
            numbers.next += 1;
            numbers.next - 1
        });
        let slot = self.first.get(number).unwrap_or_else(|| {
            let (block, slot) = place(number);
            let block = self.blocks[block].get_or_init(|| {
                let slots = std::iter::repeat_with(|| AtomicPtr::new(ptr::null_mut()));
                slots.take((2 * FIRST) << block).collect()
            });
            &block[slot]
        });
        slot.store(Box::into_raw(Box::new(value)), Ordering::Release);
        number as u32
    }

    #[inline(always)]
    fn slot(&self, number: u32) -> Option<&AtomicPtr<T>> {
        self.first.get(number as usize).or_else(|| self.slot_in_block(number))
    }

    #[inline(never)]
    fn slot_in_block(&self, number: u32) -> Option<&AtomicPtr<T>> {
        let (block, slot) = place(number as usize);
        self.blocks.get(block)?.get()?.get(slot)
    }

    /// The value of a number.
    ///
    /// # Safety
    /// It is not removed while the reference is used.
    #[inline]
    pub unsafe fn get(&self, number: u32) -> Option<&T> {
        let value = self.slot(number)?.load(Ordering::Acquire);
        // SAFETY: null or a value that is not removed, by the contract.
        unsafe { value.as_ref() }
    }

    /// Removes the value of a number.
    ///
    /// # Safety
    /// Nobody uses it.
    pub unsafe fn remove(&self, number: u32) -> Option<T> {
        let value = self.slot(number)?.swap(ptr::null_mut(), Ordering::AcqRel);
        if value.is_null() {
            return None;
        }
        lock(&self.numbers).free.push(number as usize);
        // SAFETY: from `Box::into_raw`, and taken out once.
        Some(*unsafe { Box::from_raw(value) })
    }
}

impl<T> Drop for SlotTable<T> {
    fn drop(&mut self) {
        let blocks = self.blocks.iter().filter_map(OnceLock::get).flatten();
        for value in self
            .first
            .iter()
            .chain(blocks)
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|value| !value.is_null())
        {
            // SAFETY: from `Box::into_raw`, and nobody else has the table.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_name_their_values() {
        let table = SlotTable::new();
        for value in 0..1000_u32 {
            assert_eq!(table.add(value), value);
        }
        // SAFETY: nobody else uses the table.
        unsafe {
            assert!((0..1000).all(|number| table.get(number) == Some(&number)));
            assert_eq!(table.get(1000), None);
            assert_eq!(table.get(u32::MAX), None);
            assert_eq!(
                (table.remove(77), table.remove(77), table.get(77)),
                (Some(77), None, None)
            );
            assert_eq!(table.add(5), 77);
            assert_eq!(table.get(77), Some(&5));
        }
    }

    #[test]
    fn places_fill_blocks() {
        assert_eq!(place(FIRST), (0, 0));
        assert_eq!(place(3 * FIRST - 1), (0, 2 * FIRST - 1));
        assert_eq!(place(3 * FIRST), (1, 0));
        assert_eq!(place(7 * FIRST), (2, 0));
        assert!(place(u32::MAX as usize >> 1).0 < BLOCKS);
    }
}
