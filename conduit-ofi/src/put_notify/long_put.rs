//! Longs: a put, and a packet with its number ([`crate::put_notify`]).
//!
//! Each part of the put carries data to the target's queue. Where the provider has no such puts, or
//! refuses one when it is started, a message announces the put after its delivery.

use super::PutParts;
use crate::credits::SendReservation;
use crate::ffi::Errno;
use crate::link::{Arrival, Stalled};
use crate::net::Net;
use crate::operations::{Access, Kind, Rest};
use crate::rma::OneSided;
use crate::send::buffers::held_of;
use crate::send::{transmit_later, Messages};
use crate::wire::{self, padding, HEADER, NUMBER};
use gasnet_conduit::{Busy, Class, LocalCompletion, Put, PutNotify, SendBuffer, SourceUse};
use gasnet_conduit_util::parts::{gather, length};
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicU32;

/// The payload of a Long up to this many bytes travels in its packet: less than a put and a packet
/// cost, and than the largest message that providers send at once.
const PACKED_LIMIT: usize = 8 << 10;

/// Numbers of puts that announce themselves.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        let half = self.messages.max_packet / 2;
        // A message after the delivery of a put costs a round trip more.
        if self.rma.abilities.announces {
            PACKED_LIMIT.min(half)
        } else {
            half
        }
    }

    /// The packet waits for the parts of the put.
    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let (rma, link) = (&self.rma, self.link());
        let bytes = length(parts);
        let count = PutParts {
            number: NEXT_NUMBER.fetch_add(1, Ordering::Relaxed),
            parts: put.bytes.div_ceil(link.endpoint.info().max_bytes()) as u32,
        };
        let kind = wire::Kind::Notice(class, count.number, count.parts);
        let front = link.header(kind, 0).bytes();
        let message = front + bytes + padding(bytes);
        let Some(reservation) = SendReservation::take(link, put.to.peer, class, message)? else {
            if let Some(buffer) = reserved {
                held_of(buffer).release();
            }
            return Ok(LocalCompletion::AtReturn);
        };
        let busy = |why| {
            reservation.cancel(link);
            why
        };
        let held = self.messages.send_buffer(link, class, message);
        let mut held = held.ok_or(Busy).map_err(busy)?;
        let room = held.bytes(message);
        link.header(kind, reservation.credits()).encode(bytes, room);
        gather(parts, &mut room[front..]);
        match put_payload(rma, put, reserved, count, reservation.number) {
            Ok(local) => {
                (held.kind, held.peer) = (Kind::Packet(class), put.to.peer);
                transmit_later(link, held, message, reservation.number);
                Ok(local)
            }
            Err(why) => {
                held.release();
                Err(busy(why))
            }
        }
    }
}

impl Messages {
    /// Announces parts of a put that is complete; later if there is no room now. Whether that is
    /// done, or failed.
    pub fn announce(&self, rma: &OneSided, arrival: Arrival) -> bool {
        let (link, peer) = (&rma.link, arrival.peer);
        if !link.peers.states.is_present(peer) {
            return true;
        }
        let PutParts { number, parts } = arrival.put;
        let mut message = [0; HEADER + NUMBER];
        link.header(wire::Kind::Arrived(number, parts), 0)
            .encode(0, &mut message);
        match self.send_header(link, &message, peer) {
            Ok(()) => true,
            Err(Errno::AGAIN) => {
                link.stalled.push(Stalled::Arrival(arrival));
                false
            }
            Err(why) => {
                let _ = link.refused(peer, "announcing a put", why);
                true
            }
        }
    }
}

/// Starts the put of a Long. `target`: the peer in the address vector.
fn put_payload(
    rma: &OneSided,
    put: &Put,
    filled: Option<SendBuffer>,
    count: PutParts,
    target: u64,
) -> Result<LocalCompletion, Busy> {
    let remote = rma.segments.remote(&put.to, target);
    let by_message = !rma.announces();
    let kind = |reports| Kind::PutNotify {
        number: count.number,
        parts: count.parts,
        by_message,
        reports,
    };
    let Some(buffer) = filled else {
        let copies = put.source == SourceUse::Now && put.from.device.is_none();
        return rma.begin_put(put, remote, copies, |is_copy| kind(!is_copy));
    };
    let mut held = held_of(buffer);
    let mut local = held.source(put.bytes);
    local.address = put.from.address;
    held.kind = kind(false);
    held.peer = put.to.peer;
    held.rest = Some(Rest {
        access: Access::Fixed,
        local,
        remote,
    });
    match rma.advance(held) {
        Ok(()) => Ok(LocalCompletion::AtReturn),
        Err((mut held, why)) => {
            held.rest = None;
            let what = held.kind.name();
            held.into_context();
            Err(rma.link.refused(put.to.peer, what, why))
        }
    }
}
