//! Who sent a datagram, and what it says: first its header proves itself, then its payload.
#![forbid(unsafe_code)]

use super::receive::Wanted;
use super::{lock, Net};
use crate::fragment::is_message;
use crate::peer::{Heard, Peer};
use crate::peer_table::{Contact, Place, HERE};
use crate::wire::{Header, Known, HEADER};
use gasnet_conduit::{JobRank, TransferId};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::MutexGuard;

/// A datagram of which the header has proved itself.
pub struct Unsealed<'a> {
    contact: &'a Contact,
    /// Who sent it.
    pub peer: MutexGuard<'a, Peer>,
    /// With full numbers of what it acknowledges.
    pub header: Header,
    /// Its own.
    pub number: u64,
    /// That its payload must have.
    pub hash: u64,
}

impl Net {
    /// What a datagram says, and who sent it. None: nobody of this job. Transfers that it completes go to `done`.
    pub fn hear(&self, wanted: Wanted, bytes: &[u8], now: u64, done: &mut Vec<TransferId>) -> Option<(JobRank, Heard)> {
        let (head, payload) = bytes.split_first_chunk::<HEADER>()?;
        let (header, place) = self.source(head)?;
        // Strangers make no contact.
        if place.peer.get().is_none() {
            let first = Known {
                target: self.rank,
                number: header.number.into(),
                next: header.have.map(|have| have.next),
            };
            if !self.keys.proves(head, &first, payload) {
                return None;
            }
        }
        let unsealed = self.unseal(self.contact(header.source), header, head, payload.len())?;
        let is_real = self.keys.hash(payload) == unsealed.hash;
        is_real.then(|| (header.source, self.take_in(unsealed, wanted, payload, now, done)))
    }

    /// Who sent it, if a header can be of this job.
    pub fn source(&self, head: &[u8; HEADER]) -> Option<(Header, &Place)> {
        let header = Header::decode(head).filter(|header| header.job == self.keys.job)?;
        Some((header, self.places.get(header.source as usize)?))
    }

    /// What its sender need not say of a datagram, if its header proves itself.
    pub fn unseal<'a>(&self, contact: &'a Contact, mut header: Header, head: &[u8; HEADER], bytes: usize) -> Option<Unsealed<'a>> {
        let peer = lock(&contact.state);
        let known = peer.know(&mut header);
        let hash = self.keys.opens(head, &known, bytes)?;
        Some(Unsealed {
            contact,
            peer,
            header,
            number: known.number,
            hash,
        })
    }

    /// Takes in a datagram whose payload has the right hash.
    pub fn take_in(&self, unsealed: Unsealed<'_>, wanted: Wanted, payload: &[u8], now: u64, done: &mut Vec<TransferId>) -> Heard {
        let Unsealed {
            contact,
            mut peer,
            header,
            number,
            ..
        } = unsealed;
        // Who leaves says so twice, and what was under way comes late.
        if self.places[header.source as usize].fate.load(Relaxed) != HERE {
            return Heard::Again;
        }
        let class = usize::from(header.class);
        let is_too_much = || self.deferred[class].bytes() >= self.settings.deferred && !peer.incoming[class].is_old(number);
        let heard = if !wanted.has(class) && is_message(&header, payload) && is_too_much() {
            // As good as lost: it will be sent again.
            peer.hear_word(&header, now)
        } else {
            peer.hear(&header, number, payload, now)
        };
        if heard != Heard::Again {
            if contact.refusals.load(Relaxed) != 0 {
                contact.refusals.store(0, Relaxed);
            }
            contact.heard.store(now, Relaxed);
            if !contact.has_spoken.load(Relaxed) {
                contact.has_spoken.store(true, Relaxed);
            }
            contact.ease(false);
        }
        peer.settle(heard, payload, &self.segments, done)
    }
}
