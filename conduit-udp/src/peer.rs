//! One peer: both classes in both directions, and what is owed to it. No system calls: [`crate::net`] sends what this says.
#![forbid(unsafe_code)]

mod receive;

use crate::congestion::Pace;
use crate::fragment::Gathering;
use crate::mac::Keys;
use crate::memory::Lent;
use crate::pmtu::Path;
use crate::recv_window::{Incoming, WINDOW};
use crate::send_window::{Body, News, Outgoing, Word};
use crate::slab::Slots;
use crate::sys::Pieces;
use crate::transfers::{Get, Stream};
use crate::variables::Settings;
use crate::wire::{Have, Header, Kind, HEADER, UNIT};
use crate::MAX_PACKET_BYTES;
pub use receive::Heard;
use std::collections::VecDeque;

/// Every so many datagrams ask for an acknowledgement.
const ASK_EACH: u64 = 64;
/// So many requests go together, or so many bytes of them.
const COMPANY: usize = 16;
const COMPANY_BYTES: usize = 48 << 10;
/// Bytes of messages that a class keeps, whole messages but the first.
const MOST_KEPT: usize = 1 << 20;

/// Who sends by turns: requests, answers to gets, long puts.
const TURNS: usize = 3;

/// A window holds a largest packet twice.
const LEAST_PAYLOAD: usize = (2 * MAX_PACKET_BYTES / WINDOW).next_multiple_of(64);

/// Who speaks to whom.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// This process.
    pub me: u32,
    /// The peer.
    pub peer: u32,
}

/// What one class waits for.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Since when everything that was sent has been unanswered.
    asked: u64,
    /// When something was last sent, or came that helps.
    moved: u64,
    /// Whether nothing has come since it was taken for lost.
    probing: bool,
}

impl Clock {
    fn new(now: u64) -> Self {
        Self {
            asked: now,
            moved: now,
            probing: false,
        }
    }
}

/// What is known of a peer since the first contact.
#[derive(Debug)]
pub struct Peer {
    pair: Pair,
    /// By class, as all that is.
    pub out: [Outgoing; 2],
    /// See [`Peer::out`].
    pub incoming: [Incoming; 2],
    gathering: [Gathering; 2],
    /// Long transfers, whose datagrams are made when they can go: puts, and answers to gets.
    pub streams: [VecDeque<Stream>; 2],
    /// Gets whose bytes have not all come.
    pub gets: Slots<Get>,
    /// Whose turn it is to send.
    turn: usize,
    /// How much may go there.
    pub pace: Pace,
    path: Path,
    /// Payload of its largest datagrams.
    pub datagram: usize,
    /// Datagrams of requests that may be under way.
    pub depth: usize,
    /// Datagrams that came since the last acknowledgement, when the first of them came, and whether that is wanted at once.
    owed: (u32, u64, bool),
    /// Number of the next datagram without data in each direction: from here, and from there.
    said: u64,
    told: u64,
    /// The header of the last one from here.
    last_said: [u8; HEADER],
    /// By class: what one hears says nothing about the other, whose only datagram may be lost.
    clocks: [Clock; 2],
    /// Payload buffers that no datagram needs.
    free: Vec<Vec<u8>>,
    /// Whether the list of peers to look at has it.
    pub listed: bool,
    /// Whether the list of those has it for whom requests wait.
    pub held: bool,
}

impl Peer {
    /// At first contact. `datagram` is the payload of the largest datagrams, `first` how many bytes may be sent before anything comes back.
    pub fn new(pair: Pair, datagram: usize, first: usize, settings: &Settings, now: u64) -> Self {
        Self {
            pair,
            out: Default::default(),
            incoming: Default::default(),
            gathering: Default::default(),
            streams: Default::default(),
            gets: Slots::default(),
            turn: 0,
            pace: Pace::new(datagram, first, settings.first_probe),
            depth: settings.depth,
            path: Path::new(datagram),
            datagram,
            owed: (0, 0, false),
            said: 0,
            told: 0,
            last_said: [0; HEADER],
            clocks: [Clock::new(now); 2],
            free: Vec::new(),
            listed: false,
            held: false,
        }
    }

    /// Whether a message of so many bytes can be kept until it has come.
    pub fn has_room(&self, class: usize, bytes: usize) -> bool {
        let out = &self.out[class];
        let is_deep = class == 0 && out.len() - out.long >= self.depth;
        let parts = self.parts(bytes);
        !is_deep && out.has_room(parts) && self.has_share(class, parts) && (out.is_empty() || out.kept + bytes <= MOST_KEPT)
    }

    /// The path to the peer takes other datagrams now. Those that were made are sent as they are: the kernel cuts what the path does not take.
    pub fn resize(&mut self, datagram: usize) {
        self.path.resize(datagram);
        self.follow_path();
    }

    fn follow_path(&mut self) {
        self.datagram = self.path.payload();
        self.pace.resize(self.datagram);
        for out in &mut self.out {
            (out.narrow, out.suspect) = (self.path.is_narrow(), self.path.is_suspect());
        }
    }

    /// Datagrams of a message.
    pub fn parts(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.datagram).max(1)
    }

    /// Bytes of each but the last of the datagrams of so many bytes: about equally many, so that the one that comes last is not there long after the others.
    pub fn part(&self, bytes: usize) -> usize {
        let equal = bytes.div_ceil(self.parts(bytes));
        equal.next_multiple_of(UNIT).min(self.datagram)
    }

    /// Keeps a message, for which there is room; it waits to be sent.
    pub fn keep(&mut self, keys: &Keys, class: usize, slices: &[&[u8]]) {
        let message: usize = slices.iter().map(|slice| slice.len()).sum();
        let parts = self.parts(message);
        let each = self.part(message);
        let mut rest = slices.iter().copied();
        let mut slice: &[u8] = &[];
        for part in 0..parts {
            let bytes = each.min(message - part * each);
            let mut payload = self.free.pop().unwrap_or_default();
            payload.clear();
            while payload.len() < bytes {
                if slice.is_empty() {
                    let Some(next) = rest.next() else { break };
                    slice = next;
                    continue;
                }
                let take = slice.len().min(bytes - payload.len());
                payload.extend_from_slice(&slice[..take]);
                slice = &slice[take..];
            }
            let header = Header {
                message: message as u32,
                part: part as u16,
                parts: parts as u16,
                ..self.header(keys, Kind::Data, class)
            };
            let hash = keys.hash(&payload);
            self.out[class].push(header, Body::Own(payload, hash), None);
        }
    }

    /// A header that says nothing yet.
    pub fn header(&self, keys: &Keys, kind: Kind, class: usize) -> Header {
        Header {
            job: keys.job,
            kind,
            class: class as u8,
            flags: 0,
            source: self.pair.me,
            number: 0,
            message: 0,
            part: 0,
            parts: 0,
            have: [Have::default(); 2],
        }
    }

    /// A copy of what somebody lends, in a buffer that was used before.
    pub fn copy(&mut self, keys: &Keys, lent: Lent) -> Body {
        let mut copy = self.free.pop().unwrap_or_default();
        copy.clear();
        lent.copy_to(&mut copy);
        let hash = keys.hash(&copy);
        Body::Own(copy, hash)
    }

    /// Whether something is under way that will be acknowledged.
    pub fn awaits_answer(&self) -> bool {
        self.out.iter().any(|out| out.under_way > 0)
    }

    /// Whether so many requests wait that they should go, puts that are not cut into datagrams yet among them.
    pub fn has_company(&self) -> bool {
        let puts = &self.streams[0];
        let bytes: usize = puts.iter().take(COMPANY).map(Stream::left).sum();
        self.out[0].waiting() + puts.len() >= COMPANY || self.out[0].queued + bytes >= COMPANY_BYTES
    }

    fn flight(&self) -> usize {
        self.out[0].flight + self.out[1].flight
    }

    /// Gives `send` what may go now, in runs; it says how many of a run went, and less than all ends it. Replies go first, and what is sent again of
    /// answers to gets; requests, long puts and answers to gets by turns, so that none of them waits for the end of the others.
    pub fn transmit(&mut self, keys: &Keys, now: u64, mut send: impl FnMut(&[Pieces<'_>]) -> usize) {
        if self.path.tries_again(now) {
            self.follow_path();
        }
        let (target, have) = (self.pair.peer, [self.incoming[0].have(), self.incoming[1].have()]);
        loop {
            let (flight, window) = (self.flight(), self.pace.window);
            let (room, first) = (window.saturating_sub(flight), !self.awaits_answer());
            let Some((class, turn, next_turn)) = self.next_class(keys, room, first) else {
                return;
            };
            let is_last = self.streams[class].is_empty();
            let out = &mut self.out[class];
            let run = out.run(room, first);
            if run.is_empty() {
                // It keeps its turn until there is room.
                self.turn = turn;
                return;
            }
            let (last, count) = out.last(&run);
            // Somebody waits for the end of a put.
            let ends_put = is_last && out.waiting() == count && out.is_put(&run);
            let asks = ends_put || 2 * (flight + run.bytes) >= window || (last + 1) % ASK_EACH < count as u64;
            let clock = &mut self.clocks[class];
            if out.under_way == 0 && !clock.probing {
                clock.asked = now;
            }
            let word = Word { target, have, asks };
            let sent = out.send(keys, &run, word, now, &mut send);
            if sent > 0 {
                clock.moved = now;
                self.turn = next_turn;
                if self.header_says_all() {
                    self.owed = (0, 0, false);
                }
            }
            if sent < count {
                return;
            }
        }
    }

    /// The class of which something is to go next, for which datagrams are made if need be; whose turn it is, and will be when that has gone. None:
    /// nothing waits.
    fn next_class(&mut self, keys: &Keys, room: usize, in_any_case: bool) -> Option<(usize, usize, usize)> {
        if self.out[1].waits() {
            return Some((1, self.turn, self.turn));
        }
        for i in 0..TURNS {
            let turn = (self.turn + i) % TURNS;
            let class = [0, 1, 0][turn];
            if turn > 0 && (room > 0 || in_any_case) {
                self.pull(keys, class, room);
            }
            if self.out[class].waits() {
                return Some((class, turn, (turn + 1) % TURNS));
            }
        }
        None
    }

    /// How long everything that was sent of a class has been unanswered; of that which waits longer.
    pub fn unanswered(&self, now: u64) -> u64 {
        let classes = self.out.iter().zip(&self.clocks).filter(|(out, _)| out.under_way > 0);
        classes.map(|(_, clock)| now.saturating_sub(clock.asked)).max().unwrap_or(0)
    }

    /// This process did nothing for a while: what has been unanswered meanwhile may have been answered.
    pub fn was_away(&mut self, now: u64) {
        self.clocks.iter_mut().for_each(|clock| clock.asked = now);
    }

    /// What was sent of a class is taken for lost, in part, if nothing of it has moved for long enough. Returns whether all of it was.
    pub fn look(&mut self, now: u64) -> bool {
        for class in 0..2 {
            if self.out[class].takes_answer(self.pace.patience(), now) {
                self.find_lost(class, News::default(), now);
            }
        }
        let after = self.pace.probe_after();
        let waits = |class: usize, after: u64| self.out[class].under_way > 0 && now >= self.clocks[class].moved + after;
        if !waits(0, after) && !waits(1, after) {
            return false;
        }
        // Both by one probe, where that is not much too early.
        let late = [0, 1].map(|class| waits(class, after / 2));
        let everything = self.pace.probed();
        for class in (0..2).filter(|&class| late[class]) {
            let clock = &mut self.clocks[class];
            (clock.moved, clock.probing) = (now, true);
            let news = self.out[class].probe(everything);
            self.judge_path(news, now);
        }
        everything
    }

    /// Whether nothing is under way, or owed.
    pub fn is_quiet(&self) -> bool {
        self.out.iter().all(Outgoing::is_empty) && self.streams.iter().all(VecDeque::is_empty) && self.owed.0 == 0
    }
}

/// The payload of the largest datagrams on a path that takes `bytes` at once: so that trains of them are aligned where they arrive. Every packet fits
/// into a window.
pub fn payload_of(bytes: usize) -> usize {
    (bytes / 64 * 64)
        .saturating_sub(HEADER)
        .clamp(LEAST_PAYLOAD, MAX_PACKET_BYTES)
}

#[cfg(any(test, fuzzing))]
pub mod link;
#[cfg(test)]
mod tests;
