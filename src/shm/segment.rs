//! The client segments of a neighbourhood: one memory object, mapped once by each process.

use gasnet_sys::mem;

/// This process's mapping of all segments of its neighbourhood.
#[derive(Debug)]
pub struct Mapping {
    /// Local address of the first byte.
    pub base: usize,
    /// Offset of each neighbour's segment, in rank order.
    pub offsets: Vec<usize>,
}

/// Page-aligned offsets of segments of the given sizes, back to back, and the total size.
pub fn offsets(sizes: &[usize]) -> (Vec<usize>, usize) {
    let mut end = 0usize;
    let offsets = sizes
        .iter()
        .map(|&size| {
            let start = end;
            end += size.next_multiple_of(mem::page_size());
            start
        })
        .collect();
    (offsets, end)
}

/// Maps the object `fd` with segments of `sizes`: at `wanted` if that is free, so that addresses
/// agree between neighbours, else anywhere. The error is that of the operating system.
pub fn map(fd: i32, sizes: &[usize], wanted: Option<usize>) -> std::io::Result<Mapping> {
    let (offsets, total) = offsets(sizes);
    let base = mem::map_shared(fd, total, wanted)?;
    Ok(Mapping { base, offsets })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_page_multiples() {
        let page = mem::page_size();
        assert_eq!(offsets(&[page, 1, 3 * page]), (vec![0, page, 2 * page], 5 * page));
        assert_eq!(offsets(&[]), (vec![], 0));
    }
}
