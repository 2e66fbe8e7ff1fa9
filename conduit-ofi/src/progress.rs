//! Polling: what the queue reports. [`crate::receive::deliver`] delivers the messages of it.
//!
//! A poll of either scope takes every message off the network. Requests that may not run yet wait
//! in memory, which credits bound. So a process that waits for anything never keeps its peers from
//! sending it what it waits for, and replies need no endpoint of their own.

use crate::ffi::{bits, Completion, Errno, Failure};
use crate::net::{Net, Stalled};
use crate::operation::{Access, Kind, OwnedOperation};
use crate::provider;
use crate::put_notify::long_put::Arrival;
use crate::receive::{has_message, RESERVE};
use crate::wire;
use gasnet_conduit::{Completion as Part, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::aligned_copy::copy_out;
use gasnet_sys::atomic::Ordering;
use gasnet_sys::lock;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::time::Instant;

/// Completions that a poll takes at once: they lie on a stack that may be small.
const AT_ONCE: usize = 32;

/// What a completion is of.
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
        if self.stopped.load(Ordering::Relaxed) {
            return 0;
        }
        let mut delivered = 0;
        if scope == PollScope::All && !self.deferred.is_empty() {
            delivered += self.deliver_deferred(upcalls);
        }
        let mut left = self.settings.completions;
        while left > 0 {
            let (most, taken) = (left.min(AT_ONCE), self.take(left.min(AT_ONCE), scope, upcalls));
            delivered += taken.1;
            // Fewer than there was room for: there are no more.
            left = if taken.0 < most { 0 } else { left - most };
        }
        if let Err(why) = self.receives.retry(&self.endpoint) {
            self.fail("fi_recvmsg", why);
        }
        if !self.stalled.is_empty() {
            self.restart();
        }
        if self.peers.has_work() {
            self.settle(upcalls);
        }
        if self.has_failed.load(Ordering::Relaxed) {
            if let Some(why) = lock(&self.failure).take() {
                upcalls.network_lost(&why);
            }
        }
        delivered
    }

    /// Takes and handles at most `most` completions. Returns how many it took, and delivered
    /// messages.
    fn take(&self, most: usize, scope: PollScope, upcalls: &mut dyn Upcalls) -> (usize, usize) {
        let mut room = [const { MaybeUninit::uninit() }; AT_ONCE];
        match self.read(&mut room[..most]) {
            Ok(completions) => return (completions.len(), self.handle(completions, scope, upcalls)),
            Err(Errno::AGAIN) => {}
            Err(Errno::ERROR_AVAILABLE) => {
                if let Some(failure) = self.endpoint.failure() {
                    self.failed(&failure);
                }
            }
            Err(why) => self.fail("fi_cq_read", why),
        }
        (0, 0)
    }

    /// Takes completions, and references to their messages. Another thread that does the same is
    /// not waited for.
    fn read<'a>(&self, room: &'a mut [MaybeUninit<Completion>]) -> Result<&'a mut [Completion], Errno> {
        let Ok(_reader) = self.reader.try_lock() else {
            return Err(Errno::AGAIN);
        };
        let completions = self.endpoint.completions(room)?;
        for completion in &mut *completions {
            if completion.flags & (bits::RECV | bits::MULTI_RECV) != 0 {
                // SAFETY: the context of a posted receive, which is not released before its
                // messages.
                let Some(held) = (unsafe { OwnedOperation::from_context(completion.op_context) }) else {
                    continue;
                };
                if let Kind::Receive(index) = held.kind {
                    held.into_context();
                    // The completions are out of the queue, so they are handled all the same.
                    self.refer(index, completion);
                }
            }
        }
        Ok(completions)
    }

    /// Takes a reference to the message of a completion, if that lies in its buffer. Whether it
    /// does.
    fn refer(&self, index: usize, completion: &mut Completion) -> bool {
        match self.receives.refer(&self.endpoint, index, completion) {
            Ok(true) => return true,
            Ok(false) => {
                let (bytes, place) = (completion.len, completion.buf);
                self.outsiders.drop(
                    self.rank,
                    &format!("a message of {bytes} bytes at {place:?}, outside its buffer"),
                );
            }
            Err(why) => self.fail("fi_recvmsg", why),
        }
        false
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
        let mut delivered = 0;
        for completion in &mut *completions {
            match Self::event(completion) {
                Event::Nothing => completion.flags = 0,
                Event::Announced(data) => {
                    completion.flags = 0;
                    if let Some(message) = self.pending_puts.put(data) {
                        delivered += self.deliver_announced(message, PollScope::Replies, upcalls);
                    }
                }
                Event::Done(held) => {
                    completion.flags = 0;
                    delivered += self.done(held, upcalls);
                }
                Event::Message(index) => {
                    let message = self.message(index, completion);
                    let in_place = scope == PollScope::All && index != RESERVE;
                    if in_place && wire::is_request(message) {
                        continue;
                    }
                    completion.flags = 0;
                    delivered += self.deliver(message, PollScope::Replies, upcalls);
                    wire::spend(message);
                    self.release(index);
                }
            }
        }
        for completion in completions.iter().filter(|completion| completion.flags != 0) {
            if let Event::Message(index) = Self::event(completion) {
                let message = self.message(index, completion);
                delivered += self.deliver(message, scope, upcalls);
                wire::spend(message);
                self.release(index);
            }
        }
        if scope == PollScope::All && !self.deferred.is_empty() {
            delivered += self.deliver_deferred(upcalls);
        }
        delivered
    }

    /// The message of a completion.
    fn message<'a>(&self, index: usize, completion: &Completion) -> &'a mut [u8] {
        let address = self.receives.message(index, completion);
        // SAFETY: a message inside a receive buffer, as `refer` has verified, to which this thread
        // has a reference.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, completion.len) }
    }

    fn release(&self, index: usize) {
        if let Err(why) = self.receives.release(&self.endpoint, index) {
            self.fail("fi_recvmsg", why);
        }
    }

    /// An operation of ours is complete.
    fn done(&self, held: OwnedOperation, upcalls: &mut dyn Upcalls) -> usize {
        if let Some(rest) = held.rest {
            if let (Access::Copied, Kind::Get { copy_to: Some(to) }) = (rest.access, held.kind) {
                // SAFETY: as below.
                unsafe { copy_out(held.address(), to.0, to.1) };
            }
            self.resume(held);
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
                    let peer = held.peer;
                    self.announce(Arrival { peer, number, parts });
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
        let pools = self.small.iter().chain(&self.large);
        let mut pools = pools.chain([&self.reserved, &self.operations, &self.bounces]);
        let is_ours = self.receives.owns(context) || pools.any(|pool| pool.owns(context));
        // SAFETY: an operation of this process, with which the provider is done.
        is_ours
            .then(|| unsafe { OwnedOperation::from_context(context) })
            .flatten()
    }

    /// An operation failed. Only those that this process has started, receives aside, concern the
    /// job: anybody can cause other errors.
    #[cold]
    fn failed(&self, failure: &Failure) {
        let Some(held) = self.named(failure.of.op_context) else {
            // An injected message of ours has no context.
            let is_ours = failure.of.flags & (bits::SEND | bits::WRITE | bits::READ) != 0;
            match self.peers.states.any_stopped() {
                true => {}
                false if is_ours => self.fail_text(&format!("an operation failed: {}", failure.text)),
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
                let text = format!("{:?}: {} failed: {}", self.endpoint.info(), kind.name(), failure.text);
                self.peers.states.lose(held.peer, text);
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
        let largest = self.settings.max_packet + wire::OVERHEAD;
        let (is_truncated, bytes) = (failure.errno == Errno::TRUNCATED, failure.bytes);
        // A message of the job fits into a buffer of its own.
        let is_cut_off = is_truncated && self.receives.takes_many();
        // Many providers do not report the length. Over sockets anybody may have sent the message.
        let is_exposed = !provider::is_fast(&self.endpoint.info().provider());
        let is_ours = match bytes {
            0 => !is_exposed,
            _ => bytes <= largest && self.receives.cuts_off(index, &failure.of, bytes),
        };
        if is_cut_off && is_ours {
            let length = if bytes == 0 {
                "unknown".into()
            } else {
                bytes.to_string()
            };
            return self.fail_text(&format!(
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
        let mut message = failure.of;
        let reader = lock(&self.reader);
        let is_referred = self.refer(index, &mut message);
        drop(reader);
        if is_referred && has_message(&message) {
            self.release(index);
        }
    }

    /// Counts an error that is not the job's.
    #[cold]
    fn drop_error(&self, what: &str, failure: &Failure) {
        let text = format!("{:?}: {what} failed: {}", self.endpoint.info(), failure.text);
        self.outsiders.drop_error(self.rank, &text);
    }

    #[cold]
    pub fn fail_text(&self, what: &str) {
        lock(&self.failure).get_or_insert(format!("{:?}: {what}", self.endpoint.info()));
        self.has_failed.store(true, Ordering::Release);
    }

    /// Starts again what the provider had no room for.
    #[cold]
    fn restart(&self) {
        let mut without_room: Vec<JobRank> = Vec::new();
        let mut reached: Vec<JobRank> = Vec::new();
        for operation in self.stalled.take_all() {
            let peer = operation.peer();
            // Each try to connect costs a provider microseconds.
            if without_room.contains(&peer) {
                self.stalled.push(operation);
                continue;
            }
            let is_over = match operation {
                Stalled::Rest(held) => self.resume(held),
                Stalled::Message(held, message) => self.transmit_again(held, message),
                Stalled::Arrival(arrival) => self.announce(arrival),
            };
            if !is_over {
                without_room.push(peer);
            } else if reached.last() != Some(&peer) {
                reached.push(peer);
            }
        }
        let provider = self.endpoint.info();
        if let Some((peer, late)) = self.connect_timeouts.note(&reached, &without_room, Instant::now()) {
            gasnet_conduit::warn(format_args!(
                "rank {peer} has taken no message for {} seconds. It computes without polling, is stopped, or a \
                 firewall blocks the connections of {provider:?}.",
                late.as_secs()
            ));
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
}
