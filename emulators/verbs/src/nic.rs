//! What is done later, because it cannot be done when it is posted: retries, delays of faults, and
//! events of ports.

use std::sync::{Arc, PoisonError};

use emulator_common::timers::Timers;

use crate::event::Event;
use crate::landing::{self, Landing};
use crate::process::Process;
use crate::qp::Qp;
use crate::raise::{self, Opened};
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
    Notify { opened: Opened, event: Event },
}

#[derive(Default)]
pub struct Nic(Timers);

impl Nic {
    /// Does a task of a process at a time of `now_ns`, or soon after.
    pub fn at(process: &'static Process, due_ns: u64, task: Task) {
        // Tasks may wait for data that land.
        let nic = match task {
            Task::Land(_) => &process.bus,
            _ => &process.nic,
        };
        nic.0.at(due_ns, move || perform(process, task));
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
        Task::Notify { opened, event } => raise::notify(process, &opened, event),
    }
}
