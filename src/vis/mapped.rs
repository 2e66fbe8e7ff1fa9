//! Copies between memory that is all mapped here.

use std::ptr;

use super::shape::{Cursor, Dim, List, Position, Row, Side};
use super::Direction;
use crate::copy::copy;
use crate::segment::window::Window;

/// Copies a nest, both sides of which are addressed as this process sees them.
///
/// # Safety
/// Every turn of the loops is inside valid memory at both sides, which others may write only as
/// data races that the client accepts.
#[inline]
pub unsafe fn nest(to: *mut u8, from: *const u8, elem: usize, dims: &[Dim]) {
    let steps = dims.iter().fold(0, |all, d| all | d.to | d.from) as usize;
    let words = (to as usize | from as usize | steps) % elem.next_power_of_two() == 0;
    macro_rules! each {
        ($copy:expr) => {
            // SAFETY: by contract for every turn.
            outer(dims, to, from, &|to: *mut u8, from: *const u8| unsafe {
                $copy(to, from)
            })
        };
    }
    match elem {
        1 => each!(word::<1>),
        2 if words => each!(word::<2>),
        4 if words => each!(word::<4>),
        8 if words => each!(word::<8>),
        2 => each!(block::<2>),
        4 => each!(block::<4>),
        8 => each!(block::<8>),
        12 => each!(block::<12>),
        16 => each!(block::<16>),
        24 => each!(block::<24>),
        32 => each!(block::<32>),
        48 => each!(block::<48>),
        64 => each!(block::<64>),
        _ => each!(|to, from| copy(to, from, elem)),
    }
}

/// The loops; the two innermost ones are inlined.
#[inline(always)]
fn outer(dims: &[Dim], to: *mut u8, from: *const u8, each: &impl Fn(*mut u8, *const u8)) {
    match dims {
        [] => each(to, from),
        [a] => line(a, to, from, each),
        [a, b] => line(b, to, from, &|to, from| line(a, to, from, each)),
        [..] => deep(dims, to, from, each),
    }
}

#[inline(always)]
fn line(dim: &Dim, mut to: *mut u8, mut from: *const u8, each: &impl Fn(*mut u8, *const u8)) {
    for _ in 0..dim.count {
        each(to, from);
        to = to.wrapping_offset(dim.to);
        from = from.wrapping_offset(dim.from);
    }
}

fn deep<F: Fn(*mut u8, *const u8)>(dims: &[Dim], mut to: *mut u8, mut from: *const u8, each: &F) {
    let (inner, last) = match dims {
        [a, b] => return line(b, to, from, &|to, from| line(a, to, from, each)),
        [inner @ .., last] => (inner, last),
        [] => return,
    };
    for _ in 0..last.count {
        deep(inner, to, from, each);
        to = to.wrapping_offset(last.to);
        from = from.wrapping_offset(last.from);
    }
}

/// One load and one store, as every aligned transfer of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// As [`copy`]; both are aligned to `N`.
#[inline(always)]
unsafe fn word<const N: usize>(to: *mut u8, from: *const u8) {
    // SAFETY: aligned by contract.
    unsafe { std::hint::assert_unchecked((to as usize | from as usize) % N == 0) };
    // SAFETY: by contract.
    unsafe { copy(to, from, N) };
}

/// A copy of a length that the compiler knows.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn block<const N: usize>(to: *mut u8, from: *const u8) {
    // SAFETY: by contract.
    let data = unsafe { ptr::read_unaligned(from.cast::<[u8; N]>()) };
    // SAFETY: by contract.
    unsafe { ptr::write_unaligned(to.cast::<[u8; N]>(), data) };
}

/// Copies between lists, one of which is of the process whose segment `window` shows.
///
/// # Safety
/// The pieces of the other list are valid as for [`nest`].
#[inline(always)]
pub unsafe fn lists_with(window: &Window, direction: Direction, to: List, from: List) {
    let theirs = |address, bytes| window.here(address, bytes);
    let ours = |address, _| address as *mut u8;
    match direction {
        // SAFETY: the window answers for every remote piece, the client for the local ones.
        Direction::Put => unsafe { lists(to, theirs, from, ours) },
        // SAFETY: as above.
        Direction::Get => unsafe { lists(to, ours, from, theirs) },
    }
}

/// Copies list to list. The closures map a piece (address, length) of either side to an address of
/// this process.
///
/// # Safety
/// What the closures return is valid as for [`nest`].
#[inline(always)]
unsafe fn lists(
    to: List,
    to_here: impl Fn(usize, usize) -> *mut u8,
    from: List,
    from_here: impl Fn(usize, usize) -> *mut u8,
) {
    let pairs = to.count().min(from.count());
    if let (List::Indexed { bytes, .. }, List::Indexed { bytes: same, .. }) = (to, from) {
        if bytes == same {
            macro_rules! each {
                ($bytes:expr) => {
                    for i in 0..pairs {
                        let (to, from) = (
                            to_here(to.piece(i).0, $bytes),
                            from_here(from.piece(i).0, $bytes),
                        );
                        // SAFETY: by contract.
                        unsafe { copy(to, from, $bytes) };
                    }
                };
            }
            return match bytes {
                8 => each!(8),
                16 => each!(16),
                32 => each!(32),
                64 => each!(64),
                _ => each!(bytes),
            };
        }
    }
    // Most lists have the same pieces on both sides.
    let mut same = 0;
    while same < pairs {
        let ((a, bytes), (b, there)) = (to.piece(same), from.piece(same));
        if bytes != there {
            break;
        }
        // SAFETY: by contract.
        unsafe { copy(to_here(a, bytes), from_here(b, bytes), bytes) };
        same += 1;
    }
    if same == pairs {
        return;
    }
    // SAFETY: by contract.
    unsafe { different_lists(to, to_here, from, from_here, same) };
}

/// The rest of [`lists`], whose pieces differ from `start` on.
#[cold]
#[inline(never)]
unsafe fn different_lists(
    to: List,
    to_here: impl Fn(usize, usize) -> *mut u8,
    from: List,
    from_here: impl Fn(usize, usize) -> *mut u8,
    start: usize,
) {
    let (to, from) = (Side::List(to), Side::List(from));
    let start = Position::of_piece(start);
    let (mut to, mut from) = (Cursor::new(&to, start), Cursor::new(&from, start));
    while let (Some((a, left)), Some((b, there))) = (to.run(), from.run()) {
        let bytes = left.min(there);
        // SAFETY: by contract.
        unsafe { copy(to_here(a, bytes), from_here(b, bytes), bytes) };
        to.advance(bytes);
        from.advance(bytes);
    }
}

/// Copies a row of memory of this process to `to`, without gaps.
///
/// # Safety
/// Both are valid as for [`nest`].
#[inline]
pub unsafe fn gather(to: *mut u8, from: &Row) {
    if from.count == 1 {
        // SAFETY: by contract.
        return unsafe { copy(to, from.address as *const u8, from.bytes) };
    }
    let dim = Dim {
        count: from.count,
        to: from.bytes as isize,
        from: from.step,
    };
    // SAFETY: by contract.
    unsafe { nest(to, from.address as *const u8, from.bytes, &[dim]) };
}

/// Copies what lies without gaps at `from` to a row of memory of this process.
///
/// # Safety
/// Both are valid as for [`nest`].
#[inline]
pub unsafe fn scatter(to: &Row, from: *const u8) {
    if to.count == 1 {
        // SAFETY: by contract.
        return unsafe { copy(to.address as *mut u8, from, to.bytes) };
    }
    let dim = Dim {
        count: to.count,
        to: to.step,
        from: to.bytes as isize,
    };
    // SAFETY: by contract.
    unsafe { nest(to.address as *mut u8, from, to.bytes, &[dim]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_alignment_and_depth_copies() {
        let source: Vec<u8> = (0..20_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for elem in 1..70_usize {
            for (depth, shift) in [(0, 0), (1, 1), (2, 0), (3, 2), (4, 0)] {
                let mut dims = Vec::new();
                let (mut to, mut from) = (elem as isize, elem.next_power_of_two() as isize);
                for _ in 0..depth {
                    dims.push(Dim { count: 3, to, from });
                    (to, from) = (to * 3 + shift as isize, from * 3);
                }
                let mut out = vec![0_u8; 20_000];
                let mut wanted = out.clone();
                for turn in 0..3_usize.pow(depth) {
                    let (mut a, mut b, mut rest) = (shift as isize, 8_isize, turn);
                    for d in &dims {
                        (a, b, rest) = (
                            a + (rest % 3) as isize * d.to,
                            b + (rest % 3) as isize * d.from,
                            rest / 3,
                        );
                    }
                    let (a, b) = (a as usize, b as usize);
                    wanted[a..a + elem].copy_from_slice(&source[b..b + elem]);
                }
                // SAFETY: `wanted` was made with the same places, inside both vectors.
                unsafe { nest(out.as_mut_ptr().add(shift), source.as_ptr().add(8), elem, &dims) };
                assert_eq!(out, wanted, "{elem} {depth}");
            }
        }
    }

    #[test]
    fn lists_of_different_lengths_meet() {
        let source: Vec<u8> = (0..60).collect();
        let mut out = [0_u8; 60];
        let from: Vec<*mut u8> = [0, 20, 40]
            .iter()
            .map(|&i| source.as_ptr().wrapping_add(i).cast_mut())
            .collect();
        let to: Vec<*mut u8> = (0..6).map(|i| out.as_mut_ptr().wrapping_add(50 - 10 * i)).collect();
        let list = |v: &Vec<*mut u8>, bytes| List::Indexed {
            entries: v.as_ptr(),
            count: v.len(),
            bytes,
            base: 0,
        };
        let here = |address: usize, _| address as *mut u8;
        // SAFETY: all pieces are inside the two arrays.
        unsafe { lists(list(&to, 5), here, list(&from, 10), here) };
        for (i, piece) in [0, 5, 20, 25, 40, 45].into_iter().enumerate() {
            assert_eq!(out[50 - 10 * i..55 - 10 * i], source[piece..piece + 5]);
            assert!(out[55 - 10 * i..60 - 10 * i].iter().all(|&x| x == 0));
        }
    }
}
