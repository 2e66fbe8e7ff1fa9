//! The processes of the job: places in the communicator, states and credits. No MPI controls the
//! flow: a receiver that does not poll keeps each message in 0.9 to 4.9 kB (reference/mpi.md), so a
//! request costs credits: more if it is long, so that the buffers of those under way fit into the
//! processor's cache.
#![forbid(unsafe_code)]

use crate::ffi::Place;
use crate::wire::MOST_CREDITS;
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::account::{Account, Reservation};
use gasnet_conduit_util::credits::{Credits, PeerCredits};
use gasnet_conduit_util::peer_states::PeerStates;

/// All processes of the job, this one among them.
pub struct Peers<H> {
    pub states: PeerStates,
    /// The limits of credits, and the peers that wait for a return.
    pub limits: Credits,
    all: Box<[Peer<H>]>,
    /// Most credits that a request costs: a receiver may owe all others until its next message.
    most: u32,
}

/// Bytes of a request for each credit beyond the first.
const BYTES: usize = 8 << 10;

struct Peer<H> {
    place: Place<H>,
    credits: PeerCredits,
}

impl<H: Copy> Peers<H> {
    /// Processes with these places.
    pub fn new(places: impl Iterator<Item = Place<H>>, limits: Credits, most: u32) -> Self {
        let peer = |place| Peer {
            place,
            credits: limits.peer(),
        };
        let all: Box<[_]> = places.map(peer).collect();
        Self {
            states: PeerStates::new(all.len()),
            limits,
            all,
            most,
        }
    }

    /// Number of processes.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// The destination of messages to a peer.
    #[inline]
    pub fn place(&self, rank: JobRank) -> Place<H> {
        self.all[rank.index()].place
    }

    /// The credit of a peer.
    #[inline]
    pub fn credits(&self, rank: JobRank) -> &PeerCredits {
        &self.all[rank.index()].credits
    }

    /// The account of a peer.
    #[inline]
    pub fn account(&self, peer: JobRank) -> Account<'_> {
        Account {
            peer,
            states: &self.states,
            limits: &self.limits,
            credits: self.credits(peer),
        }
    }

    /// Credits that a request of `bytes` bytes costs.
    #[inline]
    pub fn cost(&self, bytes: usize) -> u32 {
        (1 + (bytes / BYTES) as u32).min(self.most)
    }

    /// Pays for a message of `bytes` bytes. `None` if it is to be dropped.
    #[inline]
    pub fn reserve(&self, peer: JobRank, class: Class, bytes: usize) -> Result<Option<Reservation>, Busy> {
        let cost = if class == Class::Request { self.cost(bytes) } else { 0 };
        self.account(peer).reserve(cost, MOST_CREDITS)
    }

    /// Whether a poll should return credits and report lost peers.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.limits.has_owing()
    }
}
