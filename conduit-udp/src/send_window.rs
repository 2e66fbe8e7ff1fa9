//! What is under way of one class to one peer: datagrams that were not acknowledged yet.
//!
//! A number is kept when its datagram is sent again, so that round trips are measured on those that were sent once (Karn; RFC 6298, section 3).
#![forbid(unsafe_code)]

mod datagram;
mod loss;

use crate::fragment::{self, NARROW};
use crate::mac::Keys;
use crate::memory::Lent;
use crate::recv_window::WINDOW;
use crate::slab::Slots;
use crate::sys::{Pieces, RUN};
use crate::wire::{widen, Have, Header, Known, ACK_NOW, HEADER};
pub use datagram::Body;
use datagram::{Datagram, State};
use gasnet_conduit::TransferId;
pub use loss::News;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;

/// A put that is not complete.
#[derive(Debug)]
struct Put {
    id: TransferId,
    /// Bytes that have not come.
    left: usize,
}

/// Some datagrams in a row.
#[derive(Debug, Default)]
pub struct Run {
    places: Range<usize>,
    /// Bytes of their payloads.
    pub bytes: usize,
}

impl Run {
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// What the headers of a run say beside their own.
#[derive(Clone, Copy, Debug)]
pub struct Word {
    /// Rank of the peer.
    pub target: u32,
    /// What has come from it.
    pub have: [Have; 2],
    /// Whether the last one asks for an acknowledgement.
    pub asks: bool,
}

/// One class of one peer.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Number of the first of `window`.
    base: u64,
    window: VecDeque<Datagram>,
    /// How many of these are parts of long transfers.
    pub long: usize,
    /// Datagrams that are sent and neither come nor lost, and bytes of their payloads.
    pub under_way: usize,
    /// See [`Outgoing::under_way`].
    pub flight: usize,
    /// Bytes of payloads in `window` that are copies.
    pub kept: usize,
    puts: Slots<Put>,
    /// Puts that became complete.
    pub done: Vec<TransferId>,
    /// Datagrams that wait to be sent, bytes of their payloads, and where the first of them may be.
    waiting: usize,
    /// See [`Outgoing::waiting`].
    pub queued: usize,
    first_waiting: usize,
    /// Sendings so far, and the last of those that have come.
    sendings: u64,
    last_come: u64,
    last_come_at: u64,
    /// The last that has come or not, for its datagram has: the number of the sending, when that was, and since when this is known.
    perhaps_come: Option<(u64, u64, u64)>,
    /// Whether long datagrams go in pieces.
    pub narrow: bool,
    /// Whether they do not come through, as far as is known.
    pub suspect: bool,
}

impl Outgoing {
    /// Whether this many more datagrams are within the window.
    pub fn has_room(&self, datagrams: usize) -> bool {
        self.window.len() + datagrams <= WINDOW
    }

    /// Datagrams that are kept.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether everything was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Whether anything waits to be sent.
    pub fn waits(&self) -> bool {
        self.waiting > 0
    }

    /// The number of the next datagram.
    pub fn next(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    /// Keeps a datagram, whose number is [`Outgoing::next`]. It waits to be sent.
    pub fn push(&mut self, mut header: Header, body: Body, put: Option<usize>) {
        header.number = self.next() as u32;
        self.kept += body.kept();
        self.queued += body.len();
        if self.waiting == 0 {
            self.first_waiting = self.window.len();
        }
        self.waiting += 1;
        self.window.push_back(Datagram::new(header.encode(), body, put));
    }

    /// The same of a long transfer, of which others leave some room to messages.
    pub fn push_long(&mut self, header: Header, body: Body, put: Option<usize>) {
        self.push(header, body, put);
        if let Some(datagram) = self.window.back_mut() {
            datagram.long = true;
            self.long += 1;
        }
    }

    /// Begins a put of so many bytes; its number is for [`Outgoing::push`].
    pub fn begin_put(&mut self, id: TransferId, left: usize) -> usize {
        self.puts.add(Put { id, left })
    }

    /// The full number of the datagram whose low half an acknowledgement brings.
    pub fn number(&self, low: u32) -> u64 {
        widen(low, self.base)
    }

    /// Whether a datagram that has not come was last sent with this header.
    pub fn has_said(&self, number: u32, head: &[u8; HEADER]) -> bool {
        let index = self.number(number).checked_sub(self.base);
        let datagram = index.and_then(|index| self.window.get(index as usize));
        datagram.is_some_and(|datagram| matches!(datagram.state, State::Sent(_)) && datagram.head == *head)
    }

    /// Copies what is lent of memory that will not be there any more.
    pub fn copy_lent(&mut self, keys: &Keys, memory: Lent) {
        for datagram in self.window.iter_mut().filter(|datagram| datagram.state != State::Come) {
            if matches!(datagram.body, Body::Lent(lent) if lent.meets(memory)) {
                self.kept += datagram.hold(keys);
            }
        }
    }

    /// How many wait to be sent.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn goes_in_pieces(&self, datagram: &Datagram) -> bool {
        datagram.cut || (self.narrow && datagram.body.len() > NARROW)
    }

    /// The run of datagrams that are to be sent next: of no more than `room` bytes, or of one datagram if that may go in any case. What goes in pieces is
    /// a run of its own.
    pub fn run(&mut self, room: usize, in_any_case: bool) -> Run {
        if self.waiting == 0 {
            return Run::default();
        }
        while self.window[self.first_waiting].state != State::Waiting {
            self.first_waiting += 1;
        }
        let (from, mut run) = (self.first_waiting, Run::default());
        for datagram in self.window.range(from..).take(RUN) {
            let bytes = run.bytes + datagram.body.len();
            let fits = bytes <= room || (in_any_case && run.places.is_empty());
            let alone = self.goes_in_pieces(datagram);
            if datagram.state != State::Waiting || !fits || (alone && !run.places.is_empty()) {
                break;
            }
            let end = from + run.places.len() + 1;
            (run.places, run.bytes) = (from..end, bytes);
            if alone {
                break;
            }
        }
        run
    }

    /// The full number of the last datagram of a run that is not empty, and how many there are.
    pub fn last(&self, run: &Run) -> (u64, usize) {
        (self.base + run.places.end as u64 - 1, run.places.len())
    }

    /// Whether the last of a run is part of a put.
    pub fn is_put(&self, run: &Run) -> bool {
        self.window[run.places.end - 1].put.is_some()
    }

    /// Gives a run to `send`, complete with what the peer is to know. That says how many went, at `now`, which is returned.
    pub fn send(&mut self, keys: &Keys, run: &Run, word: Word, now: u64, send: &mut impl FnMut(&[Pieces<'_>]) -> usize) -> usize {
        let (base, last) = (self.base, run.places.end - 1);
        let known = |place: usize| Known {
            target: word.target,
            number: base + place as u64,
            next: word.have.map(|have| have.next),
        };
        let in_pieces = self.goes_in_pieces(&self.window[last]);
        for place in run.places.clone() {
            let datagram = &mut self.window[place];
            // What goes in pieces may go in part, and again.
            if in_pieces || datagram.is_to_be_held() {
                self.kept += datagram.hold(keys);
            }
            let hash = match &datagram.body {
                Body::Own(_, hash) => *hash,
                Body::Lent(lent) => keys.hash(lent.read()),
            };
            let asks = if place == last && word.asks { ACK_NOW } else { 0 };
            let flags = asks | datagram.try_flags();
            Header::renew(&mut datagram.head, flags, word.have);
            keys.seal(&mut datagram.head, &known(place), (datagram.body.len(), hash));
        }
        let sent = if in_pieces {
            self.window[last].cut = true;
            let Datagram { head, body, .. } = &self.window[last];
            usize::from(fragment::send(keys, head, &known(last), body.bytes(), send))
        } else if run.places.len() == 1 {
            let Datagram { head, body, .. } = &self.window[last];
            send(&[[IoSlice::new(head), IoSlice::new(body.bytes())]])
        } else {
            let mut all = [[IoSlice::new(&[]); 2]; RUN];
            for (to, datagram) in all.iter_mut().zip(self.window.range(run.places.clone())) {
                *to = [IoSlice::new(&datagram.head), IoSlice::new(datagram.body.bytes())];
            }
            send(&all[..run.places.len()])
        };
        for place in run.places.clone().take(sent) {
            let datagram = &mut self.window[place];
            self.sendings += 1;
            datagram.state = State::Sent(now);
            datagram.sent_as = self.sendings;
            datagram.sendings += 1;
            self.under_way += 1;
            self.flight += datagram.body.len();
            self.queued -= datagram.body.len();
            self.waiting -= 1;
        }
        sent
    }

    /// Takes in what the peer has, in full numbers. `free` gets the payloads that need not be kept. None: it has what was never sent, and nothing is taken in.
    pub fn acknowledged(&mut self, have: Have, now: u64, free: &mut Vec<Vec<u8>>) -> Option<News> {
        let next = have.next;
        let behind = 65 - u64::from(have.beyond.leading_zeros());
        let end = next.saturating_add(if have.beyond == 0 { 0 } else { behind });
        if end > self.next() {
            return None;
        }
        let mut news = News::default();
        for number in self.base..next {
            self.come(number, now, &mut news);
        }
        for bit in Bits(have.beyond) {
            self.come(next + 1 + bit, now, &mut news);
        }
        self.forget(free);
        Some(news)
    }

    /// The same of the whole window, 64 numbers at a time: `beyond` begins behind `next` + 64 × `word`.
    pub fn acknowledged_beyond(&mut self, next: u64, word: usize, beyond: u64, now: u64) -> News {
        let first = next + 1 + 64 * word as u64;
        let mut news = News::default();
        for bit in Bits(beyond) {
            if (self.base..self.next()).contains(&(first + bit)) {
                self.come(first + bit, now, &mut news);
            }
        }
        news
    }

    fn come(&mut self, number: u64, now: u64, news: &mut News) {
        let Some(index) = number.checked_sub(self.base).map(|i| i as usize) else {
            return;
        };
        let Some(datagram) = self.window.get_mut(index) else { return };
        match datagram.state {
            State::Come => return,
            State::Sent(at) => {
                self.under_way -= 1;
                self.flight -= datagram.body.len();
                if datagram.probes {
                    self.perhaps_come.get_or_insert((datagram.sent_as, at, now));
                } else if datagram.sent_as > self.last_come {
                    self.last_come = datagram.sent_as;
                    self.last_come_at = at;
                    if datagram.sendings == 1 {
                        news.round_trip = Some(now.saturating_sub(at));
                    }
                }
            }
            // It was thought lost, or came by an earlier sending.
            State::Waiting => {
                self.queued -= datagram.body.len();
                self.waiting -= 1;
            }
        }
        datagram.state = State::Come;
        let bytes = datagram.body.len();
        news.bytes += bytes;
        if !datagram.cut {
            news.whole = news.whole.max(bytes);
        }
        let Some(at) = datagram.put else { return };
        // A datagram becomes `Come` once only, so that no byte is counted twice.
        let Some(put) = self.puts.get(at) else { return };
        put.left -= bytes;
        if put.left == 0 {
            self.done.push(put.id);
            self.puts.remove(at);
        }
    }

    /// Whether so many nanoseconds have brought nothing that says otherwise: what was the answer to a probe was one to all.
    pub fn takes_answer(&mut self, patience: u64, now: u64) -> bool {
        let due = self
            .perhaps_come
            .filter(|&(.., since)| self.under_way == 0 || now >= since + patience);
        let Some((sending, at, _)) = due else { return false };
        self.perhaps_come = None;
        if sending > self.last_come {
            (self.last_come, self.last_come_at) = (sending, at);
        }
        self.under_way > 0
    }

    fn forget(&mut self, free: &mut Vec<Vec<u8>>) {
        while self.window.front().is_some_and(|d| d.state == State::Come) {
            if let Some(datagram) = self.window.pop_front() {
                self.long -= usize::from(datagram.long);
                self.kept -= datagram.body.kept();
                if let Body::Own(bytes, _) = datagram.body {
                    free.push(bytes);
                }
                self.base += 1;
                self.first_waiting = self.first_waiting.saturating_sub(1);
            }
        }
    }
}

/// Places of the bits that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let bit = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (bit < 64).then_some(u64::from(bit))
    }
}

#[cfg(test)]
mod tests;
