//! Delivery of messages, from the buffers of posted receives.
#![forbid(unsafe_code)]

use crate::ffi::Handle;
use crate::link::{Held, Link};
use crate::operations::Buffer;
use crate::wire::{kind, Header, HEADER};
use gasnet_conduit::{Class, JobRank, PollScope, Upcalls};
use gasnet_conduit_util::record::Record;

/// A message that has arrived.
pub enum Arrival {
    /// Its packet was delivered.
    Delivered(Class),
    /// A request of this rank, with a packet of this many bytes, when only replies are polled.
    Held(JobRank, usize),
    /// A message without a packet.
    Nothing,
}

impl<H: Handle> Link<H> {
    /// Delivers the message in a buffer, if that is in scope.
    #[inline]
    pub fn deliver(&self, buffer: &mut Buffer, scope: PollScope, upcalls: &mut dyn Upcalls) -> Arrival {
        // Bytes that a message has not written are zero or of an earlier one.
        let (header, packet) = buffer.bytes(HEADER + self.max_packet).split_at_mut(HEADER);
        let Header {
            source,
            bytes,
            credits,
            kind,
            token,
        } = Header::decode(header);
        // A communicator is this job's, so anything else is corrupt memory.
        if token != self.token || source >= self.peers.count() {
            self.peers.states.fail("MPI has delivered a message that no rank sends");
            return Arrival::Nothing;
        }
        let source = JobRank(source);
        if !self.peers.account(source).give_back(credits.into()) {
            return Arrival::Nothing;
        }
        let Some(class) = kind::class(kind) else {
            return Arrival::Nothing;
        };
        let Some(packet) = packet.get_mut(..bytes as usize) else {
            let why = "it sent a packet that is longer than the limit: its memory is corrupt";
            self.peers.states.lose(source, why.into());
            return Arrival::Nothing;
        };
        if class == Class::Reply {
            upcalls.packet(source, class, packet);
        } else if scope == PollScope::All {
            self.deliver_request(source, packet, upcalls);
        } else {
            return Arrival::Held(source, packet.len());
        }
        Arrival::Delivered(class)
    }

    #[inline]
    fn deliver_request(&self, source: JobRank, packet: &mut [u8], upcalls: &mut dyn Upcalls) {
        // Before the upcall: its reply returns the credit.
        let owed = self.peers.credits(source);
        owed.owe(self.peers.cost(packet.len()));
        upcalls.packet(source, Class::Request, packet);
        self.peers.limits.note_owed(source, owed);
    }

    /// Holds a request for a poll of all messages, so that the replies behind it arrive. Returns
    /// another receive buffer, if there is memory. Credits bound the requests.
    #[cold]
    pub fn hold(&self, request: Held) -> Option<Buffer> {
        self.held.push(request);
        self.receives.take_or_make(|| ())
    }

    /// Delivers the requests that were held. Returns their number.
    #[cold]
    pub fn deliver_held(&self, upcalls: &mut dyn Upcalls) -> usize {
        let mut delivered = 0;
        while let Some(mut request) = self.held.pop() {
            let packet = &mut request.buffer.bytes(HEADER + request.bytes)[HEADER..];
            self.deliver_request(request.source, packet, upcalls);
            request.buffer.release();
            delivered += 1;
        }
        delivered
    }
}
