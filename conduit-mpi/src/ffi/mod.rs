//! MPI, as far as this conduit uses it: opened at run time, in any of its three ABIs.
//!
//! The ABIs differ in the type of handles ([`Handle`]: a number of 32 bits in MPICH's, a pointer in
//! the others) and in constants ([`abi::Constants`]). What depends on the type is generic, and the
//! choice is made once, at the start ([`Found`]). Statuses, whose layouts differ too, are always
//! ignored: the conduit's own headers have what they would tell.

mod abi;
mod exit_handlers;
#[cfg(test)]
mod headers;
mod library;
mod message;
mod window;
mod world;

pub use abi::Handle;
pub use library::{Found, Functions};
pub use message::{Place, Request};
pub use window::{Remote, Window};
pub use world::{Joined, Process, World};

use std::ffi::{c_char, c_int, CStr};

/// A call of MPI that failed: its text.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl<H: Handle> Functions<H> {
    /// The result of a function with this name.
    #[inline]
    fn check(&self, call: &str, code: c_int) -> Result<(), Failure> {
        // MPI_SUCCESS is 0 in every ABI.
        if code == 0 {
            return Ok(());
        }
        Err(self.failure(call, code))
    }

    #[cold]
    fn failure(&self, call: &str, code: c_int) -> Failure {
        // MPI_MAX_ERROR_STRING is 512 at most (reference/mpi.md).
        let (mut text, mut length) = ([0 as c_char; 1024], 0);
        // SAFETY: room for any text of MPI's, and a number to write.
        let known = unsafe { (self.error_string)(code, text.as_mut_ptr(), &raw mut length) };
        // SAFETY: terminated, for it is longer than what was written.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        Failure(if known == 0 {
            format!("{call}: {text}")
        } else {
            format!("{call}: error {code}")
        })
    }
}
