//! Sending packets.

use crate::ffi::Errno;
use crate::net::{Net, Stalled, INJECT, STALLED};
use crate::operation::{self, OwnedOperation};
use crate::wire::{padding, Kind, HEADER};
use gasnet_conduit::{Busy, Class, JobRank, SendBuffer, SendBuffers};
use gasnet_sys::atomic::Ordering;

/// A peer that may be sent to, and what the message costs and returns, until it is sent or not.
pub struct Grant {
    peer: JobRank,
    /// The peer in the address vector.
    pub number: u64,
    cost: u32,
    /// Credits that the message returns.
    pub credits: u16,
}

/// Most credits in a header; the window has no more units.
const MOST_CREDITS: u32 = u16::MAX as u32;

impl Net {
    /// Whether anything may be sent to a peer: `None` if it is to be dropped, because the peer has
    /// stopped.
    fn admits(&self, peer: JobRank) -> Result<Option<()>, Busy> {
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Busy);
        }
        match self.peers.states.is_present(peer) {
            true => Ok(Some(())),
            false if self.peers.states.has_stopped(peer) => Ok(None),
            false => Err(Busy),
        }
    }

    /// Pays for a message of so many bytes. `None` if it is to be dropped.
    #[inline]
    pub fn grant(&self, peer: JobRank, class: Class, message: usize) -> Result<Option<Grant>, Busy> {
        if self.admits(peer)?.is_none() {
            return Ok(None);
        }
        let cost = match class {
            Class::Request => self.peers.cost(message),
            Class::Reply => 0,
        };
        if !self.peers.credits(peer).take(cost) {
            return Err(Busy);
        }
        let credits = self.peers.credits(peer).take_owed(MOST_CREDITS) as u16;
        Ok(Some(Grant {
            peer,
            number: self.peers.number(peer),
            cost,
            credits,
        }))
    }

    /// The message was not sent.
    #[cold]
    pub fn revoke(&self, grant: &Grant) {
        self.peers.give_back(grant.peer, grant.cost);
        self.peers.credits(grant.peer).owe(u32::from(grant.credits));
    }

    /// A call for a peer failed: what it was to do. Anything but a lack of room loses the peer.
    #[cold]
    pub fn refused(&self, peer: JobRank, what: &str, why: Errno) -> Busy {
        if why != Errno::AGAIN {
            let text = format!("{:?}: {what} failed: {}", self.endpoint.info(), why.text());
            self.peers.states.lose(peer, text);
        }
        Busy
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let message = HEADER + bytes + padding(bytes);
        assert!(
            bytes <= self.settings.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        let Some(grant) = self.grant(peer, class, message)? else {
            return Ok(());
        };
        let header = self.header(Kind::Packet(class), grant.credits);
        let mut sent = Err(Errno::AGAIN);
        if message <= self.inject {
            let mut room = [0_u8; INJECT];
            header.encode(bytes, &mut room);
            concatenate(parts, &mut room[HEADER..]);
            sent = self.endpoint.inject(&room[..message], grant.number);
        }
        if sent.is_err_and(|why| why == Errno::AGAIN || why.refuses_flags()) {
            if let Some(mut held) = self.send_buffer(class, message) {
                let room = held.bytes(message);
                header.encode(bytes, room);
                concatenate(parts, &mut room[HEADER..]);
                sent = self
                    .transmit(held, message, &grant, class)
                    .or_else(|refused| self.keep(refused, message));
            }
        }
        sent.map_err(|why| {
            self.revoke(&grant);
            self.refused(peer, operation::Kind::Packet(class).name(), why)
        })
    }

    /// Keeps a message that the provider has no room for, if there are not too many already: the
    /// first message to a peer must not wait until it is connected.
    #[cold]
    fn keep(&self, (held, why): (OwnedOperation, Errno), message: usize) -> Result<(), Errno> {
        if why == Errno::AGAIN && self.stalled.len() < STALLED {
            self.stalled.push(Stalled::Message(held, message));
            return Ok(());
        }
        held.release();
        Err(why)
    }

    /// A send buffer for a message of so many bytes.
    pub fn send_buffer(&self, class: Class, message: usize) -> Option<OwnedOperation> {
        let index = usize::from(class == Class::Reply);
        let pool = match &self.small[index] {
            small if message <= small.bytes() => small,
            _ => &self.large[index],
        };
        pool.take(&self.endpoint)
    }

    /// Sends a message that lies in an operation, which the provider has until completion.
    pub fn transmit(
        &self,
        mut held: OwnedOperation,
        message: usize,
        grant: &Grant,
        class: Class,
    ) -> Result<(), (OwnedOperation, Errno)> {
        held.kind = operation::Kind::Packet(class);
        held.peer = grant.peer;
        // SAFETY: nobody changes the message until it completes.
        match unsafe { self.endpoint.send(held.source(message), grant.number, held.context()) } {
            Ok(()) => {
                held.into_context();
                Ok(())
            }
            Err(why) => Err((held, why)),
        }
    }

    /// Sends a message that was taken before; again by a later poll if there is no room now.
    /// Whether it is sent, or failed.
    pub fn transmit_later(&self, held: OwnedOperation, message: usize, grant: &Grant, class: Class) -> bool {
        match self.transmit(held, message, grant, class) {
            Ok(()) => {}
            Err((held, Errno::AGAIN)) => {
                self.stalled.push(Stalled::Message(held, message));
                return false;
            }
            Err((held, why)) => {
                held.release();
                let _ = self.refused(grant.peer, operation::Kind::Packet(class).name(), why);
            }
        }
        true
    }

    /// The same in a later poll.
    pub fn transmit_again(&self, held: OwnedOperation, message: usize) -> bool {
        let (peer, kind) = (held.peer, held.kind);
        let operation::Kind::Packet(class) = kind else {
            panic!("defect: {kind:?} is no packet");
        };
        let grant = Grant {
            peer,
            number: self.peers.number(peer),
            cost: 0,
            credits: 0,
        };
        self.transmit_later(held, message, &grant, class)
    }

    /// Returns credits to a peer in a message of their own.
    pub fn return_credits(&self, peer: JobRank) {
        if !matches!(self.admits(peer), Ok(Some(()))) {
            return;
        }
        let credits = self.peers.credits(peer).take_owed(MOST_CREDITS) as u16;
        let mut message = [0; HEADER];
        self.header(Kind::Credits, credits).encode(0, &mut message);
        match self.send_header(&message, peer, self.peers.number(peer)) {
            Ok(()) => {}
            Err(why) => {
                self.peers.credits(peer).owe(u32::from(credits));
                if self.refused(peer, "returning credits", why) == Busy && why == Errno::AGAIN {
                    self.peers.note_owed(peer);
                }
            }
        }
    }

    /// Sends a message without a packet; from a buffer where the provider injects nothing.
    pub fn send_header(&self, message: &[u8], peer: JobRank, number: u64) -> Result<(), Errno> {
        if self.inject >= message.len() {
            match self.endpoint.inject(message, number) {
                Err(why) if why.refuses_flags() => {}
                sent => return sent,
            }
        }
        let grant = Grant {
            peer,
            number,
            cost: 0,
            credits: 0,
        };
        let mut held = self.send_buffer(Class::Reply, message.len()).ok_or(Errno::AGAIN)?;
        held.bytes(message.len()).copy_from_slice(message);
        self.transmit(held, message.len(), &grant, Class::Reply)
            .map_err(|(held, why)| {
                held.release();
                why
            })
    }
}

/// Writes the parts one after another.
#[inline]
pub fn concatenate(parts: &[&[u8]], room: &mut [u8]) {
    let mut at = 0;
    for part in parts {
        room[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// The operation whose bytes begin [`HEADER`] before a send buffer.
pub fn held_of(buffer: SendBuffer) -> OwnedOperation {
    // SAFETY: the runtime returns what `reserve` has given it, once.
    unsafe { OwnedOperation::from_address(buffer.0 as usize - HEADER) }
}

impl SendBuffers for Net {
    fn max_bytes(&self) -> usize {
        self.settings.max_packet
    }

    fn reserve(&self, _: JobRank, _: Class, bytes: usize) -> Result<SendBuffer, Busy> {
        assert!(bytes <= self.max_bytes(), "defect: a send buffer of {bytes} bytes");
        let held = self.reserved.take(&self.endpoint).ok_or(Busy)?;
        let address = held.address() + HEADER;
        held.into_context();
        Ok(SendBuffer(address as *mut u8))
    }

    fn send_reserved(&self, peer: JobRank, class: Class, buffer: SendBuffer, bytes: usize) -> Result<(), Busy> {
        let message = HEADER + bytes + padding(bytes);
        let grant = self.grant(peer, class, message)?;
        let mut held = held_of(buffer);
        let Some(grant) = grant else {
            held.release();
            return Ok(());
        };
        let header = self.header(Kind::Packet(class), grant.credits);
        header.encode(bytes, held.bytes(HEADER));
        match self.transmit(held, message, &grant, class) {
            Err((held, Errno::AGAIN)) if self.stalled.len() < STALLED => {
                self.stalled.push(Stalled::Message(held, message));
                Ok(())
            }
            Err((held, why)) => {
                held.into_context();
                self.revoke(&grant);
                Err(self.refused(peer, operation::Kind::Packet(class).name(), why))
            }
            Ok(()) => Ok(()),
        }
    }

    fn release(&self, buffer: SendBuffer) {
        held_of(buffer).release();
    }
}
