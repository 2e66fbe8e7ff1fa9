//! What is known of the other processes, and connections to them.
//!
//! Credits bound the requests under way to a peer, because a peer that computes does not return
//! receive buffers. A request costs one. Its receiver returns credits with its next message, or in
//! one of their own when more than a limit are owed. Replies need none: each answers a request.

use crate::handshake::MOST_PATHS;
use crate::ring::Rings;
use crate::route::Route;
use crate::send_queue::SendQueue;
use crate::verbs::Address;
use crate::wire::MOST_CREDITS;
use crate::xrc::Ends;
use gasnet_conduit::fates::Fates;
use gasnet_conduit::JobRank;
use gasnet_sys::atomic::{Mutex, Ordering};
use gasnet_sys::lock;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize};
use std::sync::Arc;

/// Where a process takes datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mailbox {
    /// Its port.
    pub address: Address,
    /// Its queue pair.
    pub number: u32,
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
    /// Requests to the peer that may still be sent.
    credits: AtomicU32,
    /// Its requests whose credits are not returned yet.
    owed: AtomicU32,
    /// Its requests that wait in the memory of this process: see [`Peers::keep`].
    kept: AtomicU32,
    /// Packets that it offers, until it was notified that they are fetched.
    offers: AtomicUsize,
    /// Whether it is in [`Peers::owing`].
    is_owing: AtomicBool,
    /// Small messages in memory.
    pub rings: Rings,
    /// Counts large operations, which take turns on the paths.
    turns: AtomicUsize,
    /// The path of everything else.
    home: usize,
    /// The queue pairs that receive from the peer, by path, as [`pair_name`] names them; else 0.
    pairs: [u32; MOST_PATHS],
    /// By path. Those of XRC lead to other peers, too.
    pub queues: Arc<[SendQueue]>,
    /// The peer, as work requests need it.
    pub ends: Ends,
}

/// The name of a queue pair among those of all HCAs. A number has 24 bits; that of a pair which
/// connects is never 0.
#[inline]
pub const fn pair_name(rail: usize, number: u32) -> u32 {
    (rail as u32) << 24 | number
}

/// All processes of the job, this one among them.
pub struct Peers {
    pub fates: Fates,
    all: Box<[Peer]>,
    /// Requests under way to each.
    window: u32,
    /// Requests to all of them that may still be sent, if that is limited.
    total: Option<AtomicU32>,
    /// Credits that are kept for the next message.
    slack: u32,
    /// Peers to which credits are to be returned.
    owing: Mutex<Vec<JobRank>>,
    /// Whether there are any.
    has_owing: AtomicBool,
}

impl Peers {
    /// All processes, by rank, with the requests that may be under way to each, and to all if that
    /// is not 0, and the credits that are kept.
    pub fn new(mailboxes: impl Iterator<Item = Mailbox>, (window, total): (u32, u32), slack: u32) -> Self {
        let peer = |mailbox| Peer {
            connection: AtomicPtr::new(ptr::null_mut()),
            mailbox,
        };
        let all: Box<[Peer]> = mailboxes.map(peer).collect();
        Self {
            fates: Fates::new(all.len()),
            all,
            window,
            total: (total > 0).then(|| AtomicU32::new(total)),
            slack,
            owing: Mutex::default(),
            has_owing: AtomicBool::new(false),
        }
    }

    /// How many there are.
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

    /// Where a process takes datagrams.
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

    /// Notes the connection to a process, of which there is none yet. `home` is the path of what is
    /// small, and `pairs` those that receive from it.
    pub fn connect(
        &self,
        rank: JobRank,
        (queues, ends): (Arc<[SendQueue]>, Ends),
        (home, pairs): (usize, [u32; MOST_PATHS]),
    ) -> &Connection {
        let connection = Box::into_raw(Box::new(Connection {
            is_established: AtomicBool::new(false),
            is_ready: AtomicBool::new(false),
            credits: AtomicU32::new(self.window),
            owed: AtomicU32::new(0),
            kept: AtomicU32::new(0),
            offers: AtomicUsize::new(0),
            is_owing: AtomicBool::new(false),
            rings: Rings::default(),
            turns: AtomicUsize::new(0),
            home,
            pairs,
            queues,
            ends,
        }));
        let previous = self.of(rank).connection.swap(connection, Ordering::AcqRel);
        assert!(previous.is_null(), "defect: rank {rank} was connected twice");
        // SAFETY: it lives as long as this.
        unsafe { &*connection }
    }

    /// Processes that are connected and present.
    pub fn established(&self) -> impl Iterator<Item = (JobRank, &Connection)> {
        self.ranks().filter_map(|rank| {
            let connection = self.connection(rank).filter(|_| self.fates.is_present(rank))?;
            connection
                .is_established
                .load(Ordering::Acquire)
                .then_some((rank, connection))
        })
    }

    /// Pays for a request. False if there is no credit.
    #[inline]
    pub fn pay(&self, connection: &Connection) -> bool {
        let Some(total) = &self.total else {
            return take_one(&connection.credits);
        };
        if !take_one(total) {
            return false;
        }
        let has_paid = take_one(&connection.credits);
        if !has_paid {
            total.fetch_add(1, Ordering::Relaxed);
        }
        has_paid
    }

    /// Takes credits that a peer returned, or that of a request that was not sent. False: there
    /// were not so many requests, and the peer is lost.
    #[inline]
    pub fn refund(&self, connection: &Connection, credits: u32) -> bool {
        if credits == 0 {
            return true;
        }
        let before = connection.credits.fetch_add(credits, Ordering::Relaxed);
        if before + credits > self.window {
            self.revert(connection, credits);
            return false;
        }
        if let Some(total) = &self.total {
            total.fetch_add(credits, Ordering::Relaxed);
        }
        true
    }

    #[cold]
    fn revert(&self, connection: &Connection, credits: u32) {
        connection.credits.fetch_sub(credits, Ordering::Relaxed);
        let why = format!("it returned {credits} credits, more than its requests cost");
        self.fates.lose(connection.ends.peer, why);
    }

    /// A request of the peer is to wait in the memory of this process until [`Connection::unkeep`].
    /// False: no credit can have paid for it, and the peer is lost.
    #[cold]
    pub fn keep(&self, connection: &Connection) -> bool {
        let is_paid = connection.kept.fetch_add(1, Ordering::Relaxed) < self.window;
        if !is_paid {
            connection.unkeep();
            let why = format!("it sent a request beyond its {} credits", self.window);
            self.fates.lose(connection.ends.peer, why);
        }
        is_paid
    }

    /// A request of the peer was delivered: notes that credits are to be returned, if more are owed
    /// than are kept.
    #[inline]
    pub fn settle(&self, rank: JobRank, connection: &Connection) {
        if connection.owed.load(Ordering::Relaxed) > self.slack {
            self.settle_later(rank, connection);
        }
    }

    /// Notes that a peer is to be sent credits and a report on rings.
    #[cold]
    pub fn settle_later(&self, rank: JobRank, connection: &Connection) {
        if !connection.is_owing.swap(true, Ordering::AcqRel) {
            lock(&self.owing).push(rank);
            self.has_owing.store(true, Ordering::Release);
        }
    }

    /// Whether a poll should call [`Peers::take_owing`] and [`Fates::take_losses`].
    #[inline]
    pub fn has_work(&self) -> bool {
        self.fates.has_losses()
            || self.has_owing.load(Ordering::Relaxed) && self.has_owing.swap(false, Ordering::Acquire)
    }

    /// The peers to which more credits are owed than are kept. One that cannot be served now is
    /// passed to [`Peers::settle`] again.
    pub fn take_owing(&self) -> Vec<JobRank> {
        let owing = std::mem::take(&mut *lock(&self.owing));
        for connection in owing.iter().filter_map(|rank| self.connection(*rank)) {
            // Before what is owed is read.
            connection.is_owing.swap(false, Ordering::AcqRel);
        }
        owing
    }
}

impl Connection {
    /// The queue for an operation of so many bytes.
    #[inline]
    pub fn queue(&self, bytes: usize) -> Route<'_> {
        /// From here on the bandwidth of several paths counts.
        const LARGE: usize = 8 << 10;
        if bytes < LARGE || self.queues.len() == 1 {
            return self.route(self.home);
        }
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        self.route(turn % self.queues.len())
    }

    /// Whether a queue pair receives from the peer.
    #[inline]
    pub fn receives_by(&self, pair: u32) -> bool {
        self.pairs[0] == pair || self.pairs[1..].contains(&pair)
    }

    /// That of a path.
    #[inline]
    pub fn route(&self, path: usize) -> Route<'_> {
        Route::new(&self.queues[path], &self.ends)
    }

    /// Whether anything was sent, put or got.
    pub fn is_used(&self) -> bool {
        self.ends.is_used() || !self.ends.is_for_xrc() && self.queues.iter().any(SendQueue::is_used)
    }

    /// A request that was kept is being delivered. Its credit is returned later, for which
    /// the peer may send another one.
    #[cold]
    pub fn unkeep(&self) {
        self.kept.fetch_sub(1, Ordering::Relaxed);
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

    /// A request of the peer is being delivered, or credits were collected in vain.
    #[inline]
    pub fn owe(&self, credits: u32) {
        self.owed.fetch_add(credits, Ordering::Relaxed);
    }

    /// The credits that a message to the peer returns.
    #[inline]
    pub fn collect(&self) -> u32 {
        if self.owed.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let all = self.owed.swap(0, Ordering::Relaxed);
        let some = all.min(MOST_CREDITS);
        if some < all {
            self.owe(all - some);
        }
        some
    }
}

/// Takes a credit, if there is one.
#[inline]
fn take_one(credits: &AtomicU32) -> bool {
    let take = |left: u32| left.checked_sub(1);
    credits.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
}

impl Drop for Peers {
    fn drop(&mut self) {
        for peer in &self.all {
            let connection = peer.connection.load(Ordering::Acquire);
            if !connection.is_null() {
                // SAFETY: from `connect`, and nobody uses it any more.
                drop(unsafe { Box::from_raw(connection) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected(window: (u32, u32), slack: u32) -> Peers {
        let peers = Peers::new((0..3).map(|_| Mailbox::default()), window, slack);
        for peer in [1, 2].map(JobRank) {
            peers.connect(
                peer,
                (Arc::new([]), Ends::new(peer)),
                (0, [peer.0 + 7, 0, 0, 0, 0, 0, 0, 0]),
            );
        }
        peers
    }

    #[test]
    fn credits_come_back() {
        let peers = connected((2, 0), 1);
        let connection = peers.connection(JobRank(2)).unwrap();
        assert!(peers.pay(connection) && peers.pay(connection) && !peers.pay(connection));
        assert!(peers.refund(connection, 1));
        assert!(peers.pay(connection) && !peers.pay(connection));
        assert!(peers.connection(JobRank(0)).is_none());
    }

    #[test]
    fn more_credits_than_were_paid_lose_their_peer() {
        let peers = connected((2, 3), 1);
        let [one, two] = [1, 2].map(|rank| peers.connection(JobRank(rank)).unwrap());
        assert!(peers.pay(one) && peers.pay(two));
        assert!(peers.refund(one, 1) && !peers.fates.has_losses());
        assert!(!peers.refund(one, 1) && !peers.refund(two, u32::from(u16::MAX)));
        let lost: Vec<JobRank> = peers.fates.take_losses().into_iter().map(|(peer, _)| peer).collect();
        assert_eq!(lost, [JobRank(1), JobRank(2)]);
        // Credits that were not paid change nothing.
        assert!(peers.pay(two) && !peers.pay(two) && peers.pay(one) && !peers.pay(one));
    }

    #[test]
    fn offers_have_a_bound() {
        let peers = connected((2, 0), 1);
        let connection = peers.connection(JobRank(1)).unwrap();
        assert!(connection.note_offer(2) && connection.note_offer(2));
        connection.end_offer();
        assert!(connection.note_offer(2) && !connection.note_offer(2));
    }

    #[test]
    fn requests_beyond_the_credits_lose_their_peer() {
        let peers = connected((2, 0), 1);
        let connection = peers.connection(JobRank(2)).unwrap();
        assert!(peers.keep(connection) && peers.keep(connection));
        connection.unkeep();
        assert!(peers.keep(connection) && !peers.fates.has_losses());
        assert!(!peers.keep(connection) && !peers.keep(connection));
        let why = "it sent a request beyond its 2 credits".to_owned();
        assert_eq!(peers.fates.take_losses(), [(JobRank(2), why)]);
    }

    #[test]
    fn pairs_tell_peers() {
        let peers = connected((2, 0), 1);
        let find = |pair| peers.receives_from(pair);
        assert_eq!([8, 9, 10].map(find), [Some(JobRank(1)), Some(JobRank(2)), None]);
        assert_eq!(find(pair_name(1, 8)), None);
        assert!(peers.connection(JobRank(3)).is_none() && peers.connection(JobRank(u32::MAX)).is_none());
    }

    #[test]
    fn credits_for_all_peers() {
        let peers = connected((2, 3), 1);
        let [one, two] = [1, 2].map(|rank| peers.connection(JobRank(rank)).unwrap());
        assert!(peers.pay(one) && peers.pay(one) && !peers.pay(one));
        assert!(peers.pay(two) && !peers.pay(two));
        assert!(peers.refund(one, 2));
        assert!(peers.pay(two) && !peers.pay(two) && peers.pay(one) && !peers.pay(one));
    }

    #[test]
    fn more_credits_than_are_kept_are_returned_at_once() {
        let peers = connected((200, 0), 100);
        let connection = peers.connection(JobRank(2)).unwrap();
        connection.owe(100);
        peers.settle(JobRank(2), connection);
        assert!(!peers.has_work());
        connection.owe(1);
        peers.settle(JobRank(2), connection);
        peers.settle(JobRank(2), connection);
        assert!(peers.has_work() && !peers.has_work());
        assert_eq!(peers.take_owing(), [JobRank(2)]);
        assert_eq!(
            [connection.collect(), connection.collect(), connection.collect()],
            [63, 38, 0]
        );
    }
}
