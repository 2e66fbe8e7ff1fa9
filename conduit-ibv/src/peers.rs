//! The other processes: their states, and connections to them.
//!
//! A peer that computes does not return receive buffers, so [`credits`] bound the requests under
//! way to it.

use crate::eager_rdma::Rings;
use crate::ffi::Address;
use crate::ports::MOST_PATHS;
use crate::route::Route;
use crate::send::queue::SendQueue;
use crate::xrc::peer::XrcPeer;
use gasnet_conduit::JobRank;
use gasnet_conduit_util::credits::{self, Credits, PeerCredits};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_conduit_util::record;
use gasnet_sys::atomic::Ordering;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::Arc;

record! {
    /// The queue pair of a process for datagrams.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Mailbox {
        /// Its port.
        pub address: Address,
        /// Its queue pair.
        pub number: u32,
    }
}

/// A process.
struct Peer {
    /// Null before the first contact.
    connection: AtomicPtr<Connection>,
    mailbox: Mailbox,
}

// All processes have one of each.
const _: () = assert!(size_of::<Peer>() == 32);

/// A connection, from the first contact on.
pub struct Connection {
    /// Whether the peer receives, so that messages may be sent.
    pub is_established: AtomicBool,
    /// Whether the queue pairs are connected.
    pub is_ready: AtomicBool,
    /// A request costs one.
    pub credits: PeerCredits,
    /// Packets that it offers, until it was notified that they are fetched.
    offers: AtomicUsize,
    /// Small messages in memory.
    pub rings: Rings,
    /// Counts large operations, which take turns on the paths.
    turns: AtomicUsize,
    pub pairs: QueuePairs,
}

/// The queue pairs of a connection.
pub struct QueuePairs {
    /// By path. Those of XRC lead to other peers, too.
    pub queues: Arc<[SendQueue]>,
    /// The peer, as work requests need it.
    pub ends: XrcPeer,
    /// The path of everything that is small.
    pub home: usize,
    /// The queue pairs that receive from the peer, by path, as [`pair_name`] names them; else 0.
    pub receivers: [u32; MOST_PATHS],
}

/// The name of a queue pair among those of all HCAs. A number has 24 bits; that of a pair which
/// connects is never 0.
#[inline]
pub const fn pair_name(rail: usize, number: u32) -> u32 {
    (rail as u32) << 24 | number
}

/// All processes of the job, this one among them.
pub struct Peers {
    pub states: PeerStates,
    all: Box<[Peer]>,
    /// The limits of credits, and the peers that wait for a return.
    pub credits: Credits,
    /// Requests to all of them that may still be sent, if that is limited.
    total: Option<AtomicU32>,
}

impl Peers {
    /// All processes, by rank, with the requests that may be under way to each, and to all if that
    /// is not 0, and the credits that are kept.
    pub fn new(mailboxes: impl Iterator<Item = Mailbox>, window: u32, total: u32, slack: u32) -> Self {
        let peer = |mailbox| Peer {
            connection: AtomicPtr::new(ptr::null_mut()),
            mailbox,
        };
        let all: Box<[Peer]> = mailboxes.map(peer).collect();
        Self {
            states: PeerStates::new(all.len()),
            all,
            credits: Credits::new(window, slack),
            total: (total > 0).then(|| AtomicU32::new(total)),
        }
    }

    /// Number of processes.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// All of them.
    pub fn ranks(&self) -> impl Iterator<Item = JobRank> {
        (0..self.count()).map(JobRank)
    }

    fn of(&self, rank: JobRank) -> &Peer {
        &self.all[rank.index()]
    }

    /// The queue pair of a process for datagrams.
    pub fn mailbox(&self, rank: JobRank) -> &Mailbox {
        &self.of(rank).mailbox
    }

    /// The connection to a process, if there is such a process and was any contact.
    #[inline]
    pub fn connection(&self, rank: JobRank) -> Option<&Connection> {
        let connection = self.all.get(rank.index())?.connection.load(Ordering::Acquire);
        // SAFETY: null, or from `connect`, which lives as long as this.
        unsafe { connection.as_ref() }
    }

    /// The process from which a queue pair receives.
    #[cold]
    pub fn receives_from(&self, pair: u32) -> Option<JobRank> {
        let is_it = |rank: &JobRank| self.connection(*rank).is_some_and(|it| it.receives_by(pair));
        self.ranks().find(is_it)
    }

    /// Notes the connection to a process, of which there is none yet.
    pub fn connect(&self, rank: JobRank, pairs: QueuePairs) -> &Connection {
        let connection = Box::into_raw(Box::new(Connection {
            is_established: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            credits: self.credits.peer(),
            offers: AtomicUsize::new(0),
            rings: Rings::default(),
            turns: AtomicUsize::new(0),
            pairs,
        }));
        let previous = self.of(rank).connection.swap(connection, Ordering::AcqRel);
        assert!(previous.is_null(), "defect: rank {rank} was connected twice");
        // SAFETY: it lives as long as this.
        unsafe { &*connection }
    }

    /// Processes that are connected and present.
    pub fn established(&self) -> impl Iterator<Item = (JobRank, &Connection)> {
        self.ranks().filter_map(|rank| {
            let connection = self.connection(rank).filter(|_| self.states.is_present(rank))?;
            connection
                .is_established
                .load(Ordering::Acquire)
                .then_some((rank, connection))
        })
    }

    /// Ends all connections.
    pub fn disconnect(&mut self) {
        for peer in &mut self.all {
            let connection = std::mem::replace(peer.connection.get_mut(), ptr::null_mut());
            if !connection.is_null() {
                // SAFETY: from `connect`, and nobody uses it any more.
                drop(unsafe { Box::from_raw(connection) });
            }
        }
    }

    /// Takes credit for a request. False if there is none.
    #[inline]
    pub fn take(&self, connection: &Connection) -> bool {
        let Some(total) = &self.total else {
            return connection.credits.take(1);
        };
        if !credits::take(total, 1) {
            return false;
        }
        let is_taken = connection.credits.take(1);
        if !is_taken {
            total.fetch_add(1, Ordering::Relaxed);
        }
        is_taken
    }

    /// Adds credits that a peer returned, or that of a request that was not sent. False: there were
    /// not so many requests, and the peer is lost.
    #[inline]
    pub fn give_back(&self, connection: &Connection, credits: u32) -> bool {
        if let Err(why) = self.credits.give_back(&connection.credits, credits) {
            self.states.lose(connection.peer(), why);
            return false;
        }
        if let Some(total) = &self.total {
            total.fetch_add(credits, Ordering::Relaxed);
        }
        true
    }

    /// A request of the peer is to wait in the memory of this process until
    /// [`PeerCredits::release`]. False: no credit can have paid for it, and the peer is lost.
    #[cold]
    pub fn hold(&self, connection: &Connection) -> bool {
        let is_paid = self.credits.hold(&connection.credits, 1);
        if !is_paid {
            let why = format!("it sent a request beyond its {} credits", self.credits.window());
            self.states.lose(connection.peer(), why);
        }
        is_paid
    }

    /// Whether a poll should call [`Peers::take_owing`] and [`PeerStates::report`].
    #[inline]
    pub fn has_work(&self) -> bool {
        self.states.has_losses() || self.credits.has_owing()
    }

    /// The peers that wait for a return. One that cannot be served now is passed to
    /// [`Credits::note_owed`] again.
    pub fn take_owing(&self) -> Vec<JobRank> {
        self.credits
            .take_owing(|rank| self.connection(rank).map(|connection| &connection.credits))
    }
}

impl Connection {
    /// The peer.
    #[inline]
    pub fn peer(&self) -> JobRank {
        self.pairs.ends.peer
    }

    /// The queue for an operation of `bytes` bytes.
    #[inline]
    pub fn queue(&self, bytes: usize) -> Route<'_> {
        /// From here on the bandwidth of several paths counts.
        const LARGE: usize = 8 << 10;
        if bytes < LARGE || self.pairs.queues.len() == 1 {
            return self.route(self.pairs.home);
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.route(turn % self.pairs.queues.len())
    }

    /// Whether a queue pair receives from the peer.
    #[inline]
    pub fn receives_by(&self, pair: u32) -> bool {
        self.pairs.receivers[0] == pair || self.pairs.receivers[1..].contains(&pair)
    }

    /// That of a path.
    #[inline]
    pub fn route(&self, path: usize) -> Route<'_> {
        Route::new(&self.pairs.queues[path], &self.pairs.ends)
    }

    /// Whether anything was sent, put or got.
    pub fn is_used(&self) -> bool {
        let QueuePairs { queues, ends, .. } = &self.pairs;
        ends.is_used() || !ends.is_for_xrc() && queues.iter().any(SendQueue::is_used)
    }

    /// The peer offers a packet. False: it has no buffers for more than `most`.
    #[cold]
    pub fn note_offer(&self, most: usize) -> bool {
        self.offers.fetch_add(1, Ordering::Relaxed) < most
    }

    /// It is being notified that a packet is fetched.
    #[cold]
    pub fn end_offer(&self) {
        self.offers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.disconnect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(window: u32, total: u32, slack: u32) -> Peers {
        let peers = Peers::new((0..3).map(|_| Mailbox::default()), window, total, slack);
        for peer in [1, 2].map(JobRank) {
            let pairs = QueuePairs {
                queues: Arc::new([]),
                ends: XrcPeer::new(peer),
                home: 0,
                receivers: [peer.0 + 7, 0, 0, 0, 0, 0, 0, 0],
            };
            peers.connect(peer, pairs);
        }
        peers
    }

    #[test]
    fn credits_come_back() {
        let peers = connected(2, 0, 1);
        let connection = peers.connection(JobRank(2)).unwrap();
        assert!(peers.take(connection) && peers.take(connection) && !peers.take(connection));
        assert!(peers.give_back(connection, 1));
        assert!(peers.take(connection) && !peers.take(connection));
        assert!(peers.connection(JobRank(0)).is_none());
    }

    #[test]
    fn more_credits_than_were_paid_lose_their_peer() {
        let peers = connected(2, 3, 1);
        let [one, two] = [1, 2].map(|rank| peers.connection(JobRank(rank)).unwrap());
        assert!(peers.take(one) && peers.take(two));
        assert!(peers.give_back(one, 1) && !peers.states.has_losses());
        assert!(!peers.give_back(one, 1) && !peers.give_back(two, u32::from(u16::MAX)));
        let lost: Vec<JobRank> = peers.states.take_losses().into_iter().map(|(peer, _)| peer).collect();
        assert_eq!(lost, [JobRank(1), JobRank(2)]);
        // Credits that were not paid change nothing.
        assert!(peers.take(two) && !peers.take(two) && peers.take(one) && !peers.take(one));
    }

    #[test]
    fn offers_have_a_bound() {
        let peers = connected(2, 0, 1);
        let connection = peers.connection(JobRank(1)).unwrap();
        assert!(connection.note_offer(2) && connection.note_offer(2));
        connection.end_offer();
        assert!(connection.note_offer(2) && !connection.note_offer(2));
    }

    #[test]
    fn requests_beyond_the_credits_lose_their_peer() {
        let peers = connected(2, 0, 1);
        let connection = peers.connection(JobRank(2)).unwrap();
        assert!(peers.hold(connection) && peers.hold(connection));
        connection.credits.release(1);
        assert!(peers.hold(connection) && !peers.states.has_losses());
        assert!(!peers.hold(connection) && !peers.hold(connection));
        let why = "it sent a request beyond its 2 credits".to_owned();
        assert_eq!(peers.states.take_losses(), [(JobRank(2), why)]);
    }

    #[test]
    fn pairs_tell_peers() {
        let peers = connected(2, 0, 1);
        let find = |pair| peers.receives_from(pair);
        assert_eq!([8, 9, 10].map(find), [Some(JobRank(1)), Some(JobRank(2)), None]);
        assert_eq!(find(pair_name(1, 8)), None);
        assert!(peers.connection(JobRank(3)).is_none() && peers.connection(JobRank(u32::MAX)).is_none());
    }

    #[test]
    fn credits_for_all_peers() {
        let peers = connected(2, 3, 1);
        let [one, two] = [1, 2].map(|rank| peers.connection(JobRank(rank)).unwrap());
        assert!(peers.take(one) && peers.take(one) && !peers.take(one));
        assert!(peers.take(two) && !peers.take(two));
        assert!(peers.give_back(one, 2));
        assert!(peers.take(two) && !peers.take(two) && peers.take(one) && !peers.take(one));
    }

    #[test]
    fn more_credits_than_are_kept_are_returned_at_once() {
        let peers = connected(200, 0, 100);
        let connection = peers.connection(JobRank(2)).unwrap();
        connection.credits.owe(100);
        peers.credits.note_owed(JobRank(2), &connection.credits);
        assert!(!peers.has_work());
        connection.credits.owe(1);
        peers.credits.note_owed(JobRank(2), &connection.credits);
        peers.credits.note_owed(JobRank(2), &connection.credits);
        assert!(peers.has_work() && !peers.has_work());
        assert_eq!(peers.take_owing(), [JobRank(2)]);
        assert_eq!([63, 63, 63].map(|most| connection.credits.take_owed(most)), [63, 38, 0]);
    }
}
