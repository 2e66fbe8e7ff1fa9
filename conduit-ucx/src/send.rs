//! Sending messages.

pub mod buffers;

use crate::link::Link;
use crate::operations::{self, OwnedOperation, Pool, Reaped};
use crate::wire::{Header, Kind, HEADER};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::account::Reservation;
use gasnet_conduit_util::parts::{gather, length};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_conduit_util::record::Record;
use std::sync::Arc;

/// Bytes of the largest message that is written to the stack first. UCX copies most of them into
/// the network at once, and no buffer is needed.
const SHORT: usize = 128;
/// Bytes of a small send buffer.
const SMALL: usize = 2 << 10;
/// Most buffers of each size for requests, and for replies.
const BUFFERS: usize = 4096;
/// Send buffers that clients may hold.
const RESERVED: usize = 256;

/// The buffers that messages are sent from: header, then packet.
pub struct Messages {
    /// Bytes of the largest packet.
    pub max_packet: usize,
    /// By class: requests, replies.
    small: [Pool; 2],
    large: [Pool; 2],
    /// For negotiated payloads.
    reserved: Pool,
}

impl Messages {
    /// No buffers yet.
    pub fn new(max_packet: usize, reaped: &Arc<Reaped>) -> Self {
        let pools = |bytes| [0, 1].map(|_| Pool::new(bytes, BUFFERS, reaped));
        Self {
            max_packet,
            small: pools(SMALL),
            large: pools(HEADER + max_packet),
            reserved: Pool::new(HEADER + max_packet, RESERVED, reaped),
        }
    }

    /// See [`gasnet_conduit::Network::send`].
    pub fn send(&self, link: &Link, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<(), Busy> {
        let Some(reservation) = self.pay(link, peer, class, parts)? else {
            return Ok(());
        };
        if send_short(link, peer, (Kind::Packet(class), reservation.credits), parts) {
            return Ok(());
        }
        let written = self.write(link, peer, (class, reservation.credits), parts);
        let sent = written.and_then(|held| post(link, held, Kind::Packet(class), length(parts)));
        sent.map_err(|Busy| link.peers.account(peer).cancel(&reservation))
    }

    /// Pays for a packet. None if it is to be dropped.
    pub fn pay(&self, link: &Link, peer: JobRank, class: Class, parts: &[&[u8]]) -> Result<Option<Reservation>, Busy> {
        let bytes = length(parts);
        assert!(
            bytes <= self.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        link.peers.reserve(peer, class, bytes)
    }

    /// Writes a message into a buffer.
    pub fn write(
        &self,
        link: &Link,
        peer: JobRank,
        (class, credits): (Class, u32),
        parts: &[&[u8]],
    ) -> Result<OwnedOperation, Busy> {
        let bytes = length(parts);
        let mut held = self.buffer(class, bytes)?;
        (held.kind, held.peer) = (operations::Kind::Packet(class), peer);
        write(link.header(credits), parts, held.bytes(HEADER + bytes));
        Ok(held)
    }

    /// A buffer for a packet of `bytes` bytes.
    fn buffer(&self, class: Class, bytes: usize) -> Result<OwnedOperation, Busy> {
        let index = usize::from(class == Class::Reply);
        let pool = match &self.small[index] {
            small if HEADER + bytes <= small.bytes() => small,
            _ => &self.large[index],
        };
        pool.take().ok_or(Busy)
    }

    /// Sends a message without a packet.
    pub fn send_header(&self, link: &Link, peer: JobRank, kind: Kind, credits: u32) -> Result<(), Busy> {
        if send_short(link, peer, (kind, credits), &[]) {
            return Ok(());
        }
        let held = self.write(link, peer, (Class::Reply, credits), &[])?;
        post(link, held, kind, 0)
    }

    /// Returns credits to a peer in a message of their own.
    pub fn return_credits(&self, link: &Link, peer: JobRank) {
        if link.peers.states.state(peer) != PeerState::Present {
            return;
        }
        let owed = link.peers.credits(peer);
        let credits = owed.take_owed(u32::MAX);
        if self.send_header(link, peer, Kind::Credits, credits).is_err() {
            owed.owe(credits);
            link.peers.limits.note_owed(peer, owed);
        }
    }
}

fn write(header: Header, parts: &[&[u8]], message: &mut [u8]) {
    let (room, packet) = message.split_at_mut(HEADER);
    header.put(room);
    gather(parts, packet);
}

/// Sends a message if it is short, and UCX copies it at once.
fn send_short(link: &Link, peer: JobRank, (kind, credits): (Kind, u32), parts: &[&[u8]]) -> bool {
    let mut message = [0; SHORT];
    let Some(message) = message.get_mut(..HEADER + length(parts)) else {
        return false;
    };
    write(link.header(credits), parts, message);
    let (header, packet) = message.split_at(HEADER);
    let turn = link.worker.turn();
    let endpoint = link.endpoint(&turn, peer);
    endpoint.is_ok_and(|endpoint| turn.send_at_once(endpoint, (kind.id(), header, packet)))
}

/// Sends a message that lies in an operation: its header, then a packet of `bytes` bytes.
pub fn post(link: &Link, held: OwnedOperation, kind: Kind, bytes: usize) -> Result<(), Busy> {
    transmit(link, held, kind, bytes).map_err(|held| {
        held.release();
        Busy
    })
}

/// The same. The operation of a message that is not sent comes back.
fn transmit(link: &Link, mut held: OwnedOperation, kind: Kind, bytes: usize) -> Result<(), OwnedOperation> {
    let (context, peer) = (held.context(), held.peer);
    let (header, packet) = held.bytes(HEADER + bytes).split_at_mut(HEADER);
    let turn = link.worker.turn();
    let Ok(endpoint) = link.endpoint(&turn, peer) else {
        return Err(held);
    };
    // SAFETY: nobody changes the message until it completes.
    let sent = unsafe { turn.send::<OwnedOperation>(endpoint, (kind.id(), header, packet), context) };
    drop(turn);
    match held.started(sent) {
        Ok(done) => {
            if let Some(done) = done {
                done.release();
            }
            Ok(())
        }
        Err((held, why)) => {
            let _ = link.refused(peer, held.kind.name(), why);
            Err(held)
        }
    }
}
