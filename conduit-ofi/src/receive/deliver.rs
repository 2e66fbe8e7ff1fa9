//! Delivery of messages, at once or when requests may run.

use crate::net::Net;
use crate::put_notify::Outcome;
use crate::wire::{self, Header, Refusal};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls, PACKET_ALIGN};
use gasnet_conduit_util::aligned_copy::AlignedCopy;
use std::ops::Range;

/// Most deferred requests that a poll delivers.
const DEFERRED: usize = 32;

impl Net {
    #[inline]
    fn decode(&self, message: &[u8]) -> Result<(Header, Range<usize>), Refusal> {
        Header::decode(message, self.token, self.peers.count())
    }

    /// Delivers a message. Returns how many upcalls that made.
    pub fn deliver(&self, message: &mut [u8], scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let (header, place) = match self.decode(message) {
            Ok(decoded) => decoded,
            Err(why) => return self.refuse(why),
        };
        if message.as_ptr().align_offset(PACKET_ALIGN) != 0 {
            return self.deliver(AlignedCopy::new(message).bytes(), scope, upcalls);
        }
        let source = header.source;
        let (bytes, most) = (place.len(), self.settings.max_packet);
        if bytes > most {
            let text =
                format!("it sent a packet of {bytes} bytes, of which {most} are possible: its memory is corrupt");
            self.peers.states.lose(source, text);
            return 0;
        }
        if !self.peers.give_back(source, u32::from(header.credits)) {
            return 0;
        }
        match header.kind {
            wire::Kind::Credits => 0,
            wire::Kind::Arrived(number, parts) => match self.pending_puts.arrived(source, (number, parts)) {
                Some(message) => self.deliver_announced(message, scope, upcalls),
                None => 0,
            },
            wire::Kind::Bye => {
                self.peers.states.note_stop(source);
                0
            }
            wire::Kind::Packet(Class::Reply) => {
                upcalls.packet(source, Class::Reply, &mut message[place]);
                1
            }
            wire::Kind::Packet(Class::Request) if scope == PollScope::Replies => {
                self.defer(source, AlignedCopy::new(message));
                0
            }
            wire::Kind::Packet(Class::Request) => {
                let cost = self.peers.cost(message.len());
                self.request(source, cost, &mut message[place], upcalls);
                1
            }
            wire::Kind::Notice(class, number, parts) => {
                if class == Class::Request && !self.may_wait(source, message.len()) {
                    return 0;
                }
                match self.pending_puts.packet(source, (number, parts), message) {
                    Outcome::Kept => 0,
                    Outcome::Delivered => self.deliver_announced(AlignedCopy::new(message), scope, upcalls),
                    Outcome::Repeated => {
                        let text = format!("it sent two packets for put {number}: its memory is corrupt");
                        self.peers.states.lose(source, text);
                        0
                    }
                }
            }
        }
    }

    /// Drops a message of an unauthenticated peer, which costs no memory; loses the member of the
    /// job that sent any other.
    #[cold]
    fn refuse(&self, why: Refusal) -> usize {
        match why {
            Refusal::Outsider => self.outsiders.drop(self.rank, "a message without the job's token"),
            Refusal::Impossible(source) if source.0 < self.peers.count() => {
                let text = "it sent a header that no rank sends: its memory is corrupt".to_owned();
                self.peers.states.lose(source, text);
            }
            Refusal::Impossible(source) => {
                let ranks = self.peers.count();
                self.fail_text(&format!(
                    "a message with the job's token came from rank {source} of {ranks}: the memory of its sender is \
                     corrupt"
                ));
            }
        }
        0
    }

    /// Delivers a request.
    fn request(&self, source: JobRank, cost: u32, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
        // Before the upcall: its reply returns the credit.
        self.peers.credits(source).owe(cost);
        upcalls.packet(source, Class::Request, packet);
        self.peers.note_owed(source);
    }

    /// Delivers a packet whose put has arrived.
    pub fn deliver_announced(&self, mut message: AlignedCopy, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let bytes = message.bytes();
        if let (Ok((header, _)), true) = (self.decode(bytes), wire::is_request(bytes)) {
            self.peers.credits(header.source).release(self.peers.cost(bytes.len()));
        }
        self.deliver_late(message, scope, upcalls)
    }

    /// Delivers the packet of a message that was kept, now or when requests may run.
    fn deliver_late(&self, mut message: AlignedCopy, scope: PollScope, upcalls: &mut dyn Upcalls) -> usize {
        let bytes = message.bytes();
        let cost = self.peers.cost(bytes.len());
        let Ok((header, place)) = self.decode(bytes) else {
            return 0;
        };
        match header.kind {
            wire::Kind::Packet(Class::Request) | wire::Kind::Notice(Class::Request, ..) => {
                if scope == PollScope::Replies {
                    self.defer(header.source, message);
                    return 0;
                }
                self.request(header.source, cost, &mut bytes[place], upcalls);
            }
            _ => upcalls.packet(header.source, Class::Reply, &mut bytes[place]),
        }
        1
    }

    /// Counts a request that is to wait in memory. False: its sender has no credits for it, and is
    /// lost.
    fn may_wait(&self, source: JobRank, bytes: usize) -> bool {
        let is_paid = self.peers.hold(source, self.peers.cost(bytes));
        if !is_paid {
            let text = "it sent more requests than its credits allow: its memory is corrupt".to_owned();
            self.peers.states.lose(source, text);
        }
        is_paid
    }

    #[cold]
    fn defer(&self, source: JobRank, mut message: AlignedCopy) {
        if !self.may_wait(source, message.bytes().len()) {
            return;
        }
        self.deferred.push((source, message));
    }

    #[cold]
    pub fn deliver_deferred(&self, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        while delivered < DEFERRED {
            let Some((source, mut message)) = self.deferred.pop() else {
                break;
            };
            let cost = self.peers.cost(message.bytes().len());
            self.peers.credits(source).release(cost);
            delivered += self.deliver_late(message, PollScope::All, upcalls);
        }
        delivered
    }
}
