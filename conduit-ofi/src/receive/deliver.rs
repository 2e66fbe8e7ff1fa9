//! Delivery of messages, at once or when requests may run.

use super::outsiders::Outsiders;
use super::{has_message, Receives};
use crate::ffi::{bits, Completion, Errno, Failure};
use crate::link::Link;
use crate::operations::{Kind, OwnedOperation};
use crate::put_notify::{Outcome, PendingPuts, PutParts};
use crate::wire::{self, Header, Refusal};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls, PACKET_ALIGN};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use gasnet_conduit_util::pending_queue::PendingQueue;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::lock;
use std::mem::MaybeUninit;
use std::ops::Range;

/// Most deferred requests that a poll delivers.
const DEFERRED: usize = 32;

/// Messages that arrive.
pub struct Receiver {
    max_packet: usize,
    /// Held while the queue is read ([`Receives`]), before other locks are taken.
    reader: Mutex<()>,
    pending_puts: PendingPuts,
    /// Requests that arrived while only replies were polled.
    deferred: PendingQueue<(JobRank, AlignedCopy)>,
    pub outsiders: Outsiders,
    pub receives: Receives,
}

impl Receiver {
    /// Nothing has arrived.
    pub fn new(max_packet: usize, pending_puts: PendingPuts, receives: Receives) -> Self {
        Self {
            max_packet,
            reader: Mutex::default(),
            pending_puts,
            deferred: PendingQueue::default(),
            outsiders: Outsiders::default(),
            receives,
        }
    }

    /// Bytes of the largest message of the job.
    pub fn max_message(&self) -> usize {
        self.max_packet + wire::OVERHEAD
    }

    /// Takes completions, and references to their messages. Another thread that does the same is
    /// not waited for.
    pub fn read<'a>(
        &self,
        link: &Link,
        room: &'a mut [MaybeUninit<Completion>],
    ) -> Result<&'a mut [Completion], Errno> {
        let Ok(_reader) = self.reader.try_lock() else {
            return Err(Errno::AGAIN);
        };
        let completions = link.endpoint.completions(room)?;
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
                    self.refer(link, index, completion);
                }
            }
        }
        Ok(completions)
    }

    /// Takes the record of an error. Another read of the queue would free its text.
    #[cold]
    pub fn read_failure(&self, link: &Link) -> Option<Failure> {
        let _reader = lock(&self.reader);
        link.endpoint.failure()
    }

    /// Takes a reference to the message of a completion, if that lies in its buffer. Whether it
    /// does.
    fn refer(&self, link: &Link, index: usize, completion: &mut Completion) -> bool {
        match self.receives.refer(&link.endpoint, index, completion) {
            Ok(true) => return true,
            Ok(false) => {
                let (bytes, place) = (completion.len, completion.buf);
                let text = format!("a message of {bytes} bytes at {place:?}, outside its buffer");
                self.outsiders.drop(link.rank, &text);
            }
            Err(why) => link.fail("fi_recvmsg", why),
        }
        false
    }

    /// Drops the message of a receive that failed, if it has one.
    #[cold]
    pub fn drop_failed(&self, link: &Link, index: usize, mut message: Completion) {
        let reader = lock(&self.reader);
        let is_referred = self.refer(link, index, &mut message);
        drop(reader);
        if is_referred && has_message(&message) {
            self.release(link, index);
        }
    }

    /// The message of a completion.
    pub fn message<'a>(&self, index: usize, completion: &Completion) -> &'a mut [u8] {
        let address = self.receives.message(index, completion);
        // SAFETY: a message inside a receive buffer, as `refer` has verified, to which this thread
        // has a reference.
        unsafe { std::slice::from_raw_parts_mut(address as *mut u8, completion.len) }
    }

    /// Drops the reference to a message.
    fn release(&self, link: &Link, index: usize) {
        if let Err(why) = self.receives.release(&link.endpoint, index) {
            link.fail("fi_recvmsg", why);
        }
    }

    /// Delivers a message that lies in a receive buffer, and drops the reference to it. Returns the
    /// number of upcalls.
    pub fn deliver_in_place(
        &self,
        link: &Link,
        (index, message): (usize, &mut [u8]),
        scope: PollScope,
        upcalls: &mut dyn Upcalls,
    ) -> usize {
        let delivered = self.deliver(link, message, scope, upcalls);
        wire::spend(message);
        self.release(link, index);
        delivered
    }

    /// A part of a put has arrived, with this data: delivers its packet after the last one. Returns
    /// the number of upcalls.
    pub fn note_put(&self, link: &Link, data: u64, upcalls: &mut dyn Upcalls) -> usize {
        let announced = self.pending_puts.put(data);
        announced.map_or(0, |message| {
            self.deliver_announced(link, message, PollScope::Replies, upcalls)
        })
    }

    /// Delivers a message. Returns the number of upcalls.
    pub fn deliver(&self, link: &Link, message: &mut [u8], scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (header, place) = match decode(link, message) {
            Ok(decoded) => decoded,
            Err(why) => return self.refuse(link, why),
        };
        if message.as_ptr().align_offset(PACKET_ALIGN) != 0 {
            return self.deliver(link, AlignedCopy::new(message).bytes(), scope, upcalls);
        }
        let source = header.source;
        let (bytes, most) = (place.len(), self.max_packet);
        if bytes > most {
            let text =
                format!("it sent a packet of {bytes} bytes, more than the limit of {most}: its memory is corrupt");
            link.peers.states.lose(source, text);
            return 0;
        }
        if !link.peers.account(source).give_back(u32::from(header.credits)) {
            return 0;
        }
        match header.kind {
            wire::Kind::Credits => 0,
            wire::Kind::Arrived(number, parts) => {
                let announced = self.pending_puts.arrived(source, PutParts { number, parts });
                announced.map_or(0, |message| self.deliver_announced(link, message, scope, upcalls))
            }
            wire::Kind::Bye => {
                link.peers.states.note_stop(source);
                0
            }
            wire::Kind::Packet(Class::Reply) => {
                upcalls.packet(source, Class::Reply, &mut message[place]);
                1
            }
            wire::Kind::Packet(Class::Request) if scope == PollScope::Replies => {
                self.defer(link, source, AlignedCopy::new(message));
                0
            }
            wire::Kind::Packet(Class::Request) => {
                let cost = link.peers.limits.cost(message.len());
                request(link, source, cost, &mut message[place], upcalls);
                1
            }
            wire::Kind::Notice(class, number, parts) => {
                if class == Class::Request && !may_wait(link, source, message.len()) {
                    return 0;
                }
                match self.pending_puts.packet(source, PutParts { number, parts }, message) {
                    Outcome::Kept => 0,
                    Outcome::Delivered => self.deliver_announced(link, AlignedCopy::new(message), scope, upcalls),
                    Outcome::Repeated => {
                        let text = format!("it sent two packets for put {number}: its memory is corrupt");
                        link.peers.states.lose(source, text);
                        0
                    }
                }
            }
        }
    }

    /// Drops a message of an unauthenticated peer, which costs no memory; loses the member of the
    /// job that sent any other.
    #[cold]
    fn refuse(&self, link: &Link, why: Refusal) -> usize {
        match why {
            Refusal::Outsider => self.outsiders.drop(link.rank, "a message without the job's token"),
            Refusal::Impossible(source) if source.0 < link.peers.count() => {
                let text = "it sent an invalid message header: its memory is corrupt".to_owned();
                link.peers.states.lose(source, text);
            }
            Refusal::Impossible(source) => {
                let ranks = link.peers.count();
                link.fail_text(&format!(
                    "a message with the job's token came from rank {source} of {ranks}: the memory of its sender is \
                     corrupt"
                ));
            }
        }
        0
    }

    /// Delivers a packet whose put has arrived.
    fn deliver_announced(
        &self,
        link: &Link,
        mut message: AlignedCopy,
        scope: PollScope,
        upcalls: &mut dyn Upcalls,
    ) -> usize {
        let bytes = message.bytes();
        if let (Ok((header, _)), true) = (decode(link, bytes), wire::is_request(bytes)) {
            link.peers
                .credits(header.source)
                .release(link.peers.limits.cost(bytes.len()));
        }
        self.deliver_late(link, message, scope, upcalls)
    }

    /// Delivers the packet of a message that was kept, now or when requests may run.
    fn deliver_late(
        &self,
        link: &Link,
        mut message: AlignedCopy,
        scope: PollScope,
        upcalls: &mut dyn Upcalls,
    ) -> usize {
        let bytes = message.bytes();
        let cost = link.peers.limits.cost(bytes.len());
        let Ok((header, place)) = decode(link, bytes) else {
            return 0;
        };
        match header.kind {
            wire::Kind::Packet(Class::Request) | wire::Kind::Notice(Class::Request, ..) => {
                if scope == PollScope::Replies {
                    self.defer(link, header.source, message);
                    return 0;
                }
                request(link, header.source, cost, &mut bytes[place], upcalls);
            }
            _ => upcalls.packet(header.source, Class::Reply, &mut bytes[place]),
        }
        1
    }

    #[cold]
    fn defer(&self, link: &Link, source: JobRank, mut message: AlignedCopy) {
        if !may_wait(link, source, message.bytes().len()) {
            return;
        }
        self.deferred.push((source, message));
    }

    /// Delivers requests that arrived while only replies were polled. Returns the number of
    /// upcalls.
    #[inline]
    pub fn poll_deferred(&self, link: &Link, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        if scope == PollScope::All && !self.deferred.is_empty() {
            self.deliver_deferred(link, upcalls)
        } else {
            0
        }
    }

    #[cold]
    fn deliver_deferred(&self, link: &Link, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        while delivered < DEFERRED {
            let Some((source, mut message)) = self.deferred.pop() else {
                break;
            };
            let cost = link.peers.limits.cost(message.bytes().len());
            link.peers.credits(source).release(cost);
            delivered += self.deliver_late(link, message, PollScope::All, upcalls);
        }
        delivered
    }
}

#[inline]
fn decode(link: &Link, message: &[u8]) -> Result<(Header, Range<usize>), Refusal> {
    Header::decode(message, link.token, link.peers.count())
}

/// Delivers a request.
fn request(link: &Link, source: JobRank, cost: u32, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
    // Before the upcall: its reply returns the credit.
    link.peers.credits(source).owe(cost);
    upcalls.packet(source, Class::Request, packet);
    link.peers.note_owed(source);
}

/// Counts a request that is to wait in memory. False: its sender has no credits for it, and is
/// lost.
fn may_wait(link: &Link, source: JobRank, bytes: usize) -> bool {
    let is_paid = link.peers.hold(source, link.peers.limits.cost(bytes));
    if !is_paid {
        let text = "it sent more requests than its credits allow: its memory is corrupt".to_owned();
        link.peers.states.lose(source, text);
    }
    is_paid
}
