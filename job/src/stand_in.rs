//! A start in a process with other threads. A fork gives its child the calling thread only, so in
//! forked ranks `main` might never run on, and a team of threads would wait for ever. The ranks are
//! fresh processes then ([`super::fresh`]), children of a node agent that this process forks.
//!
//! The started process itself cannot be the agent, because its other threads hold locks and go on
//! with the client's code. It becomes the agent's stand-in: it parks its threads, forwards signals,
//! and ends as the agent ends.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::agent::take_over_signals;
use super::JobError;
use gasnet_sys::process::{self, Ended, Fork, Pid};
use gasnet_sys::threads::{self, AllProcessors};
use gasnet_sys::{fd, signal};

/// Exit code if something else took the agent's status.
const UNKNOWN: i32 = 1;

static AGENT: AtomicI32 = AtomicI32::new(0);

/// Forks the process that becomes the node agent, and returns there.
pub fn fork_agent() -> Result<(), JobError> {
    let (processors, own) = (AllProcessors::of_threads(), process::pid());
    let failed = |error| JobError::io("forking the node agent of this host", &error);
    // The agent waits until signals are forwarded: another thread may receive one now.
    let (is_ready, ready) = fd::pipe().map_err(failed)?;
    // Not all streams: a thread may block in a read of standard input, and has its lock. The child
    // flushes them, with locks of its own.
    let _ = process::flush_output();
    let mask = signal::block_all();
    // SAFETY: the child uses the allocator, which glibc keeps usable across fork, and state of ours
    // that no other thread has used.
    match unsafe { process::fork() } {
        Ok(Fork::Child) => {
            process::die_with_parent();
            if process::parent() != own {
                process::end(UNKNOWN);
            }
            processors.allow();
            drop(ready);
            let _ = fd::read(is_ready.as_raw_fd(), &mut [0]);
            signal::set_mask(&mask);
            Ok(())
        }
        Ok(Fork::Parent(agent)) => stand_in(agent, ready),
        Err(error) => {
            signal::set_mask(&mask);
            Err(failed(error))
        }
    }
}

/// Ends this process as the agent ends. Allocates nothing.
fn stand_in(agent: Pid, ready: OwnedFd) -> ! {
    AGENT.store(agent, Ordering::Relaxed);
    // The writer to standard input must see that rank 0 has closed it.
    fd::empty_stdin();
    take_over_signals(on_signal);
    signal::set_default(libc::SIGCHLD);
    let _ = fd::write_all(ready.as_raw_fd(), b"r");
    drop(ready);
    threads::park_others();
    signal::unblock_all();
    match process::wait(agent) {
        Ended::Exited(code) => process::end(code),
        Ended::Killed(number) => {
            signal::set_default(number);
            signal::raise(number);
            process::end(128 + number)
        }
        Ended::Unknown => process::end(UNKNOWN),
    }
}

/// Forwards a signal of a process. Those of a terminal have already reached the agent.
extern "C" fn on_signal(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure.
    if unsafe { signal::sent_by_process(info) } {
        process::kill(AGENT.load(Ordering::Relaxed), number);
    }
}
