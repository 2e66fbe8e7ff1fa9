//! A few things on the stack, without the cost of initialising room for all of them.

use std::mem::MaybeUninit;

/// At most `MOST` values.
#[derive(Debug)]
pub struct FixedVec<T, const MOST: usize> {
    room: [MaybeUninit<T>; MOST],
    /// Those from `taken` to `count` are there.
    taken: usize,
    count: usize,
}

impl<T, const MOST: usize> Default for FixedVec<T, MOST> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const MOST: usize> FixedVec<T, MOST> {
    /// None yet.
    #[inline]
    pub const fn new() -> Self {
        Self {
            room: [const { MaybeUninit::uninit() }; MOST],
            taken: 0,
            count: 0,
        }
    }

    /// The number of those that are there.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count - self.taken
    }

    /// Whether there are none.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.count == self.taken
    }

    /// Adds a value.
    #[inline]
    pub fn push(&mut self, value: T) {
        self.room[self.count].write(value);
        self.count += 1;
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.by_ref().for_each(drop);
        (self.taken, self.count) = (0, 0);
    }
}

impl<T, const MOST: usize> Iterator for FixedVec<T, MOST> {
    type Item = T;
    #[inline]
    fn next(&mut self) -> Option<T> {
        let taken = self.taken;
        (taken < self.count).then(|| {
            self.taken += 1;
            // SAFETY: written, and taken once.
            unsafe { self.room[taken].assume_init_read() }
        })
    }
}

impl<T, const MOST: usize> std::ops::Deref for FixedVec<T, MOST> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        let there = &self.room[self.taken..self.count];
        // SAFETY: these were written and not taken.
        unsafe { std::slice::from_raw_parts(there.as_ptr().cast(), there.len()) }
    }
}

impl<T, const MOST: usize> Drop for FixedVec<T, MOST> {
    #[inline]
    fn drop(&mut self) {
        self.by_ref().for_each(drop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn values_are_dropped_once() {
        let value = Rc::new(());
        const MOST: usize = 32;
        let mut batch = FixedVec::<_, MOST>::new();
        for _ in 0..MOST {
            batch.push(Rc::clone(&value));
        }
        assert_eq!((batch.len(), Rc::strong_count(&value)), (MOST, MOST + 1));
        assert!(batch.next().is_some());
        assert_eq!((batch.len(), Rc::strong_count(&value)), (MOST - 1, MOST));
        batch.clear();
        assert!(batch.is_empty() && Rc::strong_count(&value) == 1);
        batch.push(Rc::clone(&value));
        drop(batch);
        assert_eq!(Rc::strong_count(&value), 1);
    }
}
