//! Sending packets.

pub mod buffers;

use crate::credits::SendReservation;
use crate::ffi::Errno;
use crate::link::{Link, Stalled, Started};
use crate::operations::{self, grow, take, OwnedOperation, Pool};
use crate::settings::Settings;
use crate::wire::{padding, Kind, HEADER, OVERHEAD};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::parts::{gather, length};

/// Most bytes of an injected message, which is assembled on the stack.
pub const INJECT: usize = 256;
/// Bytes of a small send buffer.
const SMALL: usize = 2 << 10;
/// Send buffers that clients may hold.
const RESERVED: usize = 256;

/// Messages of a process, and the buffers that they are sent from.
pub struct Messages {
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// Most bytes of an injected message.
    inject: usize,
    /// By class: requests, replies.
    small: [Pool; 2],
    large: [Pool; 2],
    /// Buffers for negotiated payloads.
    reserved: Pool,
}

impl Messages {
    /// No buffers yet. Messages of up to `inject` bytes are injected.
    pub fn new(settings: &Settings, inject: usize) -> Self {
        let bytes = settings.max_packet + OVERHEAD;
        let pools = |bytes: usize| settings.most_buffers.map(|most| Pool::new(bytes, most));
        Self {
            max_packet: settings.max_packet,
            inject,
            small: pools(SMALL),
            large: pools(bytes),
            reserved: Pool::new(bytes, RESERVED),
        }
    }

    /// All buffers.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.small.iter().chain(&self.large).chain([&self.reserved])
    }

    /// Allocates the first small buffers.
    pub fn allocate(&self, link: &Link, settings: &Settings) -> Result<(), Errno> {
        let mut pools = self.small.iter().zip(settings.first_buffers);
        pools.try_for_each(|(pool, first)| grow(pool, &link.endpoint, first))
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, link: &Link, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let bytes = length(parts);
        let message = HEADER + bytes + padding(bytes);
        assert!(
            bytes <= self.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        let Some(reservation) = SendReservation::take(link, peer, class, message)? else {
            return Ok(());
        };
        let header = link.header(Kind::Packet(class), reservation.credits());
        let mut sent = Err(Errno::AGAIN);
        if message <= self.inject {
            let mut room = [0_u8; INJECT];
            header.encode(bytes, &mut room);
            gather(parts, &mut room[HEADER..]);
            sent = link.endpoint.inject(&room[..message], reservation.number);
        }
        if sent.is_err_and(|why| why == Errno::AGAIN || why.refuses_flags()) {
            if let Some(mut held) = self.send_buffer(link, class, message) {
                let room = held.bytes(message);
                header.encode(bytes, room);
                gather(parts, &mut room[HEADER..]);
                (held.kind, held.peer) = (operations::Kind::Packet(class), peer);
                // The first message to a peer must not wait until it is connected.
                let started = transmit(link, held, message, reservation.number);
                sent = link
                    .or_stall(started, |held| Stalled::Message(held, message))
                    .map_err(fault);
            }
        }
        sent.map_err(|why| reservation.refused(link, why))
    }

    /// A send buffer for a message of `message` bytes.
    pub fn send_buffer(&self, link: &Link, class: Class, message: usize) -> Option<OwnedOperation> {
        let index = usize::from(class == Class::Reply);
        let pool = match &self.small[index] {
            small if message <= small.bytes() => small,
            _ => &self.large[index],
        };
        take(pool, &link.endpoint)
    }

    /// Sends a message without a packet; from a buffer where the provider injects nothing.
    pub fn send_header(&self, link: &Link, message: &[u8], peer: JobRank) -> Result<(), Errno> {
        let number = link.peers.number(peer);
        if self.inject >= message.len() {
            match link.endpoint.inject(message, number) {
                Err(why) if why.refuses_flags() => {}
                sent => return sent,
            }
        }
        let held = self.send_buffer(link, Class::Reply, message.len());
        let mut held = held.ok_or(Errno::AGAIN)?;
        held.bytes(message.len()).copy_from_slice(message);
        (held.kind, held.peer) = (operations::Kind::Packet(Class::Reply), peer);
        transmit(link, held, message.len(), number).map_err(fault)
    }
}

/// Releases an operation that was not started. Returns why.
#[cold]
fn fault((held, why): (OwnedOperation, Errno)) -> Errno {
    held.release();
    why
}

/// Sends a message that lies in an operation, which the provider has until completion. `number`:
/// its peer in the address vector.
pub fn transmit(link: &Link, held: OwnedOperation, message: usize, number: u64) -> Started {
    // SAFETY: nobody changes the message until it completes.
    let sent = unsafe { link.endpoint.send(held.source(message), number, held.context()) };
    held.started(sent)
}

/// Sends a message that was taken before; again by a later poll if there is no room now. Whether it
/// is sent, or failed.
pub fn transmit_later(link: &Link, held: OwnedOperation, message: usize, number: u64) -> bool {
    let started = transmit(link, held, message, number);
    link.is_over(started, |held| Stalled::Message(held, message))
}
