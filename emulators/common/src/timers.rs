//! A thread of a process that does tasks at later times, for faults that delay. Started when first
//! needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fabric::now_ns;

struct Timer<T> {
    due_ns: u64,
    /// Timers of the same time fire in order.
    number: u64,
    task: T,
}

impl<T> Ord for Timer<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due_ns, other.number).cmp(&(self.due_ns, self.number))
    }
}
impl<T> PartialOrd for Timer<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> PartialEq for Timer<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<T> Eq for Timer<T> {}

struct State<T> {
    heap: BinaryHeap<Timer<T>>,
    count: u64,
    is_running: bool,
}

/// Tasks that wait for their times.
pub struct Timers<T> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

impl<T> Default for Timers<T> {
    fn default() -> Self {
        let state = State {
            heap: BinaryHeap::new(),
            count: 0,
            is_running: false,
        };
        Self {
            state: Mutex::new(state),
            wake: Condvar::new(),
        }
    }
}

impl<T: Send + 'static> Timers<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a task at a time of `now_ns`, or soon after, by `perform`, which is the same in all
    /// calls.
    pub fn at(&'static self, due_ns: u64, task: T, perform: impl Fn(T) + Send + 'static) {
        let mut state = self.state();
        let number = state.count;
        state.count += 1;
        state.heap.push(Timer { due_ns, number, task });
        if !state.is_running {
            state.is_running = true;
            start(move || self.run(perform));
        }
        self.wake.notify_one();
    }

    fn run(&self, perform: impl Fn(T)) {
        let mut state = self.state();
        loop {
            let wait = state.heap.peek().map(|next| next.due_ns.saturating_sub(now_ns()));
            match wait {
                None => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(0) => {
                    let timer = state.heap.pop();
                    drop(state);
                    if let Some(timer) = timer {
                        perform(timer.task);
                    }
                    state = self.state();
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
