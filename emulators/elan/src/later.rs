//! The thread of a process that does what the options `late` and `reorder` delay. Started when
//! first needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use emulator_common::fabric::now_ns;

use crate::process::{locked, Process};

type Task = Box<dyn FnOnce() + Send>;

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
struct Timers {
    heap: BinaryHeap<Timer>,
    count: u64,
    is_running: bool,
}

#[derive(Default)]
pub struct Later {
    timers: Mutex<Timers>,
    wake: Condvar,
}

/// Does something at a time of `now_ns`.
pub fn schedule(process: &'static Process, due_ns: u64, task: impl FnOnce() + Send + 'static) {
    let later = &process.later;
    let mut timers = locked(&later.timers);
    let number = timers.count;
    timers.count += 1;
    let task = Box::new(task);
    timers.heap.push(Timer { due_ns, number, task });
    if !timers.is_running {
        timers.is_running = true;
        start(|| later.run());
    }
    later.wake.notify_one();
}

/// Does something after a random time.
pub fn schedule_soon(process: &'static Process, task: impl FnOnce() + Send + 'static) {
    schedule(process, now_ns() + process.delay_ns(), task);
}

impl Later {
    fn run(&self) {
        let mut timers = locked(&self.timers);
        loop {
            let wait = timers.heap.peek().map(|next| next.due_ns.saturating_sub(now_ns()));
            match wait {
                None => timers = self.wake.wait(timers).unwrap_or_else(PoisonError::into_inner),
                Some(0) => {
                    let timer = timers.heap.pop();
                    drop(timers);
                    if let Some(timer) = timer {
                        (timer.task)();
                    }
                    timers = locked(&self.timers);
                }
                Some(ns) => {
                    let result = self.wake.wait_timeout(timers, Duration::from_nanos(ns));
                    timers = result.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }
}

/// Starts a thread that takes no signals: they are the program's.
fn start(run: impl FnOnce() + Send + 'static) {
    // SAFETY: the sets live through the calls.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        std::thread::spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}
