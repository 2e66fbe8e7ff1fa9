//! Sending packets: see [`crate::credits`].

use crate::buffers::Bounce;
use crate::completion::CompletionAction;
use crate::credits::{RequestPath, SendReservation};
use crate::ffi::{PostDescriptor, QueueGuard, INLINE};
use crate::net::{Net, FIRST};
use crate::region::{FRONT, HEAD};
use crate::wire::{Head, Kind};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};
use gasnet_gni_abi as abi;
use gasnet_sys::atomic::Ordering;
use std::cell::Cell;

/// What messages complete: at the sender and at the receiver.
pub const MESSAGE: u16 = abi::GNI_CQMODE_GLOBAL_EVENT | abi::GNI_CQMODE_REMOTE_EVENT;

/// A request that a thread delivers.
#[derive(Clone, Copy, Debug)]
pub struct Current {
    /// Address of the conduit, of which a process may have several in tests.
    net: usize,
    pub source: JobRank,
    /// What it is called at its sender, and its slot there.
    index: usize,
    slot: usize,
    /// Whether its first reply was sent.
    pub has_replied: bool,
}

thread_local! {
    static CURRENT: Cell<Option<Current>> = const { Cell::new(None) };
}

/// A packet.
#[derive(Debug)]
pub enum Packet<'a> {
    /// In parts, of so many bytes in all.
    Parts(&'a [&'a [u8]], usize),
    /// So many bytes in a buffer that the client has filled.
    Reserved(Bounce, usize),
}

impl Packet<'_> {
    /// Its length.
    #[inline]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Parts(_, bytes) | Self::Reserved(_, bytes) => *bytes,
        }
    }
}

/// Bytes of a packet.
#[inline]
pub fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Writes a packet.
#[inline]
pub fn gather(parts: &[&[u8]], to: &mut [u8]) {
    let mut at = 0;
    for part in parts {
        to[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

impl Net {
    /// Delivers a request: `run` may reply to it. Returns whether it did.
    #[inline]
    pub fn as_current(&self, source: JobRank, index: usize, slot: usize, run: impl FnOnce()) -> bool {
        let current = Current {
            net: std::ptr::from_ref(self) as usize,
            source,
            index,
            slot,
            has_replied: false,
        };
        let before = CURRENT.replace(Some(current));
        run();
        let after = CURRENT.replace(before);
        after.is_some_and(|current| current.has_replied)
    }

    /// The request that this thread delivers, if a reply to `peer` is its first.
    #[inline]
    pub fn current(&self, peer: JobRank) -> Option<Current> {
        let current = CURRENT.get()?;
        (current.net == std::ptr::from_ref(self) as usize && current.source == peer && !current.has_replied)
            .then_some(current)
    }

    /// Its first reply is sent.
    #[inline]
    pub fn note_reply(current: Current) {
        CURRENT.set(Some(Current {
            has_replied: true,
            ..current
        }));
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        match self.may_send(peer) {
            Some(true) => {}
            Some(false) => return Err(Busy),
            None => return Ok(()),
        }
        let bytes = length(parts);
        assert!(bytes <= self.settings.max_packet, "defect: a packet of {bytes} bytes");
        if class == Class::Request {
            return self.request(peer, Packet::Parts(parts, bytes));
        }
        match self.current(peer) {
            Some(current) => {
                self.reply(current, parts, bytes)?;
                Self::note_reply(current);
                Ok(())
            }
            None => self.further_reply(peer, parts, bytes),
        }
    }

    /// Sends a request.
    #[inline]
    fn request(&self, peer: JobRank, packet: Packet<'_>) -> Result<(), Busy> {
        let admission = self.admit(peer, packet.bytes(), false)?;
        let mut turn = self.domains[FIRST].turn();
        let Some(post) = turn.take() else {
            drop(turn);
            self.am.lock().cancel(admission);
            return Err(Busy);
        };
        self.send_request(&mut turn, post, admission, (packet, 0));
        Ok(())
    }

    /// Takes what a request needs.
    #[inline]
    pub fn admit(&self, peer: JobRank, bytes: usize, is_long: bool) -> Result<SendReservation, Busy> {
        let mut am = self.am.lock();
        if let Some(admission) = am.admit(peer, bytes, is_long) {
            return Ok(admission);
        }
        // Peers may keep back what is free.
        let asked = am.asks(peer);
        drop(am);
        if let Some(peer) = asked.filter(|peer| !self.signal(*peer, Kind::Wanted, 0)) {
            self.am.lock().peer(peer).has_asked = false;
        }
        Err(Busy)
    }

    /// Sends a request that has all it needs, with a payload of so many parts.
    #[inline]
    pub fn send_request(
        &self,
        turn: &mut QueueGuard<'_>,
        mut post: PostDescriptor,
        admission: SendReservation,
        (packet, parts): (Packet<'_>, usize),
    ) {
        let SendReservation { peer, slot, way, index } = admission;
        let layout = &self.region.layout;
        let (offset, bytes) = (layout.slot(slot), packet.bytes());
        let head = Head { bytes, slot, parts }.encode();
        post.peer = peer;
        let event = match (way, packet) {
            (RequestPath::Eager(space), Packet::Reserved(bounce, _)) => {
                let unit = layout.unit(space, index);
                let flag = (head, self.in_region(peer, unit + HEAD).address);
                let to = self.in_region(peer, unit + FRONT);
                post.put_and_flag(MESSAGE, (bounce.address(), bytes), to, flag);
                post.done = CompletionAction::Request(slot, Some(bounce));
                Some(self.event(Kind::Request, index))
            }
            (way, packet) => {
                // SAFETY: the slot is this request's, and has room for the largest packet.
                self.copy_packet(packet, unsafe { self.region.packet(offset, bytes) });
                self.region.word(offset + HEAD).store(head, Ordering::Release);
                post.done = CompletionAction::Request(slot, None);
                if let RequestPath::Eager(space) = way {
                    let from = self.region.base() + offset + HEAD;
                    let to = self.in_region(peer, layout.unit(space, index) + HEAD);
                    post.put(MESSAGE, (from, FRONT - HEAD + bytes), to);
                    Some(self.event(Kind::Request, index))
                } else {
                    let event = self.event(Kind::WaitingRequest, index);
                    post.event(MESSAGE, self.addresses[peer.index()].handle, event);
                    None
                }
            }
        };
        // SAFETY: the slot stays as it is until the request has left and is answered.
        unsafe { self.post(turn, FIRST, post, event) };
    }

    /// Copies a packet, whose buffer is free then.
    fn copy_packet(&self, packet: Packet<'_>, to: &mut [u8]) {
        match packet {
            Packet::Parts(parts, _) => gather(parts, to),
            Packet::Reserved(mut bounce, bytes) => {
                to.copy_from_slice(bounce.prefix(bytes));
                self.bounces.give(bounce);
            }
        }
    }

    /// Sends the first reply to a request.
    #[inline]
    fn reply(&self, current: Current, packet: &[&[u8]], bytes: usize) -> Result<(), Busy> {
        let mut turn = self.domains[FIRST].turn();
        let room = self.room_for_reply(&mut turn, bytes)?;
        self.send_reply(&mut turn, room, current, (packet, bytes, 0));
        Ok(())
    }

    /// Takes what a reply needs.
    #[inline]
    pub fn room_for_reply(
        &self,
        turn: &mut QueueGuard<'_>,
        bytes: usize,
    ) -> Result<(PostDescriptor, Option<Bounce>), Busy> {
        let Some(post) = turn.take() else { return Err(Busy) };
        if FRONT + bytes <= INLINE {
            return Ok((post, None));
        }
        if let Some(bounce) = self.bounces.take() {
            Ok((post, Some(bounce)))
        } else {
            turn.put_back(post);
            Err(Busy)
        }
    }

    /// Gives it back.
    pub fn leave_room(&self, (post, bounce): (PostDescriptor, Option<Bounce>)) {
        self.domains[FIRST].turn().put_back(post);
        self.bounces.give(bounce);
    }

    /// Sends a reply that has all it needs, with a payload of so many parts.
    #[inline]
    pub fn send_reply(
        &self,
        turn: &mut QueueGuard<'_>,
        (mut post, mut bounce): (PostDescriptor, Option<Bounce>),
        current: Current,
        (packet, bytes, parts): (&[&[u8]], usize, usize),
    ) {
        let head = Head::of_reply(bytes, parts);
        let (from, place) = match &mut bounce {
            None => (post.inline_address(), &mut post.inline()[..FRONT + bytes]),
            Some(bounce) => (bounce.address(), bounce.prefix(FRONT + bytes)),
        };
        place[..8].copy_from_slice(&head.to_ne_bytes());
        gather(packet, &mut place[FRONT..]);
        post.done = CompletionAction::Reply(bounce);
        let to = self.in_region(current.source, self.region.layout.slot(current.slot));
        post.put(MESSAGE, (from, FRONT + bytes), to);
        self.post_reply(turn, post, current);
    }

    /// Posts a reply.
    #[inline]
    fn post_reply(&self, turn: &mut QueueGuard<'_>, mut post: PostDescriptor, current: Current) {
        post.peer = current.source;
        let event = self.event(Kind::Reply, current.index);
        // SAFETY: inline memory or a buffer, kept until it has left.
        unsafe { self.post(turn, FIRST, post, Some(event)) };
    }

    /// The event of a payload's parts, for the reply to a request.
    pub fn payload_event(&self, current: Current) -> u32 {
        self.event(Kind::ReplyPayload, current.index)
    }

    /// Sends a reply that is not the first to a request that this thread delivers: it waits in the
    /// outbox until its receiver has fetched it.
    #[cold]
    pub fn further_reply(&self, peer: JobRank, packet: &[&[u8]], bytes: usize) -> Result<(), Busy> {
        let Some(place) = self.am.lock().outbox.take(peer) else {
            return Err(Busy);
        };
        let offset = self.region.layout.outbox(place);
        // SAFETY: the place is this reply's.
        gather(packet, unsafe { self.region.packet(offset, bytes) });
        let head = Head::of_reply(bytes, 0);
        self.region.word(offset + HEAD).store(head, Ordering::Release);
        if self.signal(peer, Kind::WaitingReply, place) {
            return Ok(());
        }
        self.am.lock().outbox.give(peer, place);
        Err(Busy)
    }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.bounces.bytes()
    }

    fn reserve(&self, _: JobRank, _: Class, _: usize) -> Result<SendBuffer, Busy> {
        let bounce = self.bounces.reserve().ok_or(Busy)?;
        Ok(SendBuffer(bounce.address() as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        match self.may_send(peer) {
            Some(true) => {}
            Some(false) => return Err(Busy),
            None => {
                self.release(buffer);
                return Ok(());
            }
        }
        let mut bounce = self.bounces.at(buffer.0 as usize);
        match (class, self.current(peer)) {
            (Class::Request, _) => self.request(peer, Packet::Reserved(bounce, bytes))?,
            (Class::Reply, Some(current)) => {
                let mut turn = self.domains[FIRST].turn();
                let Some(mut post) = turn.take() else { return Err(Busy) };
                let slot = self.region.layout.slot(current.slot);
                let flag = (Head::of_reply(bytes, 0), self.in_region(current.source, slot).address);
                let to = self.in_region(current.source, slot + FRONT);
                post.put_and_flag(MESSAGE, (bounce.address(), bytes), to, flag);
                post.done = CompletionAction::Reply(Some(bounce));
                self.post_reply(&mut turn, post, current);
                Self::note_reply(current);
            }
            (Class::Reply, None) => {
                self.further_reply(peer, &[bounce.prefix(bytes)], bytes)?;
                self.bounces.give(bounce);
            }
        }
        Ok(())
    }

    fn release(&self, buffer: SendBuffer) {
        self.bounces.give(self.bounces.at(buffer.0 as usize));
    }
}
