//! Polling: what the queues report, and what is delivered of it.
//!
//! A poll of either scope takes every message off the network. Requests that may not run yet wait
//! in memory, which credits bound. So a process that waits for anything never keeps its peers from
//! sending it what it waits for, and replies need no queue pairs of their own.

mod completions;

use crate::connect::Connector;
use crate::eager_rdma::inbox::Inbox;
use crate::eager_rdma::Report;
use crate::operations::CompletionAction;
use crate::peers::{pair_name, Connection};
use crate::progress::completions::{Arrived, Event, Polled};
use crate::rail::{Batch, Rail};
use crate::receive::deliver::{deliver, Deferred};
use crate::receive::fetch::Fetches;
use crate::receive::offer::Offer;
use crate::rma::Operations;
use crate::send::Messages;
use crate::wire::{self, Kind};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::record::Record;
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicBool;

/// Between looks at datagrams, polls.
const DATAGRAM_POLLS: u32 = 32;
/// Between looks at asynchronous events, polls.
const EVENT_POLLS: u32 = 1 << 11;

/// State of polls: messages that have arrived, and connections that may.
pub struct Progress {
    deferred: Deferred,
    fetches: Fetches,
    /// Rings into which peers write small messages, and words.
    pub inbox: Inbox,
    /// Whether all peers are connected, so that none asks any more.
    all_connected: bool,
    /// Whether datagrams may have arrived: the next poll looks.
    may_have_requests: AtomicBool,
}

impl Progress {
    /// Nothing has arrived.
    pub fn new(inbox: Inbox, all_connected: bool) -> Self {
        Self {
            deferred: Deferred::default(),
            fetches: Fetches::default(),
            inbox,
            all_connected,
            may_have_requests: AtomicBool::new(true),
        }
    }

    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, operations: &Operations, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let messages = &operations.messages;
        let fabric = &messages.fabric;
        if fabric.peers.states.is_stopped() {
            return 0;
        }
        let mut delivered = self.poll_rails(operations, scope, upcalls);
        if self.inbox.has_messages() {
            delivered += self.inbox.poll(&fabric.peers, &self.deferred, scope, upcalls);
        }
        if !self.deferred.is_empty() && scope == PollScope::All {
            delivered += self.deferred.deliver(&fabric.peers, upcalls);
        }
        if !operations.stalled.is_empty() {
            operations.restart();
        }
        if self.fetches.has_work() {
            delivered += self.fetches.poll(messages, scope, upcalls);
        }
        if fabric.peers.has_work() {
            return_credits(messages, upcalls);
        }
        delivered
    }

    /// See [`gasnet_conduit::Network::poll_completions`].
    pub fn poll_completions(&self, operations: &Operations, upcalls: &mut dyn Upcalls) -> usize {
        let fabric = &operations.messages.fabric;
        if fabric.peers.states.is_stopped() {
            return 0;
        }
        self.poll_rails(operations, PollScope::All, upcalls)
    }

    #[inline]
    fn poll_rails(&self, operations: &Operations, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let rails = &*operations.messages.fabric.rails;
        if let [rail] = rails {
            return self.poll_rail(operations, rail, scope, upcalls);
        }
        let poll = |rail| self.poll_rail(operations, rail, scope, upcalls);
        rails.iter().map(poll).sum()
    }

    /// Polls an HCA. Returns the number of upcalls.
    #[inline(never)]
    fn poll_rail(&self, operations: &Operations, rail: &Rail, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let messages = &operations.messages;
        let fabric = &messages.fabric;
        // A thread that does the same is not waited for.
        let Some(mut reader) = rail.reader.try_lock() else {
            return 0;
        };
        reader.polls = reader.polls.wrapping_add(1);
        let polls = reader.polls;
        let completions = match rail.completions(&mut reader) {
            Ok(completions) => completions,
            Err(why) => {
                fabric.take_events(rail);
                let name = &rail.context.name;
                fabric.peers.states.fail(&format!("{name}: ibv_poll_cq failed: {why}"));
                return 0;
            }
        };
        if completions.is_empty() {
            drop(reader);
            self.look(messages, rail, polls);
            return 0;
        }
        let mut polled = Polled {
            events: Batch::new(),
            sent: 0,
        };
        let mut reported = 0;
        for completion in completions {
            fabric.take(rail, completion, &mut polled, |cookie, part| {
                upcalls.done(cookie, part);
                reported += 1;
            });
        }
        drop(reader);
        if polled.sent > 0 {
            rail.room.give_back(polled.sent);
        }
        self.look(messages, rail, polls);
        if polled.events.is_empty() {
            return reported;
        }
        let mut poll = Poll {
            progress: self,
            operations,
            scope,
            upcalls,
        };
        reported + poll.handle(rail, &mut polled.events)
    }

    /// Now and then looks at what is rare.
    #[inline]
    fn look(&self, messages: &Messages, rail: &Rail, polls: u32) {
        if !self.all_connected && self.should_serve(&messages.connector, polls) {
            self.may_have_requests.store(false, Ordering::Relaxed);
            messages.connector.serve_requests(&messages.fabric);
        }
        if polls % EVENT_POLLS == 0 {
            messages.fabric.take_events(rail);
        }
    }

    /// Whether a poll looks at datagrams.
    fn should_serve(&self, connector: &Connector, polls: u32) -> bool {
        if connector.is_left_to_thread() {
            return false;
        }
        let alone = !connector.has_channel();
        connector.is_busy() || alone && (polls % DATAGRAM_POLLS == 0 || self.may_have_requests.load(Ordering::Relaxed))
    }

    /// Before a thread sleeps. False if there is something to do, which the next poll does.
    pub fn arm(&self, operations: &Operations) -> bool {
        let Messages { connector, fabric, .. } = &operations.messages;
        fabric.rails.iter().for_each(|rail| fabric.take_events(rail));
        // Polls start what is stalled, and deliver what is deferred or fetched.
        if !operations.stalled.is_empty() || !self.deferred.is_empty() || self.fetches.has_work() {
            return false;
        }
        // The datagrams' events go to the first HCA's channel: armed after that was drained.
        if !fabric.rails.iter().all(Rail::arm) {
            return false;
        }
        if self.all_connected {
            return true;
        }
        // Before it sleeps, a thread has looked once since they were armed.
        let has_looked = !self.may_have_requests.swap(true, Ordering::Relaxed);
        connector.arm() && has_looked
    }
}

/// Returns credits, and reports losses and a failure.
#[cold]
fn return_credits(messages: &Messages, upcalls: &mut dyn Upcalls) {
    let peers = &messages.fabric.peers;
    for peer in peers.take_owing() {
        messages.return_credits(peer);
    }
    peers.states.report(upcalls);
}

/// A poll that has found completions.
struct Poll<'a> {
    progress: &'a Progress,
    operations: &'a Operations,
    scope: PollScope,
    upcalls: &'a mut dyn Upcalls,
}

/// Result of receiving a message.
enum Receipt {
    /// It was handled, with this number of upcalls, and its buffer is free.
    Taken(usize),
    /// A request of this peer, which may run.
    Request(JobRank),
}

impl Poll<'_> {
    /// Handles what was taken: first everything that runs no request, because a handler that
    /// replies may need what that frees.
    #[inline(always)]
    fn handle(&mut self, rail: &Rail, events: &mut Batch<Event>) -> usize {
        let fabric = &self.operations.messages.fabric;
        let (mut requests, mut free) = (Batch::new(), Batch::new());
        let mut delivered = 0;
        for event in events {
            match event {
                Event::CompletionAction(done) => delivered += self.done(done),
                Event::Message(message) => match self.receive(rail, &message) {
                    Receipt::Taken(upcalls) => {
                        delivered += upcalls;
                        free.push(message.index);
                    }
                    Receipt::Request(source) => requests.push((message.index, source, message.bytes as usize)),
                },
            }
        }
        if !free.is_empty() {
            fabric.post_again(rail, &free);
        }
        if requests.is_empty() {
            return delivered;
        }
        free.clear();
        for (index, source, bytes) in requests.by_ref() {
            deliver(&fabric.peers, source, packet(rail, index, bytes), self.upcalls);
            free.push(index);
            delivered += 1;
        }
        fabric.post_again(rail, &free);
        delivered
    }

    /// Takes a message, unless it is a request that may run.
    #[inline(always)]
    fn receive(&mut self, rail: &Rail, message: &Arrived) -> Receipt {
        let fabric = &self.operations.messages.fabric;
        let (kind, source, credits) = wire::decode(message.word);
        let pair = pair_name(rail.place, message.pair);
        let Some(connection) = fabric.peers.connection(source).filter(|it| it.receives_by(pair)) else {
            fabric.lose_sender(pair, format!("it sent a message as rank {source}"));
            return Receipt::Taken(0);
        };
        if !self.note_message(source, connection, credits) {
            return Receipt::Taken(0);
        }
        let bytes = packet(rail, message.index, message.bytes as usize);
        match kind {
            Kind::Packet(Class::Request) if self.scope == PollScope::All && message.in_place => {
                return Receipt::Request(source);
            }
            Kind::Packet(Class::Request) => self.progress.deferred.keep(&fabric.peers, source, bytes),
            Kind::Packet(Class::Reply) => {
                self.upcalls.packet(source, Class::Reply, bytes);
                return Receipt::Taken(1);
            }
            Kind::Bye => fabric.peers.states.note_stop(source),
            Kind::Note => self.take_note(source, bytes),
        }
        Receipt::Taken(0)
    }

    /// A message has come from a peer: it is connected, and returns credits. False: these are
    /// impossible.
    #[inline]
    fn note_message(&self, source: JobRank, connection: &Connection, credits: u32) -> bool {
        let fabric = &self.operations.messages.fabric;
        if !connection.is_established.load(Ordering::Relaxed) {
            connection.establish();
        }
        if connection.rings.is_hot() {
            self.progress.inbox.offer_memory(fabric, source, connection);
        }
        fabric.peers.give_back(connection, credits)
    }

    /// A message that is no packet has come from a peer.
    fn take_note(&self, source: JobRank, bytes: &[u8]) {
        let messages = &self.operations.messages;
        let peers = &messages.fabric.peers;
        if bytes.len() == Offer::BYTES {
            self.progress.fetches.take_offer(messages, source, Offer::decode(bytes));
        } else if let Ok(number) = <[u8; 4]>::try_from(bytes) {
            messages.note_free(source, u32::from_le_bytes(number));
        } else if let (Some(connection), Some(report)) = (peers.connection(source), Report::read(bytes)) {
            connection.rings.take(report);
        } else {
            let why = format!("it sent a malformed note of {} bytes", bytes.len());
            peers.states.lose(source, why);
        }
    }

    /// Work requests of ours are complete. Returns how many upcalls that made.
    #[inline]
    fn done(&mut self, done: CompletionAction) -> usize {
        let messages = &self.operations.messages;
        match done {
            CompletionAction::Fetched(fetched) => self.progress.fetches.fetched(messages, fetched, self.upcalls),
            CompletionAction::Probe(peer, path) => {
                messages.fabric.probed(peer, path);
                0
            }
            CompletionAction::Part(transfer) => {
                let Some((cookie, part)) = self.operations.advance_or_end(transfer) else {
                    return 0;
                };
                self.upcalls.done(cookie, part);
                1
            }
            done => unreachable!("defect: {} was settled", done.name()),
        }
    }
}

/// The packet in a receive buffer.
#[inline]
fn packet<'a>(rail: &Rail, index: usize, bytes: usize) -> &'a mut [u8] {
    let address = rail.receives.address(index);
    // SAFETY: a message in a receive buffer, which this thread has until it is posted again.
    unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) }
}
