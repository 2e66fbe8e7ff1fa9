//! UCP, the protocol layer of UCX, as far as this conduit uses it: opened at run time, one thread
//! at a time, and results instead of numbers in pointers.

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::pedantic
)]
mod bindings;
mod library;
mod memory;
mod operation;
mod resources;
mod suffixed;
mod worker;

pub use library::{is_loaded, Functions};
pub use memory::{MemoryType, Region, RemoteKey};
pub use operation::{AtomicOp, Completes, Outcome, Source, Started, Target};
pub use worker::{Endpoint, Events, KeptMessage, Message, Needs, Retention, Turn, Worker};

use bindings as abi;

/// A status of UCX that is an error: a negative number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(abi::ucs_status_t);

impl Status {
    /// No transport reaches the peer.
    pub const UNREACHABLE: Self = Self(abi::UCS_ERR_UNREACHABLE);

    /// The result of a function.
    fn check(status: abi::ucs_status_t) -> Result<(), Self> {
        if status == abi::UCS_OK {
            Ok(())
        } else {
            Err(Self(status))
        }
    }

    /// The library's text.
    pub fn text(self) -> String {
        Functions::get().map_or_else(|| format!("error {}", self.0), |library| library.text(self.0))
    }

    /// The same after the name of the function that failed.
    fn of(self, call: &str) -> String {
        format!("{call}: {}", self.text())
    }
}
