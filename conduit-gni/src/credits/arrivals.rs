//! Messages that have arrived, or wait in their senders, until they have run.
#![forbid(unsafe_code)]

use super::Am;
use crate::region::REPLY_BUFFERS;
use gasnet_conduit::{Class, JobRank, PollScope};
use std::collections::VecDeque;

/// A message that is fetched from its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub class: Class,
    /// Its place at its sender.
    pub index: usize,
    /// Its rendezvous buffer.
    pub buffer: usize,
}

/// Place of a message that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A request in this unit of the sender's space.
    Unit(usize),
    /// A reply in this slot.
    Slot(usize),
    /// A message that was fetched into a rendezvous buffer.
    RendezvousBuffer(Fetch),
}

impl Place {
    /// Class of the message.
    #[inline]
    fn class(self) -> Class {
        match self {
            Self::Unit(_) => Class::Request,
            Self::Slot(_) => Class::Reply,
            Self::RendezvousBuffer(fetch) => fetch.class,
        }
    }
}

/// A message that has arrived, or will have when its head and the parts of its payload are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub source: JobRank,
    pub place: Place,
}

/// A message has run.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Units of the space that it has taken.
    pub units: usize,
    pub has_replied: bool,
}

/// Sets a bit of a set. False: the set has it.
#[inline]
fn mark(set: &mut u64, bit: usize) -> bool {
    let is_new = *set >> bit & 1 == 0;
    *set |= 1 << bit;
    is_new
}

/// Counts a part of a payload. False: there are more than any payload has.
#[inline]
fn count(arrived: &mut u16) -> bool {
    let next = arrived.checked_add(1);
    *arrived = next.unwrap_or(*arrived);
    next.is_some()
}

impl Am {
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

    /// Whether messages of a class wait in their senders.
    pub fn is_waiting(&self, class: Class) -> bool {
        !self.waiting[usize::from(class == Class::Request)].is_empty()
    }

    /// Whether messages wait in their senders.
    #[inline]
    pub fn has_waiting(&self) -> bool {
        !self.waiting.iter().all(VecDeque::is_empty)
    }

    /// Whether polls have something to do without a new event.
    pub fn has_work(&self) -> bool {
        !self.requests.is_empty()
            || !self.replies.is_empty()
            || self.has_incomplete()
            || self.has_due()
            || self.has_waiting()
    }

    /// A request is in a unit of the space for its sender. False: that is impossible.
    #[inline]
    pub fn note_request(&mut self, rank: JobRank, unit: usize) -> bool {
        let units = self.layout.units;
        let peer = self.peer(rank);
        unit < units && peer.space.is_some() && mark(&mut peer.begun, unit)
    }

    /// The slot of a request that its reply has arrived for. None: that is impossible.
    #[inline]
    pub fn note_reply(&mut self, rank: JobRank, index: usize) -> Option<usize> {
        let slot = self.slot_of(rank, index)?;
        (!std::mem::replace(&mut self.slots[slot].has_reply, true)).then_some(slot)
    }

    /// A part of the payload of a request has arrived. False: that is impossible.
    #[inline]
    pub fn count_request_part(&mut self, rank: JobRank, index: usize) -> bool {
        count(&mut self.peer(rank).arrived[index])
    }

    /// A part of the payload of a reply has arrived. False: that is impossible.
    #[inline]
    pub fn count_reply_part(&mut self, rank: JobRank, index: usize) -> bool {
        let slot = self.slot_of(rank, index);
        slot.is_some_and(|slot| count(&mut self.slots[slot].arrived))
    }

    /// Offset of a message in the region. None: there is no space for its sender.
    #[inline]
    pub fn offset(&mut self, arrival: &Arrival) -> Option<usize> {
        Some(match arrival.place {
            Place::Unit(unit) => {
                let space = self.peer(arrival.source).space?;
                self.layout.unit(space, unit)
            }
            Place::Slot(slot) => self.layout.slot(slot),
            Place::RendezvousBuffer(fetch) => self.layout.rendezvous_buffer(fetch.buffer),
        })
    }

    /// Parts of the payload of a message that have arrived.
    #[inline]
    pub fn arrived_parts(&mut self, arrival: &Arrival) -> Option<&mut u16> {
        match arrival.place {
            Place::Unit(index)
            | Place::RendezvousBuffer(Fetch {
                class: Class::Request,
                index,
                ..
            }) => Some(&mut self.peer(arrival.source).arrived[index]),
            Place::Slot(slot) => Some(&mut self.slots[slot].arrived),
            Place::RendezvousBuffer(_) => None,
        }
    }

    /// Queues a message for delivery.
    #[inline]
    pub fn queue(&mut self, arrival: Arrival) {
        match arrival.place.class() {
            Class::Request => self.requests.push_back(arrival),
            Class::Reply => self.replies.push_back(arrival),
        }
    }

    /// Keeps a message until it is complete.
    #[inline]
    pub fn keep(&mut self, arrival: Arrival) {
        self.incomplete.push(arrival);
    }

    /// Whether messages have arrived that are not complete.
    #[inline]
    pub fn has_incomplete(&self) -> bool {
        !self.incomplete.is_empty()
    }

    /// The messages that were not complete.
    pub fn take_incomplete(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.incomplete)
    }

    /// The next message to deliver: replies first.
    #[inline]
    pub fn next_arrival(&mut self, scope: PollScope) -> Option<Arrival> {
        match self.replies.pop_front() {
            Some(arrival) => Some(arrival),
            None if scope == PollScope::All => self.requests.pop_front(),
            None => None,
        }
    }

    /// A message has run, or was malformed: what it has taken is free.
    #[inline]
    pub fn end(&mut self, arrival: Arrival, end: Option<End>) {
        match (arrival.place, end) {
            (Place::Unit(index), Some(end)) => {
                self.peer(arrival.source).begun &= !(1 << index);
                self.release(arrival.source, index, end);
            }
            (Place::Slot(slot), Some(_)) => self.close(slot, false),
            (Place::RendezvousBuffer(fetch), end) => {
                if let Some(end) = end.filter(|end| fetch.class == Class::Request && !end.has_replied) {
                    self.release(arrival.source, fetch.index, End { units: 0, ..end });
                }
                self.release_rendezvous_buffer(fetch.buffer);
            }
            // The sender is lost.
            (_, None) => {}
        }
    }

    /// A rendezvous buffer for a message of a class.
    #[inline]
    pub fn take_rendezvous_buffer(&mut self, class: Class) -> Option<usize> {
        self.rendezvous_buffers[usize::from(class == Class::Request)]
            .pop()
            .map(usize::from)
    }

    /// It is free again.
    #[inline]
    pub fn release_rendezvous_buffer(&mut self, buffer: usize) {
        self.rendezvous_buffers[usize::from(buffer >= REPLY_BUFFERS)].push(buffer as u16);
    }
}
