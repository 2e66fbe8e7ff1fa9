//! The kernel's process-wide memory barrier: the thread that goes to sleep pays for the fence, so
//! that senders need none.
//!
//! A global expedited barrier is a full fence on every running thread of every registered process.
#![forbid(unsafe_code)]

use rustix::thread::{membarrier, MembarrierCommand};

/// Registers this process. False if the kernel refuses: [`global`] then gives no guarantee.
pub fn register() -> bool {
    membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok()
}

/// A fence in all registered processes. False if the kernel refused it.
pub fn global() -> bool {
    membarrier(MembarrierCommand::GlobalExpedited).is_ok()
}
