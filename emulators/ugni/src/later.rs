//! Operations that are executed later than they are posted, for the faults `reorder`, `late` and
//! `early-event`.

use emulator_common::copy::{gather, Pieces};
use emulator_common::fabric::now_ns;
use gasnet_gni_abi as abi;

use crate::ce;
use crate::operation::Op;
use crate::process::Process;
use crate::refuse::die;

/// The events of an operation that preceded its data.
#[derive(Clone, Copy, Default)]
struct Announced {
    remote: bool,
    global: bool,
}

/// Posts an operation. The source is read now unless option `late` delays it.
pub fn post(op: Op) {
    let process = op.process();
    let is_late = process.config.late && (op.is_rdma() || !process.is_gemini);
    if !op.is_put() || op.error.is_some() {
        schedule(process, is_late || process.config.reorder, move || {
            land(op, None, Announced::default());
        });
    } else if is_late {
        schedule(process, true, move || read(op));
    } else {
        read(op);
    }
}

/// Does something now or, mostly, after a random time.
fn schedule(process: &'static Process, is_delayed: bool, task: impl FnOnce() + Send + 'static) {
    let delay_ns = if is_delayed {
        process.random.below(process.config.delay_us * 1000)
    } else {
        0
    };
    process.later.at(now_ns() + delay_ns, task);
}

/// Reads the source of a put: it may be used again if it is the BTE's.
fn read(op: Op) {
    if !op.is_live() {
        return;
    }
    let process = op.process();
    let Some(data) = gather(&Pieces::<1>::of(op.local, op.length)) else {
        if op.is_live() {
            die("a put", "its source is not mapped");
        }
        // Another thread has destroyed the NIC and released the memory meanwhile.
        return;
    };
    op.complete_local();
    let mut announced = Announced::default();
    if let Some(cq) = op.remote_queue().filter(|_| process.config.early_event) {
        if !op.is_ordered() {
            op.send_remote(cq);
            announced.remote = true;
        }
        if !op.is_flushed() {
            schedule(process, true, move || op.complete_global(0));
            announced.global = true;
        }
    }
    let land = move || land(op, Some(&data), announced);
    if announced.global {
        // Longer than a message takes that was sent for the event.
        let delay_ns = 3 * process.config.delay_us * 1000;
        process.later.at(now_ns() + delay_ns, land);
    } else {
        schedule(process, true, land);
    }
}

/// The operation takes effect, with the data of a put. Its events follow, in any order.
fn land(mut op: Op, data: Option<&[u8]>, announced: Announced) {
    if !op.is_live() {
        return;
    }
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
                schedule(process, reorder, move || op.send_remote(cq));
            }
            if data.is_none() {
                op.complete_local();
            }
            if !announced.global {
                schedule(process, reorder, move || op.complete_global(0));
            }
        }
        Err(status) => {
            let is_followed = process.config.late_event && data.is_none();
            schedule(process, reorder, move || {
                op.complete_global(status);
                if is_followed {
                    // Longer than it takes to post the operation again.
                    let delay_ns = process.config.delay_us * 1000;
                    let local = move || _ = op.is_live().then(|| op.complete_local());
                    process.later.at(now_ns() + delay_ns, local);
                }
            });
        }
    }
}
