//! Checks of a call in the debug flavour, beside those of every flavour: that the two sides have
//! the same length, that no address is null, that all of the remote side is in its segment before
//! anything moves, and that destinations do not overlap.

use super::shape::{Cursor, List, Position, Side};
use super::{Data, VisAccess};
use crate::runtime;

/// Most pieces among which overlap is searched.
const MOST_PIECES: usize = 1 << 16;

/// Ends the job if the call breaks a rule.
pub fn access(access: &VisAccess<'_>, function: &str) {
    let rt = runtime::get();
    let (to, from) = access.data.sides();
    if let Data::Lists { to, from } = &access.data {
        let lengths = [list(to, "destination", function), list(from, "source", function)];
        if lengths[0] != lengths[1] {
            fatal!(
                "rank {}: {function}: the destination has {} bytes, the source {}. They must be the same.",
                rt.rank,
                lengths[0],
                lengths[1]
            );
        }
    }
    let (remote, local) = access.direction.remote_and_local(&to, &from);
    if Cursor::new(local, Position::default())
        .run()
        .is_some_and(|(address, _)| address == 0)
    {
        fatal!("rank {}: {function}: a local address is null", rt.rank);
    }
    let segment = rt.segment_of(access.peer);
    let inside = |address, bytes| segment.is_some_and(|s| s.contains(address, bytes));
    if let Side::List(list) = remote {
        for (address, bytes) in (0..list.count()).map(|i| list.piece(i)).filter(|p| p.1 > 0) {
            if !inside(address, bytes) {
                rt.outside_segment(access.peer, address, bytes);
            }
        }
    }
    if let Some(address) = (to.pieces() <= MOST_PIECES).then(|| overlap(&to)).flatten() {
        fatal!(
            "rank {}: {function}: the byte at {address:#x} is in the destination twice (GASNet-EX 0.19, \
             \"Vector/Indexed/Strided\")",
            rt.rank
        );
    }
}

/// Length of a list that can be one.
fn list(list: &List, which: &str, function: &str) -> usize {
    let null = match *list {
        List::Vector { entries, .. } => entries.is_null(),
        List::Indexed { entries, .. } => entries.is_null(),
    };
    if null && list.count() > 0 {
        fatal!("rank {}: {function}: the {which} list is null", runtime::get().rank);
    }
    list.bytes().unwrap_or_else(|| {
        fatal!(
            "rank {}: {function}: the lengths of the {which} list add up to more bytes than an address space has",
            runtime::get().rank
        )
    })
}

/// A byte that two pieces have.
fn overlap(side: &Side) -> Option<usize> {
    let mut cursor = Cursor::new(side, Position::default());
    let mut pieces = Vec::new();
    while let Some((address, bytes)) = cursor.run() {
        pieces.push((address, bytes));
        cursor.advance(bytes);
    }
    pieces.sort_unstable();
    pieces.windows(2).find(|w| w[1].0 - w[0].0 < w[0].1).map(|w| w[1].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_found_wherever_it_is() {
        let find = |addresses: &[usize], bytes| {
            let entries: Vec<*mut u8> = addresses.iter().map(|&a| a as *mut u8).collect();
            overlap(&Side::List(List::Indexed {
                entries: entries.as_ptr(),
                count: entries.len(),
                bytes,
                base: 0,
            }))
        };
        assert_eq!(find(&[30, 10, 20, 40], 10), None);
        assert_eq!(find(&[30, 10, 25, 40], 10), Some(30));
        assert_eq!(find(&[7, 7], 0), None);
        assert_eq!(find(&[7, 7], 1), Some(7));
    }
}
