//! Copies between this process and another by the kernel, or within this process by the CPU. Words
//! of 2, 4 and 8 bytes that are aligned appear at once.

use std::io::Error;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Release};

use libc::{c_ulong, iovec, pid_t};

use crate::process::Process;

/// Why a copy failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Memory is not mapped, here or there.
    Unmapped,
    /// The other process does not exist any more.
    Dead,
}

type Call = unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

fn copy(call: Call, pid: pid_t, local: u64, remote: u64, bytes: u64) -> Result<(), Fault> {
    let mut done = 0;
    // The kernel copies less than 2 GiB at once, and stops in front of what is not mapped.
    while done < bytes {
        let piece = |addr: u64| iovec {
            iov_base: (addr + done) as *mut _,
            iov_len: (bytes - done) as usize,
        };
        let (here, there) = (piece(local), piece(remote));
        // SAFETY: the lists are valid; the kernel checks the addresses in them.
        let copied = unsafe { call(pid, &here, 1, &there, 1, 0) };
        if copied <= 0 {
            return Err(match Error::last_os_error().raw_os_error() {
                Some(libc::ESRCH) => Fault::Dead,
                _ => Fault::Unmapped,
            });
        }
        done += copied as u64;
    }
    Ok(())
}

/// Copies within this process. The memory is that of the program: registered, or named by a post.
///
/// # Safety
/// Both ranges are mapped.
unsafe fn within(from: u64, to: u64, bytes: u64) {
    // SAFETY: the caller vouches for the ranges, and the alignment is checked.
    unsafe {
        match bytes {
            8 if (from | to) % 8 == 0 => {
                AtomicU64::from_ptr(to as *mut u64).store(AtomicU64::from_ptr(from as *mut u64).load(Acquire), Release);
            }
            8 if to % 8 == 0 => {
                AtomicU64::from_ptr(to as *mut u64).store((from as *const u64).read_unaligned(), Release);
            }
            4 if to % 4 == 0 => {
                AtomicU32::from_ptr(to as *mut u32).store((from as *const u32).read_unaligned(), Release);
            }
            2 if to % 2 == 0 => {
                AtomicU16::from_ptr(to as *mut u16).store((from as *const u16).read_unaligned(), Release);
            }
            _ => std::ptr::copy(from as *const u8, to as *mut u8, bytes as usize),
        }
    }
}

/// Copies memory of this process to that of a slot.
#[inline(always)]
pub fn write(process: &Process, slot: u32, local: u64, remote: u64, bytes: u64) -> Result<(), Fault> {
    if slot == process.slot {
        // SAFETY: the program registered one range, and vouches for the other by its post.
        unsafe { within(local, remote, bytes) };
        return Ok(());
    }
    copy(libc::process_vm_writev, process.pid_of(slot), local, remote, bytes)
}

/// Copies memory of a slot to that of this process.
#[inline(always)]
pub fn read(process: &Process, slot: u32, local: u64, remote: u64, bytes: u64) -> Result<(), Fault> {
    if slot == process.slot {
        // SAFETY: as in `write`.
        unsafe { within(remote, local, bytes) };
        return Ok(());
    }
    copy(libc::process_vm_readv, process.pid_of(slot), local, remote, bytes)
}

/// A range of this process's memory, read by the kernel. None: it is not mapped.
pub fn gather(process: &Process, addr: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut data = vec![0; bytes as usize];
    copy(
        libc::process_vm_readv,
        process.pid,
        data.as_mut_ptr() as u64,
        addr,
        bytes,
    )
    .ok()
    .map(|()| data)
}
