//! The other processes: their states, and connections to them.

use crate::eager_rdma::Rings;
use crate::ffi::Address;
use crate::ports::MOST_PATHS;
use crate::route::Route;
use crate::send::queue::SendQueue;
use crate::xrc::peer::XrcPeer;
use gasnet_conduit::{connections, JobRank};
use gasnet_conduit_util::credits::{Credits, PeerCredits};
use gasnet_conduit_util::peer_states::PeerStates;
use gasnet_conduit_util::record;
use gasnet_sys::atomic::Ordering;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};
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
    pub xrc_peer: XrcPeer,
    /// The path of everything that is small.
    pub home: usize,
    /// The queue pairs that receive from the peer, by path, as [`pair_name`] names them; else 0.
    pub receive_pairs: [u32; MOST_PATHS],
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
}

impl Peers {
    /// All processes, by rank.
    pub fn new(mailboxes: impl Iterator<Item = Mailbox>, credits: Credits) -> Self {
        let peer = |mailbox| Peer {
            connection: AtomicPtr::new(ptr::null_mut()),
            mailbox,
        };
        let all: Box<[Peer]> = mailboxes.map(peer).collect();
        Self {
            states: PeerStates::new(all.len()),
            all,
            credits,
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
}

/// Bytes from which on the bandwidth of several paths counts.
const LARGE: usize = 8 << 10;

/// The number of this thread, by the order of first calls.
fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = THREADS.fetch_add(1, Ordering::Relaxed));
    NUMBER.with(|number| *number)
}

impl Connection {
    /// Notes that the peer receives.
    #[cold]
    pub fn establish(&self) {
        if !self.is_established.swap(true, Ordering::AcqRel) {
            connections::count();
        }
    }

    /// The peer.
    #[inline]
    pub fn peer(&self) -> JobRank {
        self.pairs.xrc_peer.peer
    }

    /// The queue for an operation of `bytes` bytes.
    #[inline]
    pub fn queue(&self, bytes: usize) -> Route<'_> {
        if bytes < LARGE || self.pairs.queues.len() == 1 {
            return self.route(self.pairs.home);
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.route(turn % self.pairs.queues.len())
    }

    /// The queue for a put or get of `bytes` bytes. Small ones of different threads take different
    /// ones, if there are several, so that their posts do not wait for each other.
    #[inline]
    pub fn queue_of_thread(&self, bytes: usize) -> Route<'_> {
        let queues = self.pairs.queues.len();
        if bytes < LARGE && queues > 1 {
            return self.route((self.pairs.home + thread_number()) % queues);
        }
        self.queue(bytes)
    }

    /// Whether a queue pair receives from the peer.
    #[inline]
    pub fn receives_by(&self, pair: u32) -> bool {
        self.pairs.receive_pairs[0] == pair || self.pairs.receive_pairs[1..].contains(&pair)
    }

    /// That of a path.
    #[inline]
    pub fn route(&self, path: usize) -> Route<'_> {
        Route::new(&self.pairs.queues[path], &self.pairs.xrc_peer)
    }

    /// Whether anything was sent, put or got.
    pub fn is_used(&self) -> bool {
        let QueuePairs { queues, xrc_peer, .. } = &self.pairs;
        xrc_peer.is_used() || !xrc_peer.is_for_xrc() && queues.iter().any(SendQueue::is_used)
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
pub mod tests {
    use super::*;

    /// Peers 1 and 2 are connected.
    pub fn connected(credits: Credits) -> Peers {
        let peers = Peers::new((0..3).map(|_| Mailbox::default()), credits);
        for peer in [1, 2].map(JobRank) {
            let pairs = QueuePairs {
                queues: Arc::new([]),
                xrc_peer: XrcPeer::new(peer),
                home: 0,
                receive_pairs: [peer.0 + 7, 0, 0, 0, 0, 0, 0, 0],
            };
            peers.connect(peer, pairs);
        }
        peers
    }

    #[test]
    fn offers_have_a_bound() {
        let peers = connected(Credits::new(2, 1));
        let connection = peers.connection(JobRank(1)).unwrap();
        assert!(connection.note_offer(2) && connection.note_offer(2));
        connection.end_offer();
        assert!(connection.note_offer(2) && !connection.note_offer(2));
    }

    #[test]
    fn threads_have_numbers() {
        let other = std::thread::spawn(thread_number).join().unwrap();
        let own = thread_number();
        assert!(own == thread_number() && own != other);
    }

    #[test]
    fn pairs_tell_peers() {
        let peers = connected(Credits::new(2, 1));
        let find = |pair| peers.receives_from(pair);
        assert_eq!([8, 9, 10].map(find), [Some(JobRank(1)), Some(JobRank(2)), None]);
        assert_eq!(find(pair_name(1, 8)), None);
        assert!(peers.connection(JobRank(3)).is_none() && peers.connection(JobRank(u32::MAX)).is_none());
    }
}
