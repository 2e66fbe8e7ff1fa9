//! Arrivals: their events, their delivery, and the credits that are returned then.

use crate::credits::arrivals::{Arrival, End, Fetch, Place};
use crate::credits::Am;
use crate::ffi::{Extent, Received};
use crate::operations::CompletionAction;
use crate::posts::{PostDescriptor, Posts, FIRST, MESSAGE};
use crate::region::{Layout, Word, FRONT, HEAD, REPLY_BUFFERS};
use crate::send::Messages;
use crate::wire::{Event, Head, Kind};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::ops::Range;

/// Bytes of a message that waits which are fetched first, its head included: most messages are no
/// longer.
const FIRST_FETCH: usize = 504;

/// Arrivals, as polls see them.
#[derive(Debug)]
pub struct Receiver {
    /// Whether messages have arrived that are not complete, or not delivered.
    has_arrivals: AtomicBool,
    /// Whether credits for peers are kept back, and polls meanwhile.
    delays_credits: AtomicBool,
    polls: AtomicUsize,
    /// Arrivals that a poll handles, at most.
    burst: usize,
}

impl Receiver {
    /// Nothing has arrived.
    pub fn new(burst: usize) -> Self {
        Self {
            has_arrivals: AtomicBool::new(false),
            delays_credits: AtomicBool::new(false),
            polls: AtomicUsize::new(0),
            burst,
        }
    }

    /// Whether messages have arrived that are not complete, or not delivered.
    #[inline]
    pub fn has_arrivals(&self) -> bool {
        self.has_arrivals.load(Ordering::Relaxed)
    }

    /// The next poll looks at arrivals.
    #[inline]
    pub fn note_arrivals(&self) {
        self.has_arrivals.store(true, Ordering::Relaxed);
    }

    /// Whether credits for peers are kept back.
    #[inline]
    pub fn delays_credits(&self) -> bool {
        self.delays_credits.load(Ordering::Relaxed)
    }

    /// Tells polls what is left to do.
    fn note_work(&self, am: &Am) {
        self.has_arrivals.store(am.has_work(), Ordering::Relaxed);
        self.delays_credits.store(am.delays_credits(), Ordering::Relaxed);
    }

    /// Takes what has arrived off the queue, at most as much as a poll handles.
    /// Returns whether messages wait to be fetched.
    pub fn take_arrivals(&self, messages: &Messages, posts: &Posts) -> bool {
        let Some(mut am) = messages.am.try_lock() else {
            return false;
        };
        {
            let Some(mut queue) = posts.try_lock(FIRST) else {
                return false;
            };
            for _ in 0..self.burst {
                match queue.arrival() {
                    Received::Nothing => break,
                    Received::Event(word) => messages.take_event(posts, &mut am, word),
                    Received::Failed(status) => {
                        posts
                            .peers
                            .states
                            .fail(&format!("the queue of arrivals has an error: {status}"));
                        break;
                    }
                    Received::Overrun => {
                        posts.peers.states.fail("the queue of arrivals has overrun: a defect");
                        break;
                    }
                }
            }
        }
        if am.has_incomplete() {
            messages.recheck(&mut am);
        }
        self.note_work(&am);
        am.has_waiting()
    }

    /// Delivers messages, and returns their number. Then returns credits to the peers that are due.
    pub fn deliver(&self, messages: &Messages, posts: &Posts, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (mut count, mut am) = (0, messages.am.lock());
        while count < self.burst {
            let Some(arrival) = am.next_arrival(scope) else { break };
            let offset = am.offset(&arrival).unwrap_or_default();
            drop(am);
            let end = messages.deliver_one(posts, arrival, offset, upcalls);
            am = messages.am.lock();
            am.end(arrival, end);
            count += 1;
        }
        if am.has_due() {
            return_credits(posts, &mut am);
        }
        self.note_work(&am);
        count
    }

    /// Counts polls while credits are kept back, and returns them after some.
    pub fn return_delayed_credits(&self, messages: &Messages, posts: &Posts) {
        /// The time of a round trip, or a little more, so that its next message may go first.
        const POLLS: usize = 128;
        let polls = self.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.polls.store(polls, Ordering::Relaxed);
        if polls % POLLS == 0 {
            let mut am = messages.am.lock();
            am.list_delayed();
            return_credits(posts, &mut am);
            self.note_work(&am);
        }
    }

    /// Credits have arrived at a peer.
    pub fn credits_returned(&self, messages: &Messages, peer: JobRank) {
        let mut am = messages.am.lock();
        if am.note_returned(peer) {
            self.note_arrivals();
        }
    }
}

impl Messages {
    /// Takes note of an event. Its index is the peer's choice: one that names nothing of the peer's
    /// loses it.
    #[inline]
    fn take_event(&self, posts: &Posts, am: &mut Am, word: u32) {
        let peers = &posts.peers;
        match Event::decode(word) {
            Ok(event) if peers.contains(event.source) => {
                if !self.note(posts, am, event) {
                    let Event { kind, source, index } = event;
                    let why = format!("it sent an invalid event ({kind:?}, index {index})");
                    peers.states.lose(source, why);
                }
            }
            Err(source) if peers.contains(source) => {
                let why = format!("it sent an invalid event ({word:#010x})");
                peers.states.lose(source, why);
            }
            _ => posts
                .peers
                .states
                .fail(&format!("an invalid event, {word:#010x}, has arrived")),
        }
    }

    /// Takes note of an event of a peer. False: it is impossible.
    #[inline]
    fn note(&self, posts: &Posts, am: &mut Am, event: Event) -> bool {
        let Event { kind, source, index } = event;
        match kind {
            Kind::Request => {
                let is_possible = am.note_request(source, index);
                if is_possible {
                    let place = Place::Unit(index);
                    self.queue(am, Arrival { source, place });
                }
                is_possible
            }
            Kind::Reply => {
                let slot = am.note_reply(source, index);
                if let Some(slot) = slot {
                    let place = Place::Slot(slot);
                    self.queue(am, Arrival { source, place });
                }
                slot.is_some()
            }
            Kind::RequestPayload => am.count_request_part(source, index),
            Kind::ReplyPayload => am.count_reply_part(source, index),
            Kind::WaitingRequest => {
                index < self.region.layout.slot_count && am.note_waiting(Class::Request, source, index)
            }
            Kind::WaitingReply => index < REPLY_BUFFERS && am.note_waiting(Class::Reply, source, index),
            Kind::Fetched => am.reply_buffers.give(source, index),
            Kind::Released => {
                let word = |word| {
                    let word = self.region.word(Layout::word(source, word));
                    word.load(Ordering::Acquire)
                };
                am.take_credits(source, [Word::Grant, Word::Released, Word::Replied].map(word))
            }
            Kind::Wanted => {
                am.note_wanted(source);
                true
            }
            Kind::Barrier => {
                self.has_word.store(true, Ordering::Relaxed);
                true
            }
            Kind::Bye => {
                posts.peers.states.note_stop(source);
                true
            }
        }
    }

    /// Looks again at the messages that were not complete.
    fn recheck(&self, am: &mut Am) {
        for arrival in am.take_incomplete() {
            self.queue(am, arrival);
        }
    }

    /// Queues a message for delivery, or keeps it until it is complete.
    #[inline]
    fn queue(&self, am: &mut Am, arrival: Arrival) {
        // An event of a unit has a space.
        let Some(offset) = am.offset(&arrival) else { return };
        let word = match arrival.place {
            Place::Slot(_) => offset,
            _ => offset + HEAD,
        };
        let Some(head) = Head::decode(self.region.word(word).load(Ordering::Acquire)) else {
            return am.keep(arrival);
        };
        let mut none = 0;
        let arrived = am.arrived_parts(&arrival).unwrap_or(&mut none);
        if usize::from(*arrived) < head.parts {
            return am.keep(arrival);
        }
        *arrived = 0;
        am.queue(arrival);
    }

    /// Runs a message. None: it was malformed.
    #[inline]
    fn deliver_one(&self, posts: &Posts, arrival: Arrival, offset: usize, upcalls: &mut dyn Upcalls) -> Option<End> {
        let Arrival { source, place } = arrival;
        let (region, layout) = (&self.region, &self.region.layout);
        let (word, room) = match place {
            Place::Unit(unit) => (
                region.word(offset + HEAD),
                (layout.units - unit) * layout.unit_bytes - FRONT,
            ),
            Place::Slot(_) => (region.word(offset), layout.slot_bytes - FRONT),
            Place::RendezvousBuffer(_) => (region.word(offset + HEAD), layout.slot_bytes - FRONT),
        };
        let fits = |head: &Head| head.bytes <= room && head.bytes <= self.max_packet && head.slot < layout.slot_count;
        let Some(head) = Head::decode(word.load(Ordering::Acquire)).filter(fits) else {
            let why = "a malformed message has arrived".to_owned();
            posts.peers.states.lose(source, why);
            return None;
        };
        // SAFETY: the place is this message's until its end is noted.
        let packet = unsafe { region.packet(offset, head.bytes) };
        let has_replied = match place {
            Place::Unit(index)
            | Place::RendezvousBuffer(Fetch {
                class: Class::Request,
                index,
                ..
            }) => {
                let current = self.as_current(source, index, head.slot);
                current.deliver(|| upcalls.packet(source, Class::Request, packet))
            }
            Place::Slot(_) | Place::RendezvousBuffer(_) => {
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

    /// Fetches messages that wait in their senders, as far as there are buffers and posts.
    pub fn fetch(&self, posts: &Posts, scope: PollScope) {
        let classes: &[Class] = match scope {
            PollScope::All => &[Class::Reply, Class::Request],
            PollScope::Replies => &[Class::Reply],
        };
        for class in classes {
            while self.fetch_next(posts, *class) {}
        }
    }

    /// Fetches a message. False: none waits, or there is no buffer or post.
    fn fetch_next(&self, posts: &Posts, class: Class) -> bool {
        let mut am = self.am.lock();
        if !am.is_waiting(class) {
            return false;
        }
        let Some(buffer) = am.take_rendezvous_buffer(class) else {
            return false;
        };
        let Some(mut post) = posts.lock(FIRST).take() else {
            am.release_rendezvous_buffer(buffer);
            return false;
        };
        let Some((source, index)) = am.next_waiting(class) else {
            return false;
        };
        if class == Class::Request {
            am.note_fetch(source);
        }
        drop(am);
        post.peer = source;
        let fetch = Fetch { class, index, buffer };
        self.post_fetch(posts, post, fetch, 0..self.first_fetch());
        true
    }

    /// Bytes of a message, its head included, that are fetched first.
    fn first_fetch(&self) -> usize {
        FIRST_FETCH.min(self.region.layout.slot_bytes - HEAD)
    }

    /// Fetches bytes of a message, behind what precedes its head.
    fn post_fetch(&self, posts: &Posts, mut post: PostDescriptor, fetch: Fetch, range: Range<usize>) {
        let layout = &self.region.layout;
        let from = match fetch.class {
            Class::Request => layout.slot(fetch.index),
            Class::Reply => layout.reply_buffer(fetch.index),
        };
        let extent = Extent {
            local: self
                .region
                .local(layout.rendezvous_buffer(fetch.buffer) + HEAD + range.start),
            remote: posts.peers.in_region(post.peer, from + HEAD + range.start),
            bytes: range.len(),
        };
        let kind = if extent.bytes <= self.get_fma {
            abi::GNI_POST_FMA_GET
        } else {
            abi::GNI_POST_RDMA_GET
        };
        post.transfer(kind, abi::GNI_CQMODE_GLOBAL_EVENT, extent);
        let is_all = range.start > 0 || range.end == layout.slot_bytes - HEAD;
        post.done = CompletionAction::Fetched { fetch, is_all };
        // SAFETY: the buffer is this message's.
        unsafe { posts.lock(FIRST).post(post, None) };
    }

    /// A part of a message that waits is here. Returns the post, unless it gets the rest.
    pub fn fetched(
        &self,
        posts: &Posts,
        mut post: PostDescriptor,
        fetch: Fetch,
        is_all: bool,
    ) -> Option<PostDescriptor> {
        let (source, offset) = (post.peer, self.region.layout.rendezvous_buffer(fetch.buffer));
        let word = self.region.word(offset + HEAD).load(Ordering::Acquire);
        let Some(head) = Head::decode(word).filter(|head| head.bytes <= self.max_packet) else {
            let why = "a malformed message was fetched".to_owned();
            posts.peers.states.lose(source, why);
            self.am.lock().release_rendezvous_buffer(fetch.buffer);
            return Some(post);
        };
        let (first, all) = (self.first_fetch(), (FRONT - HEAD + head.bytes).next_multiple_of(4));
        if !is_all && all > first {
            self.post_fetch(posts, post, fetch, first..all);
            return None;
        }
        let place = Place::RendezvousBuffer(fetch);
        self.queue(&mut self.am.lock(), Arrival { source, place });
        if fetch.class == Class::Request {
            return Some(post);
        }
        // The post carries the answer.
        post.done = CompletionAction::Nothing;
        let event = posts.peers.event(Kind::Fetched, fetch.index);
        post.event(MESSAGE, posts.peers.address(source).handle(), event);
        // SAFETY: no memory is named.
        unsafe { posts.lock(FIRST).post(post, None) };
        None
    }
}

/// Returns credits to the peers that are due.
#[cold]
fn return_credits(posts: &Posts, am: &mut Am) {
    let peers = &posts.peers;
    while let Some(rank) = am.next_due() {
        let mut queue = posts.lock(FIRST);
        let Some(mut post) = queue.take() else { break };
        let words = am.take_due();
        for (place, word) in post.inline().chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        post.peer = rank;
        post.done = CompletionAction::CreditsReturned;
        let extent = Extent {
            local: queue.inline(&post),
            remote: peers.in_region(rank, Layout::word(peers.rank, Word::Grant)),
            bytes: size_of_val(&words),
        };
        post.transfer(abi::GNI_POST_FMA_PUT, MESSAGE, extent);
        let event = peers.event(Kind::Released, 0);
        // SAFETY: inline memory.
        unsafe { queue.post(post, Some(event)) };
    }
}
