//! `job/src/control_block/barrier.rs`.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};
use loom::thread;

use super::Data;
use crate::job_barrier::Barrier;

const RANKS: usize = 2;

/// Each rank writes, enters, waits as `job/src/exchange.rs` does, and reads what both wrote before.
/// The third barrier shows that the words are reused.
/// Catches: arrival not acquire or not release; generation not release; its load not acquire;
/// arrivals not cleared; sleepers not woken.
pub fn two_ranks() {
    const ROUNDS: usize = 3;
    #[derive(Default)]
    struct Shared {
        barrier: Barrier,
        slots: [[Data; RANKS]; ROUNDS],
    }
    let take_part = |shared: &Shared, rank: usize| {
        for slots in &shared.slots {
            slots[rank].set(7);
            let (ticket, last) = shared.barrier.enter(RANKS as u32);
            if last {
                shared.barrier.release();
            }
            wait(&shared.barrier, ticket);
            assert!(slots.iter().all(|d| d.get() == 7));
        }
    };
    let shared = Arc::new(Shared::default());
    let other = Arc::clone(&shared);
    let other = thread::spawn(move || take_part(&other, 1));
    take_part(&shared, 0);
    other.join().unwrap();
}

/// With several hosts. The last rank notifies the node agent, which reads what the ranks wrote, and
/// writes over it before it releases the barrier.
/// Catches: arrival not acquire or not release; generation not release; its load not acquire.
pub fn relayed() {
    #[derive(Default)]
    struct Shared {
        barrier: Barrier,
        /// The socket.
        notified: Mutex<bool>,
        is_notified: Condvar,
        slots: [Data; RANKS],
    }
    let take_part = |shared: &Shared, rank: usize| {
        shared.slots[rank].set(7);
        let (ticket, last) = shared.barrier.enter(RANKS as u32);
        if last {
            *shared.notified.lock().unwrap() = true;
            shared.is_notified.notify_one();
        }
        wait(&shared.barrier, ticket);
        assert!(shared.slots.iter().all(|d| d.get() == 8));
    };
    let shared = Arc::new(Shared::default());
    let ranks = [0, 1].map(|rank| {
        let shared = Arc::clone(&shared);
        thread::spawn(move || take_part(&shared, rank))
    });
    let mut notified = shared.notified.lock().unwrap();
    while !*notified {
        notified = shared.is_notified.wait(notified).unwrap();
    }
    drop(notified);
    for slot in &shared.slots {
        assert_eq!(slot.get(), 7);
        slot.set(8);
    }
    shared.barrier.release();
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
}

fn wait(barrier: &Barrier, ticket: u32) {
    while !barrier.is_done(ticket) {
        barrier.sleep(ticket, Duration::ZERO);
    }
}
