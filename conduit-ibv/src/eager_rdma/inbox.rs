//! The rings of this process, offered to peers, and polled; and its words, which they may write.

use crate::eager_rdma::{Ring, Slot};
use crate::fabric::Fabric;
use crate::ffi::Remote;
use crate::memory::mapped::Pinned;
use crate::peers::{Connection, Peers};
use crate::rail::Batch;
use crate::receive::deliver::{deliver, Deferred};
use crate::wire;
use gasnet_conduit::{words, Class, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::pool::Chunk;
use gasnet_sys::atomic::Ordering;
use gasnet_sys::maybe_locked::{MaybeLocked, Sharing};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The rings of a process.
pub struct Inbox {
    rings: MaybeLocked<Rings>,
    /// Whether there are any.
    is_used: AtomicBool,
    /// The largest number of them.
    most: usize,
    /// Memory of the words.
    words: Pinned,
    /// Whether peers may write it: no thread sleeps.
    offers_words: bool,
}

#[derive(Default)]
struct Rings {
    all: Vec<Ring>,
    /// The one that the next poll begins with, so that none starves.
    first: usize,
    /// Room for the messages of polls: not on the stack, which may be small.
    spare: Vec<Box<[Slot]>>,
}

/// Messages of a poll.
const AT_ONCE: usize = 4;

#[cold]
fn new_slots() -> Box<[Slot]> {
    (0..AT_ONCE).map(|_| Slot::new()).collect()
}

impl Inbox {
    /// No rings yet, of at most `most`. None, and no words, if threads sleep.
    pub fn new(most: usize, words: Pinned, sleeps: bool, sharing: Sharing) -> Self {
        Self {
            rings: MaybeLocked::new(Rings::default(), sharing),
            is_used: AtomicBool::new(false),
            most: if sleeps { 0 } else { most },
            words,
            offers_words: !sleeps,
        }
    }

    /// The words of this process.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: as many aligned words, which live as long, and which any value is valid for.
        unsafe { std::slice::from_raw_parts(self.words.address() as *const AtomicU64, words::COUNT) }
    }

    /// Lets a peer that sends many messages write words, and makes a ring for it, if there may be
    /// another one. Without one the peer's messages arrive as before.
    #[cold]
    pub fn offer_memory(&self, fabric: &Fabric, peer: JobRank, connection: &Connection) {
        if !self.offers_words || !keeps_order(fabric, connection) {
            return;
        }
        let (address, rail) = (self.words.address(), connection.queue(0).rail);
        let rkey = self.words.rkey(rail);
        connection.rings.offer_words(Remote { address, rkey });
        self.offer_ring(fabric, peer, connection);
        fabric.peers.credits.note(peer, &connection.credits);
    }

    fn offer_ring(&self, fabric: &Fabric, peer: JobRank, connection: &Connection) {
        let mut rings = self.rings.lock();
        if rings.all.len() >= self.most || rings.all.iter().any(|ring| ring.source == peer) {
            return;
        }
        let Ok(ring) = Ring::new(peer, &fabric.rail(&connection.queue(0)).domain) else {
            return;
        };
        connection.rings.offer(ring.remote());
        rings.all.push(ring);
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Whether there seem to be messages in the rings, which no other thread is delivering.
    #[inline]
    pub fn has_messages(&self) -> bool {
        let rings = || self.rings.try_lock();
        self.is_used.load(Ordering::Relaxed) && rings().is_some_and(|rings| rings.all.iter().any(Ring::has_next))
    }

    /// Delivers messages from the rings. They are copied first, which frees their slots.
    #[inline(never)]
    pub fn poll(&self, peers: &Peers, deferred: &Deferred, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        // A thread that does the same is not waited for.
        let Some(mut rings) = self.rings.try_lock() else {
            return 0;
        };
        let mut slots = rings.spare.pop().unwrap_or_else(new_slots);
        let mut found = Batch::new();
        let Rings { all, first, .. } = &mut *rings;
        let (before, after) = all.split_at_mut(*first);
        *first = if after.len() > 1 { *first + 1 } else { 0 };
        for ring in after.iter_mut().chain(before) {
            let already = found.len();
            while found.len() < AT_ONCE {
                let Some((bytes, header)) = ring.take(&mut slots[found.len()]) else {
                    break;
                };
                found.push((ring.source, bytes, header));
            }
            if found.len() > already {
                note_taken(peers, ring);
            }
        }
        let count = found.len();
        if count == 0 {
            rings.spare.push(slots);
            return 0;
        }
        drop(rings);
        for ((source, bytes, header), slot) in found.by_ref().zip(&mut slots) {
            let Some(connection) = peers.connection(source) else {
                continue;
            };
            let Some((class, credits)) = wire::packet(header.word) else {
                peers
                    .states
                    .lose(source, "it wrote what is no packet into its ring".to_owned());
                continue;
            };
            if !peers.give_back(connection, credits) {
                continue;
            }
            connection.rings.note_freed(header.taken);
            // SAFETY: as many bytes were taken.
            let packet = unsafe { slot.packet(bytes) };
            match class {
                Class::Reply => upcalls.packet(source, Class::Reply, packet),
                Class::Request if scope == PollScope::All => deliver(peers, source, packet, upcalls),
                Class::Request => deferred.keep(peers, source, packet),
            }
        }
        self.rings.lock().spare.push(slots);
        count
    }
}

/// Whether a message in a ring is seen after the puts that were complete when it was sent.
fn keeps_order(fabric: &Fabric, connection: &Connection) -> bool {
    let queue = connection.queue(0);
    // The pair of an XRC connection only sends.
    !fabric.rail(&queue).has_xrc() && queue.pair.lands_in_order()
}

fn note_taken(peers: &Peers, ring: &Ring) {
    if let Some(connection) = peers.connection(ring.source) {
        if connection.rings.note_taken(ring.taken()) {
            peers.credits.note(ring.source, &connection.credits);
        }
    }
}
