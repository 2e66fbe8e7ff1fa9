//! Polling: what the queues report, and what is delivered of it.
//!
//! A poll of either scope takes every message off the network. Requests that may not run yet wait
//! in memory, which credits bound. So a process that waits for anything never keeps its peers from
//! sending it what it waits for, and replies need no queue pairs of their own.

use crate::eager_rdma::Report;
use crate::ffi::Wc;
use crate::net::Net;
use crate::peers::{pair_name, Connection};
use crate::rail::{Batch, Rail};
use crate::receive::fetch::Offer;
use crate::send::queue::{named, CompletionAction, Named, SendQueue};
use crate::wire::{self, Kind};
use gasnet_conduit::{Class, Completion, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::aligned_copy::{copy_out, AlignedCopy};
use gasnet_ibv_abi as abi;
use gasnet_sys::atomic::Ordering;
use gasnet_sys::lock;

/// Most deferred requests that a poll delivers.
const DEFERRED: usize = 32;
/// Between looks at datagrams, polls.
const DATAGRAM_POLLS: u32 = 32;
/// Between looks at asynchronous events, polls.
const EVENT_POLLS: u32 = 1 << 11;

/// What a completion is of.
#[repr(u64)]
enum Event {
    /// A message: buffer, the word beside it, its length, the number of the queue pair that
    /// received it, and whether a handler may run on it in place.
    Message(usize, u32, u32, u32, bool),
    /// A work request of ours.
    CompletionAction(CompletionAction),
}

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if self.is_stopped() {
            return 0;
        }
        let mut delivered = 0;
        for index in 0..self.rails.len() {
            delivered += self.poll_rail(index, scope, upcalls);
        }
        if self.inbox.is_used() {
            delivered += self.poll_rings(scope, upcalls);
        }
        if !self.deferred.is_empty() && scope == PollScope::All {
            delivered += self.deliver_deferred(upcalls);
        }
        if !self.stalled.is_empty() {
            self.restart();
        }
        if self.fetches.has_work() {
            delivered += self.poll_fetches(scope, upcalls);
        }
        if self.peers.has_work() {
            self.settle(upcalls);
        }
        if self.has_failed.load(Ordering::Relaxed) {
            let failure = lock(&self.failure).take();
            if let Some(why) = failure {
                upcalls.network_lost(&why);
            }
        }
        delivered
    }

    #[inline]
    fn poll_rail(&self, index: usize, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let rail = &self.rails[index];
        // A thread that does the same is not waited for.
        let Ok(mut reader) = rail.reader.try_lock() else {
            return 0;
        };
        reader.polls = reader.polls.wrapping_add(1);
        let polls = reader.polls;
        let completions = match rail.completions(&mut reader) {
            Ok(completions) => completions,
            Err(why) => {
                self.take_events(rail);
                self.fail(&format!("{}: ibv_poll_cq failed: {why}", rail.context.name));
                return 0;
            }
        };
        if completions.is_empty() {
            drop(reader);
            self.look(rail, polls);
            return 0;
        }
        let (mut events, mut sent) = (Batch::new(), 0);
        for completion in completions {
            self.take(rail, completion, (&mut events, &mut sent));
        }
        drop(reader);
        if sent > 0 {
            rail.return_room(sent);
        }
        self.look(rail, polls);
        self.handle(index, &mut events, scope, upcalls)
    }

    /// Now and then looks at what is rare.
    #[inline]
    fn look(&self, rail: &Rail, polls: u32) {
        if !self.is_complete && self.should_attend(polls) {
            self.may_be_asked.store(false, Ordering::Relaxed);
            self.attend();
        }
        if polls % EVENT_POLLS == 0 {
            self.take_events(rail);
        }
    }

    /// Whether a poll looks at datagrams.
    fn should_attend(&self, polls: u32) -> bool {
        if self.connector.is_left_to_thread() {
            return false;
        }
        let alone = !self.connector.has_channel();
        self.connector.is_busy() || alone && (polls % DATAGRAM_POLLS == 0 || self.may_be_asked.load(Ordering::Relaxed))
    }

    /// Serves connection requests and events of all HCAs, for the connection thread.
    pub fn look_at_everything(&self) {
        self.attend();
        for rail in &self.rails {
            self.take_events(rail);
        }
    }

    /// Takes note of what a completion is of, under the lock of the reader. Counts those of work
    /// requests.
    #[inline(always)]
    fn take(&self, rail: &Rail, completion: &Wc, (events, sent): (&mut Batch<Event>, &mut usize)) {
        // SAFETY: a completion of a queue of this process, whose connections live as long.
        match unsafe { named(completion.wr_id) } {
            Named::Receive(index) if completion.status == abi::IBV_WC_SUCCESS && rail.receives.holds(completion) => {
                let in_place = rail.receives.note_arrival(index);
                // SAFETY: a message that carries a word.
                let word = u32::from_be(unsafe { completion.__bindgen_anon_1.imm_data });
                events.push(Event::Message(
                    index,
                    word,
                    completion.byte_len,
                    completion.qp_num,
                    in_place,
                ));
            }
            Named::Receive(index) => self.receive_failed(rail, index, completion),
            Named::Sent(queue, low) if completion.status == abi::IBV_WC_SUCCESS => {
                // SAFETY: under the lock of the reader, in the order of completions.
                *sent += unsafe { queue.retire(low, |done| events.push(Event::CompletionAction(done))) };
            }
            Named::Sent(queue, low) => {
                let mut what = None;
                // SAFETY: as above.
                *sent += unsafe { queue.retire(low, |done| what = Some(done.name())) };
                self.sent_failed(
                    rail,
                    (queue, low),
                    what.unwrap_or(CompletionAction::Nothing.name()),
                    completion,
                );
            }
        }
    }

    /// A receive failed, or is no message of this conduit. Those of connections that are gone are
    /// flushed.
    #[cold]
    fn receive_failed(&self, rail: &Rail, index: usize, completion: &Wc) {
        let status = rail.context.library().status(completion.status);
        let why = match completion.status {
            abi::IBV_WC_WR_FLUSH_ERR => return,
            abi::IBV_WC_SUCCESS => format!(
                "it sent what is no message: opcode {}, flags {:#x}, {} bytes",
                completion.opcode, completion.wc_flags, completion.byte_len
            ),
            // The peer chooses how long its messages are.
            abi::IBV_WC_LOC_LEN_ERR => format!("it sent more than a receive buffer holds: {status}"),
            _ => return self.fail(&format!("{}: a receive failed: {status}", rail.context.name)),
        };
        let place = self.rails.iter().position(|other| std::ptr::eq(other, rail));
        self.lose_sender(pair_name(place.unwrap_or_default(), completion.qp_num), why);
        rail.receives.note_arrival(index);
        self.post_again(rail, &[index]);
    }

    /// The process whose messages a queue pair receives sent what it must not, and is lost.
    #[cold]
    fn lose_sender(&self, pair: u32, why: String) {
        match self.peers.receives_from(pair) {
            Some(peer) => self.peers.states.lose(peer, why),
            None => self.fail(&format!("a queue pair without a peer ({pair:#x}) has received: {why}")),
        }
    }

    /// A work request failed. The first failure of a queue counts; the others are flushed.
    #[cold]
    fn sent_failed(&self, rail: &Rail, (queue, low): (&SendQueue, u16), what: &str, completion: &Wc) {
        self.take_events(rail);
        let (peer, is_first) = queue.note_failure(low);
        // An HCA that has failed is the reason.
        if !is_first || self.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let status = rail.context.library().status(completion.status);
        let vendor = completion.vendor_err;
        self.peers.states.lose(
            peer,
            format!(
                "{}: {what} failed: {status} (vendor error {vendor:#x})",
                self.name_of_port(queue)
            ),
        );
    }

    /// Handles what was taken: first everything that runs no request, because a handler that
    /// replies may need what that frees.
    #[inline(always)]
    fn handle(&self, place: usize, events: &mut Batch<Event>, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let rail = &self.rails[place];
        let (mut requests, mut free) = (Batch::new(), Batch::new());
        let mut delivered = 0;
        for event in events {
            match event {
                Event::CompletionAction(done) => delivered += self.done(done, upcalls),
                Event::Message(index, word, bytes, number, in_place) => {
                    let (kind, source, credits) = wire::decode(word);
                    let (pair, bytes) = (pair_name(place, number), bytes as usize);
                    let Some(connection) = self.peers.connection(source).filter(|it| it.receives_by(pair)) else {
                        self.lose_sender(pair, format!("it sent a message as rank {source}"));
                        free.push(index);
                        continue;
                    };
                    if !self.note_message(source, connection, credits) {
                        free.push(index);
                        continue;
                    }
                    if kind == Kind::Packet(Class::Request) {
                        if scope == PollScope::All && in_place {
                            requests.push((index, source, bytes));
                            continue;
                        }
                        self.defer(source, Self::packet(rail, index, bytes));
                    } else if kind == Kind::Bye {
                        self.peers.states.note_stop(source);
                    } else if kind == Kind::Note {
                        self.take_note(source, Self::packet(rail, index, bytes));
                    } else {
                        upcalls.packet(source, Class::Reply, Self::packet(rail, index, bytes));
                        delivered += 1;
                    }
                    free.push(index);
                }
            }
        }
        if !free.is_empty() {
            self.post_again(rail, &free);
        }
        if requests.is_empty() {
            return delivered;
        }
        free.clear();
        for (index, source, bytes) in requests.by_ref() {
            self.request(source, Self::packet(rail, index, bytes), upcalls);
            free.push(index);
            delivered += 1;
        }
        self.post_again(rail, &free);
        delivered
    }

    /// A message has come from a peer: it is connected, and returns credits. False: these are
    /// impossible.
    #[inline]
    fn note_message(&self, source: JobRank, connection: &Connection, credits: u32) -> bool {
        if !connection.is_established.load(Ordering::Relaxed) {
            connection.is_established.store(true, Ordering::Release);
        }
        if connection.rings.is_hot() {
            self.offer_ring(source, connection);
        }
        self.peers.give_back(connection, credits)
    }

    /// A message that is no packet has come from a peer.
    fn take_note(&self, source: JobRank, bytes: &[u8]) {
        if let Ok(offer) = <&[u8; Offer::BYTES]>::try_from(bytes) {
            self.take_offer(source, offer);
        } else if let Ok(number) = <[u8; 4]>::try_from(bytes) {
            self.note_free(source, u32::from_le_bytes(number));
        } else if let (Some(connection), Some(report)) = (self.peers.connection(source), Report::decode(bytes)) {
            connection.rings.take(report);
        } else {
            let why = format!("it sent a malformed note of {} bytes", bytes.len());
            self.peers.states.lose(source, why);
        }
    }

    /// The packet in a receive buffer.
    #[inline]
    fn packet<'a>(rail: &Rail, index: usize, bytes: usize) -> &'a mut [u8] {
        let address = rail.receives.address(index);
        // SAFETY: a message in a receive buffer, which this thread has until it is posted again.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) }
    }

    #[inline]
    fn post_again(&self, rail: &Rail, buffers: &[usize]) {
        if let Err(why) = rail.receives.post_again(rail.shared.as_ref(), buffers) {
            self.take_events(rail);
            self.fail(&format!(
                "{}: a receive buffer cannot be posted: {why}",
                rail.context.name
            ));
        }
    }

    /// Delivers a request that was kept.
    #[cold]
    pub fn kept_request(&self, source: JobRank, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
        if let Some(connection) = self.peers.connection(source) {
            connection.credits.release(1);
            self.request(source, packet, upcalls);
        }
    }

    /// Delivers a request.
    #[inline]
    pub fn request(&self, source: JobRank, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
        let Some(connection) = self.peers.connection(source) else {
            return;
        };
        // Before the upcall: its reply returns the credit.
        connection.credits.owe(1);
        upcalls.packet(source, Class::Request, packet);
        self.peers.note_owed(source, connection);
    }

    /// Keeps a request for a later poll.
    #[cold]
    pub fn defer(&self, source: JobRank, packet: &[u8]) {
        if !self.peers.connection(source).is_some_and(|it| self.peers.hold(it)) {
            return;
        }
        self.deferred.push((source, AlignedCopy::new(packet)));
    }

    #[cold]
    fn deliver_deferred(&self, upcalls: &mut dyn Upcalls) -> usize {
        for count in 0..DEFERRED {
            let Some((source, mut packet)) = self.deferred.pop() else {
                return count;
            };
            self.kept_request(source, packet.bytes(), upcalls);
        }
        DEFERRED
    }

    /// Work requests of ours are complete. Returns how many upcalls that made.
    #[inline]
    fn done(&self, done: CompletionAction, upcalls: &mut dyn Upcalls) -> usize {
        match done {
            CompletionAction::Nothing => 0,
            CompletionAction::Buffer(buffer) => {
                buffer.release();
                0
            }
            CompletionAction::Gathered(cookie, buffer) => {
                buffer.release();
                upcalls.done(cookie, Completion::Source);
                1
            }
            CompletionAction::Get(cookie) => {
                upcalls.done(cookie, Completion::Both);
                1
            }
            CompletionAction::Put(cookie, part) => {
                upcalls.done(cookie, part);
                1
            }
            CompletionAction::PutCopy(cookie, buffer) => {
                buffer.release();
                upcalls.done(cookie, Completion::Remote);
                1
            }
            CompletionAction::GetCopy(cookie, buffer) | CompletionAction::Atomic(cookie, buffer) => {
                let (to, bytes) = buffer.copy_to;
                // SAFETY: the runtime keeps the destination writable until completion.
                unsafe { copy_out(buffer.address(), to, bytes) };
                buffer.release();
                upcalls.done(cookie, Completion::Both);
                1
            }
            CompletionAction::Fetched(fetched) => self.fetched(fetched, upcalls),
            CompletionAction::Probe(peer, path) => {
                self.probed(peer, path);
                0
            }
            CompletionAction::Part(transfer) => match self.advance_or_end(transfer) {
                Some((cookie, part)) => {
                    upcalls.done(cookie, part);
                    1
                }
                None => 0,
            },
        }
    }

    /// Posts what waited for room.
    #[cold]
    fn restart(&self) {
        for transfer in self.stalled.take_all() {
            self.advance(transfer);
        }
    }

    /// Returns credits, and reports losses.
    #[cold]
    fn settle(&self, upcalls: &mut dyn Upcalls) {
        for peer in self.peers.take_owing() {
            self.return_credits(peer);
        }
        for (peer, why) in self.peers.states.take_losses() {
            upcalls.peer_lost(peer, &why);
        }
    }

    /// Drops what the queues report, after the end of communication.
    pub fn drop_completions(&self) {
        for rail in &self.rails {
            let Ok(mut reader) = rail.reader.try_lock() else {
                continue;
            };
            let mut sent = 0;
            let mut events = Batch::new();
            for completion in rail.completions(&mut reader).unwrap_or_default() {
                self.take(rail, completion, (&mut events, &mut sent));
            }
            rail.return_room(sent);
        }
    }
}
