//! The copy behind accesses to neighbours: aligned words are not torn.

use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, AtomicU8, Ordering};

macro_rules! word {
    ($atomic:ty, $to:expr, $from:expr) => {{
        // SAFETY: aligned for the type (checked by the caller), valid by contract; both sides may
        // be shared with other processes, hence atomics.
        let value = unsafe { &*$from.cast_mut().cast::<$atomic>() }.load(Ordering::Acquire);
        // SAFETY: as above.
        unsafe { &*$to.cast::<$atomic>() }.store(value, Ordering::Release)
    }};
}

/// Copies `bytes` bytes. An aligned transfer of 1, 2, 4 or 8 bytes is one load and one store, since
/// clients wait on flags that puts write: released, so that whoever acquires the flag sees what was
/// put before it; acquired, so that later gets are no older than the flag.
///
/// # Safety
/// Both ranges are valid and may be written by others only as data races that the client accepts.
#[inline]
pub unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    let both = to as usize | from as usize;
    match bytes {
        1 => word!(AtomicU8, to, from),
        2 if both % 2 == 0 => word!(AtomicU16, to, from),
        4 if both % 4 == 0 => word!(AtomicU32, to, from),
        8 if both % 8 == 0 => word!(AtomicU64, to, from),
        // SAFETY: by contract, as below.
        16..=32 => unsafe { ends::<[u8; 16]>(to, from, bytes) },
        // SAFETY: likewise.
        33..=64 => unsafe { ends::<[u8; 32]>(to, from, bytes) },
        // SAFETY: by contract; `copy` also bears overlap, which the specification leaves undefined.
        _ => unsafe { ptr::copy(from, to, bytes) },
    }
}

/// Copies by the first and the last `size_of::<T>()` bytes, which meet; faster than a call of
/// `memmove`.
///
/// # Safety
/// As [`copy`]; `bytes` is at least the size of T, and at most twice that.
#[inline(always)]
unsafe fn ends<T: Copy>(to: *mut u8, from: *const u8, bytes: usize) {
    let last = bytes - size_of::<T>();
    // SAFETY: by contract.
    let first = unsafe { ptr::read_unaligned(from.cast::<T>()) };
    // SAFETY: by contract.
    let second = unsafe { ptr::read_unaligned(from.add(last).cast::<T>()) };
    // SAFETY: by contract.
    unsafe { ptr::write_unaligned(to.cast::<T>(), first) };
    // SAFETY: by contract.
    unsafe { ptr::write_unaligned(to.add(last).cast::<T>(), second) };
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_sizes_and_alignments_copy() {
        for bytes in 0..70 {
            for (a, b) in [(0, 0), (1, 0), (0, 1), (4, 4), (2, 6), (3, 3)] {
                let from: Vec<u8> = (0..80).collect();
                let mut to = vec![0u8; 80];
                // SAFETY: both ranges lie in the vectors.
                unsafe { super::copy(to.as_mut_ptr().add(a), from.as_ptr().add(b), bytes) };
                assert_eq!(to[a..a + bytes], from[b..b + bytes]);
                assert!(to[a + bytes..].iter().all(|&x| x == 0));
            }
        }
    }
}
