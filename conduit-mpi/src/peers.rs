//! The processes of the job: places in the communicator, states and credits. No MPI controls the
//! flow: a receiver that does not poll keeps each message in 0.9 to 4.9 kB (reference/mpi.md), so a
//! request costs a credit.
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
}

struct Peer<H> {
    place: Place<H>,
    credits: PeerCredits,
}

impl<H: Copy> Peers<H> {
    /// Processes with these places.
    pub fn new(places: impl Iterator<Item = Place<H>>, limits: Credits) -> Self {
        let peer = |place| Peer {
            place,
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

    /// Pays for a message. `None` if it is to be dropped.
    #[inline]
    pub fn reserve(&self, peer: JobRank, class: Class) -> Result<Option<Reservation>, Busy> {
        let cost = u32::from(class == Class::Request);
        self.account(peer).reserve(cost, MOST_CREDITS)
    }

    /// Whether a poll should return credits and report lost peers.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.limits.has_owing()
    }
}
