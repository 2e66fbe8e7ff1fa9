//! A thread of a process that does tasks at later times, for faults that delay. Started when first
//! needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::fabric::now_ns;
use crate::lock::locked;

/// Something that is done later.
pub type Task = Box<dyn FnOnce() + Send>;

struct Timer {
    due_ns: u64,
    /// Timers of the same time fire in order.
    number: u64,
    task: Task,
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due_ns, other.number).cmp(&(self.due_ns, self.number))
    }
}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Timer {}

#[derive(Default)]
struct State {
    heap: BinaryHeap<Timer>,
    count: u64,
    is_running: bool,
}

/// Tasks that wait for their times.
#[derive(Default)]
pub struct Timers {
    state: Mutex<State>,
    wake: Condvar,
}

impl Timers {
    /// Does a task at a time of `now_ns`, or soon after.
    pub fn at(&'static self, due_ns: u64, task: impl FnOnce() + Send + 'static) {
        let mut state = locked(&self.state);
        let (number, task) = (state.count, Box::new(task));
        state.count += 1;
        state.heap.push(Timer { due_ns, number, task });
        if !state.is_running {
            state.is_running = true;
            start(|| self.run());
        }
        self.wake.notify_one();
    }

    fn run(&self) {
        let mut state = locked(&self.state);
        loop {
            let wait = state.heap.peek().map(|next| next.due_ns.saturating_sub(now_ns()));
            match wait {
                None => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(0) => {
                    let timer = state.heap.pop();
                    drop(state);
                    if let Some(timer) = timer {
                        (timer.task)();
                    }
                    state = locked(&self.state);
                }
                Some(ns) => {
                    let waited = self.wake.wait_timeout(state, Duration::from_nanos(ns));
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

/// Starts a thread that takes no signals: they are the program's.
pub fn start(run: impl FnOnce() + Send + 'static) {
    // SAFETY: the sets live through the calls.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        std::thread::spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}
