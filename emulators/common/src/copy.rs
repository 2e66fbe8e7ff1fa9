//! Copies between this process and another by the kernel, or within this process by the CPU.
//! Aligned words of 8 bytes appear at once; those of 2 and 4 bytes only within this process, since
//! the kernel copies them byte by byte (arch/x86/lib/copy_user_64.S, unless the CPU has FSRM).

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

/// Up to N pieces of memory, in order.
#[derive(Clone, Copy)]
pub struct Pieces<const N: usize> {
    pieces: [iovec; N],
    count: usize,
}

impl<const N: usize> Default for Pieces<N> {
    fn default() -> Self {
        let none = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Pieces {
            pieces: [none; N],
            count: 0,
        }
    }
}

impl<const N: usize> Pieces<N> {
    pub fn of(addr: u64, bytes: u64) -> Self {
        let mut pieces = Self::default();
        pieces.push(addr, bytes);
        pieces
    }

    /// Empty pieces do not count.
    pub fn push(&mut self, addr: u64, bytes: u64) {
        if bytes != 0 {
            self.pieces[self.count] = iovec {
                iov_base: addr as *mut _,
                iov_len: bytes as usize,
            };
            self.count += 1;
        }
    }

    pub fn bytes(&self) -> u64 {
        self.slice().iter().map(|piece| piece.iov_len as u64).sum()
    }

    pub fn slice(&self) -> &[iovec] {
        &self.pieces[..self.count]
    }

    /// Drops the first bytes.
    pub fn skip(&mut self, mut bytes: u64) {
        let mut kept = Self::default();
        for piece in self.slice() {
            let skipped = bytes.min(piece.iov_len as u64);
            bytes -= skipped;
            kept.push(piece.iov_base as u64 + skipped, piece.iov_len as u64 - skipped);
        }
        *self = kept;
    }

    /// Keeps the first bytes.
    pub fn truncate(&mut self, mut bytes: u64) {
        let mut kept = Self::default();
        for piece in self.slice() {
            let taken = bytes.min(piece.iov_len as u64);
            bytes -= taken;
            kept.push(piece.iov_base as u64, taken);
        }
        *self = kept;
    }
}

type Call = unsafe extern "C" fn(pid_t, *const iovec, c_ulong, *const iovec, c_ulong, c_ulong) -> isize;

fn copy<const N: usize>(call: Call, pid: pid_t, local: &Pieces<N>, remote: &Pieces<N>) -> Result<(), Fault> {
    let left = local.bytes().min(remote.bytes());
    if left == 0 {
        return Ok(());
    }
    let (here, there) = (local.slice(), remote.slice());
    // SAFETY: the lists are valid; the kernel checks the addresses in them.
    let copied = unsafe { call(pid, here.as_ptr(), here.len() as _, there.as_ptr(), there.len() as _, 0) };
    if copied as u64 == left {
        return Ok(());
    }
    if copied <= 0 {
        return Err(match Error::last_os_error().raw_os_error() {
            Some(libc::ESRCH) => Fault::Dead,
            _ => Fault::Unmapped,
        });
    }
    // The kernel copies less than 2 GiB at once, and stops in front of memory that is not mapped.
    let (mut local, mut remote) = (*local, *remote);
    local.skip(copied as u64);
    remote.skip(copied as u64);
    copy(call, pid, &local, &remote)
}

/// Copies `local` into `remote` memory of process `pid`, as much as both have.
pub fn scatter<const N: usize>(pid: pid_t, local: &Pieces<N>, remote: &Pieces<N>) -> Result<(), Fault> {
    copy(libc::process_vm_writev, pid, local, remote)
}

/// Copies `remote` memory of process `pid` into `local`, as much as both have.
pub fn collect<const N: usize>(pid: pid_t, local: &Pieces<N>, remote: &Pieces<N>) -> Result<(), Fault> {
    copy(libc::process_vm_readv, pid, local, remote)
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
    let [local, remote] = [local, remote].map(|addr| Pieces::<1>::of(addr, bytes));
    scatter(process.pid_of(slot), &local, &remote)
}

/// Data to copy, by their addresses here and there.
#[derive(Clone, Copy)]
pub struct Data {
    pub local: u64,
    pub remote: u64,
    pub bytes: u64,
}

/// A word to write to a remote address.
#[derive(Clone, Copy)]
pub struct Flag {
    pub value: u64,
    pub address: u64,
}

/// Copies as `write` does, then writes a word, which appears at once.
#[inline(always)]
pub fn write_flagged<F: Layout>(process: &Member<F>, slot: u32, data: &Data, flag: &Flag) -> Result<(), Fault> {
    let value = &raw const flag.value as u64;
    if slot == process.slot {
        // SAFETY: as in `write`.
        unsafe {
            within(data.local, data.remote, data.bytes);
            within(value, flag.address, 8);
        }
        return Ok(());
    }
    let [local, remote] = [(data.local, value), (data.remote, flag.address)].map(|(addr, flag)| {
        let mut pieces = Pieces::<2>::of(addr, data.bytes);
        pieces.push(flag, 8);
        pieces
    });
    scatter(process.pid_of(slot), &local, &remote)
}

/// Copies memory of a slot to that of this process.
#[inline(always)]
pub fn read<F: Layout>(process: &Member<F>, slot: u32, local: u64, remote: u64, bytes: u64) -> Result<(), Fault> {
    if slot == process.slot {
        // SAFETY: as in `write`.
        unsafe { within(remote, local, bytes) };
        return Ok(());
    }
    let [local, remote] = [local, remote].map(|addr| Pieces::<1>::of(addr, bytes));
    collect(process.pid_of(slot), &local, &remote)
}

/// Pieces of this process's memory, read by the kernel. None: some are not mapped.
pub fn gather<const N: usize>(pieces: &Pieces<N>) -> Option<Vec<u8>> {
    let mut data = vec![0; pieces.bytes() as usize];
    let here = Pieces::of(data.as_mut_ptr() as u64, data.len() as u64);
    collect(std::process::id() as i32, &here, pieces).ok().map(|()| data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_cut_at_both_ends() {
        let mut pieces = Pieces::<4>::of(100, 10);
        pieces.push(200, 0);
        pieces.push(300, 10);
        pieces.skip(12);
        pieces.truncate(5);
        assert_eq!(pieces.count, 1);
        assert_eq!((pieces.pieces[0].iov_base as u64, pieces.bytes()), (302, 5));
    }

    #[test]
    fn unmapped_memory_is_found() {
        assert_eq!(gather(&Pieces::<1>::of(16, 8)), None);
        let word = 7_u64;
        let data = gather(&Pieces::<1>::of(&raw const word as u64, 8));
        assert_eq!(data, Some(word.to_ne_bytes().to_vec()));
    }
}
