//! Puts and gets of scattered data (GASNet-EX 0.19, "Vector/Indexed/Strided").
//!
//! [`request`] holds a client's arguments and the fast path, [`strided`] that of strided calls,
//! [`shape`] the description of a call. To a neighbour, data is copied directly ([`mapped`]),
//! complete at return. To other ranks, [`packets`] carry the addresses at the target ([`records`])
//! and the data; large pieces, and pieces on a device, are separate puts or gets. [`peer`] runs the
//! client's handler at the target of a complete put. [`Direction`] selects the remote side;
//! descriptions name destination and source only.

pub mod check;
pub mod mapped;
pub mod packets;
pub mod peer;
pub mod records;
pub mod request;
pub mod shape;
pub mod strided;

use crate::event::Op;
use crate::rma::Started;
use crate::runtime;
use crate::segment::window::Window;
use crate::trace;
use crate::types::PeerCompletion;
use crate::types::{EpIndex, Location, ANYWHERE};
use gasnet_conduit::Busy;
use shape::{extent, List, Nest, Side};

/// The remote side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The destination.
    Put,
    /// The source.
    Get,
}

/// The data to copy.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// Vector and indexed.
    Lists {
        /// Destination.
        to: List,
        /// Source.
        from: List,
    },
    /// Strided.
    Nest(Nest<'a>),
}

/// A call.
#[derive(Clone, Copy, Debug)]
pub struct VisAccess<'a> {
    /// Put or get.
    pub direction: Direction,
    /// The local endpoint, with [`crate::types::ANYWHERE`] if local addresses may be of any memory.
    pub source_ep: EpIndex,
    /// The remote side.
    pub peer: Location,
    /// The data to copy.
    pub data: Data<'a>,
    /// Fail instead of waiting (`GEX_FLAG_IMMEDIATE`).
    pub immediate: bool,
    /// Handler to run at the peer when the put is complete.
    pub completion: Option<PeerCompletion>,
}

impl Direction {
    /// The remote and the local one of two things, of which one is the destination's and one is
    /// the source's.
    fn remote_and_local<T>(self, to: T, from: T) -> (T, T) {
        match self {
            Self::Put => (to, from),
            Self::Get => (from, to),
        }
    }
}

impl Data<'_> {
    /// Bytes that move: what both sides have. None on overflow.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            Data::Lists { to, from } => Some(to.bytes()?.min(from.bytes()?)),
            Data::Nest(nest) => nest.dims.iter().try_fold(nest.elem, |n, d| n.checked_mul(d.count)),
        }
    }

    /// Pieces at the destination.
    pub fn pieces(&self) -> usize {
        match self {
            Data::Lists { to, .. } => to.count(),
            Data::Nest(nest) => nest.dims.iter().map(|d| d.count).product(),
        }
    }

    /// Destination and source, each by itself.
    fn sides(&self) -> (Side, Side) {
        match self {
            Data::Lists { to, from } => (Side::List(*to), Side::List(*from)),
            Data::Nest(nest) => (nest.to_side(), nest.from_side()),
        }
    }
}

impl VisAccess<'_> {
    /// The category in which it is recorded.
    #[inline]
    pub fn category(&self) -> trace::TraceCategory {
        match self.direction {
            Direction::Put => trace::TraceCategory::Put,
            Direction::Get => trace::TraceCategory::Get,
        }
    }

    /// As what it is recorded.
    pub fn trace_kind(&self) -> trace::EventKind {
        use trace::EventKind;
        let put = self.direction == Direction::Put;
        match self.data {
            Data::Lists {
                to: List::Vector { .. },
                ..
            } if put => EventKind::PutVector,
            Data::Lists {
                to: List::Vector { .. },
                ..
            } => EventKind::GetVector,
            Data::Lists { .. } if put => EventKind::PutIndexed,
            Data::Lists { .. } => EventKind::GetIndexed,
            Data::Nest(_) if put => EventKind::PutStrided,
            Data::Nest(_) => EventKind::GetStrided,
        }
    }

    /// The remote and the local side, each by itself.
    fn sides(&self) -> (Side, Side) {
        let (to, from) = self.data.sides();
        self.direction.remote_and_local(to, from)
    }

    /// Lowest address and length of all that a strided call touches at the remote side.
    fn remote_extent(&self) -> Option<(usize, usize)> {
        let Data::Nest(nest) = &self.data else { return None };
        Some(match self.direction {
            Direction::Put => extent(nest.to, nest.elem, nest.dims.iter().map(|d| (d.count, d.to))),
            Direction::Get => extent(nest.from, nest.elem, nest.dims.iter().map(|d| (d.count, d.from))),
        })
    }
}

/// Starts `access`. `op`, called at most once, and only for transfers under way, counts them.
pub fn start(access: &VisAccess<'_>, op: &mut dyn FnMut() -> &'static Op) -> Result<Started, Busy> {
    let rt = runtime::get();
    // An address anywhere in the peer's process may be of a device: each piece finds its way.
    if rt.may_be_on_device(access.source_ep) || rt.is_on_device(access.peer) || access.peer.ep & ANYWHERE != 0 {
        return packets::on_devices(rt, access, op);
    }
    if let Some(window) = Window::of(rt, access.peer) {
        copy_mapped(access, &window);
    } else if access.data.bytes().is_some_and(|n| n > 0) {
        return packets::start(rt, access, op);
    }
    if let Some(completion) = &access.completion {
        // The copies are done, or there is nothing to wait for: the message orders itself behind
        // them.
        peer::send(access, completion, 0, 0);
    }
    Ok(Started::Complete)
}

fn copy_mapped(access: &VisAccess<'_>, window: &Window) {
    match (&access.data, access.direction) {
        // SAFETY: the client answers for its pieces.
        (Data::Lists { to, from }, direction) => unsafe { mapped::lists_with(window, direction, *to, *from) },
        (Data::Nest(nest), direction) => {
            let put = direction == Direction::Put;
            let first = if put { nest.to } else { nest.from };
            let (low, bytes) = access.remote_extent().unwrap_or((first, nest.elem));
            let here = window.here(low, bytes).wrapping_add(first.wrapping_sub(low));
            let (to, from) = if put {
                (here, nest.from as *const u8)
            } else {
                (nest.to as *mut u8, here.cast_const())
            };
            // SAFETY: all between the lowest and the highest remote byte is in the peer's segment;
            // the client answers for the local side.
            unsafe { mapped::nest(to, from, nest.elem, nest.dims) };
        }
    }
}
