//! The kernel's process-wide memory barrier: the side that sleeps pays, so that the side that sends need not fence.
//!
//! A global expedited barrier is a full fence on every running thread of every process that registered.

const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;
const GLOBAL_EXPEDITED: i32 = 1 << 1;

/// Registers this process. False where the kernel refuses; then [`global`] must not be relied upon.
pub fn register() -> bool {
    call(REGISTER_GLOBAL_EXPEDITED)
}

/// A fence in all registered processes. False if it did not happen.
pub fn global() -> bool {
    call(GLOBAL_EXPEDITED)
}

fn call(command: i32) -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}
