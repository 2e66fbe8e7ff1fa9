//! The place in a page of the words that every put and get reads first: the team's head, and the
//! offsets of neighbours' segments.
//!
//! Processors guess from the lowest 12 bits of an address which earlier store a load depends on,
//! and delay the load on a match. Clients' buffers often begin at a page, so a put would wait for
//! the bytes of the put before it, if these words lay at the beginning of a page, too (1 KiB: 13 ns
//! instead of 10). In its last quarter they do not meet copies of up to 3 KiB.

use std::ops::{Deref, Range};

const PAGE: usize = 4096;
const QUARTER: usize = PAGE / 4;

/// A value that begins in the last quarter of a page.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct LateInPage<T> {
    before: [u8; PAGE - QUARTER],
    value: T,
}

impl<T> LateInPage<T> {
    /// For ever. Not by way of the stack, which may be small.
    pub fn leak(value: T) -> &'static T {
        let place = Box::leak(Box::<Self>::new_uninit()).as_mut_ptr();
        // SAFETY: room for `Self`, of which only `value` is used.
        unsafe {
            (&raw mut (*place).value).write(value);
            &(*place).value
        }
    }
}

/// Offsets of neighbours' segments, which begin in the last quarter of a page.
#[derive(Debug)]
pub struct Offsets {
    memory: Box<[isize]>,
    used: Range<usize>,
}

impl Offsets {
    /// A copy of `offsets`.
    pub fn new(offsets: &[isize]) -> Self {
        let mut memory = vec![0; PAGE / size_of::<isize>() + offsets.len()].into_boxed_slice();
        let late = (PAGE - QUARTER).wrapping_sub(memory.as_ptr() as usize) % PAGE;
        let start = late / size_of::<isize>();
        let used = start..start + offsets.len();
        memory[used.clone()].copy_from_slice(offsets);
        Self { memory, used }
    }
}

impl Deref for Offsets {
    type Target = [isize];
    #[inline]
    fn deref(&self) -> &[isize] {
        &self.memory[self.used.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_late<T>(value: &T) -> bool {
        std::ptr::from_ref(value) as usize % PAGE >= PAGE - QUARTER
    }

    #[test]
    fn what_puts_read_first_lies_in_the_last_quarter_of_a_page() {
        assert!(is_late(LateInPage::leak([7u64; 3])));
        let kept: Vec<Offsets> = [1, 2, 700].map(|count| Offsets::new(&vec![-5; count])).into();
        for (offsets, count) in kept.iter().zip([1, 2, 700]) {
            assert_eq!((offsets.len(), offsets[count - 1]), (count, -5));
            assert!(is_late(&offsets[0]));
        }
    }
}
