//! Option `early-completion`: writes complete before their data are visible. As on a bus, a device
//! keeps the order of what it writes, and its other operations find the data of earlier writes.
//! CPUs and other devices find them later. Option `relaxed`: some overtake others.

use std::sync::atomic::Ordering::SeqCst;

use emulator_common::wait::until;

use crate::copy::{self, Pieces};
use crate::mr::{grant, Wanted};
use crate::process::{now_ns, Process};

/// Lets the data of a write land later.
pub fn later(process: &'static Process, to: Wanted, data: Vec<u8>) {
    let landings = &process.fabric.landings[to.device as usize];
    let _guard = landings.lock.lock();
    let number = landings.completed.fetch_add(1, SeqCst);
    let delay = process.delay_ns(to.device);
    let due_ns = landings.due_ns.load(SeqCst).max(now_ns()) + delay;
    landings.due_ns.store(due_ns, SeqCst);
    process.bus.at(due_ns, move || land(process, &to, &data, number));
}

/// Data of a write land at once, before those of earlier ones, the last bytes first (option
/// `relaxed`).
pub fn overtake(pid: libc::pid_t, addr: u64, data: &[u8]) {
    /// Bytes that stay together.
    const BLOCK: usize = 64;
    for (block, bytes) in data.chunks(BLOCK).enumerate().rev() {
        let from = Pieces::of(bytes.as_ptr() as u64, bytes.len() as u64);
        // The owner of the memory may be dead.
        let _ = copy::write(
            pid,
            &from,
            &Pieces::of(addr + (block * BLOCK) as u64, bytes.len() as u64),
        );
    }
}

/// Data of a write land, after those of the writes before it.
fn land(process: &Process, to: &Wanted, data: &[u8], number: u32) {
    let landings = &process.fabric.landings[to.device as usize];
    until(|| landings.landed.load(SeqCst) == number);
    if let Some(grant) = grant(process, to) {
        let data = Pieces::of(data.as_ptr() as u64, data.len() as u64);
        // The owner of the memory may be dead.
        let _ = copy::write(process.pid_of(grant.slot), &data, &Pieces::of(grant.addr, to.bytes));
    }
    landings.landed.store(number.wrapping_add(1), SeqCst);
}

/// Waits until the data of all writes of a device that have completed are visible.
pub fn settle(process: &Process, device: u32) {
    let landings = &process.fabric.landings[device as usize];
    let completed = landings.completed.load(SeqCst);
    until(|| landings.landed.load(SeqCst).wrapping_sub(completed) as i32 >= 0);
}
