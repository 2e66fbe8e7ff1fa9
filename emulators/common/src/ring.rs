//! Rings of fixed records of 64-bit words on the heap: receives, completions and events.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::fabric::{Layout, Member};

/// A ring. Positions count without end. The lock of the object that has the ring guards it, except
/// that `is_empty` needs none, and that one thread may push while another takes.
#[repr(C)]
pub struct Ring {
    offset: AtomicU64,
    /// Records that it holds at most; there is room for a power of two.
    capacity: AtomicU32,
    /// Words of a record.
    stride: AtomicU32,
    /// Records ever written.
    written: AtomicU32,
    /// Records ever taken.
    taken: AtomicU32,
}

impl Ring {
    fn bytes(capacity: u32, stride: u32) -> u64 {
        u64::from(capacity.next_power_of_two()) * u64::from(stride) * 8
    }

    /// Makes room for at least one record. None: the heap is full.
    pub fn make<F: Layout>(&self, member: &Member<F>, capacity: u32, stride: u32) -> Option<()> {
        let capacity = capacity.max(1);
        let offset = member.take_bytes(Self::bytes(capacity, stride))?;
        self.set(offset, capacity, stride);
        Some(())
    }

    /// Frees its room. The caller holds `allocation`.
    pub fn free<F: Layout>(&self, member: &Member<F>) {
        if self.capacity() != 0 {
            member.give_bytes(self.offset(), Self::bytes(self.capacity(), self.stride.load(Relaxed)));
            self.set(0, 0, 1);
        }
    }

    fn set(&self, offset: u64, capacity: u32, stride: u32) {
        self.offset.store(offset, Relaxed);
        self.capacity.store(capacity, Relaxed);
        self.stride.store(stride, Relaxed);
        self.clear();
    }

    pub fn clear(&self) {
        self.taken.store(0, Relaxed);
        self.written.store(0, Relaxed);
    }

    /// The place of its records on the heap, which no other ring has.
    pub fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    pub fn capacity(&self) -> u32 {
        self.capacity.load(Relaxed)
    }

    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.written.load(Acquire).wrapping_sub(self.taken.load(Acquire))
    }

    /// Whether there was nothing a moment ago.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline(always)]
    fn record<'a>(&self, words: &'a [AtomicU64], position: u32) -> &'a [AtomicU64] {
        let stride = self.stride.load(Relaxed) as usize;
        let first =
            self.offset() as usize / 8 + (position & (self.capacity().next_power_of_two() - 1)) as usize * stride;
        &words[first..first + stride]
    }

    /// Writes a record, shorter ones too. False: full.
    #[inline(always)]
    pub fn push(&self, words: &[AtomicU64], record: &[u64]) -> bool {
        if self.len() == self.capacity() {
            return false;
        }
        let written = self.written.load(Relaxed);
        for (word, value) in self.record(words, written).iter().zip(record) {
            word.store(*value, Relaxed);
        }
        self.written.store(written.wrapping_add(1), Release);
        true
    }

    /// The n-th oldest record.
    #[inline(always)]
    pub fn peek<'a>(&self, words: &'a [AtomicU64], n: u32) -> Option<&'a [AtomicU64]> {
        (n < self.len()).then(|| self.record(words, self.taken.load(Relaxed).wrapping_add(n)))
    }

    /// Takes the oldest record away.
    #[inline(always)]
    pub fn pop(&self) {
        self.taken.store(self.taken.load(Relaxed).wrapping_add(1), Release);
    }

    /// Keeps only the records that `keep` wants, in order.
    pub fn retain(&self, words: &[AtomicU64], keep: impl Fn(&[AtomicU64]) -> bool) {
        let taken = self.taken.load(Relaxed);
        let mut kept = taken;
        for position in 0..self.len() {
            let from = self.record(words, taken.wrapping_add(position));
            if keep(from) {
                for (to, from) in self.record(words, kept).iter().zip(from) {
                    to.store(from.load(Relaxed), Relaxed);
                }
                kept = kept.wrapping_add(1);
            }
        }
        self.written.store(kept, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_wraps_and_forgets() {
        let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        // SAFETY: atomics may be all zero.
        let ring: Ring = unsafe { std::mem::zeroed() };
        ring.set(0, 4, 2);
        for i in 0..3 {
            assert!(ring.push(&words, &[i, 0]));
        }
        ring.pop();
        ring.pop();
        for i in 3..6 {
            assert!(ring.push(&words, &[i, 0]));
        }
        assert!(!ring.push(&words, &[9, 9]), "full");
        ring.retain(&words, |record| record[0].load(Relaxed) % 2 == 0);
        assert_eq!(ring.len(), 2);
        assert_eq!(ring.peek(&words, 1).unwrap()[0].load(Relaxed), 4);
    }
}
