//! Copies between the memory of two processes, made by the kernel: `process_vm_readv` and `process_vm_writev`.

use std::io;

use super::process::Pid;
use super::retry;

fn range(address: *mut u8, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address.cast(),
        iov_len: bytes,
    }
}

/// Copies up to `bytes` at `remote` of process `pid` to `local`; returns how many. Less than asked for: the kernel's limit for one call (2 GiB
/// less a page), or what follows cannot be copied.
///
/// # Safety
/// `[local, local + bytes)` may be written.
pub unsafe fn read(pid: Pid, local: *mut u8, remote: usize, bytes: usize) -> io::Result<usize> {
    let (here, there) = (range(local, bytes), range(remote as *mut u8, bytes));
    // SAFETY: one range each; the caller answers for the local one, the kernel checks the remote one.
    retry(|| unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) })
}

/// Copies up to `bytes` at `local` to `remote` of process `pid`; returns how many, as [`read`].
///
/// # Safety
/// `[local, local + bytes)` may be read, and the process expects the write.
pub unsafe fn write(pid: Pid, remote: usize, local: *const u8, bytes: usize) -> io::Result<usize> {
    let (here, there) = (range(local.cast_mut(), bytes), range(remote as *mut u8, bytes));
    // SAFETY: as in `read`.
    retry(|| unsafe { libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0) })
}

/// Lets `tracer` and its descendants copy from and to this process where the kernel (Yama's `ptrace_scope` 1) would else only let its
/// ancestors. Without Yama it does nothing.
pub fn admit(tracer: Pid) {
    // SAFETY: takes numbers. A kernel without Yama refuses it, and needs it not.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn copies_within_this_process_and_not_beyond_what_is_mapped() {
        let (from, mut to) = ([7u8; 100], [0u8; 100]);
        let pid = process::pid();
        // SAFETY: both are arrays of 100 bytes.
        let read = unsafe { read(pid, to.as_mut_ptr(), from.as_ptr() as usize, 100) };
        // A container may forbid the call: then there is nothing to see.
        if let Ok(count) = read {
            assert_eq!((count, to), (100, from));
            // SAFETY: nothing is mapped at the first page, so nothing is written.
            let refused = unsafe { write(pid, 16, from.as_ptr(), 100) };
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
    }
}
