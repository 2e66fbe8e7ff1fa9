//! The processes of the job: endpoints, states, credits, and puts whose end is awaited.

use crate::ffi::Endpoint;
use crate::operations::AfterPut;
use gasnet_conduit::{connections, JobRank};
use gasnet_conduit_util::credits::{Credits, PeerCredits};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::sync::atomic::{AtomicBool, AtomicUsize};

/// Puts to a peer whose source is free, and which may not have arrived.
#[derive(Default)]
struct Unflushed {
    puts: Vec<AfterPut>,
    /// No puts, in memory of earlier ones.
    spare: Vec<AfterPut>,
    /// A flush is under way, or will be started by a poll.
    is_awaited: bool,
}

/// A process.
struct Peer {
    /// Its endpoint ([`Endpoint::number`]), from the first contact on.
    endpoint: AtomicUsize,
    /// Its endpoint is connected: what is started leaves without a poll of this process.
    is_ready: AtomicBool,
    credits: PeerCredits,
    unflushed: Mutex<Unflushed>,
}

/// All processes of the job, this one among them.
pub struct Peers {
    pub states: PeerStates,
    /// The limits of credits, and the peers that wait for a return.
    pub limits: Credits,
    all: Box<[Peer]>,
    /// Peers that a poll is to flush.
    pub to_flush: PendingQueue<JobRank>,
}

impl Peers {
    /// This number of processes.
    pub fn new(ranks: u32, limits: Credits) -> Self {
        let peer = || Peer {
            endpoint: AtomicUsize::new(0),
            is_ready: AtomicBool::new(false),
            credits: limits.peer(),
            unflushed: Mutex::default(),
        };
        Self {
            states: PeerStates::new(ranks as usize),
            all: std::iter::repeat_with(peer).take(ranks as usize).collect(),
            limits,
            to_flush: PendingQueue::default(),
        }
    }

    /// Number of processes.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    fn of(&self, rank: JobRank) -> &Peer {
        &self.all[rank.index()]
    }

    /// The endpoint of a peer that was contacted.
    #[inline]
    pub fn endpoint(&self, rank: JobRank) -> Option<Endpoint> {
        // SAFETY: 0, or of an endpoint, which lives as long as the worker.
        unsafe { Endpoint::of(self.of(rank).endpoint.load(Ordering::Acquire)) }
    }

    /// Notes the endpoint of a peer. It is connected when a flush, which a poll starts, is
    /// complete.
    pub fn contact(&self, rank: JobRank, endpoint: Endpoint) {
        self.of(rank).endpoint.store(endpoint.number(), Ordering::Release);
        connections::begin(rank);
        lock(&self.of(rank).unflushed).is_awaited = true;
        self.to_flush.push(rank);
    }

    /// Whether the endpoint of a peer is connected.
    #[inline]
    pub fn is_ready(&self, rank: JobRank) -> bool {
        self.of(rank).is_ready.load(Ordering::Acquire)
    }

    /// The peers that are present and that this process is connected with.
    pub fn connected(&self) -> impl Iterator<Item = JobRank> + '_ {
        let is_present = |rank: &JobRank| self.states.is_present(*rank);
        (0..self.count())
            .map(JobRank)
            .filter(|rank| self.is_ready(*rank))
            .filter(is_present)
    }

    /// The peer that has an endpoint.
    pub fn owner(&self, endpoint: Endpoint) -> Option<JobRank> {
        let is_its = |rank: &JobRank| self.endpoint(*rank) == Some(endpoint);
        (0..self.count()).map(JobRank).find(is_its)
    }

    /// The credit of a peer.
    #[inline]
    pub fn credits(&self, rank: JobRank) -> &PeerCredits {
        &self.of(rank).credits
    }

    /// The source of a put is free. It has arrived after a flush that is started from now on.
    pub fn await_put(&self, rank: JobRank, after: AfterPut) {
        let mut unflushed = lock(&self.of(rank).unflushed);
        unflushed.puts.push(after);
        if !std::mem::replace(&mut unflushed.is_awaited, true) {
            self.to_flush.push(rank);
        }
    }

    /// The puts that a flush which is started now will complete.
    pub fn take_unflushed(&self, rank: JobRank) -> Vec<AfterPut> {
        let mut unflushed = lock(&self.of(rank).unflushed);
        let spare = std::mem::take(&mut unflushed.spare);
        std::mem::replace(&mut unflushed.puts, spare)
    }

    /// A flush is complete, and its puts, which `taken` had, are reported. Puts that came after its
    /// start need another one. The first one of a peer shows that it is connected.
    pub fn note_flushed(&self, rank: JobRank, taken: Vec<AfterPut>) {
        debug_assert!(taken.is_empty());
        let mut unflushed = lock(&self.of(rank).unflushed);
        unflushed.spare = taken;
        if !self.is_ready(rank) {
            self.of(rank).is_ready.store(true, Ordering::Release);
            connections::end(rank);
            connections::count();
        }
        unflushed.is_awaited = !unflushed.puts.is_empty();
        if unflushed.is_awaited {
            self.to_flush.push(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gasnet_conduit::Cookie;

    #[test]
    fn a_flush_completes_what_came_before_it() {
        let (peers, rank) = (Peers::new(2, Credits::new(8, 3)), JobRank(1));
        let put = |number| peers.await_put(rank, AfterPut::Report(Cookie::new(number)));
        let take = || {
            let puts = peers.take_unflushed(rank).into_iter();
            let number = |put| match put {
                AfterPut::Report(cookie) => cookie.bits(),
                AfterPut::Send(..) => panic!("a message"),
            };
            puts.map(number).collect::<Vec<_>>()
        };
        put(1);
        put(2);
        assert_eq!((peers.to_flush.pop(), peers.to_flush.pop()), (Some(rank), None));
        assert_eq!(take(), [1, 2]);
        put(3);
        assert!(peers.to_flush.is_empty(), "one flush at a time");
        peers.note_flushed(rank, Vec::new());
        assert_eq!(peers.to_flush.pop(), Some(rank));
        assert_eq!(take(), [3]);
        peers.note_flushed(rank, Vec::new());
        assert!(peers.to_flush.is_empty());
        put(4);
        assert_eq!(peers.to_flush.pop(), Some(rank));
    }
}
