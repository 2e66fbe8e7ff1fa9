//! Collective calls: all processes of a job make the same ones in the same order. Each call has a
//! record in the job, which is used again when all have left it.

use std::ffi::c_void;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use emulator_common::copy::{self, Fault};
use emulator_common::wait::Backoff;
use gasnet_elan_abi as abi;

use crate::attachment::Attachment;
use crate::shm::{Record, RECORDS};
use crate::traffic::count;

/// A collective call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Call {
    Symmetric = 1,
    SymmetricFree,
    Queue,
    Port,
    Sync,
    Barrier,
    Broadcast,
}

const NAMES: [&str; 8] = [
    "?",
    "symmetric",
    "symmetric_free",
    "queue",
    "port",
    "sync",
    "barrier",
    "broadcast",
];

impl Call {
    fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// This process's part of a collective call.
struct Part<'a> {
    attachment: &'a Attachment,
    record: &'static Record,
}

impl Attachment {
    /// Joins a collective call. All must have the same argument. `failed`: this process cannot do
    /// its part.
    fn arrive(&self, call: Call, argument: u64, failed: bool) -> Part<'_> {
        if self.is_collecting.swap(1, Acquire) != 0 {
            self.die(call.name(), "two threads are in collective calls");
        }
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        let record = &self.job.records[number as usize % RECORDS];
        let mut backoff = Backoff::default();
        loop {
            let guard = self.job.entry.lock.lock();
            let is_free = record.number.load(Relaxed) == 0 || record.left.load(Relaxed) == self.size;
            if is_free && record.number.load(Relaxed) != number {
                for field in [&record.arrived, &record.left, &record.ready, &record.failed] {
                    field.store(0, Relaxed);
                }
                record.kind.store(call as u32, Relaxed);
                record.first.store(self.vp, Relaxed);
                record.argument.store(argument, Relaxed);
                record.number.store(number, Relaxed);
            }
            if record.number.load(Relaxed) == number {
                self.compare(record, call, argument);
                record.failed.fetch_or(failed.into(), Relaxed);
                record.arrived.fetch_add(1, Release);
                break;
            }
            drop(guard);
            backoff.pause();
        }
        Part {
            attachment: self,
            record,
        }
    }

    fn compare(&self, record: &Record, call: Call, argument: u64) {
        let (kind, first) = (record.kind.load(Relaxed), record.first.load(Relaxed));
        if kind != call as u32 {
            let name = NAMES[kind as usize % NAMES.len()];
            let why =
                format!("process {first} calls `{name}` instead; collective calls need the same order everywhere");
            self.die(call.name(), &why);
        }
        if record.argument.load(Relaxed) != argument {
            let why = format!("process {first} passes other arguments to this collective call");
            self.die(call.name(), &why);
        }
    }

    /// A collective call that waits for all processes. Whether all can do their parts.
    pub fn meet(&self, call: Call, argument: u64, failed: bool) -> bool {
        let part = self.arrive(call, argument, failed);
        let mut backoff = Backoff::default();
        while part.record.arrived.load(Acquire) != self.size {
            backoff.pause();
        }
        let is_good = part.record.failed.load(Relaxed) == 0;
        part.leave();
        is_good
    }

    /// The root writes to all others as soon as it calls, and returns then; they may not have
    /// called yet.
    fn broadcast(&self, memory: usize, bytes: usize, root: u32) {
        let Some(offset) = self.symmetric.find(memory, bytes) else {
            self.die("broadcast", "the memory is not symmetric");
        };
        let argument = (offset as u64) << 32 ^ (bytes as u64) << 16 ^ u64::from(root);
        let part = self.arrive(Call::Broadcast, argument, false);
        if self.vp == root {
            (0..self.size)
                .filter(|&vp| vp != root)
                .for_each(|vp| self.give(vp, memory, offset, bytes));
            part.record.ready.store(1, Release);
        } else {
            let mut backoff = Backoff::default();
            while part.record.ready.load(Acquire) == 0 {
                backoff.pause();
            }
        }
        part.leave();
    }

    /// Writes a broadcast to one process.
    fn give(&self, vp: u32, memory: usize, offset: usize, bytes: usize) {
        let Some(peer) = self.peer("broadcast", vp) else {
            return self.trace(&format!("a broadcast to process {vp}, which is gone"));
        };
        let to = peer.endpoint.symmetric.load(Relaxed) + offset as u64;
        let result = copy::write(self.process, peer.slot, memory as u64, to, bytes as u64);
        if result == Err(Fault::Unmapped) && self.process.alive(peer.slot) {
            self.die("broadcast", "trap: the memory is not mapped");
        }
    }
}

impl Part<'_> {
    fn leave(self) {
        self.record.left.fetch_add(1, Release);
        self.attachment.is_collecting.store(0, Release);
    }
}

pub extern "C" fn sync(elan: *mut abi::gasnet_elan_t) {
    let (attachment, _inside) = Attachment::enter(elan, "sync");
    attachment.meet(Call::Sync, 0, false);
}

pub extern "C" fn barrier(elan: *mut abi::gasnet_elan_t) {
    let (attachment, _inside) = Attachment::enter(elan, "barrier");
    count(&attachment.traffic.barriers);
    attachment.meet(Call::Barrier, 0, false);
    if attachment.process.delays {
        std::thread::sleep(Duration::from_nanos(attachment.process.delay_ns()));
    }
}

pub extern "C" fn broadcast(elan: *mut abi::gasnet_elan_t, memory: *mut c_void, bytes: usize, root: u32) {
    let (attachment, _inside) = Attachment::enter(elan, "broadcast");
    attachment.check_vp("broadcast", root);
    count(&attachment.traffic.broadcasts);
    attachment.broadcast(memory as usize, bytes, root);
}
