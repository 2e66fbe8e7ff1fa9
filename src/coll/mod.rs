//! Collectives over the primordial team (GASNet-EX 0.19, "Collectives"): barrier and broadcast.
//!
//! A collective is an operation whose state advances in every poll, from whatever call. What is active hangs in one list; a
//! poll without active collectives looks at one counter.

pub mod broadcast;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::barrier::Name;
use crate::event::{Category, Event, Op};
use crate::runtime;

/// Barriers of the primordial team that are not complete, oldest first; the first is entered.
static BARRIERS: Mutex<VecDeque<&'static Op>> = Mutex::new(VecDeque::new());
/// Collectives of any kind that wait for progress.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// Something became active.
pub(crate) fn activate() {
    ACTIVE.fetch_add(1, Ordering::Relaxed);
}

/// Something became complete.
pub(crate) fn deactivate() {
    ACTIVE.fetch_sub(1, Ordering::Relaxed);
}

/// Pushes active collectives and waiting packets on. Returns how much happened.
#[inline]
pub fn progress() -> usize {
    let mut count = crate::rma::progress();
    if ACTIVE.load(Ordering::Relaxed) != 0 {
        count += barriers() + broadcast::progress();
    }
    count
}

/// Starts a barrier (`gex_Coll_BarrierNB`). Several may be under way; they complete in order.
pub fn barrier(op: impl FnOnce() -> &'static Op) -> Event {
    let barrier = &runtime::get().team_barrier;
    let mut queue = BARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.is_empty() {
        barrier.enter(Name::Anonymous);
        if barrier.test().is_some() {
            return Event::INVALID;
        }
    }
    let op = op();
    op.begin(Category::Coll);
    queue.push_back(op);
    activate();
    op.event()
}

fn barriers() -> usize {
    let Ok(mut queue) = BARRIERS.try_lock() else { return 0 };
    let barrier = &runtime::get().team_barrier;
    let mut count = 0;
    while let Some(&op) = queue.front() {
        if barrier.test().is_none() {
            break;
        }
        queue.pop_front();
        deactivate();
        op.complete(Category::Coll);
        count += 1;
        if !queue.is_empty() {
            barrier.enter(Name::Anonymous);
        }
    }
    count
}
