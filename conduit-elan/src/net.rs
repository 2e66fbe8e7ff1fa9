//! The network of a process, and polling.
//!
//! The life of a message: its sender takes a credit ([`crate::credits`]), and sends it to the queue
//! or, from a buffer, to the port of the receiver ([`crate::send`]), which finds it there when it
//! polls ([`crate::receive`]). The life of a put or a get: it is started ([`crate::rma`]), maybe in
//! pieces ([`crate::transfers`]), and its event is asked until it is complete ([`crate::pending`]).
//!
//! No call of libelan that this makes after the start waits: there is a credit for each message,
//! and a place in its channel for each put. The barrier, which waits, has a thread
//! ([`crate::barrier`]).

use crate::barrier::Rounds;
use crate::buffers::Buffers;
use crate::credits::Credits;
use crate::ffi::{Channel, Port, Queue, Shim};
use crate::memory::Table;
use crate::pending::PendingOperations;
use crate::receive::PostedReceives;
use crate::transfers::Transfers;
use gasnet_conduit::{Class, JobRank, PollScope, Stop, Upcalls};
use gasnet_sys::atomic::{AtomicBool, AtomicU32, AtomicUsize, Mutex, Ordering};
use std::sync::Arc;

/// How ranks and virtual process numbers correspond, if they differ.
#[derive(Debug)]
pub struct Numbers {
    /// By rank.
    pub vps: Box<[u32]>,
    /// By vp.
    pub ranks: Box<[JobRank]>,
}

/// Everything.
#[derive(Debug)]
pub struct Net {
    pub rank: JobRank,
    pub size: u32,
    pub numbers: Option<Numbers>,
    /// By class.
    pub queues: [Queue; 2],
    pub receiving: [Mutex<()>; 2],
    pub port: Port,
    pub offers: [PostedReceives; 2],
    pub credits: Credits,
    pub buffers: Buffers,
    pub channels: Vec<Channel>,
    /// The channel that had a place last.
    pub last_channel: AtomicUsize,
    /// Operations of the client under way, and the most.
    pub operations: AtomicU32,
    pub most_operations: u32,
    pub uses_putget: bool,
    pub flights: PendingOperations,
    pub transfers: Transfers,
    pub segments: Table,
    pub rounds: Option<Rounds>,
    pub stopped: AtomicBool,
    /// The thread of the barrier uses it, too.
    pub shim: Arc<Shim>,
}

impl Net {
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

    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.is_stopped() {
            return 0;
        }
        let mut count = 0;
        for (channel, done) in self.flights.land(&self.shim, &self.port) {
            count += usize::from(self.end_flight(channel, done, upcalls));
        }
        self.advance_transfers();
        if let Some(words) = self.rounds.as_ref().and_then(Rounds::take_result) {
            upcalls.barrier(words);
            count += 1;
        }
        count += self.receive(Class::Reply, upcalls);
        if scope == PollScope::All {
            count += self.receive(Class::Request, upcalls);
        }
        count
    }

    /// See [`gasnet_conduit::Network::stop`].
    pub fn stop(&self, how: Stop) {
        self.stopped.store(true, Ordering::Relaxed);
        if let (Some(rounds), Stop::Orderly) = (&self.rounds, how) {
            rounds.stop();
        }
    }
}
