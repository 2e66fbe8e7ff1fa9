//! The processes of the job: places in the communicators, states and credits.
#![forbid(unsafe_code)]

use crate::ffi::Place;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::credits::{Credits, PeerCredits};
use gasnet_conduit_util::peer_states::PeerStates;

/// All processes of the job, this one among them.
pub struct Peers<H> {
    pub states: PeerStates,
    /// The limits of credits, and the peers that wait for a return.
    pub limits: Credits,
    all: Box<[Peer<H>]>,
}

struct Peer<H> {
    /// Destinations of requests and replies.
    places: [Place<H>; 2],
    credits: PeerCredits,
}

impl<H: Copy> Peers<H> {
    /// Processes with these places.
    pub fn new(places: impl Iterator<Item = [Place<H>; 2]>, limits: Credits) -> Self {
        let peer = |places| Peer {
            places,
            credits: limits.peer(),
        };
        let all: Box<[_]> = places.map(peer).collect();
        Self {
            states: PeerStates::new(all.len()),
            limits,
            all,
        }
    }

    /// Number of processes.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// The destinations of requests and replies to a peer.
    #[inline]
    pub fn places(&self, rank: JobRank) -> &[Place<H>; 2] {
        &self.all[rank.index()].places
    }

    /// The credit of a peer.
    #[inline]
    pub fn credits(&self, rank: JobRank) -> &PeerCredits {
        &self.all[rank.index()].credits
    }

    /// Adds credits that the peer returned, or those of a request that was not sent. False: there
    /// were fewer requests, and the peer is lost.
    #[inline]
    pub fn give_back(&self, rank: JobRank, units: u32) -> bool {
        let given = self.limits.give_back(self.credits(rank), units);
        given.map_err(|why| self.states.lose(rank, why)).is_ok()
    }

    /// Whether a poll should return credits and report lost peers.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.limits.has_owing()
    }
}
