//! Long parts of transfers are received where they belong: the system copies them there, and nobody copies them again.
//!
//! The next datagram is looked at before it is received. If its header is of a member, and its payload belongs to a place of which nothing has come yet, it
//! is received there; only then its payload proves itself. If it does not, it was dropped, and what is in its place is as good as what was there before:
//! that transfer is under way, and the real datagram is still to come. The peer stays locked meanwhile, so that nobody else notes that the real one has
//! come. Somebody else may take the datagram that was looked at; then another one was received, and is taken in as if it had come into a buffer.
#![forbid(unsafe_code)]

use super::authenticate::{AuthenticHeader, Sender};
use super::receive::ReceiveContext;
use super::Net;
use crate::memory::ClientMemory;
use crate::peer::Disposition;
use crate::peer_table::ALIVE;
use crate::sys::{Received, RECV_BUFFER};
use crate::wire::HEADER_BYTES;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::Relaxed;

/// A copy of fewer bytes costs less than a look.
const ZERO_COPY_MIN: usize = 16 << 10;
/// Nanoseconds without this after a payload did not prove itself where it was received. Perhaps the client writes there, so that it never would.
const ZERO_COPY_PAUSE: u64 = 10_000_000_000;

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Nothing, or it has been taken in.
    Done,
    /// It is in the first buffer.
    Buffered,
    /// That is to be found out.
    NotTried,
}

/// Whether it is one datagram, and long.
pub fn is_bulk(received: Received) -> bool {
    received.bytes > HEADER_BYTES + ZERO_COPY_MIN && received.datagram_bytes() >= received.bytes
}

/// Whether an error says that there is nothing, or nothing yet.
pub fn is_would_block(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// A datagram that was looked at.
pub struct ExpectedDatagram<'a> {
    head: [u8; HEADER_BYTES],
    /// As [`crate::sys::Socket::peek`] says it.
    peeked: Received,
    authenticated: AuthenticHeader<'a>,
    /// Where its payload belongs.
    destination: ClientMemory,
}

impl Net {
    /// Whether long parts of transfers may be received in their places now.
    pub fn may_zero_copy(&self) -> bool {
        let from = self.zero_copy_from.load(Relaxed);
        from == 0 || self.now() >= from
    }

    /// Receives the next datagram in its place, if it is a long part of a transfer.
    pub fn receive_zero_copy(&self, context: &mut ReceiveContext) -> Placement {
        match self.peek_transfer() {
            Ok(Some(expected)) => self.receive_placed(expected, context),
            Ok(None) => Placement::NotTried,
            Err(why) if is_would_block(&why) => Placement::Done,
            // What the system told with that is told once only.
            Err(_) => {
                self.drain_icmp_errors();
                Placement::Done
            }
        }
    }

    /// The next datagram, if it is one whose payload has a place where nothing of it has come yet.
    pub fn peek_transfer(&self) -> io::Result<Option<ExpectedDatagram<'_>>> {
        let mut head = [0; HEADER_BYTES];
        let peeked = self.socket.peek(&mut head)?;
        let payload = peeked.bytes.saturating_sub(HEADER_BYTES);
        let known = self
            .lookup_sender(&head)
            .filter(|sender| is_bulk(peeked) && sender.entry.status.load(Relaxed) == ALIVE)
            .and_then(|Sender { header, entry }| self.authenticate(entry.connection.get()?, header, &head, payload));
        Ok(known.and_then(|mut authenticated| {
            let AuthenticHeader {
                peer, header, number, ..
            } = &mut authenticated;
            let destination = peer.destination_of(header, *number, payload, &self.segments)?;
            Some(ExpectedDatagram {
                head,
                peeked,
                authenticated,
                destination,
            })
        }))
    }

    /// Receives what was looked at, or what comes behind it.
    pub fn receive_placed(&self, expected: ExpectedDatagram<'_>, context: &mut ReceiveContext) -> Placement {
        let ExpectedDatagram {
            head,
            peeked,
            authenticated,
            destination,
        } = expected;
        let buffer = &mut context.memory[context.start..context.start + RECV_BUFFER];
        let received = match self.socket.receive_split(buffer, HEADER_BYTES, destination) {
            Ok(received) => received,
            Err(why) if is_would_block(&why) => return Placement::Done,
            Err(why) if why.raw_os_error() == Some(libc::EFAULT) => {
                // A page of the place is not to be had, which a copy will say.
                self.zero_copy_from.store(self.now() + ZERO_COPY_PAUSE, Relaxed);
                return Placement::Done;
            }
            Err(_) => {
                // The peer is locked: later.
                self.has_icmp_errors.store(true, Relaxed);
                return Placement::Done;
            }
        };
        if received != peeked || buffer[..HEADER_BYTES] != head {
            let there = received.bytes.saturating_sub(HEADER_BYTES).min(destination.bytes);
            buffer[HEADER_BYTES..HEADER_BYTES + there].copy_from_slice(&destination.read()[..there]);
            context.found.clear();
            context.found.push(received);
            return Placement::Buffered;
        }
        let now = self.now();
        if self.keys.hash(destination.read()) != authenticated.hash {
            self.counters.rejected.fetch_add(1, Relaxed);
            self.zero_copy_from.store(now + ZERO_COPY_PAUSE, Relaxed);
            return Placement::Done;
        }
        let source = authenticated.header.source;
        context.touched.push(source);
        match self.accept(authenticated, context.deliverable, destination.read(), now, &mut context.done) {
            Disposition::Placed => context.delivered += 1,
            Disposition::Malformed => self.report_malformed(source),
            _ => {}
        }
        Placement::Done
    }
}
