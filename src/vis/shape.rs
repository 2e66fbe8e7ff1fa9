//! The description of a call: lists of pieces (vector, indexed) or a nest of loops (strided), as
//! seen by both sides or by one of them.
//!
//! Nothing here touches the data. A client's lists are read where they are: they are valid until
//! the operation is complete.

use std::sync::Arc;

/// `gex_Memvec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memvec {
    /// First byte.
    pub address: *mut u8,
    /// Length, possibly 0.
    pub bytes: usize,
}

/// A client's list of pieces.
#[derive(Clone, Copy, Debug)]
pub enum List {
    /// Every piece has its own length.
    Vector {
        /// The client's array.
        entries: *const Memvec,
        /// Its length.
        count: usize,
        /// Base of its addresses.
        base: usize,
    },
    /// All pieces have the same length.
    Indexed {
        /// The client's array.
        entries: *const *mut u8,
        /// Its length.
        count: usize,
        /// Length of a piece.
        bytes: usize,
        /// Base of its addresses.
        base: usize,
    },
}

// SAFETY: the client leaves its arrays to the operation until that is complete (GASNet-EX 0.19,
// "Vector/Indexed/StridedSide"), whichever thread works on it.
unsafe impl Send for List {}

impl List {
    /// The same list, its addresses counting from `base`.
    #[must_use]
    pub fn from_base(mut self, start: usize) -> Self {
        match &mut self {
            Self::Vector { base, .. } | Self::Indexed { base, .. } => *base = start,
        }
        self
    }

    /// Number of pieces.
    pub fn count(&self) -> usize {
        match *self {
            Self::Vector { count, .. } | Self::Indexed { count, .. } => count,
        }
    }

    /// Address and length of piece `i` (below `count`).
    #[inline]
    pub fn piece(&self, i: usize) -> (usize, usize) {
        match *self {
            Self::Vector { entries, base, .. } => {
                // SAFETY: inside the client's array by the caller's promise.
                let entry = unsafe { *entries.add(i) };
                (base.wrapping_add(entry.address as usize), entry.bytes)
            }
            Self::Indexed {
                entries, bytes, base, ..
            } => {
                // SAFETY: as above.
                let address = unsafe { *entries.add(i) };
                (base.wrapping_add(address as usize), bytes)
            }
        }
    }

    /// Length of all pieces together; None on overflow.
    pub fn bytes(&self) -> Option<usize> {
        match *self {
            Self::Indexed { count, bytes, .. } => count.checked_mul(bytes),
            Self::Vector { count, .. } => (0..count).try_fold(0_usize, |sum, i| sum.checked_add(self.piece(i).1)),
        }
    }
}

/// One loop of a nest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dim {
    /// Turns.
    pub count: usize,
    /// From turn to turn at the destination, in bytes.
    pub to: isize,
    /// From turn to turn at the source.
    pub from: isize,
}

/// Loops that remain after [`Nest::simplify`], at most: each doubles the length at least.
pub const MOST_DIMS: usize = usize::BITS as usize;

/// A strided copy: `elem` bytes in every turn of the loops, the innermost loop first.
#[derive(Clone, Copy, Debug)]
pub struct Nest<'a> {
    /// Destination of the first turn, in its owner's address space.
    pub to: usize,
    /// Source of the first turn, likewise.
    pub from: usize,
    /// Contiguous bytes.
    pub elem: usize,
    /// The loops.
    pub dims: &'a [Dim],
}

impl<'a> Nest<'a> {
    /// The same copy with the fewest loops, the smallest step of the destination innermost, and all
    /// its steps upwards. The order of turns does not matter, since destinations do not overlap. No
    /// `count` may be 0. Works in `dims`.
    pub fn simplify(mut to: usize, mut from: usize, mut elem: usize, dims: &'a mut [Dim]) -> Self {
        for dim in dims.iter_mut().filter(|d| d.to < 0) {
            let turns = (dim.count - 1) as isize;
            to = to.wrapping_add_signed(dim.to.wrapping_mul(turns));
            from = from.wrapping_add_signed(dim.from.wrapping_mul(turns));
            (dim.to, dim.from) = (dim.to.wrapping_neg(), dim.from.wrapping_neg());
        }
        dims.sort_by_key(|d| d.to);
        let mut used = 0;
        for i in 0..dims.len() {
            let dim = dims[i];
            if dim.count == 1 {
                continue;
            }
            if used == 0 && dim.to == elem as isize && dim.from == elem as isize {
                elem *= dim.count;
                continue;
            }
            if let Some(inner) = dims[..used].last_mut() {
                if follows(inner.count, inner.to, dim.to) && follows(inner.count, inner.from, dim.from) {
                    inner.count *= dim.count;
                    continue;
                }
            }
            dims[used] = dim;
            used += 1;
        }
        Self {
            to,
            from,
            elem,
            dims: &dims[..used],
        }
    }

    /// The destination alone.
    pub fn to_side(&self) -> Side {
        Side::strided(self.to, self.elem, self.dims.iter().map(|d| (d.count, d.to)))
    }

    /// The source alone.
    pub fn from_side(&self) -> Side {
        Side::strided(self.from, self.elem, self.dims.iter().map(|d| (d.count, d.from)))
    }
}

/// Whether a loop of step `outer` goes on where `count` turns of `inner` end.
fn follows(count: usize, inner: isize, outer: isize) -> bool {
    inner.checked_mul(count as isize) == Some(outer)
}

/// Lowest address and length of what loops of (count, step) touch. A length of `usize::MAX` fits
/// nowhere.
pub fn extent(base: usize, elem: usize, dims: impl Iterator<Item = (usize, isize)>) -> (usize, usize) {
    let (mut low, mut high) = (base as i128, base as i128 + elem as i128);
    for (count, step) in dims {
        let far = (step as i128).saturating_mul(count as i128 - 1);
        if far < 0 {
            low = low.saturating_add(far);
        } else {
            high = high.saturating_add(far);
        }
    }
    let inside = low >= 0 && high <= usize::MAX as i128;
    (low as usize, if inside { (high - low) as usize } else { usize::MAX })
}

/// One side of a strided copy.
#[derive(Debug)]
pub struct StridedSide {
    base: usize,
    elem: usize,
    /// Count and step, innermost first.
    dims: Vec<(usize, isize)>,
}

/// One side of any copy, which can be walked through without the other one.
#[derive(Clone, Debug)]
pub enum Side {
    /// The client's list.
    List(List),
    /// Our copy of a strided description, which the client may forget at return.
    Strided(Arc<StridedSide>),
}

impl Side {
    /// Loops of (count, step), in this order, with what is contiguous at this side in one piece.
    fn strided(base: usize, mut elem: usize, loops: impl Iterator<Item = (usize, isize)>) -> Self {
        let mut dims: Vec<(usize, isize)> = Vec::new();
        for (count, step) in loops {
            match dims.last_mut() {
                None if step == elem as isize => elem *= count,
                Some((inner, inner_step)) if follows(*inner, *inner_step, step) => *inner *= count,
                _ => dims.push((count, step)),
            }
        }
        Self::Strided(Arc::new(StridedSide { base, elem, dims }))
    }

    /// Number of pieces.
    pub fn pieces(&self) -> usize {
        match self {
            Self::List(list) => list.count(),
            Self::Strided(s) => s.dims.iter().map(|d| d.0).product(),
        }
    }
}

/// A place in a side: where a [`Cursor`] can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    piece: usize,
    offset: usize,
}

impl Position {
    /// The beginning of a list's piece.
    pub fn of_piece(piece: usize) -> Self {
        Self { piece, offset: 0 }
    }
}

/// Equal pieces at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// First byte, in its owner's address space.
    pub address: usize,
    /// Length of a piece; not 0.
    pub bytes: usize,
    /// Pieces; not 0.
    pub count: usize,
    /// Distance of pieces.
    pub step: isize,
}

impl Row {
    /// Length of all pieces together; None on overflow.
    pub fn data(&self) -> Option<usize> {
        self.bytes.checked_mul(self.count)
    }

    /// Lowest address and length of all that it touches.
    pub fn extent(&self) -> (usize, usize) {
        extent(self.address, self.bytes, std::iter::once((self.count, self.step)))
    }
}

/// Walks through a side, piece by piece.
#[derive(Debug)]
pub struct Cursor<'a> {
    side: &'a Side,
    at: Position,
    /// Address and length of the current piece. The length is 0 only at the end.
    address: usize,
    bytes: usize,
    /// Turns of the loops of a strided side.
    turns: Vec<usize>,
}

impl<'a> Cursor<'a> {
    /// At a position that [`Self::position`] returned, or at the start.
    pub fn new(side: &'a Side, at: Position) -> Self {
        let mut cursor = Self {
            side,
            at,
            address: 0,
            bytes: 0,
            turns: Vec::new(),
        };
        match side {
            Side::List(list) => cursor.load(list),
            Side::Strided(s) => {
                let mut rest = at.piece;
                cursor.address = s.base;
                for &(count, step) in &s.dims {
                    let turn = rest % count;
                    rest /= count;
                    cursor.turns.push(turn);
                    cursor.address = cursor.address.wrapping_add_signed(step.wrapping_mul(turn as isize));
                }
                cursor.bytes = if rest == 0 { s.elem } else { 0 };
            }
        }
        cursor
    }

    /// Its position.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Address and length of what is left of the current piece; None at the end.
    #[inline]
    pub fn run(&self) -> Option<(usize, usize)> {
        (self.bytes > 0).then(|| (self.address.wrapping_add(self.at.offset), self.bytes - self.at.offset))
    }

    /// Goes `bytes` on, which is no more than what is left of the current piece.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.at.offset += bytes;
        if self.at.offset == self.bytes {
            self.next();
        }
    }

    /// Whole pieces from here on, `most` bytes at most, that lie at equal distances: at least two,
    /// or None.
    #[inline]
    pub fn row(&self, most: usize) -> Option<Row> {
        let Side::Strided(s) = self.side else { return None };
        let (&(count, step), &turn) = (s.dims.first()?, self.turns.first()?);
        if self.at.offset > 0 || self.bytes == 0 {
            return None;
        }
        let count = (count - turn).min(most / self.bytes);
        (count > 1).then_some(Row {
            address: self.address,
            bytes: self.bytes,
            count,
            step,
        })
    }

    /// Goes on to the end of `row`, which is here.
    #[inline]
    pub fn advance_row(&mut self, row: &Row) {
        let but_last = row.count - 1;
        self.at.piece += but_last;
        self.turns[0] += but_last;
        self.address = self
            .address
            .wrapping_add_signed(row.step.wrapping_mul(but_last as isize));
        self.next();
    }

    /// Goes `bytes` on over any number of pieces, which `each` gets in rows, with the bytes before
    /// each.
    #[inline]
    pub fn take(&mut self, bytes: usize, mut each: impl FnMut(&Row, usize)) {
        let mut before = 0;
        while let Some((address, left)) = self.run().filter(|_| before < bytes) {
            let row = self.row(bytes - before).unwrap_or(Row {
                address,
                bytes: left.min(bytes - before),
                count: 1,
                step: 0,
            });
            each(&row, before);
            if row.count > 1 {
                self.advance_row(&row);
            } else {
                self.advance(row.bytes);
            }
            before += row.bytes * row.count;
        }
    }

    fn next(&mut self) {
        self.at = Position {
            piece: self.at.piece + 1,
            offset: 0,
        };
        match self.side {
            Side::List(list) => self.load(list),
            Side::Strided(s) => {
                for (turn, &(count, step)) in self.turns.iter_mut().zip(&s.dims) {
                    *turn += 1;
                    if *turn < count {
                        self.address = self.address.wrapping_add_signed(step);
                        return;
                    }
                    *turn = 0;
                    self.address = self
                        .address
                        .wrapping_add_signed(step.wrapping_mul(count as isize - 1).wrapping_neg());
                }
                self.bytes = 0;
            }
        }
    }

    /// Finds the next piece of a list that is not empty, from the current one on.
    #[inline]
    fn load(&mut self, list: &List) {
        while self.at.piece < list.count() {
            (self.address, self.bytes) = list.piece(self.at.piece);
            if self.bytes > 0 {
                return;
            }
            self.at.piece += 1;
        }
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(side: &Side, most: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut at = Position::default();
        loop {
            let mut cursor = Cursor::new(side, at);
            let Some((address, bytes)) = cursor.run() else {
                return found;
            };
            let bytes = bytes.min(most);
            found.push((address, bytes));
            cursor.advance(bytes);
            at = cursor.position();
        }
    }

    #[test]
    fn a_list_skips_empty_pieces_and_can_be_entered_anywhere() {
        let entry = |address: usize, bytes| Memvec {
            address: address as *mut u8,
            bytes,
        };
        let entries = [
            entry(1, 0),
            entry(100, 5),
            entry(2, 0),
            entry(3, 0),
            entry(50, 2),
            entry(4, 0),
        ];
        let list = List::Vector {
            entries: entries.as_ptr(),
            count: 6,
            base: 0,
        };
        assert_eq!(list.bytes(), Some(7));
        assert_eq!(walk(&Side::List(list), 100), [(100, 5), (50, 2)]);
        assert_eq!(walk(&Side::List(list), 2), [(100, 2), (102, 2), (104, 1), (50, 2)]);
        let shifted = Side::List(list.from_base(1000));
        assert_eq!(walk(&shifted, 100), [(1100, 5), (1050, 2)]);
        let none = List::Indexed {
            entries: std::ptr::null(),
            count: 0,
            bytes: 9,
            base: 0,
        };
        assert_eq!((none.bytes(), walk(&Side::List(none), 1).len()), (Some(0), 0));
    }

    #[test]
    fn a_nest_keeps_its_pairs_whatever_its_order_and_signs() {
        let mut state = 12345_u64;
        let mut random = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        for _ in 0..2000 {
            let elem = 1 + random(4) as usize;
            let levels = random(5) as usize;
            // Destination steps that cannot overlap, in random order and with random signs; source
            // steps at will.
            let mut step = elem;
            let mut dims: Vec<Dim> = (0..levels)
                .map(|_| {
                    let count = 1 + random(4) as usize;
                    let to = step as isize * if random(2) == 0 { 1 } else { -1 };
                    step *= count + random(2) as usize;
                    let from = if random(2) == 0 { to } else { random(100) as isize - 50 };
                    Dim { count, to, from }
                })
                .collect();
            for i in (1..levels).rev() {
                dims.swap(i, random(i as u64 + 1) as usize);
            }
            let mut wanted = Vec::new();
            let turns: usize = dims.iter().map(|d| d.count).product();
            for turn in 0..turns {
                let (mut to, mut from, mut rest) = (10_000_isize, 20_000_isize, turn);
                for d in &dims {
                    let i = (rest % d.count) as isize;
                    (to, from, rest) = (to + i * d.to, from + i * d.from, rest / d.count);
                }
                wanted.extend((0..elem).map(|i| (to as usize + i, from as usize + i)));
            }
            let (low, bytes) = extent(10_000, elem, dims.iter().map(|d| (d.count, d.to)));
            let nest = Nest::simplify(10_000, 20_000, elem, &mut dims);
            let most = 1 + random(3) as usize;
            let [to, from] = [nest.to_side(), nest.from_side()].map(|side| {
                walk(&side, most)
                    .into_iter()
                    .flat_map(|(a, n)| a..a + n)
                    .collect::<Vec<_>>()
            });
            assert_eq!(low, *to.iter().min().unwrap());
            assert_eq!(low + bytes, *to.iter().max().unwrap() + 1);
            let mut found: Vec<_> = to.into_iter().zip(from).collect();
            found.sort_unstable();
            wanted.sort_unstable();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn rows_and_pieces_are_the_same() {
        let side = Side::strided(1000, 3, [(4, 10), (2, -500), (3, 7000)].into_iter());
        let pieces = walk(&side, 100);
        for most in [3, 6, 7, 9, 12, 100] {
            let (mut cursor, mut found) = (Cursor::new(&side, Position::default()), Vec::new());
            while let Some(run) = cursor.run() {
                let at = cursor.position();
                if let Some(row) = cursor.row(most) {
                    assert!(row.count > 1 && row.count <= 4 && row.count * row.bytes <= most);
                    let place = |i| row.address.wrapping_add_signed(row.step * i as isize);
                    found.extend((0..row.count).map(|i| (place(i), row.bytes)));
                    cursor.advance_row(&row);
                    let mut skipping = Cursor::new(&side, at);
                    skipping.take(row.count * row.bytes, |_, _| ());
                    assert_eq!((skipping.run(), skipping.position()), (cursor.run(), cursor.position()));
                } else {
                    found.push(run);
                    cursor.advance(run.1);
                }
            }
            assert_eq!(found, pieces);
        }
        let mut cursor = Cursor::new(&side, Position::default());
        cursor.advance(1);
        assert_eq!(cursor.row(100), None);
    }

    #[test]
    fn contiguous_loops_vanish() {
        let mut dims = [
            Dim {
                count: 3,
                to: 24,
                from: 24,
            },
            Dim {
                count: 1,
                to: 7,
                from: 1,
            },
            Dim {
                count: 6,
                to: -4,
                from: -4,
            },
        ];
        let nest = Nest::simplify(1020, 2020, 4, &mut dims);
        assert_eq!((nest.to, nest.from, nest.elem, nest.dims.len()), (1000, 2000, 72, 0));
        // Contiguous at the destination only: one piece there.
        let mut dims = [
            Dim {
                count: 10,
                to: 8,
                from: 16,
            },
            Dim {
                count: 10,
                to: 80,
                from: 1000,
            },
        ];
        let nest = Nest::simplify(0, 0, 8, &mut dims);
        assert_eq!((nest.to_side().pieces(), nest.from_side().pieces()), (1, 100));
    }

    #[test]
    fn absurd_extents_fit_nowhere() {
        let all = usize::MAX;
        assert_eq!(extent(100, 8, [(2, -101)].into_iter()).1, all);
        assert_eq!(
            extent(100, 8, [(all, isize::MAX), (all, isize::MAX)].into_iter()).1,
            all
        );
        assert_eq!(
            extent(1 << 40, 8, [(3, 5_000_000_000)].into_iter()),
            (1 << 40, 10_000_000_008)
        );
    }
}
