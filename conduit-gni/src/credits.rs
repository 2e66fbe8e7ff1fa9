//! The state of Active Messages: own requests under way, the space for them in peers, and what of
//! the space in this process is free again.
//!
//! # A request
//!
//! It is written into a slot of its sender, and from there, by one put with its head, into units of
//! the space that its target has set aside (eager). An event at the target says which unit. Or, if
//! the target has set no space aside, the event says in which slot it waits, and the target fetches
//! it (rendezvous). A target sets space aside for peers whose requests it has fetched, as long as
//! it has some.
//!
//! # Its reply
//!
//! It is written into the same slot, so a first reply always finds room.
//!
//! # The return of credits
//!
//! When a request without reply has run, the target toggles its bit in [`Released`] at the sender,
//! which frees slot and units. When one with a reply has run, it toggles that in [`Replied`], which
//! frees the units: the handler may have used the request after it replied. Both words travel
//! together, one pair at a time to a peer, so that pairs do not overtake each other: when they free
//! much, at the latest after some polls, or when the peer asks because it has nothing left.
//!
//! [`Released`]: crate::region::Word::Released
//! [`Replied`]: crate::region::Word::Replied
//!
//! The reply and these words may arrive in either order, and a reply before its request is known to
//! have left. A slot is free when all of it has happened.

pub mod arrivals;
mod returns;
pub mod units;

use crate::credits::arrivals::Arrival;
use crate::credits::units::Units;
use crate::region::{Layout, REPLY_BUFFERS};
use crate::reply_buffers::ReplyBuffers;
use crate::settings::{Settings, MOST_UNITS};
use gasnet_conduit::JobRank;
use std::collections::VecDeque;

/// Way of requests to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestPath {
    /// It fetches them.
    Rendezvous,
    /// Into this space of the peer.
    Eager(usize),
}

/// An own request under way.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a state of its own")]
struct Slot {
    peer: JobRank,
    /// Its name there: its first unit, or this slot.
    index: u8,
    /// Parts of its reply's payload that have arrived.
    arrived: u16,
    /// Whether its post is still to complete.
    is_leaving: bool,
    /// Whether neither a reply nor a release has come.
    is_open: bool,
    /// Whether a reply has come, which may not have run.
    has_reply: bool,
    /// Whether its payload did not travel in the message.
    is_long: bool,
}

/// Resources of a request.
#[derive(Clone, Copy, Debug)]
pub struct SendReservation {
    pub peer: JobRank,
    pub slot: usize,
    pub path: RequestPath,
    /// As [`Slot::index`].
    pub index: usize,
}

/// Credits for a peer, as the words in its region: see [`crate::region::Word`].
pub type CreditWords = [u64; 3];

/// A peer of this process.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a state of its own")]
struct Peer {
    path: RequestPath,
    free: Units,
    /// Requests to it under way, and those of them that are long.
    under_way: usize,
    longs: usize,
    /// By index: the slot of a request.
    slots: [u16; MOST_UNITS],
    /// By index: units that a request takes; 0: none is under way.
    units: [u8; MOST_UNITS],
    /// Requests whose units are free when their reply has come.
    early: u64,
    /// The words of the peer, as they were read last.
    seen: CreditWords,
    /// Whether it was asked for credits.
    has_asked: bool,

    /// The space for its requests, and by unit: whether a request begins there that has not run.
    space: Option<usize>,
    begun: u64,
    /// By place: whether a request, or a reply, waits there that is not being fetched.
    waits: [u64; 2],
    /// Its requests that were fetched.
    fetched: usize,
    /// Words for it, as they are, and as they were sent last.
    words: CreditWords,
    sent: CreditWords,
    is_sending: bool,
    /// Units that run requests have taken, and slots of those without reply, since credits were
    /// returned.
    kept: usize,
    kept_slots: usize,
    /// Whether it asked for credits.
    wants: bool,
    /// Whether credits are to be returned to it.
    is_due: bool,
    /// Whether it is in [`Am::due`].
    is_listed: bool,
    /// By index: parts of a payload that have arrived.
    arrived: [u16; MOST_UNITS],
}

impl Peer {
    fn new() -> Self {
        Self {
            path: RequestPath::Rendezvous,
            free: Units::new(0),
            under_way: 0,
            longs: 0,
            slots: [0; MOST_UNITS],
            units: [0; MOST_UNITS],
            early: 0,
            seen: [0; 3],
            has_asked: false,
            space: None,
            begun: 0,
            waits: [0; 2],
            fetched: 0,
            words: [0; 3],
            sent: [0; 3],
            is_sending: false,
            kept: 0,
            kept_slots: 0,
            wants: false,
            is_due: false,
            is_listed: false,
            arrived: [0; MOST_UNITS],
        }
    }
}

/// The state, under its lock.
#[derive(Debug)]
pub struct Am {
    layout: Layout,
    peers: Box<[Option<Box<Peer>>]>,
    slots: Box<[Slot]>,
    /// Free slots: those with a number that an event can carry, and others.
    free_low: Vec<u16>,
    free_high: Vec<u16>,
    /// Requests that are fetched from this process, to one peer.
    rendezvous_depth: usize,
    long_depth: usize,
    pub reply_buffers: ReplyBuffers,
    /// Free rendezvous buffers for replies, and for requests.
    rendezvous_buffers: [Vec<u16>; 2],
    next_space: usize,
    /// Requests of a peer that are fetched before it gets space.
    fetches_before: usize,
    /// Messages to deliver.
    replies: VecDeque<Arrival>,
    requests: VecDeque<Arrival>,
    /// Messages that are not complete.
    incomplete: Vec<Arrival>,
    /// Replies and requests that wait in these places of their senders.
    waiting: [VecDeque<(JobRank, usize)>; 2],
    /// Peers for which there are credits or grants.
    due: Vec<JobRank>,
    /// Peers whose slots are kept back.
    delayed: Vec<JobRank>,
    /// The slot whose holder is asked next.
    asked: usize,
}

impl Am {
    /// Nothing is under way.
    pub fn new(settings: &Settings, layout: Layout, size: u32, rendezvous_depth: usize) -> Self {
        let slots = |range: std::ops::Range<usize>| range.rev().map(|slot| slot as u16).collect();
        let count = layout.slot_count;
        let low = count.min(MOST_UNITS);
        Self {
            layout,
            peers: std::iter::repeat_with(|| None).take(size as usize).collect(),
            slots: vec![Slot::default(); count].into(),
            free_low: slots(0..low),
            free_high: slots(low..count),
            rendezvous_depth,
            long_depth: settings.long_depth,
            reply_buffers: ReplyBuffers::default(),
            rendezvous_buffers: [slots(0..REPLY_BUFFERS), slots(REPLY_BUFFERS..layout.rendezvous_count)],
            next_space: 0,
            fetches_before: if layout.space_count >= size as usize { 1 } else { 16 },
            replies: VecDeque::new(),
            requests: VecDeque::new(),
            incomplete: Vec::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            due: Vec::new(),
            delayed: Vec::new(),
            asked: 0,
        }
    }

    #[inline]
    fn peer(&mut self, rank: JobRank) -> &mut Peer {
        self.peers[rank.index()].get_or_insert_with(|| Box::new(Peer::new()))
    }

    /// The peers that this process has sent to or received from.
    pub fn contacts(&self) -> Vec<JobRank> {
        let ranks = (0..).map(JobRank).zip(&self.peers);
        ranks.filter_map(|(rank, peer)| peer.as_ref().map(|_| rank)).collect()
    }

    /// Reserves the resources of a request of `bytes` bytes. None: one is not free.
    #[inline]
    pub fn reserve(&mut self, rank: JobRank, bytes: usize, is_long: bool) -> Option<SendReservation> {
        let (layout, long_depth, rendezvous_depth) = (self.layout, self.long_depth, self.rendezvous_depth);
        let peer = self.peers[rank.index()].get_or_insert_with(|| Box::new(Peer::new()));
        if is_long && peer.longs >= long_depth {
            return None;
        }
        if peer.path == RequestPath::Rendezvous && peer.seen[0] != 0 && peer.under_way == 0 {
            peer.path = RequestPath::Eager(peer.seen[0] as usize - 1);
            peer.free = Units::new(layout.units);
        }
        let path = peer.path;
        let (slot, index, units) = match path {
            RequestPath::Eager(_) => {
                let slot = self.free_high.pop().or_else(|| self.free_low.pop())?;
                let units = layout.units_of(bytes);
                let Some(first) = peer.free.take(units) else {
                    self.free(slot.into());
                    return None;
                };
                (usize::from(slot), first, units)
            }
            RequestPath::Rendezvous => {
                // A peer that has set space aside gets nothing but what is under way.
                if peer.under_way >= rendezvous_depth || peer.seen[0] != 0 {
                    return None;
                }
                let slot = usize::from(self.free_low.pop()?);
                (slot, slot, 1)
            }
        };
        peer.under_way += 1;
        peer.longs += usize::from(is_long);
        peer.slots[index] = slot as u16;
        peer.units[index] = units as u8;
        self.slots[slot] = Slot {
            peer: rank,
            index: index as u8,
            arrived: 0,
            is_leaving: true,
            is_open: true,
            has_reply: false,
            is_long,
        };
        Some(SendReservation {
            peer: rank,
            slot,
            path,
            index,
        })
    }

    /// Gives it back: the request was not sent.
    #[cold]
    pub fn cancel(&mut self, reservation: SendReservation) {
        let is_long = self.slots[reservation.slot].is_long;
        let peer = self.peer(reservation.peer);
        peer.under_way -= 1;
        peer.longs -= usize::from(is_long);
        let units = usize::from(std::mem::take(&mut peer.units[reservation.index]));
        if matches!(reservation.path, RequestPath::Eager(_)) {
            peer.free.give(reservation.index, units);
        }
        self.slots[reservation.slot] = Slot::default();
        self.free(reservation.slot);
    }

    fn free(&mut self, slot: usize) {
        if slot < MOST_UNITS {
            self.free_low.push(slot as u16);
        } else {
            self.free_high.push(slot as u16);
        }
    }

    /// The post of a request is complete.
    #[inline]
    pub fn has_left(&mut self, slot: usize) {
        self.slots[slot].is_leaving = false;
        if !self.slots[slot].is_open {
            self.free(slot);
        }
    }

    /// The reply to a request has run, or there is none. Its units are free as well if `releases`,
    /// or if that was known before.
    #[inline]
    fn close(&mut self, slot: usize, releases: bool) {
        let Slot {
            peer: rank,
            index,
            is_leaving,
            is_long,
            ..
        } = self.slots[slot];
        self.slots[slot].is_open = false;
        let (index, bit) = (usize::from(index), 1 << index);
        let peer = self.peer(rank);
        peer.under_way -= 1;
        peer.longs -= usize::from(is_long);
        let is_rendezvous = peer.path == RequestPath::Rendezvous;
        if is_rendezvous {
            peer.units[index] = 0;
        } else if releases || peer.early & bit != 0 {
            peer.early &= !bit;
            let units = usize::from(std::mem::take(&mut peer.units[index]));
            peer.free.give(index, units);
        } else {
            // The units are given back with the word.
            peer.slots[index] = u16::MAX;
        }
        if !is_leaving {
            self.free(slot);
        }
    }

    /// The slot of a request that a peer names. None: there is no such request.
    #[inline]
    fn slot_of(&mut self, rank: JobRank, index: usize) -> Option<usize> {
        let slot = usize::from(self.peer(rank).slots[index]);
        let known = self.slots.get(slot)?;
        (known.is_open && known.peer == rank && usize::from(known.index) == index).then_some(slot)
    }
}
