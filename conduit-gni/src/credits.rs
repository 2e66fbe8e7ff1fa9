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
//! It is written into the same slot, so nothing is ever short for a first reply. When a request
//! without reply has run, the target toggles its bit in [`Released`] at the sender, which frees
//! slot and units. When one with a reply has run, it toggles that in [`Replied`], which frees the
//! units: the handler may have used the request after it replied. Both words travel together, one
//! pair at a time to a peer, so that pairs do not overtake each other: when they free much, at the
//! latest after some polls, or when the peer asks because it has nothing left.
//!
//! [`Released`]: crate::region::Word::Released
//! [`Replied`]: crate::region::Word::Replied
//!
//! The reply and these words may arrive in either order, and a reply before its request is known to
//! have left. A slot is free when all of it has happened.

pub mod units;

use crate::credits::units::Units;
use crate::region::{Layout, OUTBOX};
use crate::reply_buffers::Outbox;
use crate::settings::{Settings, MOST_UNITS};
use gasnet_conduit::{Class, JobRank};
use std::collections::VecDeque;

/// How requests reach a peer.
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
pub struct Slot {
    pub peer: JobRank,
    /// What it is called there: its first unit, or this slot.
    pub index: u8,
    /// Parts of its reply's payload that have arrived.
    pub arrived: u16,
    /// Whether its post is still to complete.
    pub is_leaving: bool,
    /// Whether neither a reply nor a release has come.
    pub is_open: bool,
    /// Whether a reply has come, which may not have run.
    pub has_reply: bool,
    /// Whether its payload did not travel in the message.
    pub is_long: bool,
}

/// What a message that has arrived is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A request in this unit of the sender's space.
    Unit(usize),
    /// A reply in this slot.
    Slot(usize),
    /// A message of a class that was fetched to a landing, and waits in this place of its sender.
    Landing(Class, usize, usize),
}

/// A message that has arrived, or will have when its head and the parts of its payload are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub source: JobRank,
    pub place: Place,
}

/// What a message needs for its way.
#[derive(Clone, Copy, Debug)]
pub struct SendReservation {
    pub peer: JobRank,
    pub slot: usize,
    pub way: RequestPath,
    /// As [`Slot::index`].
    pub index: usize,
}

/// A peer of this process.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a state of its own")]
pub struct Peer {
    pub way: RequestPath,
    free: Units,
    /// Requests to it under way, and those of them that are long.
    pub under_way: usize,
    pub longs: usize,
    /// By index: the slot of a request.
    slots: [u16; MOST_UNITS],
    /// By index: units that a request takes; 0: none is under way.
    units: [u8; MOST_UNITS],
    /// Requests whose units are free when their reply has come.
    early: u64,
    /// The words of the peer, as they were read last.
    seen: [u64; 3],
    /// Whether it was asked for the words that it keeps back.
    pub has_asked: bool,

    /// The space for its requests, and by unit: whether a request begins there that has not run.
    pub space: Option<usize>,
    pub begun: u64,
    /// By place: whether a request, or a reply, waits there that is not being fetched.
    pub waits: [u64; 2],
    /// Its requests that were fetched.
    pub fetched: usize,
    /// Words for it, as they are, and as they were sent last: see [`crate::region::Word`].
    pub words: [u64; 3],
    pub sent: [u64; 3],
    pub is_sending: bool,
    /// Units that run requests have taken, and slots of those without reply, since words were
    /// sent.
    pub kept: usize,
    pub kept_slots: usize,
    /// Whether it asked for words.
    pub wants: bool,
    /// Whether words are to be sent to it.
    pub is_due: bool,
    /// Whether it is in [`Am::due`].
    pub is_listed: bool,
    /// By index: parts of a payload that have arrived.
    pub arrived: [u16; MOST_UNITS],
}

impl Peer {
    fn new() -> Self {
        Self {
            way: RequestPath::Rendezvous,
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
    pub slots: Box<[Slot]>,
    /// Free slots: those with a number that an event can carry, and others.
    free_low: Vec<u16>,
    free_high: Vec<u16>,
    /// Requests that are fetched from this process, to one peer.
    rendezvous_depth: usize,
    long_depth: usize,
    pub outbox: Outbox,
    /// Free landings for replies, and for requests.
    landings: [Vec<u16>; 2],
    next_space: usize,
    /// Requests of a peer that are fetched before it gets space.
    fetches_before: usize,
    /// What may be delivered.
    pub replies: VecDeque<Arrival>,
    pub requests: VecDeque<Arrival>,
    /// What is not complete.
    pub late: Vec<Arrival>,
    /// Replies and requests that wait in these places of their senders.
    waiting: [VecDeque<(JobRank, usize)>; 2],
    /// Peers for which there are words or grants.
    pub due: Vec<JobRank>,
    /// Peers whose slots are kept back.
    late_words: Vec<JobRank>,
    /// The slot whose holder is asked next.
    asked: usize,
}

/// Sets a bit of a set that has it not.
#[inline]
pub fn mark(set: &mut u64, bit: usize) -> bool {
    let is_new = *set >> bit & 1 == 0;
    *set |= 1 << bit;
    is_new
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
            outbox: Outbox::default(),
            landings: [slots(0..OUTBOX), slots(OUTBOX..layout.landing_count)],
            next_space: 0,
            fetches_before: if layout.space_count >= size as usize { 1 } else { 16 },
            replies: VecDeque::new(),
            requests: VecDeque::new(),
            late: Vec::new(),
            waiting: [VecDeque::new(), VecDeque::new()],
            due: Vec::new(),
            late_words: Vec::new(),
            asked: 0,
        }
    }

    /// A peer.
    #[inline]
    pub fn peer(&mut self, rank: JobRank) -> &mut Peer {
        self.peers[rank.index()].get_or_insert_with(|| Box::new(Peer::new()))
    }

    /// The peers that this process has sent to or received from.
    pub fn contacts(&self) -> Vec<JobRank> {
        let ranks = (0..).map(JobRank).zip(&self.peers);
        ranks.filter_map(|(rank, peer)| peer.as_ref().map(|_| rank)).collect()
    }

    /// Takes what a request of so many bytes needs. None: something is short.
    #[inline]
    pub fn admit(&mut self, rank: JobRank, bytes: usize, is_long: bool) -> Option<SendReservation> {
        let (layout, long_depth, rendezvous_depth) = (self.layout, self.long_depth, self.rendezvous_depth);
        let peer = self.peers[rank.index()].get_or_insert_with(|| Box::new(Peer::new()));
        if is_long && peer.longs >= long_depth {
            return None;
        }
        if peer.way == RequestPath::Rendezvous && peer.seen[0] != 0 && peer.under_way == 0 {
            peer.way = RequestPath::Eager(peer.seen[0] as usize - 1);
            peer.free = Units::new(layout.units);
        }
        let way = peer.way;
        let (slot, index, units) = match way {
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
            way,
            index,
        })
    }

    /// Gives it back: the request was not sent.
    #[cold]
    pub fn cancel(&mut self, admission: SendReservation) {
        let is_long = self.slots[admission.slot].is_long;
        let peer = self.peer(admission.peer);
        peer.under_way -= 1;
        peer.longs -= usize::from(is_long);
        let units = usize::from(std::mem::take(&mut peer.units[admission.index]));
        if matches!(admission.way, RequestPath::Eager(_)) {
            peer.free.give(admission.index, units);
        }
        self.slots[admission.slot] = Slot::default();
        self.free(admission.slot);
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
    pub fn close(&mut self, slot: usize, releases: bool) {
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
        let is_rendezvous = peer.way == RequestPath::Rendezvous;
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

    /// A message of a class waits in a place of its sender. False: one waits there already.
    pub fn note_waiting(&mut self, class: Class, rank: JobRank, place: usize) -> bool {
        let queue = usize::from(class == Class::Request);
        let is_new = mark(&mut self.peer(rank).waits[queue], place);
        if is_new {
            self.waiting[queue].push_back((rank, place));
        }
        is_new
    }

    /// The next message of a class that waits, to be fetched now.
    pub fn next_waiting(&mut self, class: Class) -> Option<(JobRank, usize)> {
        let queue = usize::from(class == Class::Request);
        let (rank, place) = self.waiting[queue].pop_front()?;
        self.peer(rank).waits[queue] &= !(1 << place);
        Some((rank, place))
    }

    /// A peer has written words. False: they are impossible.
    #[inline]
    pub fn note_words(&mut self, rank: JobRank, words: [u64; 3]) -> bool {
        // No process has more spaces than there are processes.
        if words[0] > self.peers.len() as u64 {
            return false;
        }
        let peer = self.peer(rank);
        let (mut released, mut replied) = (words[1] ^ peer.seen[1], words[2] ^ peer.seen[2]);
        peer.seen = words;
        peer.has_asked = false;
        while replied != 0 {
            let index = replied.trailing_zeros() as usize;
            replied &= replied - 1;
            let peer = self.peer(rank);
            if peer.slots[index] == u16::MAX {
                let units = usize::from(std::mem::take(&mut peer.units[index]));
                peer.free.give(index, units);
            } else {
                peer.early |= 1 << index;
            }
        }
        while released != 0 {
            let index = released.trailing_zeros() as usize;
            released &= released - 1;
            let Some(slot) = self.slot_of(rank, index) else {
                continue;
            };
            if self.slots[slot].has_reply {
                return false;
            }
            self.close(slot, true);
        }
        true
    }

    /// The slot of a request that a peer names. None: there is no such request.
    #[inline]
    pub fn slot_of(&mut self, rank: JobRank, index: usize) -> Option<usize> {
        let slot = usize::from(self.peer(rank).slots[index]);
        let known = self.slots.get(slot)?;
        (known.is_open && known.peer == rank && usize::from(known.index) == index).then_some(slot)
    }

    /// A request of a peer has run, which took so many units.
    #[inline]
    pub fn release(&mut self, rank: JobRank, index: usize, units: usize, replied: bool) {
        let (keeps, keeps_slots) = (self.layout.units / 2, self.layout.slot_count / 4);
        let peer = self.peer(rank);
        peer.words[if replied { 2 } else { 1 }] ^= 1 << index;
        peer.kept += units;
        let is_first = !replied && peer.kept_slots == 0;
        peer.kept_slots += usize::from(!replied);
        peer.is_due |= peer.kept > keeps || peer.kept_slots > keeps_slots || units == 0 || peer.wants;
        if peer.is_due {
            self.list(rank);
        } else if is_first {
            self.late_words.push(rank);
        }
    }

    /// Whether words for peers are kept back that free slots.
    #[inline]
    pub fn delays_credits(&self) -> bool {
        !self.late_words.is_empty()
    }

    /// They have been kept for long enough.
    pub fn list_late(&mut self) {
        for rank in std::mem::take(&mut self.late_words) {
            let peer = self.peer(rank);
            if peer.kept_slots > 0 {
                peer.is_due = true;
                self.list(rank);
            }
        }
    }

    /// The peer to be asked for words, because slots or units are short, if it was not asked.
    pub fn asks(&mut self, rank: JobRank) -> Option<JobRank> {
        let fetches = self.peer(rank).way == RequestPath::Rendezvous;
        let lacks_slots = self.free_low.is_empty() && (fetches || self.free_high.is_empty());
        let holder = if lacks_slots {
            self.asked = (self.asked + 1) % self.slots.len();
            self.slots[self.asked].peer
        } else {
            rank
        };
        let peer = self.peer(holder);
        let asks = matches!(peer.way, RequestPath::Eager(_)) && !std::mem::replace(&mut peer.has_asked, true);
        asks.then_some(holder)
    }

    /// The peer gets words with the next [`Am::due`].
    pub fn list(&mut self, rank: JobRank) {
        let peer = self.peer(rank);
        if !std::mem::replace(&mut peer.is_listed, true) {
            self.due.push(rank);
        }
    }

    /// A request of a peer was fetched. Sets space aside for it, if it is time and there is some.
    pub fn note_fetch(&mut self, rank: JobRank) {
        let (next, count, fetches_before) = (self.next_space, self.layout.space_count, self.fetches_before);
        let peer = self.peer(rank);
        peer.fetched += 1;
        if peer.space.is_some() || peer.fetched < fetches_before || next >= count {
            return;
        }
        peer.space = Some(next);
        peer.words[0] = next as u64 + 1;
        peer.is_due = true;
        self.next_space += 1;
        self.list(rank);
    }

    /// Whether no message of a class waits in its sender.
    pub fn none_waits(&self, class: Class) -> bool {
        self.waiting[usize::from(class == Class::Request)].is_empty()
    }

    /// Whether no message waits in its sender.
    #[inline]
    pub fn nothing_waits(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty)
    }

    /// A landing for a message of a class.
    #[inline]
    pub fn take_landing(&mut self, class: Class) -> Option<usize> {
        self.landings[usize::from(class == Class::Request)]
            .pop()
            .map(usize::from)
    }

    /// It is free again.
    #[inline]
    pub fn give_landing(&mut self, landing: usize) {
        self.landings[usize::from(landing >= OUTBOX)].push(landing as u16);
    }
}
