//! libfabric as far as this conduit uses it: opened at run time, objects that close themselves, and
//! results instead of negative numbers. The inline functions of its headers are calls through
//! tables, which the methods here make.

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic
)]
mod bindings;
mod endpoint;
mod failure;
mod hmem;
mod info;
mod library;
mod region;

pub use endpoint::{AtomicCode, Completion, Endpoint, Minimum, Remote, Source, Threads, ATOMIC_RESULT};
pub use failure::Failure;
pub use info::{Info, Infos, Wanted};
pub use library::Functions;
pub use region::Region;

use bindings as abi;

/// Constants of the bindings, in one type.
macro_rules! constants {
    ($type:ty: $($name:ident = $constant:ident),* $(,)?) => {
        $(#[doc = concat!("`", stringify!($constant), "`.")] pub const $name: $type = super::abi::$constant as $type;)*
    };
}

/// Bits of libfabric, all of the width that its functions take.
pub mod bits {
    constants! {
        u64: MSG = FI_MSG, RMA = FI_RMA, ATOMIC = FI_ATOMIC,
        READ = FI_READ, WRITE = FI_WRITE, RECV = FI_RECV, SEND = FI_SEND,
        REMOTE_READ = FI_REMOTE_READ, REMOTE_WRITE = FI_REMOTE_WRITE,
        MULTI_RECV = FI_MULTI_RECV, REMOTE_CQ_DATA = FI_REMOTE_CQ_DATA, REMOTE_COMM = FI_REMOTE_COMM,
        LOCAL_COMM = FI_LOCAL_COMM,
        HMEM = FI_HMEM,
        COMPLETION = FI_COMPLETION, INJECT = FI_INJECT, DELIVERY_COMPLETE = FI_DELIVERY_COMPLETE,
    }
}

/// Demands of registration (`fi_mr(3)`, mode bits): local buffers, keys above 64 bits, addresses
/// rather than offsets, pages behind the memory, keys of the provider's choice, an endpoint for
/// each region, the device of device memory.
pub mod mr_mode {
    constants! {
        u32: LOCAL = FI_MR_LOCAL, RAW = FI_MR_RAW, VIRT_ADDR = FI_MR_VIRT_ADDR, ALLOCATED = FI_MR_ALLOCATED,
        PROV_KEY = FI_MR_PROV_KEY, ENDPOINT = FI_MR_ENDPOINT, HMEM = FI_MR_HMEM,
    }
}

/// Numbers of atomics.
pub mod atomic {
    constants! {
        u32: INT32 = FI_INT32, UINT32 = FI_UINT32, INT64 = FI_INT64, UINT64 = FI_UINT64,
        MIN = FI_MIN, MAX = FI_MAX, SUM = FI_SUM, PROD = FI_PROD, BOR = FI_BOR, BAND = FI_BAND, BXOR = FI_BXOR,
        READ = FI_ATOMIC_READ, WRITE = FI_ATOMIC_WRITE, CSWAP = FI_CSWAP,
    }
}

/// An error number of libfabric, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// No room now: poll and try again.
    pub const AGAIN: Self = Self(abi::FI_EAGAIN as i32);
    /// The queue has the record of an error.
    pub const ERROR_AVAILABLE: Self = Self(abi::FI_EAVAIL as i32);
    /// Another region has the key. libfabric's number differs from that of the system.
    pub const KEY_IN_USE: Self = Self(abi::FI_ENOKEY as i32);
    /// The operation was cancelled, as those of an endpoint that is closed.
    pub const CANCELED: Self = Self(abi::FI_ECANCELED as i32);
    /// A message was longer than its buffer.
    pub const TRUNCATED: Self = Self(abi::FI_ETRUNC as i32);

    /// Whether a call may have been refused for one of its flags. cxi refuses some that its record
    /// offers.
    pub fn refuses_flags(self) -> bool {
        [abi::FI_EBADFLAGS as i32, libc::ENOSYS, libc::EOPNOTSUPP, libc::EINVAL].contains(&self.0)
    }

    /// Whether a call may have been refused because the provider could not register local memory:
    /// of another process's limit, read-only, or mapped from a file.
    pub fn refuses_memory(self) -> bool {
        use libc::{EACCES, EFAULT, EINVAL, ENOMEM, ENOSPC, EPERM};
        [EACCES, EFAULT, EINVAL, ENOMEM, ENOSPC, EPERM].contains(&self.0)
    }

    /// The result of a function that returns a negative error number.
    fn check(code: isize) -> Result<usize, Self> {
        usize::try_from(code).map_err(|_| Self(-code as i32))
    }

    /// The same, with a message as the error.
    fn check_call(call: &str, code: isize) -> Result<usize, String> {
        Self::check(code).map_err(|why| format!("{call}: {}", why.text()))
    }

    /// The library's text, and the usual reason for a descriptor that is closed.
    pub fn text(self) -> String {
        let text = Functions::get().map_or_else(|| format!("error {}", self.0), |library| library.text(self.0));
        if [libc::EBADF, libc::ENOTSOCK].contains(&self.0) {
            return format!("{text} (does the program close descriptors that it did not open?)");
        }
        text
    }
}

/// Closes an object.
///
/// # Safety
/// It is live, and nobody uses it any more.
unsafe fn close(fid: *mut abi::fid) {
    // SAFETY: every object has this function; a failure leaves it open, which nobody can mend.
    unsafe {
        if let Some(close) = (*(*fid).ops).close {
            close(fid);
        }
    }
}

/// `fi_control`.
///
/// # Safety
/// A live object, and the argument that the command takes.
unsafe fn control(fid: *mut abi::fid, command: i32, argument: *mut std::ffi::c_void) -> i32 {
    // SAFETY: by the contract; an object without this function has no commands.
    unsafe {
        (*(*fid).ops)
            .control
            .map_or(-libc::ENOSYS, |control| control(fid, command, argument))
    }
}

#[cfg(test)]
mod tests {
    use super::Errno;

    #[test]
    fn a_closed_descriptor_has_a_likely_reason() {
        for errno in [libc::EBADF, libc::ENOTSOCK] {
            assert!(Errno(errno).text().contains("close descriptors"));
        }
        assert!(!Errno(libc::ENOMEM).text().contains("close descriptors"));
    }
}
