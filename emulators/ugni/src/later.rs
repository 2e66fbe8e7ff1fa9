//! Operations that are executed later than they are posted, for the faults `reorder`, `late` and
//! `early-event`.

use emulator_common::fabric::now_ns;
use emulator_common::timers::Timers;
use gasnet_gni_abi as abi;

use crate::ce;
use crate::operation::Op;
use crate::process::Process;
use crate::refuse::die;
use emulator_common::copy::{gather, Pieces};

/// What is done later, with the data of a put once they are read.
pub enum Task {
    /// The source is read.
    Read(Op),
    /// Data land at the target. Events may have preceded them.
    Land(Op, Option<Vec<u8>>, Announced),
    /// The REMOTE event, to a queue.
    Remote(Op, u32),
    /// The GLOBAL event, with a status.
    Global(Op, u8),
}

/// The events of an operation that preceded its data.
#[derive(Clone, Copy, Default)]
pub struct Announced {
    remote: bool,
    global: bool,
}

pub type Later = Timers;

/// Posts an operation. What must be read now is read.
pub fn post(op: Op) {
    let process = op.process();
    let is_late = process.config.late && (op.is_rdma() || !process.is_gemini);
    if !op.is_put() || op.error.is_some() {
        schedule(
            process,
            Task::Land(op, None, Announced::default()),
            is_late || process.config.reorder,
        );
    } else if is_late {
        schedule(process, Task::Read(op), true);
    } else {
        read(op);
    }
}

/// A task now or, mostly, after a random time.
fn schedule(process: &'static Process, task: Task, delayed: bool) {
    let delay_ns = if delayed {
        process.random.below(process.config.delay_us * 1000)
    } else {
        0
    };
    schedule_in(process, task, delay_ns);
}

/// A task after some time.
fn schedule_in(process: &'static Process, task: Task, delay_ns: u64) {
    process.later.at(now_ns() + delay_ns, move || perform(task));
}

/// Reads the source of a put: it may be used again if it is the BTE's.
fn read(op: Op) {
    let process = op.process();
    let Some(data) = gather(&Pieces::<1>::of(op.local, op.length)) else {
        die("a put", "its source is not mapped");
    };
    op.complete_local();
    let mut announced = Announced::default();
    if let Some(cq) = op.remote_queue().filter(|_| process.config.early_event) {
        if !op.is_ordered() {
            op.send_remote(cq);
            announced.remote = true;
        }
        if !op.is_flushed() {
            schedule(process, Task::Global(op, 0), true);
            announced.global = true;
        }
    }
    let land = Task::Land(op, Some(data), announced);
    if announced.global {
        // Longer than a message takes that was sent for the event.
        schedule_in(process, land, 3 * process.config.delay_us * 1000);
    } else {
        schedule(process, land, true);
    }
}

/// The operation takes effect. Its events follow, in any order.
fn land(mut op: Op, data: Option<&[u8]>, announced: Announced) {
    let process = op.process();
    if op.kind == abi::GNI_POST_CE && op.error.is_none() {
        ce::run(&op);
        return;
    }
    if let Some(data) = data {
        op.local = data.as_ptr() as u64;
    }
    let reorder = process.config.reorder;
    match op.execute() {
        Ok(cq) => {
            if cq != 0 && op.remote_entry().is_some() && !announced.remote {
                schedule(process, Task::Remote(op, cq), reorder);
            }
            if data.is_none() {
                op.complete_local();
            }
            if !announced.global {
                schedule(process, Task::Global(op, 0), reorder);
            }
        }
        Err(status) => schedule(process, Task::Global(op, status), reorder),
    }
}

fn perform(task: Task) {
    match task {
        Task::Read(op) if op.is_live() => read(op),
        Task::Land(op, data, announced) if op.is_live() => land(op, data.as_deref(), announced),
        Task::Read(_) | Task::Land(..) => (),
        Task::Remote(op, cq) => op.send_remote(cq),
        Task::Global(op, status) => op.complete_global(status),
    }
}
