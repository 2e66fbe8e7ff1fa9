//! What time brings: probes, late acknowledgements, word from hosts about what they could not deliver, and the end.
#![forbid(unsafe_code)]

use super::{lock, Net, LOOK};
use crate::peer::payload_of;
use crate::peer_table::{Contact, Trouble, HERE, LOST};
use crate::sys;
use crate::wire::{Kind, HEADER};
use gasnet_conduit::JobRank;
use gasnet_sys::fd;
use std::io::{self, ErrorKind, IoSlice, Write};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

/// With many peers that have something under way they are looked at less often, nanoseconds.
const LOOK_EACH: u64 = 1_000;
/// Times that a peer's host says that nobody listens there, with so much time between them, before the peer is lost.
const REFUSALS: u8 = 3;
const REFUSED_AGAIN: u64 = 10_000_000;
/// With so much time between them a silent peer that was refused is sent something: the word of its host quotes the last of these, and takes its time.
const DOUBTED_AGAIN: u64 = 100_000_000;
/// A process that has not looked for so long was away: nobody can have answered it.
const AWAY: u64 = 1_000_000_000;
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
        for contact in self.contacts() {
            if self.places[contact.rank as usize].fate.load(Relaxed) != HERE {
                continue;
            }
            contacts += 1;
            let refused = contact.refusals.load(Relaxed) > 0;
            doubts |= refused;
            if refused || now >= contact.heard.load(Relaxed) + BEAT {
                self.acknowledge(contact, &mut lock(&contact.state));
                // This host may say at once that nobody is there. To the main socket it would have been told unasked.
                if contact.line.is_some() {
                    self.has_errors.store(true, Relaxed);
                }
            }
        }
        let next = if doubts { DOUBTED_AGAIN } else { BEAT + BEAT_EACH * contacts };
        self.next_beat.store(now + next, Relaxed);
    }

    /// Looks at the peers with something under way.
    pub fn look(&self, now: u64) {
        let Ok(mut active) = self.active.try_lock() else { return };
        let ranks = std::mem::take(&mut *active);
        let next = now + LOOK + LOOK_EACH * ranks.len() as u64;
        self.next_look.store(next, Relaxed);
        let was_away = now > self.looked.swap(now, Relaxed) + AWAY;
        drop(active);
        let mut rest = Vec::with_capacity(ranks.len());
        let (mut doubtful, mut spoken) = (None, None);
        for rank in ranks {
            let contact = self.contact(rank);
            let mut peer = lock(&contact.state);
            let here = self.places[rank as usize].fate.load(Relaxed) == HERE;
            if here {
                if was_away {
                    peer.was_away(now);
                }
                if peer.look(now) {
                    if contact.line.is_some() {
                        self.has_errors.store(true, Relaxed);
                    }
                    if self.look_at_path(contact) {
                        contact.is_changed.store(false, Relaxed);
                        peer.resize(contact.path.load(Relaxed));
                    }
                }
                let silent = peer.unanswered(now);
                let limit = self.limit_of_silence(contact, silent, &mut spoken);
                self.judge_silence(contact, silent, limit);
                if silent > self.settings.doubts && !contact.has_spoken.load(Relaxed) {
                    doubtful.get_or_insert((contact, silent, limit));
                }
                peer.transmit(&self.keys, now, |run| self.put(contact, run));
                if peer.is_ack_due(now) {
                    self.acknowledge(contact, &mut peer);
                }
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
        } else {
            // Another thread may have found nothing meanwhile, for this one had taken it all.
            self.next_look.fetch_min(next, Relaxed);
        }
        drop(active);
        // Who reads that may pause, and whom this thread serves must not wait for him.
        let doubtful = doubtful.filter(|_| fd::is_writable(2) && !self.has_doubted.swap(true, Relaxed));
        if let Some((contact, silent, limit)) = doubtful {
            self.doubt(contact, silent, limit);
        }
    }

    /// Reads what hosts said about datagrams that they could not deliver. No peer may be locked by this thread.
    pub fn hear_errors(&self) {
        let lines = self.contacts().filter_map(|contact| contact.line.as_ref());
        for socket in std::iter::once(&self.socket).chain(lines) {
            let mut quote = [0; HEADER];
            while let Some((why, Some(address), quote)) = socket.next_error(&mut quote) {
                self.hear_error(&why, address, quote);
            }
        }
    }

    /// Takes in that a datagram to `address` was not delivered, which began like `quote`. Anybody may say so, but only who has seen the datagram
    /// can quote it.
    pub fn hear_error(&self, why: &io::Error, address: SocketAddr, quote: &[u8]) {
        let at = |contact: &&Contact| self.places[contact.rank as usize].address == address;
        let Some(contact) = self.contacts().find(at) else { return };
        if why.raw_os_error() == Some(libc::EMSGSIZE) || !lock(&contact.state).has_said(quote) {
            return;
        }
        if why.kind() != ErrorKind::ConnectionRefused {
            self.trouble(contact, why, false);
            return;
        }
        let now = self.now();
        let refusals = contact.refusals.load(Relaxed);
        if refusals > 0 && now < contact.refused_at.load(Relaxed) + REFUSED_AGAIN {
            return;
        }
        contact.refused_at.store(now, Relaxed);
        contact.refusals.store(refusals.saturating_add(1), Relaxed);
        if refusals + 1 >= REFUSALS {
            let ip = self.places[contact.rank as usize].address.ip();
            let hint = if ip.is_loopback() && self.spans_hosts {
                format!("any more; {ip}, where it is said to be, is this host itself: GASNET_WORKERIP must name a network that joins the hosts")
            } else if contact.has_spoken.load(Relaxed) || contact.line.is_some() {
                "any more".to_owned()
            } else {
                format!("(nothing was ever heard from {ip}: perhaps a firewall that rejects UDP says so)")
            };
            self.lose(contact.rank, format!("its host says that nobody listens at its port {hint}"));
        }
    }

    /// Looks whether the path to a peer takes other datagrams than it did. The peer's state is yet to hear of that.
    pub fn look_at_path(&self, contact: &Contact) -> bool {
        let address = self.places[contact.rank as usize].address;
        let Ok(largest) = sys::largest_to(address) else { return false };
        let payload = payload_of(largest);
        let changed = contact.path.swap(payload, Relaxed) != payload;
        if changed {
            contact.is_changed.store(true, Relaxed);
        }
        changed
    }

    /// A datagram could not be sent: that is one lost. When it lasts it is the peer that is.
    pub fn trouble(&self, contact: &Contact, why: &io::Error, is_here: bool) {
        let mut trouble = lock(&contact.trouble);
        let now = self.now();
        let next = Trouble::after(*trouble, now, is_here);
        let since = next.since;
        *trouble = Some(next);
        contact.has_trouble.store(true, Relaxed);
        drop(trouble);
        if now - since >= self.settings.refusals {
            let ip = self.places[contact.rank as usize].address.ip();
            let hint = match why.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => "a firewall or another rule of this host forbids it",
                Some(libc::ENOBUFS) => "its network interface takes nothing",
                Some(libc::EHOSTUNREACH) if !is_here && !contact.has_spoken.load(Relaxed) => {
                    "a firewall that rejects UDP may say so; `ip route get` with that address may say more, and GASNET_WORKERIP names another network"
                }
                _ => "`ip route get` with that address may say more, and GASNET_WORKERIP names another network",
            };
            self.lose(contact.rank, format!("datagrams to {ip} cannot be sent: {why}; {hint}"));
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
        let (strange, again) = (self.counters.strange.load(Relaxed), self.counters.again.load(Relaxed));
        if self.settings.verbose && strange + again > 0 {
            let line = format!(
                "gasnet: rank {} dropped {strange} datagrams that were damaged, forged or not for it, and {again} that had come before\n",
                self.rank
            );
            // At once, for other ranks say the like at the same time.
            let _ = io::stderr().write_all(line.as_bytes());
        }
        self.stopped.store(true, Relaxed);
        self.keeper.dismiss();
        for _ in 0..2 {
            for contact in self.places.iter().filter_map(|place| place.peer.get()) {
                // A signal may have come while this very thread was at it: then the peer learns from its agent that the job ends.
                let Ok(mut state) = contact.state.try_lock() else { continue };
                let header = state.control(&self.keys, Kind::Bye, &[]);
                drop(state);
                self.put(contact, &[[IoSlice::new(&header), IoSlice::new(&[])]]);
            }
        }
    }
}
