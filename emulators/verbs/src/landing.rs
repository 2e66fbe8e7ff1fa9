//! Option `early-completion`: writes complete before their data are visible. As on a bus, a device
//! keeps the order of what it writes, and its other operations find the data of earlier writes.
//! CPUs and other devices find them later. Option `relaxed`: some overtake others.

use std::sync::atomic::Ordering::SeqCst;

use emulator_common::random::Random;
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

/// Blocks of data with their offsets, in any order. As many bytes stay together, and more of long
/// data.
fn shuffled<'a>(data: &'a [u8], together: usize, random: &Random) -> Vec<(usize, &'a [u8])> {
    /// Each block is a system call.
    const MOST: usize = 1024;
    let size = together.max(data.len().div_ceil(MOST));
    let mut blocks: Vec<(usize, &[u8])> = (0..).step_by(size).zip(data.chunks(size)).collect();
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, random.below(last as u64 + 1) as usize);
    }
    blocks
}

/// Data of a write land at once, before those of earlier ones, in blocks in any order (option
/// `relaxed`).
pub fn overtake(process: &Process, pid: libc::pid_t, addr: u64, data: &[u8], together: usize) {
    for (offset, bytes) in shuffled(data, together, &process.random) {
        let from = Pieces::of(bytes.as_ptr() as u64, bytes.len() as u64);
        // The owner of the memory may be dead.
        let _ = copy::write(pid, &from, &Pieces::of(addr + offset as u64, bytes.len() as u64));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_a_write_come_in_any_order() {
        let (data, random) = ([7; 100], Random::new(1, 0));
        let mut blocks = shuffled(&data, 1, &random);
        assert!(!blocks.is_sorted() && blocks.len() == 100);
        blocks.sort_unstable();
        assert!(blocks.iter().enumerate().all(|(n, block)| *block == (n, &data[..1])));
        let mut long = shuffled(&[7; 5000], 1, &random)
            .iter()
            .map(|block| block.1.len())
            .collect::<Vec<_>>();
        long.sort_unstable();
        assert_eq!((long.len(), long[0], long[1]), (1000, 5, 5));
    }
}
