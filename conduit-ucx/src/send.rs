//! Sending messages.

pub mod buffers;

use crate::link::Link;
use crate::operations::{self, OwnedOperation, Pool, Reaped};
use crate::wire::{Kind, HEADER};
use gasnet_conduit::{Busy, Class, JobRank};
use gasnet_conduit_util::account::Reservation;
use gasnet_conduit_util::parts::{gather, length};
use gasnet_conduit_util::peer_states::PeerState;
use gasnet_conduit_util::record::Record;
use std::sync::Arc;

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
        let Some((held, reservation)) = self.prepare(link, peer, class, parts)? else {
            return Ok(());
        };
        let sent = post(link, held, Kind::Packet(class), length(parts));
        sent.map_err(|Busy| link.peers.account(peer).cancel(&reservation))
    }

    /// Pays for a packet, and writes its message. None if it is to be dropped.
    pub fn prepare(
        &self,
        link: &Link,
        peer: JobRank,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<Option<(OwnedOperation, Reservation)>, Busy> {
        let bytes = length(parts);
        assert!(
            bytes <= self.max_packet,
            "defect: a packet of {bytes} bytes is longer than the conduit's limit"
        );
        let Some(reservation) = link.peers.reserve(peer, class, bytes)? else {
            return Ok(None);
        };
        let Ok(mut held) = self.buffer(class, bytes) else {
            return Err(link.peers.account(peer).cancel(&reservation));
        };
        (held.kind, held.peer) = (operations::Kind::Packet(class), peer);
        let (header, packet) = held.bytes(HEADER + bytes).split_at_mut(HEADER);
        link.header(reservation.credits).put(header);
        gather(parts, packet);
        Ok(Some((held, reservation)))
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
        let mut held = self.buffer(Class::Reply, 0)?;
        (held.kind, held.peer) = (operations::Kind::Packet(Class::Reply), peer);
        link.header(credits).put(held.bytes(HEADER));
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
