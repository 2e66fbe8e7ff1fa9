//! Blocking on a word of memory that processes may share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex::{self, Flags, Timespec};

/// Blocks while `word` is `expected`, for at most `limit`. May return early without a reason: the
/// caller reads the word again. Returns false if it did not block, since the word was different.
pub fn wait(word: &AtomicU32, expected: u32, limit: Duration) -> bool {
    let limit = Timespec {
        tv_sec: limit.as_secs().min(1 << 30) as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Every other error means: read the word again.
    futex::wait(word, Flags::empty(), expected, Some(&limit)) != Err(Errno::AGAIN)
}

/// Wakes every thread that blocks on `word`, in any process.
pub fn wake_all(word: &AtomicU32) {
    wake(word, i32::MAX as u32);
}

/// Wakes at most `count` threads that block on `word`, in any process.
pub fn wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::empty(), count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn wakes_and_times_out() {
        let word = AtomicU32::new(0);
        assert!(!wait(&word, 1, Duration::from_secs(100)));
        assert!(wait(&word, 0, Duration::from_millis(1)));
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
