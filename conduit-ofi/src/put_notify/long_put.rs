//! Longs: a put, and a packet with its number ([`crate::put_notify`]).
//!
//! Each part of the put carries data to the target's queue. Where the provider has no such puts, or
//! refuses one when it is started, a message announces the put after its delivery.

use crate::ffi::Errno;
use crate::net::{Net, Stalled};
use crate::operation::{Access, Kind, Rest};
use crate::send::{concatenate, held_of};
use crate::wire::{self, padding, HEADER, NUMBER};
use gasnet_conduit::{Busy, Class, JobRank, LocalCompletion, Put, PutNotify, SendBuffer, SourceUse};
use gasnet_sys::atomic::Ordering;
use std::sync::atomic::AtomicU32;

/// The payload of a Long up to this many bytes travels in its packet: less than a put and a packet
/// cost, and than the largest message that providers send at once.
const PACKED_LIMIT: usize = 8 << 10;

/// Numbers of puts that announce themselves.
static NEXT_NUMBER: AtomicU32 = AtomicU32::new(0);

/// A put that is complete, and whose target does not know of so many parts of it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub peer: JobRank,
    /// The put's.
    pub number: u32,
    pub parts: u32,
}

impl PutNotify for Net {
    fn packed_limit(&self) -> usize {
        let half = self.settings.max_packet / 2;
        // A message after the delivery of a put costs a round trip more.
        if self.selected.announces {
            PACKED_LIMIT.min(half)
        } else {
            half
        }
    }

    fn put_and_notify(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        class: Class,
        parts: &[&[u8]],
    ) -> Result<LocalCompletion, Busy> {
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let count = put.bytes.div_ceil(self.endpoint.info().max_bytes()) as u32;
        let kind = wire::Kind::Notice(class, number, count);
        let front = self.header(kind, 0).bytes();
        let message = front + bytes + padding(bytes);
        let peer = put.to.peer;
        let Some(grant) = self.grant(peer, class, message)? else {
            let _ = reserved.map(|buffer| gasnet_conduit::SendBuffers::release(self, buffer));
            return Ok(LocalCompletion::AtReturn);
        };
        let busy = |why| {
            self.revoke(&grant);
            why
        };
        let mut packet = self.send_buffer(class, message).ok_or(Busy).map_err(busy)?;
        let room = packet.bytes(message);
        self.header(kind, grant.credits).encode(bytes, room);
        concatenate(parts, &mut room[front..]);
        match self.put_payload(put, reserved, (number, count), grant.number) {
            Ok(local) => {
                self.transmit_later(packet, message, &grant, class);
                Ok(local)
            }
            Err(why) => {
                packet.release();
                Err(busy(why))
            }
        }
    }
}

impl Net {
    /// Starts the put of a Long, with this number and so many parts. `target`: the peer in the
    /// address vector.
    fn put_payload(
        &self,
        put: &Put,
        reserved: Option<SendBuffer>,
        (number, parts): (u32, u32),
        target: u64,
    ) -> Result<LocalCompletion, Busy> {
        let remote = self.segments.remote(&put.to, target);
        let by_message = !self.announces.load(Ordering::Relaxed);
        let kind = |reports| Kind::PutNotify {
            number,
            parts,
            by_message,
            reports,
        };
        let Some(buffer) = reserved else {
            let copies = put.source == SourceUse::Now && put.from.device.is_none();
            return self.begin_put(put, remote, copies, |is_copy| kind(!is_copy));
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
        match self.advance(held) {
            Ok(()) => Ok(LocalCompletion::AtReturn),
            Err((mut held, why)) => {
                held.rest = None;
                let what = held.kind.name();
                held.into_context();
                Err(self.refused(put.to.peer, what, why))
            }
        }
    }

    /// Announces parts of a put that is complete; later if there is no room now. Whether that is
    /// done, or failed.
    pub fn announce(&self, arrival: Arrival) -> bool {
        let Arrival { peer, number, parts } = arrival;
        if !self.peers.states.is_present(peer) {
            return true;
        }
        let mut message = [0; HEADER + NUMBER];
        self.header(wire::Kind::Arrived(number, parts), 0)
            .encode(0, &mut message);
        let sent = self.send_header(&message, peer, self.peers.number(peer));
        if sent == Err(Errno::AGAIN) {
            self.stalled.push(Stalled::Arrival(arrival));
            return false;
        }
        if let Err(why) = sent {
            let _ = self.refused(peer, "announcing a put", why);
        }
        true
    }
}
