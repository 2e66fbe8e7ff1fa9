//! Blocking on a word of memory that processes may share.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

/// Blocks while `word` is `expected`, for at most `limit`. May return early without a reason: the
/// caller reads the word again.
pub fn wait(word: &AtomicU32, expected: u32, limit: Duration) {
    let limit = Timespec {
        tv_sec: limit.as_secs().min(1 << 30) as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Every error means: read the word again.
    let _ = futex::wait(word, Flags::empty(), expected, Some(&limit));
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
