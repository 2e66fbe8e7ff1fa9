//! The queue pairs by which a host receives over XRC: one for each process that sends to it, and
//! path. The processes of a group share them. The one that needs a pair first makes it; the others
//! open it, so that it lives as long as any of them. Memory of the host has the numbers.

use crate::ffi::Errno;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// The number of a pair, 0 if there is none.
const NUMBER: u32 = 0x00ff_ffff;
/// It is connected to the pair that sends.
const CONNECTED: u32 = 1 << 24;
/// In the word of the first path: a process makes or connects the pairs of this sender.
const LOCKED: u32 = 1 << 31;

/// The pairs of a group: a word for each sender and path, in memory that its processes share.
pub struct ReceivePairs {
    words: &'static [AtomicU32],
    paths: usize,
}

/// The right to make and connect the pairs of a sender.
pub struct Locked<'a> {
    /// By path.
    words: &'a [AtomicU32],
}

impl ReceivePairs {
    /// Pairs of `paths` paths of each sender. The memory was zero at first.
    pub fn new(words: &'static [AtomicU32], paths: usize) -> Self {
        Self { words, paths }
    }

    /// Locks the pairs of a sender. Their holder is in a few system calls; an error says that it
    /// does not return from them.
    pub fn lock(&self, sender: JobRank) -> Result<Locked<'_>, Errno> {
        const LIMIT: Duration = Duration::from_secs(30);
        let words = &self.words[sender.index() * self.paths..][..self.paths];
        let begun = Instant::now();
        while words[0].fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            if begun.elapsed() > LIMIT {
                return Err(Errno(libc::EBUSY));
            }
            gasnet_sys::atomic::yield_now();
        }
        Ok(Locked { words })
    }
}

impl Locked<'_> {
    /// The number of the pair of a path, if it was made.
    pub fn number(&self, path: usize) -> Option<u32> {
        let number = self.words[path].load(Ordering::Relaxed) & NUMBER;
        (number != 0).then_some(number)
    }

    /// The pair of a path was made.
    pub fn note_made(&self, path: usize, number: u32) {
        self.words[path].fetch_or(number & NUMBER, Ordering::Relaxed);
    }

    /// Whether the pair of a path is connected.
    pub fn is_connected(&self, path: usize) -> bool {
        self.words[path].load(Ordering::Relaxed) & CONNECTED != 0
    }

    /// It is.
    pub fn note_connected(&self, path: usize) {
        self.words[path].fetch_or(CONNECTED, Ordering::Relaxed);
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.words[0].fetch_and(!LOCKED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_is_made_once_and_connected_once() {
        let words: &'static [AtomicU32] = (0..6).map(|_| AtomicU32::new(0)).collect::<Vec<_>>().leak();
        let all = ReceivePairs::new(words, 2);
        let (made, connected) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for path in [0, 1] {
                        let pairs = all.lock(JobRank(1)).unwrap();
                        if pairs.number(path).is_none() {
                            pairs.note_made(path, 0x00ab_cdef - path as u32);
                            made.fetch_add(1, Ordering::Relaxed);
                        }
                        if !pairs.is_connected(path) {
                            pairs.note_connected(path);
                            connected.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!((made.into_inner(), connected.into_inner()), (2, 2));
        let pairs = all.lock(JobRank(1)).unwrap();
        assert_eq!(
            [0, 1].map(|path| pairs.number(path)),
            [0x00ab_cdef, 0x00ab_cdee].map(Some)
        );
        assert_eq!(all.lock(JobRank(0)).unwrap().number(0), None);
    }
}
