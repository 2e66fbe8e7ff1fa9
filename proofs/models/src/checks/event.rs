//! `src/event.rs`.

use std::sync::Arc;

use loom::thread;

use super::Data;
use crate::event::{Category, FreeList};

const ALL: usize = 31;

/// Two threads complete what a third began, each after a write. A thread that sees the operation
/// complete sees both writes.
/// Catches: completion not release; test not acquire.
pub fn completion_publishes() {
    let mut free = FreeList::new();
    let op = free.take();
    let data = Arc::new([Data::default(), Data::default()]);
    op.begin(Category::Get);
    op.begin(Category::Get);
    op.begin(Category::Put);
    let event = op.event();
    let first = {
        let data = Arc::clone(&data);
        thread::spawn(move || {
            data[0].set(1);
            op.complete(Category::Get);
        })
    };
    let second = {
        let data = Arc::clone(&data);
        thread::spawn(move || {
            data[1].set(2);
            op.complete(Category::Get);
            op.complete(Category::Put);
        })
    };
    while !event.leaf(1 << Category::Get as usize).is_invalid() {
        thread::yield_now();
    }
    assert_eq!((data[0].get(), data[1].get()), (1, 2));
    first.join().unwrap();
    second.join().unwrap();
    assert!(event.is_done());
    event.consume(&mut free);
}

/// Takes operations and checks that no other thread has them.
fn take_some(free: &mut FreeList, count: usize) {
    let ops: Vec<_> = (0..count).map(|_| free.take()).collect();
    for op in &ops {
        assert!(
            op.is_done(ALL),
            "an operation was recycled while something was outstanding"
        );
        op.begin(Category::Put);
    }
    for op in &ops {
        op.complete(Category::Put);
        assert!(op.is_done(ALL), "two threads have the same operation");
    }
    for op in ops {
        free.put(op);
    }
}

/// Operations released by one thread are found by another; both allocate new chunks.
/// Catches: free-list links read without the lock that published them.
pub fn lists_exchange() {
    let threads = [3, 3].map(|count| {
        thread::spawn(move || {
            let mut free = FreeList::new();
            let set = free.take();
            take_some(&mut free, count);
            free.retire(set);
        })
    });
    threads.into_iter().for_each(|t| t.join().unwrap());
    take_some(&mut FreeList::new(), 7);
}

/// A thread ends with an outstanding operation in its set. No thread gets the set before that is
/// complete.
/// Catches: reusing a set without a check, or without acquire.
pub fn orphan() {
    let mut mine = FreeList::new();
    let set = mine.take();
    set.begin(Category::Put);
    mine.retire(set);
    let data = Arc::new(Data::default());
    let thread = {
        let data = Arc::clone(&data);
        thread::spawn(move || {
            data.set(1);
            set.complete(Category::Put);
        })
    };
    let mut free = FreeList::new();
    for op in (0..4).map(|_| free.take()).collect::<Vec<_>>() {
        assert!(
            op.is_done(ALL),
            "an operation was recycled while something was outstanding"
        );
        if op.event() == set.event() {
            assert_eq!(data.get(), 1);
        }
    }
    thread.join().unwrap();
}
