//! Free units of the space in a peer: a bit for each.
#![forbid(unsafe_code)]

/// At most 64 units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Units(u64);

impl Units {
    /// `count` units, all free.
    pub const fn new(count: usize) -> Self {
        Self(if count == 64 { u64::MAX } else { (1 << count) - 1 })
    }

    /// Takes `count` units in a row. Returns the first.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<usize> {
        // Bit i of `runs`: units i to i + length - 1 are free.
        let (mut runs, mut length) = (self.0, 1);
        while length < count && runs != 0 {
            let step = length.min(count - length);
            runs &= runs >> step;
            length += step;
        }
        if runs == 0 {
            return None;
        }
        let first = runs.trailing_zeros() as usize;
        self.0 &= !Self::mask(first, count);
        Some(first)
    }

    /// Gives them back.
    #[inline]
    pub fn give(&mut self, first: usize, count: usize) {
        debug_assert_eq!(self.0 & Self::mask(first, count), 0, "units were free");
        self.0 |= Self::mask(first, count);
    }

    fn mask(first: usize, count: usize) -> u64 {
        Self::new(count).0 << first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_and_given() {
        let mut units = Units::new(64);
        let all: Vec<_> = (0..4).map(|_| units.take(16).unwrap()).collect();
        assert_eq!((all, units.take(1)), (vec![0, 16, 32, 48], None));
        units.give(16, 16);
        units.give(48, 16);
        assert_eq!(
            (units.take(17), units.take(5), units.take(11)),
            (None, Some(16), Some(21))
        );
        assert_eq!((units.take(16), units.take(1)), (Some(48), None));
        let mut few = Units::new(3);
        assert_eq!((few.take(4), few.take(3), few.take(1)), (None, Some(0), None));
        few.give(1, 1);
        assert_eq!((few.take(2), few.take(1)), (None, Some(1)));
    }
}
