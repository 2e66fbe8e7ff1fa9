//! Sleeping on a word of memory that may be shared between processes.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, at most for `limit`. May return early for no reason: look at the word again.
pub fn wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let time = libc::timespec {
        tv_sec: limit.as_secs().min(1 << 30) as libc::time_t,
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: the word and the time live through the call; the kernel only reads them. Every failure means "look again".
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            &raw const time,
            ptr::null::<u32>(),
            0,
        );
    }
}

/// Wakes all that sleep on `word`, in any process.
pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX);
}

/// Wakes at most `count` sleepers.
pub fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: the kernel uses the address only to find the sleepers.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE,
            count,
            ptr::null::<libc::timespec>(),
            ptr::null::<u32>(),
            0,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn wakes_and_times_out() {
        let word = AtomicU32::new(0);
        wait(&word, 1, Duration::from_secs(100));
        wait(&word, 0, Duration::from_millis(1));
        std::thread::scope(|s| {
            s.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, Duration::from_secs(100));
                }
            });
            word.store(1, Ordering::Release);
            wake_all(&word);
        });
    }
}
