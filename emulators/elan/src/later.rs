//! What the options `late` and `reorder` delay.

use emulator_common::fabric::now_ns;
use emulator_common::timers::Timers;

use crate::process::Process;

/// Something that is done later.
pub type Task = Box<dyn FnOnce() + Send>;
pub type Later = Timers<Task>;

/// Does something at a time of `now_ns`.
pub fn schedule(process: &'static Process, due_ns: u64, task: impl FnOnce() + Send + 'static) {
    process.later.at(due_ns, Box::new(task), |task| task());
}

/// Does something after a random time.
pub fn schedule_soon(process: &'static Process, task: impl FnOnce() + Send + 'static) {
    schedule(process, now_ns() + process.delay_ns(), task);
}
