//! The return of credits: the words that peers have written, and those for peers.
#![forbid(unsafe_code)]

use super::arrivals::End;
use super::{Am, CreditWords, RequestPath};
use gasnet_conduit::JobRank;

impl Am {
    /// A peer has returned credits. False: they are impossible.
    #[inline]
    pub fn take_credits(&mut self, rank: JobRank, words: CreditWords) -> bool {
        // No process has more spaces than there are processes.
        if words[0] > self.peers.len() as u64 {
            return false;
        }
        let peer = self.peer(rank);
        let (mut released, mut replied) = (words[1] ^ peer.seen[1], words[2] ^ peer.seen[2]);
        peer.seen = words;
        peer.has_asked = false;
        while replied != 0 {
            let index = replied.trailing_zeros() as usize;
            replied &= replied - 1;
            let peer = self.peer(rank);
            if peer.slots[index] == u16::MAX {
                let units = usize::from(std::mem::take(&mut peer.units[index]));
                peer.free.give(index, units);
            } else {
                peer.early |= 1 << index;
            }
        }
        while released != 0 {
            let index = released.trailing_zeros() as usize;
            released &= released - 1;
            let Some(slot) = self.slot_of(rank, index) else {
                continue;
            };
            if self.slots[slot].has_reply {
                return false;
            }
            self.close(slot, true);
        }
        true
    }

    /// A request of a peer has run: its units are owed.
    #[inline]
    pub(super) fn release(&mut self, rank: JobRank, index: usize, end: End) {
        let (units, replied) = (end.units, end.has_replied);
        let (keeps, keeps_slots) = (self.layout.units / 2, self.layout.slot_count / 4);
        let peer = self.peer(rank);
        peer.words[if replied { 2 } else { 1 }] ^= 1 << index;
        peer.kept += units;
        let is_first = !replied && peer.kept_slots == 0;
        peer.kept_slots += usize::from(!replied);
        peer.is_due |= peer.kept > keeps || peer.kept_slots > keeps_slots || units == 0 || peer.wants;
        if peer.is_due {
            self.list(rank);
        } else if is_first {
            self.delayed.push(rank);
        }
    }

    /// Whether credits for slots are kept back.
    #[inline]
    pub fn delays_credits(&self) -> bool {
        !self.delayed.is_empty()
    }

    /// They have been kept for long enough.
    pub fn list_delayed(&mut self) {
        for rank in std::mem::take(&mut self.delayed) {
            let peer = self.peer(rank);
            if peer.kept_slots > 0 {
                peer.is_due = true;
                self.list(rank);
            }
        }
    }

    /// The peer to be asked for credits, because slots or units are short, if it was not asked.
    pub fn ask(&mut self, rank: JobRank) -> Option<JobRank> {
        let fetches = self.peer(rank).path == RequestPath::Rendezvous;
        let lacks_slots = self.free_low.is_empty() && (fetches || self.free_high.is_empty());
        let holder = if lacks_slots {
            self.asked = (self.asked + 1) % self.slots.len();
            self.slots[self.asked].peer
        } else {
            rank
        };
        let peer = self.peer(holder);
        let asks = matches!(peer.path, RequestPath::Eager(_)) && !std::mem::replace(&mut peer.has_asked, true);
        asks.then_some(holder)
    }

    /// It could not be asked.
    pub fn cancel_ask(&mut self, rank: JobRank) {
        self.peer(rank).has_asked = false;
    }

    /// A peer asks for credits.
    pub fn note_wanted(&mut self, rank: JobRank) {
        let peer = self.peer(rank);
        peer.wants = true;
        if peer.kept > 0 {
            peer.is_due = true;
            self.list(rank);
        }
    }

    /// The next peer that credits are to be returned to, until [`Am::take_due`] takes them.
    pub fn next_due(&mut self) -> Option<JobRank> {
        while let Some(rank) = self.due.last().copied() {
            let peer = self.peer(rank);
            if !peer.is_sending && peer.words != peer.sent {
                return Some(rank);
            }
            peer.is_listed = false;
            self.due.pop();
        }
        None
    }

    /// Takes the credits for the peer of [`Am::next_due`], which are sent now.
    pub fn take_due(&mut self) -> CreditWords {
        let Some(rank) = self.due.pop() else { return [0; 3] };
        let peer = self.peer(rank);
        (peer.is_sending, peer.is_listed, peer.is_due, peer.wants) = (true, false, false, false);
        (peer.sent, peer.kept, peer.kept_slots) = (peer.words, 0, 0);
        peer.sent
    }

    /// Credits have arrived at a peer. Returns whether it is due again.
    pub fn note_returned(&mut self, rank: JobRank) -> bool {
        let peer = self.peer(rank);
        peer.is_sending = false;
        let is_due = peer.is_due;
        if is_due {
            self.list(rank);
        }
        is_due
    }

    /// The peer is among the next [`Am::due`].
    fn list(&mut self, rank: JobRank) {
        let peer = self.peer(rank);
        if !std::mem::replace(&mut peer.is_listed, true) {
            self.due.push(rank);
        }
    }

    /// A request of a peer was fetched. Sets space aside for it, if it is time and there is some.
    pub fn note_fetch(&mut self, rank: JobRank) {
        let (next, count, fetches_before) = (self.next_space, self.layout.space_count, self.fetches_before);
        let peer = self.peer(rank);
        peer.fetched += 1;
        if peer.space.is_some() || peer.fetched < fetches_before || next >= count {
            return;
        }
        peer.space = Some(next);
        peer.words[0] = next as u64 + 1;
        peer.is_due = true;
        self.next_space += 1;
        self.list(rank);
    }

    /// Whether credits are to be returned.
    #[inline]
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }
}
