//! Puts that notify: Longs whose payload does not travel in their message.
//!
//! On Aries each part of the payload causes an event at the target, which delivers the message when
//! it and all parts are there (P. Hargrove and D. Bonachea, "Efficient Active Message RMA in GASNet
//! Using a Target-Side Reassembly Protocol", 2019). Where that is impossible, the message is sent
//! when the payload is complete: on Gemini, for payloads that are copied in pieces, and for replies
//! that are not the first to their request.

use crate::buffers::{give, Bounce, Bounces};
use crate::carrier::{Carrier, Current, QueuedMessage};
use crate::credits::SendReservation;
use crate::net::Net;
use crate::posts::{PostDescriptor, Posts, FIRST};
use crate::send::{Messages, Packet, Parts, ReplyRoom};
use crate::settings::Flavour;
use crate::transfers::{copy, PutKind};
use crate::wire::Kind;
use gasnet_conduit::{Busy, Class, Completion, JobRank, LocalCompletion, Put, PutNotify, SendBuffer, SourceUse};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_conduit_util::report::Report;

/// Resources of a message, taken before its payload is posted.
enum Room {
    Request(PostDescriptor, SendReservation),
    Reply(ReplyRoom, Current),
    Further,
}

impl Room {
    fn give_back(self, messages: &Messages, posts: &Posts) {
        match self {
            Self::Request(post, reservation) => {
                posts.lock(FIRST).put_back(post);
                messages.am.lock().cancel(reservation);
            }
            Self::Reply(room, _) => room.give_back(posts),
            Self::Further => {}
        }
    }
}

impl Messages {
    /// Takes the resources of the message.
    fn room(&self, posts: &Posts, peer: JobRank, class: Class, bytes: usize) -> Result<Room, Busy> {
        if class == Class::Reply {
            return Ok(match self.current(peer) {
                Some(current) => Room::Reply(ReplyRoom::take(&mut posts.lock(FIRST), bytes)?, current),
                None => Room::Further,
            });
        }
        let reservation = self.reserve(posts, peer, bytes, true)?;
        // The domain is locked inside the messages' state, never around it.
        let post = posts.lock(FIRST).take();
        let Some(post) = post else {
            self.am.lock().cancel(reservation);
            return Err(Busy);
        };
        Ok(Room::Request(post, reservation))
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.rma.settings.packed
    }

    /// The message counts the events of the put's parts.
    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let Self { messages, rma, .. } = self;
        let (posts, packet) = (&rma.posts, Parts::new(parts));
        // SAFETY: the client gives up what `reserve` has given it. If busy, it is not released.
        let filled = reserved.map(|buffer| unsafe { Bounces::reserved(buffer) });
        if posts.peers.states.state(put.to.peer) != PeerState::Present {
            return Err(Busy);
        }
        let room = messages.room(posts, put.to.peer, class, packet.bytes)?;
        let event = match &room {
            Room::Request(_, reservation) => posts.peers.event(Kind::RequestPayload, reservation.index),
            Room::Reply(_, current) => posts.peers.event(Kind::ReplyPayload, current.index),
            Room::Further => return self.put_before_message(put, filled, packet, room),
        };
        if rma.settings.flavour == Flavour::Gemini {
            return self.put_before_message(put, filled, packet, room);
        }
        let (parts, completion) = if filled.is_none() && rma.is_long(put, FIRST) {
            let report = Report::Part(put.cookie, Completion::Source);
            let mut transfer = rma.transfer(put, FIRST, report);
            if !rma.choose_access(&mut transfer) {
                return self.put_before_message(put, filled, packet, room);
            }
            transfer.kind = PutKind::Notify(event);
            let parts = transfer.parts();
            rma.begin(transfer);
            (parts, LocalCompletion::Later)
        } else if let Ok(completion) = rma.start_put(put, filled, FIRST, PutKind::Notify(event)) {
            (1, completion)
        } else {
            room.give_back(messages, posts);
            return Err(Busy);
        };
        let packet = packet.with_payload(parts);
        let mut queue = posts.lock(FIRST);
        match room {
            Room::Request(post, reservation) => {
                messages.send_request(&mut queue, post, reservation, Packet::Parts(packet));
            }
            Room::Reply(room, current) => {
                messages.send_reply(&mut queue, room, current, packet);
                current.note_reply();
            }
            Room::Further => {}
        }
        Ok(completion)
    }
}

impl Net {
    /// Puts, and sends a message when the put is complete.
    #[cold]
    fn put_before_message(
        &self,
        put: &Put,
        filled: Option<Bounce>,
        packet: Parts<'_>,
        room: Room,
    ) -> Result<LocalCompletion, Busy> {
        let Self { messages, rma, .. } = self;
        let (posts, buffers) = (&rma.posts, &rma.posts.buffers);
        // The source is copied if somebody waits for it.
        let copies = filled.is_none() && put.source == SourceUse::Now && rma.copies(put);
        let copy_to = copies.then(|| buffers.pool.take()).flatten();
        if rma.stalled.admit().is_err() || copies && copy_to.is_none() {
            give(copy_to);
            room.give_back(messages, posts);
            return Err(Busy);
        }
        let mut address = put.from.address;
        if let Some(bounce) = &copy_to {
            // SAFETY: the source, and a buffer of at least as many bytes.
            unsafe { copy(address, bounce.address(), put.bytes) };
            address = bounce.address();
        }
        let carrier = match room {
            Room::Request(post, reservation) => {
                posts.lock(FIRST).put_back(post);
                Carrier::Request(reservation)
            }
            Room::Reply(room, current) => {
                room.give_back(posts);
                current.note_reply();
                Carrier::Reply(current)
            }
            Room::Further => Carrier::Further(put.to.peer),
        };
        let source = filled.or(copy_to);
        let (report, completion) = match &source {
            Some(_) => (Report::Nothing, LocalCompletion::AtReturn),
            None => (Report::Part(put.cookie, Completion::Source), LocalCompletion::Later),
        };
        let mut transfer = rma.transfer(put, FIRST, report);
        if let Some(source) = source {
            transfer.use_buffer(source, address, buffers.handle(FIRST));
        }
        transfer.kind = PutKind::Payload;
        transfer.then = Some(QueuedMessage {
            packet: packet.concat(),
            carrier,
        });
        rma.begin(transfer);
        Ok(completion)
    }
}

impl Messages {
    /// Sends the messages whose payloads are complete, as far as possible.
    #[cold]
    pub fn send_queued(&self, posts: &Posts) {
        for message in self.queued.take_all() {
            if !self.try_send_queued(posts, &message) {
                self.queued.push(message);
            }
        }
    }

    fn try_send_queued(&self, posts: &Posts, message: &QueuedMessage) -> bool {
        let parts: [&[u8]; 1] = [&message.packet];
        let packet = Parts::new(&parts);
        match message.carrier {
            Carrier::Request(reservation) => {
                let mut queue = posts.lock(FIRST);
                let Some(post) = queue.take() else { return false };
                self.send_request(&mut queue, post, reservation, Packet::Parts(packet));
                true
            }
            Carrier::Reply(current) => {
                let mut queue = posts.lock(FIRST);
                let room = ReplyRoom::take(&mut queue, packet.bytes);
                room.map(|room| self.send_reply(&mut queue, room, current, packet))
                    .is_ok()
            }
            Carrier::Further(peer) => self.further_reply(posts, peer, packet).is_ok(),
        }
    }
}
