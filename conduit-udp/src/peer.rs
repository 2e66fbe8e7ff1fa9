//! One peer: both classes in both directions, and what is owed to it. No system calls: [`crate::net`] sends what this says.
#![forbid(unsafe_code)]

use crate::incoming::{Incoming, Taken, ALL_ACKS, WINDOW};
use crate::memory::Lent;
use crate::outgoing::{Body, News, Outgoing};
use crate::pace::{Pace, ACK_DELAY};
use crate::packet::Packet;
use crate::path::Path;
use crate::pieces::{Gathered, Gathering};
use crate::slots::Slots;
use crate::sys::Pieces;
use crate::tag::Keys;
use crate::transfers::{Get, Stream};
use crate::variables::Settings;
use crate::wire::{Have, Header, Kind, ACK_NOW, HEADER};
use crate::MAX_PACKET_BYTES;
use std::collections::VecDeque;

/// Datagrams that come before an acknowledgement goes, if nothing else goes there.
const ACK_AFTER: u32 = 32;
/// Every so many datagrams ask for an acknowledgement.
const ASK_EACH: u64 = 64;
/// Bytes of messages that a class keeps, whole messages but the first.
const MOST_KEPT: usize = 1 << 20;

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

/// What is known of a peer since the first contact.
#[derive(Debug)]
pub struct Peer {
    pair: Pair,
    /// By class, as all that is.
    pub out: [Outgoing; 2],
    incoming: [Incoming; 2],
    gathering: [Gathering; 2],
    /// Long transfers, whose datagrams are made when they can go: puts, and answers to gets.
    pub streams: [VecDeque<Stream>; 2],
    /// Gets whose bytes have not all come.
    pub gets: Slots<Get>,
    /// How much may go there.
    pub pace: Pace,
    path: Path,
    /// Payload of its largest datagrams.
    pub datagram: usize,
    /// Datagrams of requests that may be under way.
    depth: usize,
    /// Since when everything that was sent has been unanswered.
    asked: u64,
    /// Datagrams that came since the last acknowledgement, when the first of them came, and whether that is wanted at once.
    owed: (u32, u64, bool),
    /// When something was last sent, or came that helps.
    moved: u64,
    /// Payload buffers that no datagram needs.
    free: Vec<Vec<u8>>,
    /// Whether the list of peers to look at has it.
    pub listed: bool,
}

/// What [`Peer::hear`] makes of a datagram.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// Nothing for the runtime.
    Nothing,
    /// Its payload is a packet.
    Packet(usize),
    /// This is a packet.
    Joined(usize, Packet),
    /// It was part of a transfer, and did what it says.
    Placed,
    /// Its payload is for the segment, at this address.
    Put(u64),
    /// It asks for what is at this address.
    Get(u64),
    /// Its payload is for a get; the word says for which, and where.
    Got(u64),
    /// It is the last piece of a datagram with this payload, of which this is to be made.
    Gathered(Box<Heard>, Packet),
    /// The peer takes its leave.
    Bye,
    /// The peer is a member, and broken.
    Nonsense,
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
            pace: Pace::new(datagram, first, settings.first_probe),
            depth: settings.depth,
            asked: now,
            path: Path::new(datagram),
            datagram,
            owed: (0, 0, false),
            moved: now,
            free: Vec::new(),
            listed: false,
        }
    }

    /// Whether a message of so many bytes can be kept until it has come.
    pub fn has_room(&self, class: usize, bytes: usize) -> bool {
        let out = &self.out[class];
        let is_deep = class == 0 && out.len() >= self.depth;
        !is_deep && out.has_room(self.parts(bytes)) && (out.is_empty() || out.kept + bytes <= MOST_KEPT)
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

    fn parts(&self, bytes: usize) -> usize {
        bytes.div_ceil(self.datagram).max(1)
    }

    /// Keeps a message, for which there is room; it waits to be sent.
    pub fn keep(&mut self, keys: &Keys, class: usize, slices: &[&[u8]]) {
        let message: usize = slices.iter().map(|slice| slice.len()).sum();
        let parts = self.parts(message);
        let mut rest = slices.iter().copied();
        let mut slice: &[u8] = &[];
        for part in 0..parts {
            let bytes = self.datagram.min(message - part * self.datagram);
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
            target: self.pair.peer,
            number: 0,
            message: 0,
            part: 0,
            parts: 0,
            payload: 0,
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

    fn flight(&self) -> usize {
        self.out[0].flight + self.out[1].flight
    }

    /// Gives `send` what may go now, replies first, in runs; it says how many of a run went, and less than all ends it.
    pub fn transmit(&mut self, keys: &Keys, now: u64, mut send: impl FnMut(&[Pieces<'_>]) -> usize) {
        if self.path.tries_again(now) {
            self.follow_path();
        }
        let have = [self.incoming[0].have(), self.incoming[1].have()];
        for class in [1, 0] {
            loop {
                let (flight, window) = (self.flight(), self.pace.window);
                let room = window.saturating_sub(flight);
                if !self.out[class].waits() && (room > 0 || flight == 0) {
                    self.pull(keys, class, room);
                }
                let is_last = self.streams[class].is_empty();
                let out = &mut self.out[class];
                let run = out.run(room, flight == 0);
                if run.is_empty() {
                    break;
                }
                let (last, count) = out.last(&run);
                // Somebody waits for the end of a put.
                let ends_put = is_last && out.waiting() == count && out.is_put(&run);
                let asks = ends_put || 2 * (flight + run.bytes) >= window || (last + 1) % ASK_EACH < count as u64;
                if flight == 0 && !self.pace.is_probing() {
                    self.asked = now;
                }
                let sent = out.send(keys, &run, have, if asks { ACK_NOW } else { 0 }, now, &mut send);
                if sent > 0 {
                    self.moved = now;
                    self.owed = (0, 0, false);
                }
                if sent < count {
                    return;
                }
            }
        }
    }

    /// The full number of a datagram of the peer's, which its tag covers.
    pub fn number(&self, header: &Header) -> u64 {
        match header.kind {
            Kind::Ack | Kind::Bye => u64::from(header.number),
            _ => self.incoming[usize::from(header.class)].number(header.number),
        }
    }

    /// Takes in a datagram whose tag was right.
    pub fn hear(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Heard {
        for class in 0..2 {
            // What acknowledges more than was sent is two billion datagrams old, and replayed: acknowledgements have no numbers of their own.
            if let Some(news) = self.out[class].acknowledged(header.have[class], now, &mut self.free) {
                self.learn(class, news, now);
            }
        }
        // Enough for a window of small ones; more is the system's.
        self.free.truncate(64);
        match header.kind {
            Kind::Bye => Heard::Bye,
            Kind::Ack => self.all_acknowledged(header, payload, now),
            Kind::Piece => self.gather(header, number, payload, now),
            _ => self.take(header, number, payload, now),
        }
    }

    /// Takes in a piece of a datagram; with the last one, that.
    fn gather(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Heard {
        let class = usize::from(header.class);
        let (incoming, gathering) = (&self.incoming[class], &mut self.gathering[class]);
        if incoming.is_old(number) {
            self.owe(true, now);
            return Heard::Nothing;
        }
        gathering.keep_only(|number| !incoming.is_old(number));
        match gathering.take(header, number, payload) {
            Gathered::Kept => Heard::Nothing,
            Gathered::Nonsense => Heard::Nonsense,
            Gathered::Whole(header, packet) => {
                let heard = self.take(&header, number, packet.bytes(), now);
                Heard::Gathered(Box::new(heard), packet)
            }
        }
    }

    /// Takes in a whole datagram with data.
    fn take(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Heard {
        match header.kind {
            Kind::Data => {
                let class = usize::from(header.class);
                let gap = self.incoming[class].have().beyond != 0;
                let taken = self.incoming[class].take(header, number, payload);
                self.owe(gap || taken == Taken::Old || header.flags & ACK_NOW != 0, now);
                match taken {
                    Taken::Old | Taken::Kept => Heard::Nothing,
                    Taken::Whole => Heard::Packet(class),
                    Taken::Message(bytes) => Heard::Joined(class, bytes),
                    Taken::Nonsense => Heard::Nonsense,
                }
            }
            _ => self.alone(header, number, now),
        }
    }

    /// Takes in a datagram of a transfer. It is new once only: its number is noted before its bytes are placed, and acknowledged after, so that a copy that
    /// comes when the transfer is complete finds its number below the window, or marked in it. (One of another four billion has the wrong tag.)
    fn alone(&mut self, header: &Header, number: u64, now: u64) -> Heard {
        let class = usize::from(header.kind == Kind::Got);
        if usize::from(header.class) != class {
            return Heard::Nonsense;
        }
        let gap = self.incoming[class].have().beyond != 0;
        let new = self.incoming[class].take_alone(number);
        self.owe(gap || !new || header.flags & ACK_NOW != 0, now);
        let word = header.word();
        match header.kind {
            _ if !new => Heard::Nothing,
            Kind::Put => Heard::Put(word),
            Kind::Get => Heard::Get(word),
            _ => Heard::Got(word),
        }
    }

    fn all_acknowledged(&mut self, header: &Header, payload: &[u8], now: u64) -> Heard {
        if payload.is_empty() {
            return Heard::Nothing;
        }
        if payload.len() != ALL_ACKS {
            return Heard::Nonsense;
        }
        let words: Vec<u64> = payload
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(std::array::from_fn(|i| word[i])))
            .collect();
        for (class, words) in words.chunks_exact(words.len() / 2).enumerate() {
            for (i, &word) in words.iter().enumerate() {
                let news = self.out[class].acknowledged_beyond(header.have[class].next, i, word, now);
                self.learn(class, news, now);
            }
        }
        Heard::Nothing
    }

    fn learn(&mut self, class: usize, mut news: News, now: u64) {
        if news.bytes == 0 && news.round_trip.is_none() {
            return;
        }
        (self.moved, self.asked) = (now, now);
        self.pace.came(news.bytes, news.round_trip);
        self.out[class].find_lost(self.pace.patience(), &mut news);
        if let Some(number) = news.lost_number {
            self.pace.lost(class, number, self.out[class].next());
        }
        self.judge_path(news, now);
    }

    fn judge_path(&mut self, news: News, now: u64) {
        if news.doubted.is_none() && (news.whole == 0 || !self.path.is_suspect()) {
            return;
        }
        if let Some(bytes) = news.doubted {
            self.path.lost(bytes, now);
        }
        self.path.came(news.whole);
        self.follow_path();
    }

    fn owe(&mut self, at_once: bool, now: u64) {
        let (count, since, wanted) = self.owed;
        self.owed = (count + 1, if count == 0 { now } else { since }, wanted || at_once);
    }

    /// Whether an acknowledgement is due.
    pub fn is_ack_due(&self, now: u64) -> bool {
        let (count, since, wanted) = self.owed;
        wanted || count >= ACK_AFTER || (count > 0 && now >= since + ACK_DELAY / 8)
    }

    /// An acknowledgement of everything, as header and payload. Nothing is owed after it.
    pub fn acknowledge(&mut self, keys: &Keys) -> ([u8; HEADER], Vec<u8>) {
        self.owed = (0, 0, false);
        let all = self.incoming.each_ref().map(Incoming::all);
        // Most often the header has room for all that came out of turn.
        let long = all.iter().any(|words| words[1..].iter().any(|&word| word != 0));
        let words = all.iter().flatten().filter(|_| long);
        let payload: Vec<u8> = words.copied().flat_map(u64::to_le_bytes).collect();
        (self.control(keys, Kind::Ack, &payload), payload)
    }

    /// A header without data.
    pub fn control(&self, keys: &Keys, kind: Kind, payload: &[u8]) -> [u8; HEADER] {
        let header = Header {
            payload: payload.len() as u32,
            have: [self.incoming[0].have(), self.incoming[1].have()],
            ..self.header(keys, kind, 0)
        };
        let mut bytes = header.encode();
        keys.seal(&mut bytes, 0, keys.hash(payload));
        bytes
    }

    /// How long everything that was sent has been unanswered.
    pub fn unanswered(&self, now: u64) -> u64 {
        if self.flight() == 0 {
            return 0;
        }
        now.saturating_sub(self.asked)
    }

    /// What was sent is taken for lost, in part, if nothing has moved for long enough. Returns whether all of it was.
    pub fn look(&mut self, now: u64) -> bool {
        if self.flight() == 0 || now < self.moved + self.pace.probe_after() {
            return false;
        }
        let everything = self.pace.probed();
        for class in 0..2 {
            let news = self.out[class].probe(everything);
            self.judge_path(news, now);
        }
        self.moved = now;
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

#[cfg(test)]
pub mod tests;
