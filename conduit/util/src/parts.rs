//! Packets in parts.

/// Bytes of all parts.
#[inline]
pub fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Writes the parts one after another.
///
/// # Panics
/// If there is no room for all of them.
#[inline]
pub fn gather(parts: &[&[u8]], room: &mut [u8]) {
    let mut at = 0;
    for part in parts {
        room[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// The same where there may be no value yet.
///
/// # Safety
/// There is room for all of them.
#[inline]
pub unsafe fn concatenate(parts: &[&[u8]], mut to: *mut u8) {
    for part in parts {
        // SAFETY: by contract.
        unsafe {
            to.copy_from_nonoverlapping(part.as_ptr(), part.len());
            to = to.add(part.len());
        }
    }
}
