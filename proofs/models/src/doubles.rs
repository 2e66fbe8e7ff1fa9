//! Cut-down versions of what the structures use of the rest of the library.

pub mod conduit {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Class {
        Request,
        Reply,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum PollScope {
        Replies,
        All,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Busy;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct JobRank(pub u32);
}

/// As in the kernel, the comparison and the sleep are under a lock that a waker takes, too. There
/// is no time limit: in a model, a wake-up that only the limit repairs is a deadlock.
pub mod futex {
    use std::time::Duration;

    use loom::sync::{Condvar, Mutex};

    use crate::atomic::{AtomicU32, Ordering};

    loom::lazy_static! {
        static ref BUCKET: Mutex<()> = Mutex::new(());
        static ref SLEEPERS: Condvar = Condvar::new();
    }

    pub fn wait(word: &AtomicU32, expected: u32, _limit: Duration) -> bool {
        let bucket = BUCKET.lock().unwrap();
        let blocks = word.load(Ordering::Relaxed) == expected;
        if blocks {
            drop(SLEEPERS.wait(bucket).unwrap());
        }
        blocks
    }

    pub fn wake_all(_word: &AtomicU32) {
        let _bucket = BUCKET.lock().unwrap();
        SLEEPERS.notify_all();
    }

    pub fn wake(_word: &AtomicU32, _one: u32) {
        let _bucket = BUCKET.lock().unwrap();
        SLEEPERS.notify_one();
    }
}

pub mod membarrier {
    use crate::atomic::{fence, Ordering};

    pub fn register() -> bool {
        true
    }

    /// The sleeper's side; see `atomic::light_fence`.
    pub fn global() -> bool {
        fence(Ordering::SeqCst);
        true
    }
}

/// Time stands still.
pub mod timer {
    pub fn monotonic_ns() -> u64 {
        0
    }
}

pub enum Inside {
    Wait,
}

pub fn check_exit(_: Inside) {}

macro_rules! fatal {
    ($($words:tt)*) => {
        panic!($($words)*)
    };
}
