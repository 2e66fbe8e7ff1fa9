//! Payloads of Longs that the sender itself takes to their place, so that only a bare head travels:
//! to memory that is mapped here, and to memory of a neighbour where the kernel copies it. Others
//! travel in their message, or in [`super::segmented`].

use super::{AmCategory, Message};
use crate::copy::copy;
use crate::runtime::Runtime;
use crate::segment::reach::Reach;

/// A payload up to this travels in its message although the kernel could copy it: two copies take
/// less time than a system call.
const SMALL: usize = 2048;

/// Copies the payload of `m` to its place, if this process can. False: it has not, or there is
/// nothing to copy.
#[inline]
pub fn copied_ahead(rt: &Runtime, m: &Message<'_>) -> bool {
    if m.category != AmCategory::Long || m.bytes == 0 || !rt.is_neighbour(m.target.rank) {
        return false;
    }
    if rt.can_touch(m.target) {
        copy_mapped(rt, m);
        return true;
    }
    copied_by_kernel(rt, m) == m.bytes
}

/// Copies a payload to memory that is mapped here.
#[inline]
pub fn copy_mapped(rt: &Runtime, m: &Message<'_>) {
    if let Some(here) = rt.mapped_address(m.target, m.destination, m.bytes) {
        // SAFETY: `mapped_address` answers for the destination, the client for the source; overlap
        // is the client's error (EX 0.19, NOTE 4).
        unsafe { copy(here, m.payload, m.bytes) };
    }
}

/// Lets the kernel copy a payload to memory that is not mapped here. Returns how many bytes it has
/// copied.
pub fn copied_by_kernel(rt: &Runtime, m: &Message<'_>) -> usize {
    match rt.reach(m.target, m.destination, m.bytes) {
        Reach::Kernel(neighbour) if m.bytes > SMALL => {
            // SAFETY: `reach` answers for the destination, the client for the source, as above.
            unsafe { neighbour.put(m.destination, m.payload, m.bytes) }
        }
        _ => 0,
    }
}
