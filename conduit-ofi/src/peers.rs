//! The processes of the job: addresses and states.

use gasnet_conduit::{connections, JobRank};
use gasnet_conduit_util::credits::{Credits, PeerCredits};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicBool;

/// A process.
struct Peer {
    /// Its number in the address vector.
    number: u64,
    /// Something was sent to it.
    was_contacted: AtomicBool,
    credits: PeerCredits,
}

/// All processes of the job, this one among them.
pub struct Peers {
    pub states: PeerStates,
    all: Box<[Peer]>,
    /// The limits of credits, and the peers that wait for a return.
    pub limits: Credits,
}

impl Peers {
    /// All processes, with their numbers in the address vector.
    pub fn new(numbers: &[u64], limits: Credits) -> Self {
        let peer = |number: &u64| Peer {
            number: *number,
            was_contacted: AtomicBool::new(false),
            credits: limits.peer(),
        };
        Self {
            states: PeerStates::new(numbers.len()),
            all: numbers.iter().map(peer).collect(),
            limits,
        }
    }

    /// Number of processes.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    fn of(&self, rank: JobRank) -> &Peer {
        &self.all[rank.index()]
    }

    /// The number in the address vector of a peer that something is sent to.
    #[inline]
    pub fn number(&self, rank: JobRank) -> u64 {
        let peer = self.of(rank);
        if !peer.was_contacted.load(Ordering::Relaxed) {
            peer.was_contacted.store(true, Ordering::Relaxed);
            connections::count();
        }
        peer.number
    }

    /// The peers that were contacted and are present.
    pub fn contacted(&self) -> impl Iterator<Item = JobRank> + '_ {
        let is_present = |rank: &JobRank| self.states.is_present(*rank);
        let was_contacted = |rank: &JobRank| self.of(*rank).was_contacted.load(Ordering::Relaxed);
        (0..self.count()).map(JobRank).filter(is_present).filter(was_contacted)
    }

    /// The credit of a peer.
    #[inline]
    pub fn credits(&self, rank: JobRank) -> &PeerCredits {
        &self.of(rank).credits
    }
}
