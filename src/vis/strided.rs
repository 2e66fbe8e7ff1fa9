//! The arguments of a strided call, and its fast path: a copy with at most [`FEW_LEVELS`] loops to
//! or from a mapped segment. The general path simplifies a [`super::shape::Nest`] first.

use super::mapped;
use super::shape::Dim;
use super::Direction;
use crate::segment::window::Window;

/// Levels of a strided call that takes the short way.
const FEW_LEVELS: usize = 3;

/// One side of a strided call.
#[derive(Clone, Copy, Debug)]
pub struct StridedArray {
    /// First byte of the first turn.
    pub base: *mut u8,
    /// As many steps as there are levels.
    pub steps: *const isize,
}

/// A strided call.
#[derive(Clone, Copy, Debug)]
pub struct StridedArgs {
    /// Destination.
    pub to: StridedArray,
    /// Source.
    pub from: StridedArray,
    /// Contiguous bytes.
    pub elem: usize,
    /// Turns of each level.
    pub counts: *const usize,
    /// Loops.
    pub levels: usize,
}

impl StridedArgs {
    /// Copies between this process and the one whose segment `window` shows. None, with no effect,
    /// if the general path is needed.
    ///
    /// # Safety
    /// As for [`super::request::VisRequest::at_once`].
    #[inline(always)]
    pub(super) unsafe fn copy(self, window: &Window, direction: Direction) -> Option<()> {
        // If nothing moves, arrays, team and rank are not checked.
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
        let (to, from) = if put {
            (here, self.from.base)
        } else {
            (self.to.base, here)
        };
        // SAFETY: all between the lowest and the highest remote byte is in the peer's segment; the
        // client answers for the local side.
        unsafe { mapped::nest(to, from, elem, &dims[..used]) };
        Some(())
    }
}
