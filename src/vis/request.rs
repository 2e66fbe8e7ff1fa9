//! Arguments of a client's call, and the fast path: most calls address a neighbour's segment and
//! need nothing else, so their data is copied before the call is looked up or recorded.

use std::sync::atomic::Ordering;

use super::mapped;
use super::shape::List;
use super::strided::StridedArgs;
use super::Direction;
use crate::runtime;
use crate::segment::window::Window;
use crate::team::{self, TeamHandle, PEER_COMPLETION_ARMED};
use crate::types::Rank;

/// The data to copy.
#[derive(Clone, Copy, Debug)]
pub enum VisRequest {
    /// Vector and indexed.
    Lists {
        /// Destination.
        to: List,
        /// Source.
        from: List,
    },
    /// Strided.
    Strided(StridedArgs),
}

impl VisRequest {
    /// Copies between the local side and `(tm, rank)`, if that memory is mapped here. False:
    /// nothing was done. `is_plain`: the call has no flag that changes anything for a neighbour.
    ///
    /// # Safety
    /// The client answers for its arrays and for the local pieces.
    #[inline(always)]
    pub unsafe fn at_once(self, direction: Direction, tm: TeamHandle, rank: Rank, is_plain: bool) -> bool {
        if !is_plain || PEER_COMPLETION_ARMED.load(Ordering::Relaxed) != 0 {
            return false;
        }
        // Closed in the debug flavour and while calls are recorded.
        let Some(peer) = team::open(tm, rank) else { return false };
        let window = Window::neighbour(runtime::get(), peer);
        match self {
            Self::Lists { to, from } => {
                // SAFETY: by contract.
                unsafe { mapped::lists_with(&window, direction, to, from) };
                true
            }
            // SAFETY: by contract.
            Self::Strided(strided) => unsafe { strided.copy(&window, direction) }.is_some(),
        }
    }
}
