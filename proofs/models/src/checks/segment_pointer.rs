//! `src/thread/count.rs`, as `src/segment/create.rs` uses it.

use std::sync::Arc;

use loom::thread;

use super::Data;
use crate::atomic::{AtomicBool, Ordering};
use crate::thread_count::Count;

/// A thread of the library begins, looks for a segment, reads it, and ends, while another thread
/// unbinds the segment and frees it if it finds no reader.
/// Catches: no fence on either side; the end of a reader not release; the count not acquire.
pub fn freed() {
    #[derive(Default)]
    struct Shared {
        count: Count,
        /// Whether an endpoint has the pointer.
        is_bound: AtomicBool,
        segment: Data,
    }
    let shared = Arc::new(Shared::default());
    shared.is_bound.store(true, Ordering::Relaxed);
    let reader = Arc::clone(&shared);
    let reader = thread::spawn(move || {
        reader.count.enter();
        // As `Endpoint::bound`.
        if reader.is_bound.load(Ordering::Acquire) {
            assert_eq!(reader.segment.get(), 0);
        }
        reader.count.leave();
    });
    // As `endpoint::unbind`.
    let unbound = shared
        .is_bound
        .compare_exchange(true, false, Ordering::AcqRel, Ordering::Relaxed);
    assert_eq!(unbound, Ok(true));
    if shared.count.of_readers() == 0 {
        shared.segment.set(1);
    }
    reader.join().unwrap();
}
