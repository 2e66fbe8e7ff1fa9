//! Queues without locks (`MLX5_SINGLE_THREADED`).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::OnceLock;
use std::thread::{self, ThreadId};

use crate::handle::misuse;

/// Whether queues are made without locks. As in libmlx5, the last device that was opened decides
/// for all queues of the process.
static IS_SINGLE_THREADED: AtomicBool = AtomicBool::new(false);

/// Reads the variable, when a device is opened.
pub fn read_variable() {
    let is_set = std::env::var("MLX5_SINGLE_THREADED").is_ok_and(|value| value == "1");
    IS_SINGLE_THREADED.store(is_set, Relaxed);
}

/// The thread that may use a queue: the first that does. None: the queue has a lock.
pub struct OnlyThread(Option<OnceLock<ThreadId>>);

impl OnlyThread {
    /// That of a new queue.
    pub fn new() -> OnlyThread {
        OnlyThread(IS_SINGLE_THREADED.load(Relaxed).then(OnceLock::new))
    }

    /// Aborts in another thread.
    pub fn check(&self, what: &str) {
        let Some(only) = &self.0 else { return };
        let this = thread::current().id();
        if *only.get_or_init(|| this) != this {
            misuse(&format!(
                "two threads {what} that was made without locks (MLX5_SINGLE_THREADED)"
            ));
        }
    }
}
