//! Room for completions, where the completion queue of an HCA is shorter than all send queues
//! together.
#![forbid(unsafe_code)]

use gasnet_sys::atomic::Ordering;
use gasnet_sys::padded::Padded;
use std::sync::atomic::AtomicI64;

/// Room for the completions of work requests, beside those of receives.
pub struct CompletionRoom {
    /// None if the queue has room for all send queues. All threads that send write it.
    left: Option<Padded<AtomicI64>>,
    /// Completions that the queue has room for.
    pub most: usize,
}

impl CompletionRoom {
    /// For `most` completions, of send queues with `work_requests` work requests together.
    pub fn new(most: usize, work_requests: usize) -> Self {
        let left = (work_requests > most).then(|| Padded(AtomicI64::new(most as i64)));
        Self { left, most }
    }

    /// Takes room for the completion of a work request. False if there is none.
    #[inline]
    pub fn take(&self) -> bool {
        let Some(left) = &self.left else { return true };
        if left.fetch_sub(1, Ordering::Relaxed) > 0 {
            return true;
        }
        self.give_back(1);
        false
    }

    /// Whether much of the room is taken. Work requests without completions of their own must not
    /// take the rest: they return theirs only with a later one.
    #[inline]
    pub fn is_short(&self) -> bool {
        let is_short = |left: &Padded<AtomicI64>| left.load(Ordering::Relaxed) < (self.most / 2) as i64;
        self.left.as_ref().is_some_and(is_short)
    }

    /// Gives room back.
    #[inline]
    pub fn give_back(&self, completions: usize) {
        if let Some(left) = &self.left {
            left.fetch_add(completions as i64, Ordering::Relaxed);
        }
    }
}
