//! Zero-copy placement: the kernel copies long parts of transfers directly to their destination.
//!
//! The next datagram is peeked at before it is received. If its header is authentic, and its
//! payload has a destination that was not written yet, it is received into that destination; only
//! then the payload is verified. If the payload is forged, the datagram is dropped. The bytes in
//! the destination then do no harm: the transfer is in progress, and the real datagram will
//! overwrite them.
//!
//! The peer stays locked from the peek to the verification, so that no other thread accepts the
//! real datagram meanwhile. Another thread may receive the datagram that was peeked at. Then a
//! different one is received, and is processed as if it had been received into a buffer.
#![forbid(unsafe_code)]

use super::authenticate::AuthenticHeader;
use super::receive::ReceiveContext;
use super::Net;
use crate::memory::ClientMemory;
use crate::recv_window::Disposition;
use crate::sys::{Received, RECV_BUFFER};
use crate::wire::HEADER_BYTES;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::Relaxed;

/// Payload bytes above which the peek costs less than a copy.
const ZERO_COPY_MIN: usize = 16 << 10;
/// Nanoseconds for which placement is suspended after a payload failed verification in place. The
/// client may be writing there, so that no payload would ever match.
const ZERO_COPY_PAUSE: u64 = 10_000_000_000;

/// Result of an attempt to place a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroCopyOutcome {
    /// Nothing was received, or it has been processed.
    Done,
    /// A datagram is in the first buffer.
    Buffered,
    /// The next datagram is not suitable.
    NotTried,
}

/// Whether this is a single datagram that is worth placing.
pub fn is_bulk(received: Received) -> bool {
    received.bytes > HEADER_BYTES + ZERO_COPY_MIN && received.datagram_bytes() >= received.bytes
}

/// Whether an error means that no datagram is available.
pub fn is_would_block(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// The datagram that was peeked at.
pub struct ExpectedDatagram<'a> {
    head: [u8; HEADER_BYTES],
    /// Its length, as [`crate::sys::Socket::peek`] returned it.
    peeked: Received,
    authentic: AuthenticHeader<'a>,
    /// Destination of its payload.
    destination: ClientMemory,
}

impl Net {
    /// Whether placement is not suspended.
    pub fn may_zero_copy(&self) -> bool {
        let from = self.zero_copy_from.load(Relaxed);
        from == 0 || self.now() >= from
    }

    /// Receives the next datagram into its destination, if it is a long part of a transfer.
    pub fn receive_zero_copy(&self, context: &mut ReceiveContext) -> ZeroCopyOutcome {
        match self.peek_transfer() {
            Ok(Some(expected)) => self.receive_placed(expected, context),
            Ok(None) => ZeroCopyOutcome::NotTried,
            Err(error) if is_would_block(&error) => ZeroCopyOutcome::Done,
            // The kernel reports a pending error once only, so read the error queues now.
            Err(_) => {
                self.drain_icmp_errors();
                ZeroCopyOutcome::Done
            }
        }
    }

    /// Peeks at the next datagram. Returns it if its payload has a destination that was not written
    /// yet.
    pub fn peek_transfer(&self) -> io::Result<Option<ExpectedDatagram<'_>>> {
        let mut head = [0; HEADER_BYTES];
        let peeked = self.socket.peek(&mut head)?;
        let payload = peeked.bytes.saturating_sub(HEADER_BYTES);
        let authentic = self
            .lookup_sender(&head)
            .filter(|(header, _)| is_bulk(peeked) && self.states.is_present(header.source))
            .and_then(|(header, entry)| self.authenticate(entry.connection.get()?, header, &head, payload));
        Ok(authentic.and_then(|mut authentic| {
            let AuthenticHeader {
                peer, header, number, ..
            } = &mut authentic;
            let destination = peer.destination_of(header, *number, payload, &self.segments)?;
            Some(ExpectedDatagram {
                head,
                peeked,
                authentic,
                destination,
            })
        }))
    }

    /// Receives the datagram that was peeked at, or the one behind it.
    pub fn receive_placed(&self, expected: ExpectedDatagram<'_>, context: &mut ReceiveContext) -> ZeroCopyOutcome {
        let ExpectedDatagram {
            head,
            peeked,
            authentic,
            destination,
        } = expected;
        let buffer = &mut context.memory[context.start..context.start + RECV_BUFFER];
        let received = match self.socket.receive_split(buffer, HEADER_BYTES, destination) {
            Ok(received) => received,
            Err(error) if is_would_block(&error) => return ZeroCopyOutcome::Done,
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                // A page of the destination is inaccessible. The copy from a buffer will fault on
                // it.
                self.zero_copy_from.store(self.now() + ZERO_COPY_PAUSE, Relaxed);
                return ZeroCopyOutcome::Done;
            }
            Err(_) => {
                // The peer is locked, so the error queues are read by the next poll.
                self.has_icmp_errors.store(true, Relaxed);
                return ZeroCopyOutcome::Done;
            }
        };
        if received != peeked || buffer[..HEADER_BYTES] != head {
            let placed = received.bytes.saturating_sub(HEADER_BYTES).min(destination.bytes);
            buffer[HEADER_BYTES..HEADER_BYTES + placed].copy_from_slice(&destination.read()[..placed]);
            context.found.clear();
            context.found.push(received);
            return ZeroCopyOutcome::Buffered;
        }
        let now = self.now();
        if self.keys.hash(destination.read()) != authentic.hash {
            self.counters.rejected.fetch_add(1, Relaxed);
            self.zero_copy_from.store(now + ZERO_COPY_PAUSE, Relaxed);
            return ZeroCopyOutcome::Done;
        }
        let source = authentic.header.source;
        context.touched.push(source);
        match self.accept(
            (authentic, destination.read()),
            context.deliverable,
            now,
            &mut context.done,
        ) {
            Disposition::Placed => context.delivered += 1,
            Disposition::Malformed => self.report_malformed(source),
            _ => {}
        }
        ZeroCopyOutcome::Done
    }
}
