//! The barrier of the primordial team (`gex_Coll_BarrierNB`): split-phase over [`crate::barrier`], several at a time in order.

use std::collections::VecDeque;
use std::sync::PoisonError;

use super::{activate, deactivate};
use crate::atomic::Mutex;
use crate::barrier::Name;
use crate::event::{Category, Event, Op};
use crate::runtime;
use crate::trace::interval::Interval;

/// A barrier that is not complete.
struct Waiting {
    op: &'static Op,
    interval: Option<Interval>,
}

/// Barriers that are not complete, oldest first; the first is entered.
static BARRIERS: Mutex<VecDeque<Waiting>> = Mutex::new(VecDeque::new());

/// Starts a barrier. Several may be under way; they complete in order.
pub fn start(op: impl FnOnce() -> &'static Op) -> Event {
    let barrier = &runtime::get().team_barrier;
    let interval = Interval::begin("gex_Coll_BarrierNB", 0, format_args!(" team=0 size={}", runtime::get().size));
    let mut queue = BARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
    if queue.is_empty() {
        barrier.enter(Name::Anonymous);
        if barrier.test().is_some() {
            if let Some(interval) = interval {
                interval.end();
            }
            return Event::INVALID;
        }
    }
    let op = op();
    op.begin(Category::Coll);
    queue.push_back(Waiting { op, interval });
    activate();
    op.event()
}

/// Whether a barrier is under way: that of `op`, or any.
pub fn is_open(op: Option<&'static Op>) -> bool {
    let queue = BARRIERS.lock().unwrap_or_else(PoisonError::into_inner);
    queue.iter().any(|open| op.is_none_or(|op| std::ptr::eq(op, open.op)))
}

/// Completes what is complete. Returns how many.
pub fn progress() -> usize {
    let Ok(mut queue) = BARRIERS.try_lock() else { return 0 };
    let barrier = &runtime::get().team_barrier;
    let mut count = 0;
    while let Some(&Waiting { op, interval }) = queue.front() {
        if barrier.test().is_none() {
            break;
        }
        queue.pop_front();
        deactivate();
        if let Some(interval) = interval {
            interval.end();
        }
        op.complete(Category::Coll);
        count += 1;
        if !queue.is_empty() {
            barrier.enter(Name::Anonymous);
        }
    }
    count
}
