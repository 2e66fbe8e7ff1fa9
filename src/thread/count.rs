//! Counts of threads that may look at objects of the client. `proofs/models/` compiles this file,
//! too.
//!
//! SYNC POINT segment-pointer: a thread is counted before it loads its first pointer to an object,
//! and another thread has cleared the pointers before it reads the count, with a fence on both
//! sides. Either the count includes the thread, or the thread finds no pointer. A thread that the
//! count no longer includes (release, acquire) has used its last one.

use gasnet_sys::atomic::{fence, AtomicUsize, Ordering};

/// Threads that have a state now.
#[derive(Debug, Default)]
pub struct Count(pub AtomicUsize);

impl Count {
    /// Counts the calling thread, which has loaded no pointer.
    pub fn enter(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Counts the calling thread no more.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    #[inline]
    pub fn now(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Threads that may have one of the pointers that the caller has cleared.
    pub fn of_readers(&self) -> usize {
        fence(Ordering::SeqCst);
        self.now()
    }
}
