//! The order in which the library returns contributions.
#![forbid(unsafe_code)]

/// By place of a contribution: whose it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Order(Vec<usize>);

impl Order {
    /// From what the library returns when each process contributes its rank. None: not each rank is
    /// there once.
    pub fn new(gathered: &[u8], size: usize) -> Option<Self> {
        let words = gathered.chunks_exact(size_of::<u32>());
        let ranks: Vec<usize> = words
            .map(|word| {
                word.try_into()
                    .map_or(usize::MAX, |word| u32::from_ne_bytes(word) as usize)
            })
            .collect();
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        sorted.into_iter().eq(0..size).then_some(Self(ranks))
    }

    /// Processes.
    pub fn size(&self) -> usize {
        self.0.len()
    }

    /// Copies contributions of `bytes` bytes to `all`, which has equal parts for all ranks: each to
    /// this offset in its rank's part.
    pub fn place(&self, gathered: &[u8], bytes: usize, all: &mut [u8], offset: usize) {
        let part = all.len() / self.size();
        for (contribution, rank) in gathered.chunks_exact(bytes.max(1)).zip(&self.0) {
            let start = rank * part + offset;
            all[start..start + bytes].copy_from_slice(contribution);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributions_are_put_in_order() {
        let of = |ranks: &[u32], size| {
            let words: Vec<u8> = ranks.iter().flat_map(|rank| rank.to_ne_bytes()).collect();
            Order::new(&words, size)
        };
        let order = of(&[2, 0, 1], 3).unwrap();
        let mut all = vec![0; 9];
        order.place(b"ccaabb", 2, &mut all, 0);
        order.place(b"CAB", 1, &mut all, 2);
        assert_eq!(all, b"aaAbbBccC");
        order.place(b"", 0, &mut [], 0);
        assert_eq!(of(&[0, 0, 1], 3), None);
        assert_eq!(of(&[0, 3, 1], 3), None);
        assert_eq!(of(&[0, 1], 3), None);
    }
}
