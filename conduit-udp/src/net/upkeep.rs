//! What time brings: probes, late acknowledgements, word from hosts about what they could not deliver, and the end.
#![forbid(unsafe_code)]

use super::{lock, Net, LOOK};
use crate::place::{HERE, LOST};
use crate::wire::Kind;
use gasnet::conduit::JobRank;
use std::io::{ErrorKind, IoSlice};
use std::sync::atomic::Ordering::Relaxed;

/// With many peers that have something under way they are looked at less often, nanoseconds.
const LOOK_EACH: u64 = 1_000;
/// Times that a peer's host says that nobody listens there, with so much time between them, before the peer is lost.
const REFUSALS: u8 = 3;
const REFUSED_AGAIN: u64 = 10_000_000;
/// A peer that is silent for so long, nanoseconds, is sent something, so that its host can say that it is gone. With many peers less often.
pub const BEAT: u64 = 500_000_000;
const BEAT_EACH: u64 = 1_000_000;

impl Net {
    /// Says something to peers that are silent.
    pub fn beat(&self, now: u64) {
        let next = self.next_beat.swap(now + BEAT, Relaxed);
        if now < next {
            // Another thread does it.
            return;
        }
        let (mut contacts, mut doubts) = (0, false);
        for place in &self.places {
            let Some(contact) = place.peer.get().filter(|_| place.fate.load(Relaxed) == HERE) else {
                continue;
            };
            contacts += 1;
            let refused = contact.refusals.load(Relaxed) > 0;
            doubts |= refused;
            if refused || now >= contact.heard.load(Relaxed) + BEAT {
                self.acknowledge(contact, &mut lock(&contact.state));
            }
        }
        let next = if doubts { REFUSED_AGAIN } else { BEAT + BEAT_EACH * contacts };
        self.next_beat.store(now + next, Relaxed);
    }

    /// Looks at the peers with something under way.
    pub fn look(&self, now: u64) {
        let Ok(mut active) = self.active.try_lock() else { return };
        let ranks = std::mem::take(&mut *active);
        self.next_look.store(now + LOOK + LOOK_EACH * ranks.len() as u64, Relaxed);
        drop(active);
        let mut rest = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let contact = self.contact(rank);
            let mut peer = lock(&contact.state);
            let here = self.places[rank as usize].fate.load(Relaxed) == HERE;
            if here {
                peer.look(now);
                if peer.is_ack_due(now) {
                    self.acknowledge(contact, &mut peer);
                }
                peer.transmit(&self.keys, now, |run| self.put(contact, run));
            }
            if here && !peer.is_quiet() {
                rest.push(rank);
            } else {
                peer.listed = false;
            }
        }
        let mut active = lock(&self.active);
        active.append(&mut rest);
        if active.is_empty() {
            self.next_look.store(u64::MAX, Relaxed);
        }
    }

    /// Reads what hosts said about datagrams that they could not deliver.
    pub fn hear_errors(&self) {
        while let Some((why, Some(address))) = self.socket.next_error() {
            if why.kind() != ErrorKind::ConnectionRefused {
                continue;
            }
            let Some(rank) = self.places.iter().position(|place| place.address == address) else {
                continue;
            };
            let Some(contact) = self.places[rank].peer.get() else {
                continue;
            };
            let now = self.now();
            let refusals = contact.refusals.load(Relaxed);
            if refusals > 0 && now < contact.refused_at.load(Relaxed) + REFUSED_AGAIN {
                continue;
            }
            contact.refused_at.store(now, Relaxed);
            contact.refusals.store(refusals.saturating_add(1), Relaxed);
            if refusals + 1 >= REFUSALS {
                self.lose(
                    rank as JobRank,
                    "its host says that nobody listens at its port any more".to_owned(),
                );
            }
        }
    }

    /// Notes that a peer is gone, for the next poll to report, once.
    pub fn lose(&self, rank: JobRank, why: String) {
        let place = &self.places[rank as usize];
        if place.fate.compare_exchange(HERE, LOST, Relaxed, Relaxed).is_ok() {
            lock(&self.losses).push((rank, why));
            self.has_losses.store(true, Relaxed);
        }
    }

    /// Takes leave of all peers that were spoken to.
    pub fn stop(&self) {
        self.let_go(self.now());
        self.stopped.store(true, Relaxed);
        for _ in 0..2 {
            for contact in self.places.iter().filter_map(|place| place.peer.get()) {
                let header = lock(&contact.state).control(&self.keys, Kind::Bye, &[]);
                self.put(contact, &[[IoSlice::new(&header), IoSlice::new(&[])]]);
            }
        }
    }
}
