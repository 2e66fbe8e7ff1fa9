//! Copies between the memory of two processes: `process_vm_readv` and `process_vm_writev`.

use std::io;

use rustix::process::{set_ptracer, PTracer};

use super::process::Pid;
use super::retry;

fn range(address: *mut u8, bytes: usize) -> libc::iovec {
    libc::iovec {
        iov_base: address.cast(),
        iov_len: bytes,
    }
}

/// Copies up to `bytes` from `remote` in process `pid` to `local`; returns how many. Fewer means:
/// the kernel's limit for one call (2 GiB less a page), or the rest cannot be copied.
///
/// # Safety
/// `[local, local + bytes)` may be written.
pub unsafe fn read(pid: Pid, local: *mut u8, remote: usize, bytes: usize) -> io::Result<usize> {
    let (here, there) = (range(local, bytes), range(remote as *mut u8, bytes));
    // SAFETY: one range each. The caller vouches for the local one; the kernel checks the remote
    // one.
    retry(|| unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) })
}

/// Copies up to `bytes` from `local` to `remote` in process `pid`; returns how many, as [`read`]
/// does.
///
/// # Safety
/// `[local, local + bytes)` may be read, and the process expects the write.
pub unsafe fn write(pid: Pid, remote: usize, local: *const u8, bytes: usize) -> io::Result<usize> {
    let (here, there) = (range(local.cast_mut(), bytes), range(remote as *mut u8, bytes));
    // SAFETY: as in `read`.
    retry(|| unsafe { libc::process_vm_writev(pid, &raw const here, 1, &raw const there, 1, 0) })
}

/// Lets `tracer` and its descendants trace this process and copy from and to it, where Yama
/// (`ptrace_scope` 1) admits only its ancestors.
pub fn admit(tracer: Pid) {
    if let Some(tracer) = rustix::process::Pid::from_raw(tracer) {
        // A kernel without Yama refuses the call and needs none.
        let _ = set_ptracer(PTracer::ProcessID(tracer));
    }
}

/// As [`admit`], for every process of this user. Async-signal-safe.
pub fn admit_any() {
    let _ = set_ptracer(PTracer::Any);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;

    #[test]
    fn copies_only_mapped_memory() {
        let (from, mut to) = ([7u8; 100], [0u8; 100]);
        let pid = process::pid();
        // SAFETY: both are arrays of 100 bytes.
        let read = unsafe { read(pid, to.as_mut_ptr(), from.as_ptr() as usize, 100) };
        // A container may forbid the call.
        if let Ok(count) = read {
            assert_eq!((count, to), (100, from));
            // SAFETY: the first page is not mapped, so nothing is written.
            let refused = unsafe { write(pid, 16, from.as_ptr(), 100) };
            assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT));
        }
    }
}
