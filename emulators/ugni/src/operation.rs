//! Posted operations, which the thread that posts them executes, or a timer.

use std::sync::atomic::{AtomicU32, AtomicU8, Ordering::AcqRel, Ordering::Relaxed};

use emulator_common::copy::{self, Data, Fault, Flag};
use emulator_common::damage;
use gasnet_gni_abi as abi;

use crate::amo::{self, Amo};
use crate::entry;
use crate::object::{Cq, Nic};
use crate::process::{pause, Process};
use crate::queue;
use crate::region::{grant, Grant};
use crate::status;

/// An operation, with all that it needs of its descriptor and endpoint.
#[derive(Clone, Copy)]
pub struct Op {
    pub kind: abi::gni_post_type_t,
    /// `GNI_CQMODE_*`.
    pub mode: u16,
    pub nic: &'static Nic,
    /// The queue for LOCAL and GLOBAL events, and the request they belong to.
    pub cq: Option<&'static Cq>,
    pub request: u32,
    pub local_event: u32,
    pub remote_event: u32,
    pub remote_address: u32,
    pub local: u64,
    pub remote: u64,
    pub handle: abi::gni_mem_handle_t,
    pub length: u64,
    pub flag: Flag,
    pub command: u32,
    pub operands: (u64, u64),
    /// Collective engine: id and child, mode, reduction.
    pub engine: (u32, u32),
    pub ce_mode: u32,
    pub reduction: u64,
    /// A fault: the status with which the operation fails.
    pub error: Option<u8>,
    /// The chained transaction that it belongs to, which has one GLOBAL event.
    pub chain: Option<&'static Chain>,
}

/// A chained transaction: operations that have not completed, and the status of the first that
/// failed.
pub struct Chain {
    left: AtomicU32,
    status: AtomicU8,
}

impl Chain {
    pub fn new(operations: usize) -> &'static Chain {
        Box::leak(Box::new(Chain {
            left: AtomicU32::new(operations as u32),
            status: AtomicU8::new(0),
        }))
    }

    /// Completes one operation. Some: it was the last, and this is the status of the chain, which
    /// ends here.
    pub fn end(&'static self, status: u8) -> Option<u8> {
        if status != 0 {
            // Only the first failure counts.
            let _ = self.status.compare_exchange(0, status, Relaxed, Relaxed);
        }
        if self.left.fetch_sub(1, AcqRel) != 1 {
            return None;
        }
        let status = self.status.load(Relaxed);
        // SAFETY: `new` made it by a box, and no other operation refers to it any more.
        drop(unsafe { Box::from_raw(std::ptr::from_ref(self).cast_mut()) });
        Some(status)
    }
}

fn status_of(fault: Fault) -> u8 {
    match fault {
        Fault::Unmapped => status::PI_ERR,
        Fault::Dead => status::ENDPOINT_UNREACHABLE,
    }
}

/// Puts data, and then a word, into granted memory.
#[inline(always)]
pub fn put_flagged(process: &Process, granted: &Grant, data: &Data, flag: &Flag) -> Result<(), u8> {
    if data.bytes != 0 {
        granted.check(data.remote, data.bytes)?;
    }
    granted.check(flag.address, 8)?;
    copy::write_flagged(process, granted.slot, data, flag).map_err(status_of)
}

impl Op {
    /// Whether its data travel to the target.
    pub fn is_put(&self) -> bool {
        matches!(
            self.kind,
            abi::GNI_POST_RDMA_PUT | abi::GNI_POST_FMA_PUT | abi::GNI_POST_FMA_PUT_W_SYNCFLAG
        )
    }

    pub fn is_rdma(&self) -> bool {
        matches!(self.kind, abi::GNI_POST_RDMA_PUT | abi::GNI_POST_RDMA_GET)
    }

    pub fn process(&self) -> &'static Process {
        self.nic.process
    }

    #[inline(always)]
    fn grant(&self, writes: bool) -> Result<Grant<'static>, u8> {
        grant(self.nic, &self.handle, self.remote_address, writes)
    }

    /// Moves the data. Returns the key of the queue for the REMOTE event.
    #[inline(always)]
    pub fn execute(&self) -> Result<u32, u8> {
        if let Some(status) = self.error {
            return Err(status);
        }
        let process = self.nic.process;
        let granted = match self.kind {
            abi::GNI_POST_FMA_PUT_W_SYNCFLAG => {
                let data = Data {
                    local: self.local,
                    remote: self.remote,
                    bytes: self.length,
                };
                let granted = self.grant(true)?;
                put_flagged(process, &granted, &data, &self.flag)?;
                granted
            }
            abi::GNI_POST_FMA_PUT | abi::GNI_POST_RDMA_PUT => {
                let granted = self.grant(true)?;
                if self.length != 0 {
                    granted.check(self.remote, self.length)?;
                    self.put(granted.slot).map_err(status_of)?;
                }
                granted
            }
            abi::GNI_POST_FMA_GET | abi::GNI_POST_RDMA_GET => {
                let granted = self.grant(false)?;
                granted.check(self.remote, self.length)?;
                copy::read(process, granted.slot, self.local, self.remote, self.length).map_err(status_of)?;
                if damage::hits(&process.config.damage, self.kind, self.length) {
                    // SAFETY: the program's memory, where the copy has written.
                    let last = unsafe { &mut *((self.local + self.length - 1) as *mut u8) };
                    damage::corrupt(std::slice::from_mut(last));
                }
                granted
            }
            abi::GNI_POST_AMO => {
                let amo = amo::decode(self.command).ok_or(status::REQ_ILLEGAL_CMD)?;
                let granted = self.grant(true)?;
                granted.check(self.remote, amo.bytes())?;
                self.atomic(amo, &granted)?;
                granted
            }
            _ => {
                let granted = self.grant(false)?;
                // A copy would have noticed the death of the process.
                if !process.alive(granted.slot) {
                    return Err(status::ENDPOINT_UNREACHABLE);
                }
                granted
            }
        };
        Ok(granted.region.cq.load(Relaxed))
    }

    /// Writes the data of a plain put, under `relaxed` in two parts in any order.
    #[inline(always)]
    fn put(&self, slot: u32) -> Result<(), Fault> {
        let process = self.nic.process;
        if !process.config.relaxed || self.length == 1 {
            return copy::write(process, slot, self.local, self.remote, self.length);
        }
        let half = self.length / 2;
        let mut parts = [(0, half), (half, self.length - half)];
        if process.random.below(2) == 0 {
            parts.swap(0, 1);
        }
        copy::write(
            process,
            slot,
            self.local + parts[0].0,
            self.remote + parts[0].0,
            parts[0].1,
        )?;
        pause(process.random.below(process.config.delay_us));
        copy::write(
            process,
            slot,
            self.local + parts[1].0,
            self.remote + parts[1].0,
            parts[1].1,
        )
    }

    /// Atomic among AMOs to the NIC.
    fn atomic(&self, amo: Amo, granted: &Grant) -> Result<(), u8> {
        let process = self.nic.process;
        let hardware = process.nic(self.remote_address).ok_or(status::AT_MDD_INV)?;
        let _guard = hardware.atomics.lock();
        let mut old = 0_u64;
        copy::read(process, granted.slot, &raw mut old as u64, self.remote, amo.bytes()).map_err(status_of)?;
        let new = amo.apply(old, self.operands.0, self.operands.1);
        if !process.loses_update() {
            copy::write(process, granted.slot, &raw const new as u64, self.remote, amo.bytes()).map_err(status_of)?;
        }
        if amo.fetches {
            copy::write(process, process.slot, &raw const old as u64, self.local, amo.bytes()).map_err(status_of)?;
        }
        Ok(())
    }

    /// The entry at the target.
    #[inline(always)]
    pub fn remote_entry(&self) -> Option<u64> {
        if self.kind == abi::GNI_POST_CQWRITE {
            return Some(entry::remote(self.operands.0));
        }
        (self.mode & abi::GNI_CQMODE_REMOTE_EVENT != 0).then(|| entry::remote(u64::from(self.remote_event)))
    }

    #[inline(always)]
    pub fn send_remote(&self, cq: u32) {
        if let (Some(mut entry), true) = (self.remote_entry(), cq != 0) {
            let process = self.nic.process;
            let nth = process.config.arrival_error;
            if nth != 0 && process.arrivals.fetch_add(1, Relaxed) + 1 == nth {
                entry |= entry::error(status::CQ_ERR);
            }
            queue::push(process, cq, entry);
        }
    }

    /// The LOCAL event: the source has been read.
    #[inline(always)]
    pub fn complete_local(&self) {
        if let (Some(cq), true) = (self.cq, self.mode & abi::GNI_CQMODE_LOCAL_EVENT != 0) {
            queue::complete(cq, entry::source(entry::SOURCE_BTE, self.local_event, self.request, 0));
        }
    }

    /// The GLOBAL event, or that of an error, which is the last of the request.
    #[inline(always)]
    pub fn complete_global(&self, status: u8) {
        if status != 0 && self.nic.process.config.trace {
            self.trace(status);
        }
        let status = match self.chain.map(|chain| chain.end(status)) {
            None => status,
            Some(Some(status)) => status,
            Some(None) => return,
        };
        if let Some(cq) = self.cq {
            let has_event = self.mode & abi::GNI_CQMODE_GLOBAL_EVENT != 0;
            if status != 0 || has_event && !self.process().loses_event(self.kind) {
                let entry = entry::source(entry::SOURCE_SSID, self.local_event, self.request, status);
                queue::complete(cq, entry);
            }
        }
    }

    /// Whether the domain that posted it still exists.
    pub fn is_live(&self) -> bool {
        self.nic.is_attached()
    }

    /// Whether the target keeps data in front of REMOTE events; invalid targets do.
    pub fn is_ordered(&self) -> bool {
        self.grant(true).map_or(true, |granted| granted.is_ordered())
    }

    /// Whether the GLOBAL event of a put follows its data. Gemini's FMA keeps them in front of a
    /// REMOTE event, or in regions that order strictly.
    pub fn is_flushed(&self) -> bool {
        let is_fma = self.kind == abi::GNI_POST_FMA_PUT;
        !self.process().is_gemini || !is_fma || self.remote_entry().is_some() || {
            let granted = self.grant(true);
            granted.map_or(true, |granted| granted.is_strict())
        }
    }

    /// The queue of the target, if the operation is going to succeed.
    pub fn remote_queue(&self) -> Option<u32> {
        let granted = self.grant(true).ok()?;
        if self.length != 0 {
            granted.check(self.remote, self.length).ok()?;
        }
        Some(granted.region.cq.load(Relaxed))
    }

    /// Reports a failure.
    #[cold]
    fn trace(&self, status: u8) {
        eprintln!(
            "emulator of uGNI: instance {}: operation {} of {} bytes to {:#x} of NIC {:#x}, handle {:#x} {:#x}: {}",
            self.nic.cdm.instance,
            self.kind,
            self.length,
            self.remote,
            self.remote_address,
            self.handle.qword1,
            self.handle.qword2,
            status::name(status)
        );
    }

    /// Executes the operation and makes all of its events.
    #[inline(always)]
    pub fn run(&self) {
        match self.execute() {
            Ok(cq) => {
                self.send_remote(cq);
                self.complete_local();
                self.complete_global(0);
            }
            Err(status) => self.complete_global(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_operation_ends_a_chain_with_the_first_failure() {
        let chain = Chain::new(4);
        assert_eq!(chain.end(0), None);
        assert_eq!(chain.end(7), None);
        assert_eq!(chain.end(9), None);
        assert_eq!(chain.end(0), Some(7));
    }
}
