//! The processes of the job: their ranks and virtual process numbers.
#![forbid(unsafe_code)]

use gasnet_conduit::JobRank;

/// Ranks and virtual process numbers, if they differ.
#[derive(Debug)]
pub struct Numbers {
    /// By rank.
    pub vps: Box<[u32]>,
    /// By vp.
    pub ranks: Box<[JobRank]>,
}

/// All processes.
#[derive(Debug)]
pub struct Peers {
    /// This process.
    pub rank: JobRank,
    pub size: u32,
    pub numbers: Option<Numbers>,
}

impl Peers {
    /// Whether there is such a process.
    #[inline]
    pub fn contains(&self, rank: JobRank) -> bool {
        rank.0 < self.size
    }

    /// The virtual process number of a rank.
    #[inline]
    pub fn vp(&self, rank: JobRank) -> u32 {
        self.numbers
            .as_ref()
            .map_or(rank.0, |numbers| numbers.vps[rank.index()])
    }

    /// The rank of a virtual process number. None: there is no such process.
    #[inline]
    pub fn rank_of(&self, vp: u32) -> Option<JobRank> {
        match &self.numbers {
            None => (vp < self.size).then_some(JobRank(vp)),
            Some(numbers) => numbers.ranks.get(vp as usize).copied(),
        }
    }
}
