//! Polling: what the queue reports. [`crate::receive::deliver`] delivers the messages of it.
//!
//! A poll of either scope takes every message off the network. Requests that may not run yet wait
//! in memory, which credits bound. So a process that waits for anything never keeps its peers from
//! sending it what it waits for, and replies need no endpoint of their own.

use crate::ffi::{bits, Completion, Errno, Failure};
use crate::link::{Arrival, Stalled};
use crate::net::Net;
use crate::operations::{owns, Access, Kind, OwnedOperation};
use crate::provider;
use crate::put_notify::PutParts;
use crate::receive::{has_message, RESERVE};
use crate::send::transmit_later;
use crate::wire;
use gasnet_conduit::{Completion as Part, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_sys::clock;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Completions that a poll takes at once: they lie on a stack that may be small.
const AT_ONCE: usize = 32;

/// Ticks, 30 to 60 microseconds on processors of today. For each that passed without a poll the
/// next one reads the queue once more, whether that finds anything or not: reads move the data of
/// peers, which have filled their windows, and those of puts report nothing.
const READ_INTERVAL: u64 = 100_000;
/// Most reads of a poll beyond those that find something.
const MAX_READS: u64 = 16;

/// Subject of a completion.
enum Event {
    /// A message in this receive buffer.
    Message(usize),
    /// A put of a peer, with this data.
    Announced(u64),
    /// An operation of ours.
    Done(OwnedOperation),
    /// Nothing to do.
    Nothing,
}

impl Net {
    /// See [`gasnet_conduit::Network::poll`].
    pub fn poll(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (link, receiver) = (self.link(), &self.receiver);
        if link.peers.states.is_stopped() {
            return 0;
        }
        let mut delivered = receiver.poll_deferred(link, scope, upcalls);
        let now = clock::tsc();
        let late = now.saturating_sub(self.last_poll.load(Relaxed)) / READ_INTERVAL;
        self.last_poll.store(now, Relaxed);
        for _ in 0..=late.min(MAX_READS) {
            delivered += self.take_all(scope, upcalls);
        }
        if let Err(why) = receiver.receives.retry(&link.endpoint) {
            link.fail("fi_recvmsg", why);
        }
        if !link.stalled.is_empty() {
            self.restart();
        }
        if link.peers.has_work() {
            self.serve_peers(upcalls);
        }
        delivered
    }

    /// Takes and handles the completions of the queue, up to the limit of a poll. Returns the
    /// number of upcalls.
    #[inline]
    fn take_all(&self, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (mut delivered, mut left) = (0, self.completions);
        while left > 0 {
            let most = left.min(AT_ONCE);
            let (completions, upcalled) = self.take(most, scope, upcalls);
            delivered += upcalled;
            // Fewer than there was room for: there are no more.
            left = if completions < most { 0 } else { left - most };
        }
        delivered
    }

    /// Takes and handles at most `most` completions. Returns how many, and the number of upcalls.
    fn take(&self, most: usize, scope: PollScope, upcalls: &mut dyn Upcalls) -> (usize, usize) {
        let link = self.link();
        let mut room = [const { MaybeUninit::uninit() }; AT_ONCE];
        match self.receiver.read(link, &mut room[..most]) {
            Ok(completions) => return (completions.len(), self.handle(completions, scope, upcalls)),
            Err(Errno::AGAIN) => {}
            Err(Errno::ERROR_AVAILABLE) => {
                if let Some(failure) = self.receiver.read_failure(link) {
                    self.failed(&failure);
                }
            }
            Err(why) => link.fail("fi_cq_read", why),
        }
        (0, 0)
    }

    fn event(completion: &Completion) -> Event {
        // A message may have such data, too, if it is not from a member of the job.
        if completion.flags & (bits::REMOTE_CQ_DATA | bits::RECV) == bits::REMOTE_CQ_DATA {
            return Event::Announced(completion.data);
        }
        // The end of a receive buffer: the buffer may be posted again already.
        if completion.flags & (bits::MULTI_RECV | bits::RECV) == bits::MULTI_RECV {
            return Event::Nothing;
        }
        // SAFETY: contexts are those of operations, which the provider returns once; those of
        // receives are put back at once.
        match unsafe { OwnedOperation::from_context(completion.op_context) } {
            None => Event::Nothing,
            Some(held) => match held.kind {
                Kind::Receive(index) => {
                    held.into_context();
                    if has_message(completion) {
                        Event::Message(index)
                    } else {
                        Event::Nothing
                    }
                }
                _ => Event::Done(held),
            },
        }
    }

    /// Handles completions: first everything that runs no request, because a handler that replies
    /// may need what they return. A request in the reserve is copied, so that its buffer can be
    /// posted again whatever handlers wait for.
    fn handle(&self, completions: &mut [Completion], scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (link, receiver) = (self.link(), &self.receiver);
        let mut delivered = 0;
        for completion in &mut *completions {
            match Self::event(completion) {
                Event::Nothing => completion.flags = 0,
                Event::Announced(data) => {
                    completion.flags = 0;
                    delivered += receiver.note_put(link, data, upcalls);
                }
                Event::Done(held) => {
                    completion.flags = 0;
                    delivered += self.done(held, upcalls);
                }
                Event::Message(index) => {
                    let message = receiver.message(index, completion);
                    let in_place = scope == PollScope::All && index != RESERVE;
                    if in_place && wire::is_request(message) {
                        continue;
                    }
                    completion.flags = 0;
                    delivered += receiver.deliver_in_place(link, (index, message), PollScope::Replies, upcalls);
                }
            }
        }
        for completion in completions.iter().filter(|completion| completion.flags != 0) {
            if let Event::Message(index) = Self::event(completion) {
                let message = receiver.message(index, completion);
                delivered += receiver.deliver_in_place(link, (index, message), scope, upcalls);
            }
        }
        delivered + receiver.poll_deferred(link, scope, upcalls)
    }

    /// An operation of ours is complete.
    fn done(&self, held: OwnedOperation, upcalls: &mut dyn Upcalls) -> usize {
        if let Some(rest) = held.rest {
            if let (Access::Copied, Kind::Get { copy_to: Some(to) }) = (rest.access, held.kind) {
                // SAFETY: as below.
                unsafe { copy_out(held.address(), to.0, to.1) };
            }
            self.rma.resume(held);
            return 0;
        }
        let cookie = held.cookie;
        let part = match held.kind {
            Kind::Idle | Kind::Receive(_) | Kind::Packet(_) => None,
            Kind::PutNotify {
                number,
                parts,
                by_message,
                reports,
            } => {
                if by_message {
                    let (peer, put) = (held.peer, PutParts { number, parts });
                    self.messages.announce(&self.rma, Arrival { peer, put });
                }
                reports.then_some(Part::Source)
            }
            Kind::Put { source_is_free: true } => Some(Part::Remote),
            Kind::Put { source_is_free: false } => Some(Part::Both),
            Kind::Get { copy_to } => {
                if let Some((address, bytes)) = copy_to {
                    // SAFETY: the runtime keeps the destination writable until completion, and
                    // the bytes of an operation are aligned.
                    unsafe { copy_out(held.address(), address, bytes) };
                }
                Some(Part::Both)
            }
            Kind::Atomic { fetched, result, bytes } => {
                if fetched != 0 {
                    // SAFETY: as above.
                    unsafe { copy_out(result, fetched, bytes) };
                }
                Some(Part::Both)
            }
        };
        held.release();
        let Some(part) = part else { return 0 };
        upcalls.done(cookie, part);
        1
    }

    /// The operation of this process that the record of an error names. Providers also have records
    /// without one, and with pointers of their own (libfabric@v1.17.0:prov/rxm/src/rxm_cq.c).
    #[cold]
    fn named(&self, context: *mut c_void) -> Option<OwnedOperation> {
        let mut pools = self.messages.pools().chain(self.rma.pools());
        let is_ours = self.receiver.receives.owns(context) || pools.any(|pool| owns(pool, context));
        // SAFETY: an operation of this process, with which the provider is done.
        is_ours
            .then(|| unsafe { OwnedOperation::from_context(context) })
            .flatten()
    }

    /// An operation failed. Only those that this process has started, receives aside, concern the
    /// job: anybody can cause other errors.
    #[cold]
    fn failed(&self, failure: &Failure) {
        let link = self.link();
        let Some(held) = self.named(failure.of.op_context) else {
            // An injected message of ours has no context.
            let is_ours = failure.of.flags & (bits::SEND | bits::WRITE | bits::READ) != 0;
            match link.peers.states.any_stopped() {
                true => {}
                false if is_ours => link.fail_text(&format!("an operation failed: {}", failure.text)),
                false => self.drop_error("an error without an operation", failure),
            }
            return;
        };
        match held.kind {
            Kind::Receive(index) => {
                held.into_context();
                self.receive_failed(index, failure);
            }
            // It was reported before.
            Kind::Idle => {
                held.into_context();
                self.drop_error("an error of an operation that is complete", failure);
            }
            kind => {
                let text = format!("{:?}: {} failed: {}", link.endpoint.info(), kind.name(), failure.text);
                link.peers.states.lose(held.peer, text);
                held.release();
            }
        }
    }

    /// Drops a message that is longer than any of this job, or that broke off: an unauthenticated
    /// peer's, or one of a peer whose own operation fails. It may have taken the rest of its
    /// buffer, and ended it.
    #[cold]
    fn receive_failed(&self, index: usize, failure: &Failure) {
        /// The setting with which no message is cut off by one before it.
        const REMEDY: &str = "GASNET_OFI_RECEIVE_BUFF_SIZE=recv gives each message a buffer of its own";
        let (link, receives) = (self.link(), &self.receiver.receives);
        let largest = self.receiver.max_message();
        let (is_truncated, bytes) = (failure.errno == Errno::TRUNCATED, failure.bytes);
        // A message of the job fits into a buffer of its own.
        let is_cut_off = is_truncated && receives.takes_many();
        // Many providers do not report the length. Over sockets anybody may have sent the message.
        let is_exposed = !provider::is_fast(&link.endpoint.info().provider());
        let is_ours = match bytes {
            0 => !is_exposed,
            _ => bytes <= largest && receives.cuts_off(index, &failure.of, bytes),
        };
        if is_cut_off && is_ours {
            let length = if bytes == 0 {
                "unknown".into()
            } else {
                bytes.to_string()
            };
            return link.fail_text(&format!(
                "a message of {length} bytes was cut off, though the provider was to keep room for {largest} bytes in \
                 its receive buffer (FI_OPT_MIN_MULTI_RECV). {REMEDY}"
            ));
        }
        if is_cut_off && bytes == 0 {
            self.drop_error(&format!("a message, of the job if that stops now ({REMEDY}),"), failure);
        }
        // Without a message these are how some providers end a buffer.
        if !is_truncated && failure.errno != Errno::CANCELED {
            self.drop_error("a receive", failure);
        }
        self.receiver.drop_failed(link, index, failure.of);
    }

    /// Counts an error that is not the job's.
    #[cold]
    fn drop_error(&self, what: &str, failure: &Failure) {
        let link = self.link();
        let text = format!("{:?}: {what} failed: {}", link.endpoint.info(), failure.text);
        self.receiver.outsiders.drop_error(link.rank, &text);
    }

    /// Starts again what the provider had no room for.
    #[cold]
    fn restart(&self) {
        let link = self.link();
        let mut without_room: Vec<JobRank> = Vec::new();
        let mut reached: Vec<JobRank> = Vec::new();
        for operation in link.stalled.take_all() {
            let peer = operation.peer();
            // Each try to connect costs a provider microseconds.
            if without_room.contains(&peer) {
                link.stalled.push(operation);
                continue;
            }
            let is_over = match operation {
                Stalled::Rest(held) => self.rma.resume(held),
                Stalled::Message(held, message) => transmit_later(link, held, message, link.peers.number(peer)),
                Stalled::Arrival(arrival) => self.messages.announce(&self.rma, arrival),
            };
            if !is_over {
                without_room.push(peer);
            } else if reached.last() != Some(&peer) {
                reached.push(peer);
            }
        }
        let provider = link.endpoint.info();
        if let Some((peer, late)) = self.connect_timeouts.note(&reached, &without_room, Instant::now()) {
            gasnet_conduit::warn(format_args!(
                "rank {peer} has taken no message for {} seconds. It computes without polling, is stopped, or a \
                 firewall blocks the connections of {provider:?}.",
                late.as_secs()
            ));
        }
    }

    /// Returns credits to the peers that are owed half a window, and reports losses and a
    /// failure.
    #[cold]
    fn serve_peers(&self, upcalls: &mut dyn Upcalls) {
        let link = self.link();
        for peer in link.peers.take_owing() {
            self.messages.return_credits(link, peer);
        }
        link.peers.states.report(upcalls);
    }
}
