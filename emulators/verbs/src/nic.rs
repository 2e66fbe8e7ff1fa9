//! The thread of a process that does later what cannot be done when it is posted: retries, delays
//! of faults, and events of ports. Started when first needed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::event::{self, Event};
use crate::landing::{self, Landing};
use crate::process::{now_ns, Process};
use crate::qp::Qp;
use crate::send::progress;
use crate::ud::{self, Datagram};

pub enum Task {
    /// The head of the send queue may execute.
    Progress(Arc<Qp>),
    /// A datagram that others may have overtaken.
    Deliver(Box<Datagram>),
    /// Data of a write become visible.
    Land(Box<Landing>),
    /// An event for a context that is still open.
    Notify {
        open: Arc<AtomicBool>,
        events: u32,
        event: Event,
    },
}

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
    running: bool,
}

#[derive(Default)]
pub struct Nic {
    timers: Mutex<Timers>,
    wake: Condvar,
}

impl Nic {
    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a task of a process at a time of `now_ns`, or soon after.
    pub fn at(process: &'static Process, due_ns: u64, task: Task) {
        // Tasks may wait for data that land.
        let nic = match task {
            Task::Land(_) => &process.bus,
            _ => &process.nic,
        };
        let mut timers = nic.timers();
        let number = timers.count;
        timers.count += 1;
        timers.heap.push(Timer { due_ns, number, task });
        if !timers.running {
            timers.running = true;
            start(|| nic.run(process));
        }
        nic.wake.notify_one();
    }

    fn run(&self, process: &Process) {
        let mut timers = self.timers();
        loop {
            let wait = timers.heap.peek().map(|next| next.due_ns.saturating_sub(now_ns()));
            match wait {
                None => timers = self.wake.wait(timers).unwrap_or_else(PoisonError::into_inner),
                Some(0) => {
                    let timer = timers.heap.pop();
                    drop(timers);
                    if let Some(timer) = timer {
                        perform(process, timer.task);
                    }
                    timers = self.timers();
                }
                Some(ns) => {
                    let wait = Duration::from_nanos(ns);
                    timers = self
                        .wake
                        .wait_timeout(timers, wait)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
            }
        }
    }
}

fn perform(process: &Process, task: Task) {
    match task {
        Task::Progress(qp) => {
            let mut queue = qp.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.timer_ns = 0;
            progress(&qp, &mut queue);
        }
        Task::Deliver(datagram) => ud::deliver(process, &datagram),
        Task::Land(landing) => landing::land(process, &landing),
        Task::Notify { open, events, event } => {
            if open.load(Relaxed) {
                event::push(process, events, event);
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
