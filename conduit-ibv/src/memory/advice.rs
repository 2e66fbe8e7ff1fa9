//! Advice in messages about memory that could not be registered.
#![forbid(unsafe_code)]

use crate::ffi::{Errno, Functions};
use crate::memory::limits::lockable;

/// Why memory cannot be registered or locked, and what to do if a limit is the reason.
pub fn advised(why: Errno) -> String {
    match (why, lockable()) {
        // The kernel has another error where nothing may be locked (torvalds/linux@0446cad:
        // drivers/infiniband/core/umem.c).
        (Errno::NO_MEMORY, Some(limit)) | (Errno(libc::EPERM), Some(limit @ 0)) => {
            let limit = limit >> 10;
            format!("{why}. Raise the limit on locked memory (ulimit -l), which is {limit} KiB")
        }
        (Errno::NO_MEMORY, None) => format!("{why}. No limit on locked memory (ulimit -l) counts for this process"),
        (Errno(libc::EINVAL), _) if Functions::get().is_ok_and(Functions::refuses_huge_pages) => {
            format!("{why}. On this kernel memory in huge pages needs RDMAV_HUGEPAGES_SAFE=1")
        }
        _ => why.to_string(),
    }
}
