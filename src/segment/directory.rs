//! The attached segments of all ranks.
//!
//! A job of N ranks has N bounds and keys. They lie in memory that a neighbourhood shares, so a
//! host holds them once, and the conduit learns a key when its rank is first reached. Each
//! process itself holds a number per rank, and the bounds of its neighbours, whose memory it maps.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Bounds;
use crate::placement::Offsets;
use crate::shm::segment::SegmentTable;
use crate::thread;
use gasnet_conduit::{ConduitError, JobRank, RemoteSegment, SegmentMemory, Segments};
use gasnet_job::Nbrhd;
use gasnet_sys::atomic::Mutex;

/// The conduit's number for a segment of a peer, learned at first use.
#[derive(Debug, Default)]
pub struct Learned(AtomicU32);

static LEARNING: Mutex<()> = Mutex::new(());

impl Learned {
    /// Not learned yet.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The number, if it was learned.
    #[inline]
    pub fn get(&self) -> Option<RemoteSegment> {
        self.0.load(Ordering::Acquire).checked_sub(1).map(RemoteSegment)
    }

    /// The number; the first call gets it with `learn`.
    #[inline]
    pub fn get_or(&self, learn: impl FnOnce() -> Result<RemoteSegment, ConduitError>) -> RemoteSegment {
        self.get().unwrap_or_else(|| self.learn(learn))
    }

    #[cold]
    fn learn(&self, learn: impl FnOnce() -> Result<RemoteSegment, ConduitError>) -> RemoteSegment {
        let _learning = gasnet_sys::lock(&LEARNING);
        self.get().unwrap_or_else(|| match learn() {
            Ok(segment) => {
                self.0.store(segment.0 + 1, Ordering::Release);
                segment
            }
            Err(why) => fatal!("a segment of another rank cannot be used: {why}"),
        })
    }
}

/// See the module documentation.
#[derive(Debug)]
pub struct Directory {
    table: SegmentTable,
    nbrhd: Nbrhd,
    /// Of this process's neighbours, by index. Copies, so that no neighbour can change them.
    neighbours: Vec<Bounds>,
    /// Offsets from a neighbour's addresses to ours; by index in the neighbourhood.
    pub deltas: Offsets,
    /// By rank, if the segments are registered.
    learned: Option<Vec<Learned>>,
}

impl Directory {
    /// The neighbourhood's leader has filled `table`, or does so before the attach ends.
    /// `is_registered`: whether the network reaches the segments.
    pub fn new(
        table: SegmentTable,
        nbrhd: Nbrhd,
        neighbours: Vec<Bounds>,
        deltas: Offsets,
        is_registered: bool,
    ) -> Self {
        let ranks = table.ranks();
        Self {
            table,
            nbrhd,
            neighbours,
            deltas,
            learned: is_registered.then(|| std::iter::repeat_with(Learned::new).take(ranks).collect()),
        }
    }

    /// The segment of a neighbour, by index.
    #[inline]
    pub fn neighbour(&self, index: usize) -> Bounds {
        self.neighbours[index]
    }

    /// The segment of `rank`. None if there is no such rank.
    #[inline]
    pub fn bounds(&self, rank: JobRank) -> Option<Bounds> {
        if self.nbrhd.contains(rank.0) {
            return Some(self.neighbour(self.nbrhd.index(rank.0)));
        }
        self.elsewhere(rank)
    }

    /// The segment of `rank`, which is no neighbour. None if there is no such rank.
    #[inline]
    pub fn elsewhere(&self, rank: JobRank) -> Option<Bounds> {
        let (base, bytes) = self.table.bounds(rank.index())?;
        Some(Bounds::host(base, bytes))
    }

    /// The conduit's number for the segment of `rank`, which it learns now if need be. None if it
    /// is not registered.
    #[inline(always)]
    pub fn remote_segment(&self, segments: &dyn Segments, rank: JobRank) -> Option<RemoteSegment> {
        let learned = &self.learned.as_ref()?[rank.index()];
        Some(learned.get().unwrap_or_else(|| self.learn(learned, segments, rank)))
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, learned: &Learned, segments: &dyn Segments, rank: JobRank) -> RemoteSegment {
        learned.get_or(|| {
            let (base, bytes) = self.table.bounds(rank.index()).unwrap_or_default();
            let memory = SegmentMemory::host(base, bytes);
            thread::in_conduit(|| segments.learn(rank, &memory, &self.table.key(rank.index())))
        })
    }
}
