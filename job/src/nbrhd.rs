//! A neighbourhood: ranks that share memory, each with an index.

use std::fmt;

/// The ranks of a neighbourhood in ascending order; the index of a rank is its position. Ranks are
/// usually consecutive. With cyclic placement they are not, and indices are looked up in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nbrhd {
    first: u32,
    count: u32,
    /// From the first rank to behind the last.
    span: u32,
    /// None if the ranks are consecutive.
    scattered: Option<Box<Scattered>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Scattered {
    ranks: Box<[u32]>,
    /// By distance from the first rank; [`NOBODY`] for ranks of other neighbourhoods.
    indices: Box<[u32]>,
}

const NOBODY: u32 = u32::MAX;

impl Nbrhd {
    /// From at least one rank, in ascending order.
    pub fn new(ranks: &[u32]) -> Self {
        let (first, count) = (ranks[0], ranks.len() as u32);
        let span = ranks[ranks.len() - 1] - first + 1;
        let scattered = (span != count).then(|| {
            let mut indices = vec![NOBODY; span as usize].into_boxed_slice();
            for (index, rank) in (0..).zip(ranks) {
                indices[(rank - first) as usize] = index;
            }
            let ranks = ranks.into();
            Box::new(Scattered { ranks, indices })
        });
        Self {
            first,
            count,
            span,
            scattered,
        }
    }

    /// The leader: the first rank, which does what one rank must do for all.
    #[inline]
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Number of ranks.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The index of `rank`, if it is in this neighbourhood.
    #[inline]
    pub fn find(&self, rank: u32) -> Option<usize> {
        let distance = rank.wrapping_sub(self.first);
        if distance >= self.span {
            return None;
        }
        let index = match &self.scattered {
            None => distance,
            Some(table) => table.indices[distance as usize],
        };
        (index != NOBODY).then_some(index as usize)
    }

    /// Whether `rank` is in this neighbourhood.
    #[inline]
    pub fn contains(&self, rank: u32) -> bool {
        self.find(rank).is_some()
    }

    /// The index of `rank`, which must be in this neighbourhood.
    #[inline]
    pub fn index(&self, rank: u32) -> usize {
        match self.find(rank) {
            Some(index) => index,
            None => unreachable!("defect: rank {rank} is not in this neighbourhood"),
        }
    }

    /// The rank with this index.
    #[inline]
    pub fn rank(&self, index: usize) -> u32 {
        match &self.scattered {
            None => self.first + index as u32,
            Some(table) => table.ranks[index],
        }
    }

    /// All ranks, ascending.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count as usize).map(|index| self.rank(index))
    }
}

impl fmt::Display for Nbrhd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scattered.is_some() {
            write!(f, "{} of ", self.count)?;
        }
        write!(f, "{}-{}", self.first, self.first + self.span - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_indices() {
        for (ranks, text) in [
            (&[3][..], "3-3"),
            (&[4, 5, 6, 7], "4-7"),
            (&[0, 3, 6, 9], "4 of 0-9"),
            (&[2, 3, 7, 100], "4 of 2-100"),
        ] {
            let nbrhd = Nbrhd::new(ranks);
            assert_eq!((nbrhd.first(), nbrhd.count() as usize), (ranks[0], ranks.len()));
            assert_eq!(
                (nbrhd.ranks().collect::<Vec<_>>(), nbrhd.to_string()),
                (ranks.to_vec(), text.to_owned())
            );
            for rank in (0..110).chain([u32::MAX]) {
                let index = ranks.iter().position(|&r| r == rank);
                assert_eq!(
                    (nbrhd.find(rank), nbrhd.contains(rank)),
                    (index, index.is_some()),
                    "{rank} of {ranks:?}"
                );
                assert!(index.is_none_or(|index| nbrhd.index(rank) == index && nbrhd.rank(index) == rank));
            }
        }
    }
}
