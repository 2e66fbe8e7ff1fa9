//! Authentication of datagrams: first the header's MAC, then the payload's.
#![forbid(unsafe_code)]

use super::receive::Deliverable;
use super::Net;
use crate::fragment::is_message;
use crate::peer::Peer;
use crate::peers::{Connection, PeerEntry};
use crate::recv_window::Disposition;
use crate::wire::{Header, ImplicitFields, HEADER_BYTES};
use gasnet_conduit::{Cookie, JobRank};
use gasnet_sys::atomic::MutexGuard;
use gasnet_sys::lock;
use std::sync::atomic::Ordering::Relaxed;

/// A datagram whose header is authentic. Its payload is not verified yet.
pub struct AuthenticHeader<'a> {
    connection: &'a Connection,
    /// The sender's state, locked.
    pub peer: MutexGuard<'a, Peer>,
    /// The header, with the full numbers of its acknowledgements.
    pub header: Header,
    /// The full number of the datagram.
    pub number: u64,
    /// The hash that an authentic payload has.
    pub hash: u64,
}

impl Net {
    /// Authenticates and processes a datagram. Returns its sender, and the work left to the caller;
    /// `None`: no rank of this job sent it. Local transfers that it completes are appended to
    /// `done`.
    pub fn on_datagram(
        &self,
        deliverable: Deliverable,
        bytes: &[u8],
        now: u64,
        done: &mut Vec<Cookie>,
    ) -> Option<(JobRank, Disposition)> {
        let (head, payload) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (header, entry) = self.lookup_sender(head)?;
        // An unauthenticated peer gets no connection.
        if entry.connection.get().is_none() {
            let first = ImplicitFields {
                target: self.rank,
                number: header.number.into(),
                next: header.sacks.map(|sack| sack.next),
            };
            if !self.keys.verify(head, &first, payload) {
                return None;
            }
        }
        let authentic_header = self.authenticate(self.connection(header.source), header, head, payload.len())?;
        let is_authentic = self.keys.hash(payload) == authentic_header.hash;
        is_authentic.then(|| {
            let disposition = self.accept((authentic_header, payload), deliverable, now, done);
            (header.source, disposition)
        })
    }

    /// The decoded header, and the table entry of the sender that it names, if it can belong to
    /// this job. It is not authenticated yet.
    pub fn lookup_sender(&self, head: &[u8; HEADER_BYTES]) -> Option<(Header, &PeerEntry)> {
        let header = Header::decode(head).filter(|header| header.job == self.keys.job)?;
        Some((header, self.peers.get(header.source.index())?))
    }

    /// Verifies the MAC of a header and returns what its sender did not transmit. `None`: it is not
    /// authentic.
    pub fn authenticate<'a>(
        &self,
        connection: &'a Connection,
        mut header: Header,
        head: &[u8; HEADER_BYTES],
        bytes: usize,
    ) -> Option<AuthenticHeader<'a>> {
        let peer = lock(&connection.state);
        let known = peer.implicit_fields(&mut header);
        let hash = self.keys.verify_header(head, &known, bytes)?;
        Some(AuthenticHeader {
            connection,
            peer,
            header,
            number: known.number,
            hash,
        })
    }

    /// Processes a datagram whose payload is authentic, too. Local transfers that it completes are
    /// appended to `done`.
    pub fn accept(
        &self,
        (authentic, payload): (AuthenticHeader<'_>, &[u8]),
        deliverable: Deliverable,
        now: u64,
        done: &mut Vec<Cookie>,
    ) -> Disposition {
        let AuthenticHeader {
            connection,
            mut peer,
            header,
            number,
            ..
        } = authentic;
        // A peer sends its Close twice, and earlier datagrams may arrive after it.
        if !self.states.is_present(header.source) {
            return Disposition::Duplicate;
        }
        let class = header.class;
        let is_over_limit = || {
            let is_full = self.deferred[class].bytes() >= self.settings.deferred_bytes;
            is_full && !peer.rx[class].is_stale(number)
        };
        let disposition = if !deliverable.includes(class) && is_message(&header, payload) && is_over_limit() {
            // The packet counts as lost, and its sender will retransmit it.
            peer.process_acks(&header, now)
        } else {
            peer.receive(&header, number, payload, now)
        };
        if disposition != Disposition::Duplicate {
            if connection.refusals.load(Relaxed) != 0 {
                connection.refusals.store(0, Relaxed);
            }
            connection.last_received.store(now, Relaxed);
            if !connection.has_received.load(Relaxed) {
                connection.has_received.store(true, Relaxed);
            }
            connection.clear_send_errors(false);
        }
        peer.apply(disposition, payload, &self.segments, done)
    }
}
