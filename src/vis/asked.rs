//! What a client's arguments ask for, and the short way: most calls name a neighbour's segment and
//! want nothing else, so their data can be copied before anything about the call is looked up or
//! written down.

use std::sync::atomic::Ordering;

use super::near;
use super::shape::{Dim, List};
use super::Direction;
use crate::flags::Flags;
use crate::runtime;
use crate::segment::window::Window;
use crate::team::{self, TeamHandle, PEERS_ARE_TOLD};

/// Levels of a strided call that takes the short way.
const FEW_LEVELS: usize = 3;

/// One side of a strided call.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// First byte of the first turn.
    pub base: *mut u8,
    /// As many steps as there are levels.
    pub steps: *const isize,
}

/// A strided call.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// Destination.
    pub to: Place,
    /// Source.
    pub from: Place,
    /// Contiguous bytes.
    pub elem: usize,
    /// Turns of each level.
    pub counts: *const usize,
    /// Loops.
    pub levels: usize,
}

/// What is to be copied.
#[derive(Clone, Copy, Debug)]
pub enum Asked {
    /// Vector and indexed.
    Lists {
        /// Destination.
        to: List,
        /// Source.
        from: List,
    },
    /// Strided.
    Strided(Strided),
}

impl Asked {
    /// Copies what `(tm, rank)` and the local side are asked for, if that can be done right here.
    /// False: nothing was done. Flags of `plain` change nothing for a neighbour.
    ///
    /// # Safety
    /// The client answers for its arrays and for the local pieces.
    #[inline(always)]
    pub unsafe fn at_once(self, direction: Direction, tm: TeamHandle, rank: u32, flags: Flags, plain: Flags) -> bool {
        if !plain.has_all(flags) || PEERS_ARE_TOLD.load(Ordering::Relaxed) != 0 {
            return false;
        }
        // Closed in the debug flavour and while calls are recorded.
        let Some(peer) = team::open(tm, rank) else { return false };
        let window = Window::neighbour(runtime::get(), peer);
        match self {
            Self::Lists { to, from } => {
                // SAFETY: by contract.
                unsafe { near::lists_with(&window, direction, to, from) };
                true
            }
            // SAFETY: by contract.
            Self::Strided(strided) => unsafe { strided.copy(&window, direction) }.is_some(),
        }
    }
}

impl Strided {
    /// Copies between this process and the one whose segment `window` shows. None, and nothing is
    /// done, if a closer look is needed.
    ///
    /// # Safety
    /// As for [`Asked::at_once`].
    #[inline(always)]
    unsafe fn copy(self, window: &Window, direction: Direction) -> Option<()> {
        // Where nothing moves, neither arrays nor team and rank are looked at.
        if self.levels > FEW_LEVELS || self.elem == 0 {
            return None;
        }
        let put = direction == Direction::Put;
        let mut elem = self.elem;
        let mut dims = [Dim::default(); FEW_LEVELS];
        let mut used = 0;
        // From the first remote byte to the lowest one, and to where the highest piece begins.
        let (mut low, mut high) = (0_isize, 0_isize);
        for i in 0..self.levels {
            // SAFETY: inside the arrays by contract.
            let (count, to, from) = unsafe { (*self.counts.add(i), *self.to.steps.add(i), *self.from.steps.add(i)) };
            if count == 1 {
                continue;
            }
            if used == 0 && to == elem as isize && from == elem as isize {
                elem = elem.checked_mul(count)?;
                continue;
            }
            let far = (if put { to } else { from }).checked_mul(isize::try_from(count).ok()?.checked_sub(1)?)?;
            low = low.checked_add(far.min(0))?;
            high = high.checked_add(far.max(0))?;
            dims[used] = Dim { count, to, from };
            used += 1;
        }
        let remote = if put { self.to.base } else { self.from.base };
        let span = elem.checked_add_signed(high.checked_sub(low)?)?;
        if elem == 0 || dims[..used].iter().any(|dim| dim.count == 0) {
            return None;
        }
        let first = (remote as usize).wrapping_add_signed(low);
        let here = window.here(first, span).wrapping_offset(low.wrapping_neg());
        let (to, from) = if put { (here, self.from.base) } else { (self.to.base, here) };
        // SAFETY: all between the lowest and the highest remote byte is in the peer's segment; the
        // client answers for the local side.
        unsafe { near::nest(to, from, elem, &dims[..used]) };
        Some(())
    }
}
