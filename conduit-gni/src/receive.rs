//! What has arrived, and its delivery.

use crate::completion::CompletionAction;
use crate::credits::{mark, Am, Arrival, Place};
use crate::ffi::{Local, PostDescriptor, Received, Remote};
use crate::net::{Net, FIRST};
use crate::region::{Layout, Word, FRONT, HEAD, OUTBOX};
use crate::wire::{Event, Head, Kind};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::Ordering;

/// Bytes of a message that waits which are fetched first, its head included: most messages are no
/// longer.
const FIRST_FETCH: usize = 504;

/// A message has run.
struct End {
    /// Units of the space that it has taken.
    units: usize,
    has_replied: bool,
}

impl End {
    /// What the message has taken is free.
    #[inline]
    fn note(&self, am: &mut Am, arrival: Arrival) {
        match arrival.place {
            Place::Unit(index) => {
                am.peer(arrival.source).begun &= !(1 << index);
                am.release(arrival.source, index, self.units, self.has_replied);
            }
            Place::Slot(slot) => am.close(slot, false),
            Place::Landing(class, landing, index) => {
                if class == Class::Request && !self.has_replied {
                    am.release(arrival.source, index, 0, false);
                }
                am.give_landing(landing);
            }
        }
    }
}

/// Counts a part of a payload. False: there are more than any payload has.
#[inline]
fn count(arrived: &mut u16) -> bool {
    let next = arrived.checked_add(1);
    *arrived = next.unwrap_or(*arrived);
    next.is_some()
}

impl Net {
    /// Takes what has arrived off the queue, at most as much as a poll handles.
    /// Returns whether messages wait to be fetched.
    pub fn take_arrivals(&self) -> bool {
        let Some(mut am) = self.am.try_lock() else { return false };
        {
            let Some(mut turn) = self.domains[FIRST].try_turn() else {
                return false;
            };
            for _ in 0..self.settings.burst {
                match turn.arrival() {
                    Received::Nothing => break,
                    Received::Event(word) => match Event::decode(word) {
                        Ok(event) if event.source.index() < self.addresses.len() => self.note(&mut am, event),
                        Err(source) if source.index() < self.addresses.len() => {
                            self.states
                                .lose(source, format!("it sent an impossible event ({word:#010x})"));
                        }
                        _ => self.fail(&format!("an impossible event, {word:#010x}, has arrived")),
                    },
                    Received::Overrun => {
                        self.fail("the queue of arrivals has overrun: a defect");
                        break;
                    }
                }
            }
        }
        if !am.late.is_empty() {
            for arrival in std::mem::take(&mut am.late) {
                self.admit_arrival(&mut am, arrival);
            }
        }
        self.note_work(&am);
        !am.nothing_waits()
    }

    /// Whether polls have something to do here without a new event.
    fn note_work(&self, am: &Am) {
        let has = !am.requests.is_empty()
            || !am.replies.is_empty()
            || !am.late.is_empty()
            || !am.due.is_empty()
            || !am.nothing_waits();
        self.has_arrivals.store(has, Ordering::Relaxed);
        self.delays_credits.store(am.delays_credits(), Ordering::Relaxed);
    }

    /// Counts polls while words for peers are kept back, and sends them after some.
    pub fn flush_late_credits(&self) {
        /// The time of a round trip, or a little more, so that its next message may go first.
        const POLLS: usize = 128;
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        if polls % POLLS == 0 {
            let mut am = self.am.lock();
            am.list_late();
            self.send_words(&mut am);
            self.note_work(&am);
        }
    }

    /// Takes note of an event. Its index is the peer's choice: one that names nothing of the peer's
    /// loses it.
    #[inline]
    fn note(&self, am: &mut Am, event: Event) {
        let Event { kind, source, index } = event;
        let layout = &self.region.layout;
        let is_possible = match kind {
            Kind::Request => {
                let peer = am.peer(source);
                let is_new = index < layout.units && peer.space.is_some() && mark(&mut peer.begun, index);
                if is_new {
                    let place = Place::Unit(index);
                    self.admit_arrival(am, Arrival { source, place });
                }
                is_new
            }
            Kind::Reply => match am.slot_of(source, index).filter(|slot| !am.slots[*slot].has_reply) {
                Some(slot) => {
                    am.slots[slot].has_reply = true;
                    let place = Place::Slot(slot);
                    self.admit_arrival(am, Arrival { source, place });
                    true
                }
                None => false,
            },
            Kind::RequestPayload => count(&mut am.peer(source).arrived[index]),
            Kind::ReplyPayload => {
                let slot = am.slot_of(source, index);
                slot.is_some_and(|slot| count(&mut am.slots[slot].arrived))
            }
            Kind::WaitingRequest => index < layout.slot_count && am.note_waiting(Class::Request, source, index),
            Kind::WaitingReply => index < OUTBOX && am.note_waiting(Class::Reply, source, index),
            Kind::Fetched => am.outbox.give(source, index),
            Kind::Released => {
                let word = |word| self.region.word(Layout::word(source, word)).load(Ordering::Acquire);
                am.note_words(source, [Word::Grant, Word::Released, Word::Replied].map(word))
            }
            Kind::Wanted => {
                let peer = am.peer(source);
                peer.wants = true;
                if peer.kept > 0 {
                    peer.is_due = true;
                    am.list(source);
                }
                true
            }
            Kind::Barrier => true,
            Kind::Bye => {
                self.states.note_stop(source);
                true
            }
        };
        if !is_possible {
            let why = format!("it sent an impossible event ({kind:?}, index {index})");
            self.states.lose(source, why);
        }
    }

    /// Where a message lies in this process.
    #[inline]
    fn offset(&self, am: &mut Am, arrival: &Arrival) -> Option<usize> {
        let layout = &self.region.layout;
        Some(match arrival.place {
            Place::Unit(unit) => layout.unit(am.peer(arrival.source).space?, unit),
            Place::Slot(slot) => layout.slot(slot),
            Place::Landing(_, landing, _) => layout.landing(landing),
        })
    }

    /// Queues a message for delivery, or keeps it until it is complete.
    #[inline]
    fn admit_arrival(&self, am: &mut Am, arrival: Arrival) {
        // An event of a unit has a space.
        let Some(offset) = self.offset(am, &arrival) else {
            return;
        };
        let word = match arrival.place {
            Place::Slot(_) => offset,
            _ => offset + HEAD,
        };
        let Some(head) = Head::decode(self.region.word(word).load(Ordering::Acquire)) else {
            return am.late.push(arrival);
        };
        let arrived = match arrival.place {
            Place::Unit(index) | Place::Landing(Class::Request, _, index) => {
                &mut am.peer(arrival.source).arrived[index]
            }
            Place::Slot(slot) => &mut am.slots[slot].arrived,
            Place::Landing(Class::Reply, ..) => &mut 0,
        };
        if usize::from(*arrived) < head.parts {
            return am.late.push(arrival);
        }
        *arrived = 0;
        match arrival.place {
            Place::Unit(_) | Place::Landing(Class::Request, ..) => am.requests.push_back(arrival),
            _ => am.replies.push_back(arrival),
        }
    }

    /// Delivers messages, and returns their number. Then sends words to the peers that are due.
    pub fn deliver(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (mut count, mut am) = (0, self.am.lock());
        while count < self.settings.burst {
            let next = match am.replies.pop_front() {
                Some(arrival) => Some(arrival),
                None if scope == PollScope::All => am.requests.pop_front(),
                None => None,
            };
            let Some(arrival) = next else { break };
            let offset = self.offset(&mut am, &arrival).unwrap_or_default();
            drop(am);
            let end = self.deliver_one(arrival, offset, upcalls);
            am = self.am.lock();
            match (end, arrival.place) {
                (Some(end), _) => end.note(&mut am, arrival),
                (None, Place::Landing(_, landing, _)) => am.give_landing(landing),
                (None, _) => {}
            }
            count += 1;
        }
        if !am.due.is_empty() {
            self.send_words(&mut am);
        }
        self.note_work(&am);
        count
    }

    /// Runs a message. None: it was malformed.
    #[inline]
    fn deliver_one(&self, arrival: Arrival, offset: usize, upcalls: &mut dyn Upcalls) -> Option<End> {
        let Arrival { source, place } = arrival;
        let layout = &self.region.layout;
        let (word, room) = match place {
            Place::Unit(unit) => (
                self.region.word(offset + HEAD),
                (layout.units - unit) * layout.unit_bytes - FRONT,
            ),
            Place::Slot(_) => (self.region.word(offset), layout.slot_bytes - FRONT),
            Place::Landing(..) => (self.region.word(offset + HEAD), layout.slot_bytes - FRONT),
        };
        let fits =
            |head: &Head| head.bytes <= room && head.bytes <= self.settings.max_packet && head.slot < layout.slot_count;
        let Some(head) = Head::decode(word.load(Ordering::Acquire)).filter(fits) else {
            self.states.lose(source, "a malformed message has arrived".to_owned());
            return None;
        };
        // SAFETY: the place is this message's until its end is noted.
        let packet = unsafe { self.region.packet(offset, head.bytes) };
        let has_replied = match place {
            Place::Unit(index) | Place::Landing(Class::Request, _, index) => {
                let run = || upcalls.packet(source, Class::Request, packet);
                self.as_current(source, index, head.slot, run)
            }
            Place::Slot(_) | Place::Landing(Class::Reply, ..) => {
                upcalls.packet(source, Class::Reply, packet);
                false
            }
        };
        word.store(0, Ordering::Relaxed);
        Some(End {
            units: layout.units_of(head.bytes),
            has_replied,
        })
    }

    /// Fetches messages that wait in their senders, as far as there are landings and posts.
    pub fn fetch(&self, scope: PollScope) {
        let classes: &[Class] = match scope {
            PollScope::All => &[Class::Reply, Class::Request],
            PollScope::Replies => &[Class::Reply],
        };
        for class in classes {
            loop {
                let mut am = self.am.lock();
                if am.none_waits(*class) {
                    break;
                }
                let Some(landing) = am.take_landing(*class) else { break };
                let Some(post) = self.domains[FIRST].turn().take() else {
                    am.give_landing(landing);
                    break;
                };
                let Some((source, index)) = am.next_waiting(*class) else {
                    break;
                };
                if *class == Class::Request {
                    am.note_fetch(source);
                }
                drop(am);
                self.begin_fetch(post, source, (*class, index), landing);
            }
        }
    }

    fn begin_fetch(&self, mut post: PostDescriptor, source: JobRank, (class, index): (Class, usize), landing: usize) {
        let bytes = FIRST_FETCH.min(self.region.layout.slot_bytes - HEAD);
        post.peer = source;
        post.done = CompletionAction::Fetched {
            class,
            index,
            landing,
            is_all: bytes == self.region.layout.slot_bytes - HEAD,
        };
        self.post_fetch(post, (class, index), landing, (0, bytes));
    }

    fn post_fetch(
        &self,
        mut post: PostDescriptor,
        (class, index): (Class, usize),
        landing: usize,
        (skip, bytes): (usize, usize),
    ) {
        let layout = &self.region.layout;
        let from = match class {
            Class::Request => layout.slot(index),
            Class::Reply => layout.outbox(index),
        };
        let Remote { address, handle } = self.in_region(post.peer, from + HEAD + skip);
        let local = Local {
            address: self.region.base() + layout.landing(landing) + HEAD + skip,
            handle: self.region_memory.handle,
        };
        let kind = if bytes <= self.settings.get_fma {
            abi::GNI_POST_FMA_GET
        } else {
            abi::GNI_POST_RDMA_GET
        };
        post.transfer(
            kind,
            abi::GNI_CQMODE_GLOBAL_EVENT,
            (local, Remote { address, handle }),
            bytes,
        );
        let mut turn = self.domains[FIRST].turn();
        // SAFETY: the landing is this message's.
        unsafe { self.post(&mut turn, FIRST, post, None) };
    }

    /// A part of a message that waits is here. Returns the post, unless it gets the rest.
    pub fn fetched(
        &self,
        mut post: PostDescriptor,
        (class, index): (Class, usize),
        landing: usize,
        is_all: bool,
    ) -> Option<PostDescriptor> {
        let layout = &self.region.layout;
        let (source, offset) = (post.peer, layout.landing(landing));
        let word = self.region.word(offset + HEAD).load(Ordering::Acquire);
        let Some(head) = Head::decode(word).filter(|head| head.bytes <= self.settings.max_packet) else {
            self.states.lose(source, "a malformed message was fetched".to_owned());
            self.am.lock().give_landing(landing);
            return Some(post);
        };
        let (all, first) = (
            (FRONT - HEAD + head.bytes).next_multiple_of(4),
            FIRST_FETCH.min(layout.slot_bytes - HEAD),
        );
        if !is_all && all > first {
            post.done = CompletionAction::Fetched {
                class,
                index,
                landing,
                is_all: true,
            };
            self.post_fetch(post, (class, index), landing, (first, all - first));
            return None;
        }
        let place = Place::Landing(class, landing, index);
        self.admit_arrival(&mut self.am.lock(), Arrival { source, place });
        if class == Class::Reply {
            // The post carries the answer.
            post.done = CompletionAction::Nothing;
            let event = self.event(Kind::Fetched, index);
            post.event(crate::send::MESSAGE, self.addresses[source.index()].handle, event);
            let mut turn = self.domains[FIRST].turn();
            // SAFETY: no memory is named.
            unsafe { self.post(&mut turn, FIRST, post, None) };
            return None;
        }
        Some(post)
    }

    /// Sends words to the peers that are due.
    #[cold]
    fn send_words(&self, am: &mut Am) {
        let mut left = Vec::new();
        while let Some(rank) = am.due.pop() {
            let peer = am.peer(rank);
            if peer.is_sending || peer.words == peer.sent {
                peer.is_listed = false;
                continue;
            }
            let mut turn = self.domains[FIRST].turn();
            let Some(mut post) = turn.take() else {
                left.push(rank);
                break;
            };
            (peer.is_sending, peer.is_listed, peer.is_due, peer.wants) = (true, false, false, false);
            (peer.sent, peer.kept, peer.kept_slots) = (peer.words, 0, 0);
            for (place, word) in post.inline().chunks_exact_mut(8).zip(peer.words) {
                place.copy_from_slice(&word.to_ne_bytes());
            }
            post.peer = rank;
            post.done = CompletionAction::Released;
            let local = Local {
                address: post.inline_address(),
                handle: self.domains[FIRST].posts_memory.handle,
            };
            let to = self.in_region(rank, Layout::word(self.rank, Word::Grant));
            post.transfer(abi::GNI_POST_FMA_PUT, crate::send::MESSAGE, (local, to), 24);
            let event = self.event(Kind::Released, 0);
            // SAFETY: inline memory.
            unsafe { self.post(&mut turn, FIRST, post, Some(event)) };
        }
        am.due.append(&mut left);
    }

    /// Words have arrived at a peer.
    pub fn words_arrived(&self, peer: JobRank) {
        let mut am = self.am.lock();
        let state = am.peer(peer);
        state.is_sending = false;
        if state.is_due {
            am.list(peer);
            self.has_arrivals.store(true, Ordering::Relaxed);
        }
    }
}
