//! `TryLock` of `src/sync.rs`, and `src/hsl.rs`.

use std::sync::Arc;

use loom::thread;

use super::Data;
use crate::hsl::Hsl;
use crate::sync::TryLock;

/// Two threads increment under a try-lock.
/// Catches: lock not acquire; unlock not release.
pub fn try_lock() {
    let lock = Arc::new(TryLock::new(Data::default()));
    let attempt = |lock: &TryLock<Data>| {
        for _ in 0..2 {
            if let Some(held) = lock.try_lock() {
                held.set(held.get() + 1);
            }
        }
    };
    let threads = [(); 2].map(|()| {
        let lock = Arc::clone(&lock);
        thread::spawn(move || attempt(&lock))
    });
    threads.into_iter().for_each(|t| t.join().unwrap());
    let count = lock.try_lock().map(|held| held.get());
    assert!(count.is_some_and(|n| (2..=4).contains(&n)));
}

/// Three threads; a lost wake-up is a deadlock.
/// Catches: lock not acquire; unlock not release; waiting as TAKEN instead of CONTENDED; no
/// wake-up.
pub fn hsl() {
    let shared = Arc::new((Hsl::new(), Data::default()));
    let add = |(lock, data): &(Hsl, Data)| {
        lock.lock();
        data.set(data.get() + 1);
        lock.unlock();
    };
    let threads = [(); 2].map(|()| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || add(&shared))
    });
    add(&shared);
    threads.into_iter().for_each(|t| t.join().unwrap());
    assert!(shared.0.try_lock() && !shared.0.try_lock());
    assert_eq!(shared.1.get(), 3);
}
