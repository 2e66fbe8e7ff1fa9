//! The number of registrations of local memory for single operations.
#![forbid(unsafe_code)]

use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicUsize;

/// Registrations that there are, and their largest number.
pub struct Registrations {
    count: AtomicUsize,
    most: usize,
}

impl Registrations {
    /// None yet, of at most `most`.
    pub fn new(most: usize) -> Self {
        let count = AtomicUsize::new(0);
        Self { count, most }
    }

    /// Counts another one. False if there are as many as there may be.
    pub fn take(&self) -> bool {
        let is_taken = self.count.fetch_add(1, Ordering::Relaxed) < self.most;
        if !is_taken {
            self.give_back();
        }
        is_taken
    }

    /// One has ended.
    pub fn give_back(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }
}
