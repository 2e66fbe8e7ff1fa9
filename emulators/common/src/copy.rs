//! Copies between this process and another by the kernel, or within this process by the CPU. Words
//! of 2, 4 and 8 bytes that are aligned appear at once.

use std::io::Error;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Release};

use libc::{c_ulong, iovec, pid_t};

use crate::fabric::{Layout, Member};

/// Why a copy failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Memory is not mapped, here or there.
    Unmapped,
    /// The other process does not exist any more.
    Dead,
}

type Call = unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

/// What is copied: from and to these addresses here and there, so many bytes.
type Piece = (u64, u64, u64);

/// Copies pieces, one after the other, by one call.
fn copy<const N: usize>(call: Call, pid: pid_t, mut pieces: [Piece; N]) -> Result<(), Fault> {
    let mut first = 0;
    loop {
        while first < N && pieces[first].2 == 0 {
            first += 1;
        }
        if first == N {
            return Ok(());
        }
        let left = &pieces[first..];
        let lists = [|piece: &Piece| piece.0, |piece: &Piece| piece.1].map(|address| {
            let mut list = [iovec {
                iov_base: std::ptr::null_mut(),
                iov_len: 0,
            }; N];
            for (entry, piece) in list.iter_mut().zip(left) {
                entry.iov_base = address(piece) as *mut _;
                entry.iov_len = piece.2 as usize;
            }
            list
        });
        let [here, there] = &lists;
        let count = left.len() as c_ulong;
        // SAFETY: the lists are valid; the kernel checks the addresses in them.
        let copied = unsafe { call(pid, here.as_ptr(), count, there.as_ptr(), count, 0) };
        if copied <= 0 {
            return Err(match Error::last_os_error().raw_os_error() {
                Some(libc::ESRCH) => Fault::Dead,
                _ => Fault::Unmapped,
            });
        }
        // The kernel copies less than 2 GiB at once, and stops in front of what is not mapped.
        let mut copied = copied as u64;
        for (here, there, bytes) in &mut pieces[first..] {
            let done = copied.min(*bytes);
            (*here, *there, *bytes) = (*here + done, *there + done, *bytes - done);
            copied -= done;
        }
    }
}

/// Copies within this process. The memory is that of the program.
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
pub fn write<F: Layout>(process: &Member<F>, slot: u32, local: u64, remote: u64, bytes: u64) -> Result<(), Fault> {
    if slot == process.slot {
        // SAFETY: the program vouches for both ranges by its call.
        unsafe { within(local, remote, bytes) };
        return Ok(());
    }
    copy(libc::process_vm_writev, process.pid_of(slot), [(local, remote, bytes)])
}

/// The same, and then writes a word to an address, which appears at once.
#[inline(always)]
pub fn write_flagged<F: Layout>(
    process: &Member<F>,
    slot: u32,
    data: Piece,
    (word, address): (&u64, u64),
) -> Result<(), Fault> {
    let word = std::ptr::from_ref(word) as u64;
    if slot == process.slot {
        let (local, remote, bytes) = data;
        // SAFETY: as in `write`.
        unsafe {
            within(local, remote, bytes);
            within(word, address, 8);
        }
        return Ok(());
    }
    copy(
        libc::process_vm_writev,
        process.pid_of(slot),
        [data, (word, address, 8)],
    )
}

/// Copies memory of a slot to that of this process.
#[inline(always)]
pub fn read<F: Layout>(process: &Member<F>, slot: u32, local: u64, remote: u64, bytes: u64) -> Result<(), Fault> {
    if slot == process.slot {
        // SAFETY: as in `write`.
        unsafe { within(remote, local, bytes) };
        return Ok(());
    }
    copy(libc::process_vm_readv, process.pid_of(slot), [(local, remote, bytes)])
}

/// A range of this process's memory, read by the kernel. None: it is not mapped.
pub fn gather<F: Layout>(process: &Member<F>, addr: u64, bytes: u64) -> Option<Vec<u8>> {
    let mut data = vec![0; bytes as usize];
    copy(
        libc::process_vm_readv,
        process.pid,
        [(data.as_mut_ptr() as u64, addr, bytes)],
    )
    .ok()
    .map(|()| data)
}
