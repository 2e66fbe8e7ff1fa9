//! The other threads of a process that keeps only one.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

use super::{process, signal};

/// Whether a fork would lose threads of the client: others exist, or this is not the main thread.
pub fn fork_loses_any() -> bool {
    // ThreadSanitizer has a thread of its own.
    let kept = 1 + u32::from(cfg!(gasnet_tsan));
    process::client_threads() > kept || process::thread() != process::pid()
}

/// The signal that parks a thread: the one that glibc uses to change the user of all threads. Its
/// functions let no thread block or wait for it, and a process that parks changes its user no more.
const PARK: i32 = 33;
/// Most passes over all threads, and the time between them.
const PASSES: u32 = 50;
const INTERVAL: Duration = Duration::from_millis(1);

static PARKED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_park(_signal: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    PARKED.fetch_add(1, Ordering::Relaxed);
    process::park();
}

/// Makes the other threads of this process run nothing but signal handlers from now on. They may
/// hold any lock, so the caller must not even allocate afterwards.
pub fn park_others() {
    signal::handle_reserved(PARK, on_park);
    let (own, me) = (process::pid(), process::thread());
    for _ in 0..PASSES {
        let mut others = 0;
        for_each(|thread| {
            if thread != me {
                others += 1;
                // SAFETY: takes numbers. A thread may have ended.
                unsafe { libc::syscall(libc::SYS_tgkill, own, thread, PARK) };
            }
        });
        if PARKED.load(Ordering::Relaxed) >= others {
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// The threads of this process, without the allocator.
fn for_each(mut each: impl FnMut(i32)) {
    let Some(folder) = tasks() else { return };
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(folder, &mut room);
    while let Some(Ok(entry)) = entries.next() {
        // Not the entries "." and "..".
        if let Some(number) = entry.file_name().to_str().ok().and_then(|name| name.parse().ok()) {
            each(number);
        }
    }
}

fn tasks() -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc/self/task", flags, Mode::empty()).ok()
}

/// The processors that any thread of this process may use: a runtime such as OpenMP has perhaps
/// bound each of its threads to one.
#[derive(Clone, Copy)]
pub struct AllProcessors(CpuSet);

impl AllProcessors {
    /// Those of the threads that exist.
    pub fn of_threads() -> Self {
        let mut all = CpuSet::new();
        for_each(|thread| {
            let mask = sched_getaffinity(rustix::process::Pid::from_raw(thread)).unwrap_or_default();
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| mask.is_set(cpu))
                .for_each(|cpu| all.set(cpu));
        });
        Self(all)
    }

    /// Allows them all to this thread.
    pub fn allow(&self) {
        // The kernel refuses an empty mask.
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_thread_loses_all_others() {
        assert!(std::thread::spawn(fork_loses_any).join().unwrap());
    }

    #[test]
    fn processors_of_all_threads_are_found() {
        let mut found = 0;
        for_each(|thread| found += i32::from(thread == process::thread()));
        assert_eq!(found, 1);
        let all = AllProcessors::of_threads();
        assert!(crate::cpus::numbers().iter().all(|&cpu| all.0.is_set(cpu)));
        all.allow();
    }
}
