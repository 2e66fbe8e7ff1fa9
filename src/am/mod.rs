//! Active Messages (GASNet-EX 0.19, "AM handlers" to "gex_AM_Cancel calls").
//!
//! A message is a [`Header`], up to 16 arguments and a payload, in a ring record inside a
//! neighbourhood and in a conduit's packet outside; both have the same layout. The files:
//!
//! - [`client`] checks the client's messages; [`npam`] is the negotiated-payload form.
//! - [`inject`] sends; [`post`] sends a message whole; [`encode`] writes header and arguments.
//!   [`loopback`] delivers messages to oneself.
//! - Longs: [`long`] copies the payload to its destination at the sender, [`long_put`] lets the
//!   conduit put it, [`segmented`] sends it in several packets.
//! - Mediums: [`segmented_medium`] sends a payload that finds no block in several records;
//!   [`gather`] and [`reserved`] spare the conduit the copy of a payload.
//! - [`acknowledge`] acknowledges packets of puts, several ([`unacknowledged`]) at a time.
//! - [`local_completion`] follows a payload that is read late; [`deferred`] holds messages that
//!   later polls send.
//! - [`deliver`] runs the handlers of [`table`] and the runtime's own ([`internal`]), to which
//!   [`token`] describes the message.

pub mod acknowledge;
pub mod canary;
pub mod client;
pub mod deferred;
pub mod deliver;
mod encode;
pub mod gather;
pub mod inject;
pub mod internal;
mod local_completion;
pub mod long;
pub mod long_put;
pub mod loopback;
pub mod npam;
mod post;
pub mod prepared;
mod reserved;
pub mod segment_head;
pub mod segmented;
pub mod segmented_medium;
pub mod table;
pub mod token;
pub mod unacknowledged;
pub mod wire;

use std::sync::OnceLock;

use crate::rules::LcOpt;
use crate::shm::layout::MAX_MEDIUM;
use crate::types::{AmCategory, EpIndex, Location};
pub use crate::types::{Arg, MAX_ARGS};
use gasnet_conduit::{Class, JobRank, Limits, PollScope};

/// A 64-bit number as two arguments, the high word first.
pub const fn split(value: u64) -> [Arg; 2] {
    [(value >> 32) as Arg, value as Arg]
}

/// The number that [`split`] has taken apart.
pub const fn join(high: Arg, low: Arg) -> u64 {
    (high as u32 as u64) << 32 | low as u32 as u64
}

/// Kinds of records and packets: the categories, and a Long whose payload travels in the packet.
pub mod kind {
    /// [`crate::types::AmCategory::Short`].
    pub const SHORT: u8 = 1;
    /// [`crate::types::AmCategory::Medium`].
    pub const MEDIUM: u8 = 2;
    /// [`crate::types::AmCategory::Long`], payload delivered beforehand.
    pub const LONG: u8 = 3;
    /// A Long whose payload comes as a Medium's does and is copied to its destination on arrival.
    pub const PACKED_LONG: u8 = 4;
}

/// Block number of a message whose payload follows in place.
pub const IN_PLACE: u16 = u16::MAX;

/// Head of every message. The first word belongs to the ring (a packet uses it for kind and number
/// of arguments likewise).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Kind in the low byte, number of arguments in the next.
    pub word: u32,
    /// Handler index.
    pub handler: u8,
    /// Zero in messages.
    pub flags: u8,
    /// Endpoint addressed.
    pub target_ep: EpIndex,
    /// Length of the payload.
    pub bytes: u32,
    /// Endpoint that sends.
    pub source_ep: EpIndex,
    /// The sender's payload block, or [`IN_PLACE`].
    pub block: u16,
    /// Destination of a Long.
    pub destination: u64,
}

impl Header {
    /// Number of arguments that the first word names.
    pub fn nargs(&self) -> usize {
        (self.word >> 8 & 0xff) as usize
    }

    /// Whether a handler of the client is addressed.
    pub fn is_for_client(&self) -> bool {
        self.handler >= table::INDEX_BASE
    }
}

/// Bytes of a header.
pub const HEADER: usize = size_of::<Header>();
const _: () = assert!(HEADER == 24);

/// Offset of the payload in a record or packet: aligned for any type.
pub const fn payload_offset(nargs: usize) -> usize {
    (HEADER + 4 * nargs).next_multiple_of(16)
}

/// Bytes of arguments and headers in front of any payload, at most.
pub const OVERHEAD: usize = payload_offset(MAX_ARGS);

/// A message to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Target endpoint.
    pub target: Location,
    /// Local endpoint.
    pub source_ep: EpIndex,
    /// Request or reply.
    pub class: Class,
    /// Category.
    pub category: AmCategory,
    /// Handler index at the target.
    pub handler: u8,
    /// Arguments.
    pub args: &'a [Arg],
    /// First byte of the payload (any memory of this process), unless `block` names it.
    pub payload: *const u8,
    /// Length of the payload.
    pub bytes: usize,
    /// Destination of a Long, in the target's address space.
    pub destination: usize,
    /// Own payload block that holds the payload; the message takes ownership.
    pub block: Option<u16>,
    /// The client's wish for local completion, if it may be later than the return. Null, or as the
    /// client passed it, which then is a constant or already invalid.
    pub lc_opt: LcOpt,
}

impl<'a> Message<'a> {
    /// A message without payload from the primordial endpoint.
    pub fn new(class: Class, category: AmCategory, target: Location, handler: u8, args: &'a [Arg]) -> Self {
        Self {
            target,
            source_ep: 0,
            class,
            category,
            handler,
            args,
            payload: std::ptr::null(),
            bytes: 0,
            destination: 0,
            block: None,
            lc_opt: std::ptr::null_mut(),
        }
    }

    /// The runtime's own message between primordial endpoints: a Short, or a Medium that carries
    /// `payload`.
    pub fn internal(
        class: Class,
        target: Location,
        handler: u8,
        args: &'a [Arg],
        payload: Option<(*const u8, usize)>,
    ) -> Self {
        match payload {
            None => Self::new(class, AmCategory::Short, target, handler, args),
            Some((from, bytes)) => {
                Self::new(class, AmCategory::Medium, target, handler, args).with_payload(from, bytes)
            }
        }
    }

    /// The same from another endpoint.
    #[must_use]
    pub fn from_endpoint(self, source_ep: EpIndex) -> Self {
        Self { source_ep, ..self }
    }

    /// The same with `bytes` at `payload`.
    #[must_use]
    pub fn with_payload(self, payload: *const u8, bytes: usize) -> Self {
        Self { payload, bytes, ..self }
    }

    /// The same with this local completion of the payload.
    #[must_use]
    pub fn with_local_completion(self, lc_opt: LcOpt) -> Self {
        Self { lc_opt, ..self }
    }

    /// The same to `destination`, for a Long.
    #[must_use]
    pub fn with_destination(self, destination: *mut u8) -> Self {
        let destination = destination as usize;
        Self { destination, ..self }
    }
}

/// The polls of a message of this class that waits.
fn poll_scope(class: Class) -> PollScope {
    match class {
        Class::Request => PollScope::All,
        Class::Reply => PollScope::Replies,
    }
}

/// Largest payload that a Medium to `rank` may have.
pub fn max_medium(rank: Option<JobRank>) -> usize {
    let rt = crate::runtime::get();
    match rank {
        Some(rank) if rt.is_neighbour(rank) => MAX_MEDIUM,
        None if rt.single_neighbourhood() => MAX_MEDIUM,
        _ => network_medium(&rt.conduit_limits),
    }
}

/// Largest payload of a Medium in one packet of a conduit.
fn network_medium(limits: &Limits) -> usize {
    (limits.max_packet_bytes.saturating_sub(OVERHEAD) & !63).min(MAX_MEDIUM)
}

/// Largest payload of a Long, to anyone: what fits a C `int`, which is how clients store it. To
/// memory that the sender cannot access, the payload travels in packets ([`segmented`]).
pub const MAX_LONG: usize = 0x7fff_ffff;

/// Largest library buffer for a negotiated payload of any category: a larger one would only add a
/// copy.
pub const MAX_PREPARED: usize = MAX_MEDIUM;

/// The least of [`max_medium`] over all peers of any job that this library can carry
/// (`gex_AM_LUBRequestMedium`). The same value before and after initialisation: clients size
/// buffers by it early.
pub fn lub_medium() -> usize {
    static LEAST: OnceLock<usize> = OnceLock::new();
    *LEAST.get_or_init(|| {
        let networks = crate::runtime::linked_conduits()
            .iter()
            .filter(|conduit| conduit.identity().has_network());
        networks
            .map(|conduit| network_medium(&conduit.limits()))
            .min()
            .unwrap_or(MAX_MEDIUM)
    })
}
