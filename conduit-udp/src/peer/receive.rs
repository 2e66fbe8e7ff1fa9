//! What a peer says: its datagrams, what they acknowledge, and what it is owed for them.
#![forbid(unsafe_code)]

use super::{Clock, Peer};
use crate::congestion::ACK_DELAY;
use crate::fragment::Gathered;
use crate::mac::Keys;
use crate::packet::Packet;
use crate::recv_window::{Incoming, Taken, ALL_ACKS};
use crate::send_window::News;
use crate::wire::{widen, Header, Kind, Known, ACK_NOW, HEADER};

/// Datagrams that come before an acknowledgement goes, if nothing else goes there.
const ACK_AFTER: u32 = 32;

/// What [`Peer::hear`] makes of a datagram.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// Nothing for the runtime.
    Nothing,
    /// It came before, or too late. That says nothing about the peer: anybody may have sent it again.
    Again,
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
    /// What a datagram of the peer's need not say, but its tags cover. What it acknowledges gets full numbers.
    pub fn know(&self, header: &mut Header) -> Known {
        for (out, have) in self.out.iter().zip(&mut header.have) {
            have.next = out.number(have.next as u32);
        }
        Known {
            target: self.pair.me,
            number: match header.kind {
                Kind::Ack | Kind::Bye => widen(header.number, self.told),
                _ => self.incoming[usize::from(header.class)].number(header.number),
            },
            next: header.have.map(|have| have.next),
        }
    }

    /// Takes in a datagram whose tag was right.
    pub fn hear(&mut self, header: &Header, number: u64, payload: &[u8], now: u64) -> Heard {
        if matches!(header.kind, Kind::Ack | Kind::Bye) {
            if number < self.told {
                return Heard::Again;
            }
            let Some(next) = number.checked_add(1) else {
                return Heard::Nonsense;
            };
            self.told = next;
        }
        if self.hear_word(header, now) == Heard::Nonsense {
            return Heard::Nonsense;
        }
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
            return Heard::Again;
        }
        gathering.keep_only(|number| !incoming.is_old(number));
        match gathering.take(header, number, payload) {
            Gathered::Kept => Heard::Nothing,
            Gathered::Again => Heard::Again,
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
                    Taken::Old => Heard::Again,
                    Taken::Kept => Heard::Nothing,
                    Taken::Whole => Heard::Packet(class),
                    Taken::Message(bytes) => Heard::Joined(class, bytes),
                    Taken::Nonsense => Heard::Nonsense,
                }
            }
            _ => self.alone(header, number, now),
        }
    }

    /// Takes in what the header of a datagram acknowledges.
    pub fn hear_word(&mut self, header: &Header, now: u64) -> Heard {
        for class in 0..2 {
            let Some(news) = self.out[class].acknowledged(header.have[class], now, &mut self.free) else {
                return Heard::Nonsense;
            };
            self.learn(class, news, now);
        }
        // Enough for a window of small ones; more is the system's.
        self.free.truncate(64);
        Heard::Nothing
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
            _ if !new => Heard::Again,
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

    fn learn(&mut self, class: usize, news: News, now: u64) {
        if news.bytes == 0 && news.round_trip.is_none() {
            return;
        }
        self.clocks[class] = Clock::new(now);
        self.pace.came(news.bytes, news.round_trip);
        self.out[class].takes_answer(self.pace.patience(), now);
        self.find_lost(class, news, now);
    }

    /// Finds what is lost of a class, after this news.
    pub fn find_lost(&mut self, class: usize, mut news: News, now: u64) {
        self.out[class].find_lost(self.pace.patience(), &mut news);
        if let Some(number) = news.lost_number {
            self.pace.lost(class, number, self.out[class].next());
        }
        self.judge_path(news, now);
    }

    /// Learns about the path from what came and what was lost.
    pub fn judge_path(&mut self, news: News, now: u64) {
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

    /// Whether a header has room for all that came out of turn, as it most often has.
    pub fn header_says_all(&self) -> bool {
        self.incoming
            .iter()
            .all(|incoming| incoming.all()[1..].iter().all(|&word| word == 0))
    }

    /// An acknowledgement of everything, as header and payload. Nothing is owed after it.
    pub fn acknowledge(&mut self, keys: &Keys) -> ([u8; HEADER], Vec<u8>) {
        self.owed = (0, 0, false);
        let long = !self.header_says_all();
        let all = self.incoming.each_ref().map(Incoming::all);
        let words = all.iter().flatten().filter(|_| long);
        let payload: Vec<u8> = words.copied().flat_map(u64::to_le_bytes).collect();
        (self.control(keys, Kind::Ack, &payload), payload)
    }

    /// A header without data.
    pub fn control(&mut self, keys: &Keys, kind: Kind, payload: &[u8]) -> [u8; HEADER] {
        let number = self.said;
        self.said += 1;
        let header = Header {
            number: number as u32,
            have: [self.incoming[0].have(), self.incoming[1].have()],
            ..self.header(keys, kind, 0)
        };
        let mut bytes = header.encode();
        let known = Known {
            target: self.pair.peer,
            number,
            next: header.have.map(|have| have.next),
        };
        keys.seal(&mut bytes, &known, (payload.len(), keys.hash(payload)));
        self.last_said = bytes;
        bytes
    }

    /// Whether something that was sent to the peer, and may be on its way, begins like this. Only who has seen it can say so, for there is a tag in
    /// it.
    pub fn has_said(&self, quote: &[u8]) -> bool {
        let Some(head) = quote.first_chunk::<HEADER>() else {
            return false;
        };
        let Some(header) = Header::decode(head) else { return false };
        *head == self.last_said || self.out[usize::from(header.class)].has_said(header.number, head)
    }
}
