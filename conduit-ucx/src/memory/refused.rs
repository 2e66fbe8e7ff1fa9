//! Sources of puts that UCX did not register, so that it is asked, and prints an error, once.
#![forbid(unsafe_code)]

use crate::ffi::Source;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::AtomicBool;

/// Most that are remembered.
const MOST: usize = 16;

/// Memory that was refused.
#[derive(Default)]
pub struct Refused {
    any: AtomicBool,
    /// The latest, newest last.
    sources: Mutex<Vec<Source>>,
}

impl Refused {
    /// Whether memory that was refused is among this.
    #[inline]
    pub fn has(&self, source: Source) -> bool {
        self.any.load(Ordering::Relaxed) && self.overlaps(source)
    }

    #[cold]
    fn overlaps(&self, source: Source) -> bool {
        let overlaps = |refused: &Source| {
            source.address < refused.address + refused.bytes && refused.address < source.address + source.bytes
        };
        lock(&self.sources).iter().any(overlaps)
    }

    /// Notes that this was refused.
    #[cold]
    pub fn note(&self, source: Source) {
        let mut sources = lock(&self.sources);
        if sources.len() == MOST {
            sources.remove(0);
        }
        sources.push(source);
        self.any.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_remembered() {
        let refused = Refused::default();
        let source = |address, bytes| Source { address, bytes };
        assert!(!refused.has(source(0, 100)));
        for number in 1..=20 {
            refused.note(source(1000 * number, 10));
        }
        assert!(refused.has(source(20_000, 10)) && refused.has(source(19_990, 11)) && refused.has(source(20_009, 1)));
        assert!(!refused.has(source(19_990, 10)) && !refused.has(source(20_010, 1)));
        assert!(refused.has(source(5_000, 1)) && !refused.has(source(4_000, 1)));
    }
}
