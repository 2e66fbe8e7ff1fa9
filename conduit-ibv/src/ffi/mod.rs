//! libibverbs, as objects that end what they hold. This module alone calls the library.

mod context;
mod library;
mod made;
mod pair;
mod queue;
mod receives;
mod region;
mod ud;
mod xrc;

pub use context::{Context, Devices, Event, GidEntry};
pub use library::Functions;
pub use pair::{
    Address, Local, LocalPort, Pair, PairQueues, PairSettings, PeerPair, Remote, Transport, Work, RESPONDER,
};
pub use queue::{Channel, Queue, Wc};
pub use receives::{ReceiveBuffer, ReceiveQueue, Shared, BATCH};
pub use region::{Access, Domain, Region};
pub use ud::{DatagramSettings, Datagrams, SendError, MOST as MOST_DATAGRAM};
pub use xrc::XrcDomain;

use std::fmt;
use std::io;

/// An error number of the library or the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// No room in a queue.
    pub const NO_MEMORY: Self = Self(libc::ENOMEM);

    /// Whether the address of a peer was not resolved. On RoCE that may last for seconds.
    pub fn is_unresolved(self) -> bool {
        matches!(
            self.0,
            libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EAGAIN
        )
    }

    /// The error of the last call of this thread.
    fn last() -> Self {
        Self(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }

    /// The result of a call that returns an error number, of either sign, or -1 and `errno`.
    fn check(result: i32) -> Result<(), Self> {
        match result {
            0 => Ok(()),
            -1 => Err(Self::last()),
            number => Err(Self(number.abs())),
        }
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::ENOMEM))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        io::Error::from_raw_os_error(self.0).fmt(f)
    }
}
