//! State of a thread between Prepare and Commit of a negotiated-payload message (`npam`).

use std::cell::{Cell, RefCell};

use super::token::Token;
use crate::event::Event;
use crate::types::{AmCategory, EpIndex, Location};
use gasnet_conduit::Class;

/// What Prepare decided. `gex_AM_SrcDesc_t` is its address.
#[derive(Debug)]
pub struct SrcDesc {
    pub(super) state: Cell<Option<Prepared>>,
    /// Library buffer when the peer is no neighbour or the payload exceeds a block; kept for the
    /// next use. Words keep it aligned.
    pub(super) buffer: RefCell<Vec<u128>>,
}

/// A message between Prepare and Commit.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// Target endpoint.
    pub target: Location,
    /// Local endpoint.
    pub source_ep: u16,
    /// Request or reply.
    pub class: Class,
    /// Medium or Long.
    pub category: AmCategory,
    /// Arguments that Commit must bring.
    pub nargs: usize,
    /// The request that a reply answers, or null.
    pub token: *const Token,
    /// The payload buffer.
    pub address: *mut u8,
    /// Its size.
    pub bytes: usize,
    /// Where the client wants its local completion, if the buffer is the client's.
    pub lc_opt: *mut Event,
    /// Whether the buffer is the library's.
    pub library_buffer: bool,
    /// The block that `address` lies in.
    pub(super) block: Option<u16>,
    /// Endpoint whose segment holds `address`, if that may be device memory.
    pub(super) device_ep: Option<EpIndex>,
    /// The destination named at Prepare, if any.
    pub destination: *mut u8,
    /// What destinations count from.
    pub destination_base: usize,
}

impl SrcDesc {
    /// Unused.
    pub const fn new() -> Self {
        Self {
            state: Cell::new(None),
            buffer: RefCell::new(Vec::new()),
        }
    }

    /// What is prepared, if anything. Inlined, so that a caller reads what it uses and copies
    /// nothing.
    #[inline(always)]
    pub fn prepared(&self) -> Option<Prepared> {
        self.state.get()
    }
}

impl Default for SrcDesc {
    fn default() -> Self {
        Self::new()
    }
}
