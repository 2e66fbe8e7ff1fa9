//! Puts that notify: Longs whose payload does not travel in their message.
//!
//! On Aries each part of the payload causes an event at the target, which delivers the message when
//! it and all parts are there (P. Hargrove and D. Bonachea, "Efficient Active Message RMA in GASNet
//! Using a Target-Side Reassembly Protocol", 2019). Where that is impossible, the message is sent
//! when the payload is complete: on Gemini, for payloads that are copied in pieces, and for replies
//! that are not the first to their request.

use crate::buffers::Bounce;
use crate::credits::SendReservation;
use crate::ffi::PostDescriptor;
use crate::net::{Net, FIRST};
use crate::rma::{copy, PutKind};
use crate::send::{length, Current, Packet};
use crate::settings::Flavour;
use crate::transfers::Transfer;
use crate::wire::Kind;
use gasnet_conduit::{Busy, Class, Completion, JobRank, LocalCompletion, Put, PutNotify, SendBuffer, SourceUse};
use gasnet_conduit_util::report::Report;

/// A message that is sent when its payload is complete.
#[derive(Debug)]
pub struct Message {
    packet: Box<[u8]>,
    way: Carrier,
}

/// How it is sent.
#[derive(Debug)]
enum Carrier {
    Request(SendReservation),
    Reply(Current),
    Further(JobRank),
}

/// What a message needs, taken before its payload is posted.
enum Room {
    Request(PostDescriptor, SendReservation),
    Reply((PostDescriptor, Option<Bounce>), Current),
    Further,
}

impl Net {
    fn room(&self, peer: JobRank, class: Class, bytes: usize) -> Result<Room, Busy> {
        if class == Class::Reply {
            return Ok(match self.current(peer) {
                Some(current) => {
                    let mut turn = self.domains[FIRST].turn();
                    Room::Reply(self.room_for_reply(&mut turn, bytes)?, current)
                }
                None => Room::Further,
            });
        }
        let admission = self.admit(peer, bytes, true)?;
        // The domain is locked inside `am`, never around it.
        let post = self.domains[FIRST].turn().take();
        let Some(post) = post else {
            self.am.lock().cancel(admission);
            return Err(Busy);
        };
        Ok(Room::Request(post, admission))
    }

    fn leave(&self, room: Room) {
        match room {
            Room::Request(post, admission) => {
                self.domains[FIRST].turn().put_back(post);
                self.am.lock().cancel(admission);
            }
            Room::Reply(room, _) => self.leave_room(room),
            Room::Further => {}
        }
    }

    /// Puts, maybe from a buffer that the client has filled, and sends a message that counts the
    /// events of the put's parts.
    fn put_with_message(
        &self,
        put: &Put,
        source: Option<Bounce>,
        class: Class,
        packet: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let (peer, bytes) = (put.to.peer, length(packet));
        let room = self.room(peer, class, bytes)?;
        let event = match &room {
            Room::Request(_, admission) => self.event(Kind::RequestPayload, admission.index),
            Room::Reply(_, current) => self.payload_event(*current),
            Room::Further => return self.put_before_message(put, source, room, packet),
        };
        if self.settings.flavour == Flavour::Gemini {
            return self.put_before_message(put, source, room, packet);
        }
        let (parts, completion) = if source.is_none() && self.is_long(put, FIRST) {
            let report = Report::Part(put.cookie, Completion::Source);
            let mut transfer = Transfer::put(put, self.remote(&put.to), FIRST, report);
            if !self.prepare(&mut transfer) {
                return self.put_before_message(put, None, room, packet);
            }
            transfer.aim = PutKind::Notify(event);
            let parts = transfer.parts();
            self.begin(transfer);
            (parts, LocalCompletion::Later)
        } else if let Ok(completion) = self.start_put(put, source, FIRST, PutKind::Notify(event)) {
            (1, completion)
        } else {
            self.leave(room);
            return Err(Busy);
        };
        match room {
            Room::Request(post, admission) => {
                let mut turn = self.domains[FIRST].turn();
                self.send_request(&mut turn, post, admission, (Packet::Parts(packet, bytes), parts));
            }
            Room::Reply(room, current) => {
                let mut turn = self.domains[FIRST].turn();
                self.send_reply(&mut turn, room, current, (packet, bytes, parts));
                Self::note_reply(current);
            }
            Room::Further => {}
        }
        Ok(completion)
    }

    /// Puts, and sends a message when the put is complete.
    #[cold]
    fn put_before_message(
        &self,
        put: &Put,
        source: Option<Bounce>,
        room: Room,
        packet: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let peer = put.to.peer;
        // The source is copied if somebody waits for it.
        let copies = source.is_none() && put.source == SourceUse::Now && self.copies(put);
        let copy_to = copies.then(|| self.bounces.take()).flatten();
        if self.may_begin().is_err() || copies && copy_to.is_none() {
            self.bounces.give(copy_to);
            self.leave(room);
            return Err(Busy);
        }
        let mut address = put.from.address;
        if let Some(bounce) = &copy_to {
            // SAFETY: the source, and a buffer of at least as many bytes.
            unsafe { copy(address, bounce.address(), put.bytes) };
            address = bounce.address();
        }
        let source = source.or(copy_to);
        let way = match room {
            Room::Request(post, admission) => {
                self.domains[FIRST].turn().put_back(post);
                Carrier::Request(admission)
            }
            Room::Reply(room, current) => {
                self.leave_room(room);
                Self::note_reply(current);
                Carrier::Reply(current)
            }
            Room::Further => Carrier::Further(peer),
        };
        let (report, completion) = match &source {
            Some(_) => (Report::Nothing, LocalCompletion::AtReturn),
            None => (Report::Part(put.cookie, Completion::Source), LocalCompletion::Later),
        };
        let mut transfer = Transfer::put(put, self.remote(&put.to), FIRST, report);
        if let Some(source) = source {
            transfer.use_buffer(source, address, self.bounces.handle(FIRST));
        }
        transfer.aim = PutKind::Payload;
        transfer.then = Some(Message {
            packet: packet.concat().into(),
            way,
        });
        self.begin(transfer);
        Ok(completion)
    }

    /// Sends the messages whose payloads are complete, as far as possible.
    #[cold]
    pub fn send_messages(&self) {
        for message in self.messages.take_all() {
            let packet: [&[u8]; 1] = [&message.packet];
            let bytes = message.packet.len();
            let is_sent = match message.way {
                Carrier::Request(admission) => {
                    let mut turn = self.domains[FIRST].turn();
                    let post = turn.take();
                    let packet = Packet::Parts(&packet, bytes);
                    post.map(|post| self.send_request(&mut turn, post, admission, (packet, 0)))
                        .is_some()
                }
                Carrier::Reply(current) => {
                    let mut turn = self.domains[FIRST].turn();
                    let room = self.room_for_reply(&mut turn, bytes);
                    room.map(|room| self.send_reply(&mut turn, room, current, (&packet, bytes, 0)))
                        .is_ok()
                }
                Carrier::Further(peer) => self.further_reply(peer, &packet, bytes).is_ok(),
            };
            if !is_sent {
                self.messages.push(message);
            }
        }
    }
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        self.settings.packed
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        if self.may_send(put.to.peer) != Some(true) {
            return Err(Busy);
        }
        let source = reserved.map(|buffer| self.bounces.at(buffer.0 as usize));
        self.put_with_message(put, source, class, parts)
    }
}
