//! Puts and gets of one peer. Their datagrams have numbers in the windows of messages, and carry an address; each is copied to its place when it comes,
//! whatever came before it. A put is complete when all its datagrams are acknowledged, a get when all its bytes have come.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::memory::{Lent, Segments};
use crate::peer::{Heard, Peer};
use crate::recv_window::WINDOW;
use crate::send_window::Body;
use crate::sys::RUN;
use crate::wire::{Header, Kind, UNIT, UNITS};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Busy, LocalCompletion, TransferId};

/// Long puts that wait to one peer, and gets that wait for it.
const MOST_PUTS: usize = 64;
const MOST_GETS: usize = 256;
/// Places in the window that long transfers leave to messages, at least; and those that messages may have while long transfers wait.
const SPARE: usize = WINDOW / 4;
const SHARE: usize = WINDOW / 2;
/// Datagrams of long transfers are sent from the client's memory where they are longer than this; shorter ones are copied when they are made.
const LENT_BEYOND: usize = 8 << 10;
/// Bytes of a request: the number of the get, and how many bytes it wants.
const REQUEST: usize = 16;

/// Which get it answers, and where in its destination ([`Kind::Got`]).
fn answer(word: u64) -> (usize, usize) {
    ((word >> UNITS) as usize, (word & ((1 << UNITS) - 1)) as usize * UNIT)
}

/// A long transfer, of which datagrams are made when they can go.
#[derive(Debug)]
pub struct Stream {
    /// What is left of it.
    rest: Lent,
    /// Where the rest goes: an address, or as [`Kind::Got`] says.
    word: u64,
    /// Of a put, its number.
    put: Option<usize>,
}

impl Stream {
    /// Bytes that are left of it.
    pub fn left(&self) -> usize {
        self.rest.bytes
    }
}

/// A get whose bytes have not all come.
#[derive(Debug)]
pub struct Get {
    id: TransferId,
    destination: Lent,
    left: usize,
}

impl Peer {
    /// Begins a put of `source` to an address of the peer's. Up to `copied` bytes are copied at once.
    pub fn put(
        &mut self,
        keys: &Keys,
        address: usize,
        mut source: Lent,
        copied: usize,
        id: TransferId,
    ) -> Result<LocalCompletion, Busy> {
        let mut word = address as u64;
        if source.bytes > copied {
            if self.streams[0].len() >= MOST_PUTS {
                return Err(Busy);
            }
            let put = Some(self.out[0].begin_put(id, source.bytes));
            self.streams[0].push_back(Stream { rest: source, word, put });
            return Ok(LocalCompletion::WithOperation);
        }
        if !self.has_room(0, source.bytes) {
            return Err(Busy);
        }
        let put = Some(self.out[0].begin_put(id, source.bytes));
        let each = self.part(source.bytes);
        while source.bytes > 0 {
            let part = source.take(each);
            let body = self.copy(keys, part);
            let header = self.header(keys, Kind::Put, 0).with_word(word);
            self.out[0].push(header, body, put);
            word += part.bytes as u64;
        }
        Ok(LocalCompletion::AtReturn)
    }

    /// Begins a get into `destination` from an address of the peer's.
    pub fn get(&mut self, keys: &Keys, address: usize, destination: Lent, id: TransferId) -> Result<(), Busy> {
        if self.gets.len() >= MOST_GETS || !self.has_room(0, REQUEST) {
            return Err(Busy);
        }
        let left = destination.bytes;
        let number = self.gets.add(Get { id, destination, left }) as u64;
        let request = [number.to_le_bytes(), (left as u64).to_le_bytes()].concat();
        let hash = keys.hash(&request);
        let header = self.header(keys, Kind::Get, 0).with_word(address as u64);
        self.out[0].push(header, Body::Own(request, hash), None);
        Ok(())
    }

    /// Where the payload of a datagram of a transfer belongs, if it has not come yet, and there is such a place.
    pub fn place_of(&mut self, header: &Header, number: u64, bytes: usize, segments: &Segments) -> Option<Lent> {
        let class = usize::from(header.class);
        if self.incoming[class].is_old(number) {
            return None;
        }
        match (header.kind, class) {
            (Kind::Put, 0) => segments.find(header.word(), bytes as u64),
            (Kind::Got, 1) => {
                let (number, offset) = answer(header.word());
                let get = self.gets.get(number).filter(|get| bytes <= get.left)?;
                get.destination.at(offset, bytes)
            }
            _ => None,
        }
    }

    /// Does what a datagram of a transfer says, which [`Peer::hear`] found to be new; transfers of this process that are complete go to `done`.
    pub fn settle(&mut self, heard: Heard, payload: &[u8], segments: &Segments, done: &mut Vec<TransferId>) -> Heard {
        done.append(&mut self.out[0].done);
        let sound = match heard {
            Heard::Put(address) => segments
                .find(address, payload.len() as u64)
                .is_some_and(|place| place.write(0, payload)),
            Heard::Get(address) => self.serve(payload, |bytes| segments.find(address, bytes)),
            Heard::Got(word) => self.got(word, payload, done),
            Heard::Gathered(heard, packet) => {
                return match self.settle(*heard, packet.bytes(), segments, done) {
                    Heard::Packet(class) => Heard::Joined(class, packet),
                    other => other,
                };
            }
            other => return other,
        };
        if sound {
            Heard::Placed
        } else {
            Heard::Nonsense
        }
    }

    /// Answers a get with what `find` finds in this process's segments. False: it asks for what is not there, or for too much at a time.
    fn serve(&mut self, payload: &[u8], find: impl Fn(u64) -> Option<Lent>) -> bool {
        let Some((number, bytes)) = payload.split_first_chunk::<8>() else {
            return false;
        };
        let Ok(bytes) = <[u8; 8]>::try_from(bytes) else { return false };
        let number = u64::from_le_bytes(*number);
        if number >= MOST_GETS as u64 || self.streams[1].len() >= MOST_GETS {
            return false;
        }
        let Some(rest) = find(u64::from_le_bytes(bytes)) else {
            return false;
        };
        self.streams[1].push_back(Stream {
            rest,
            word: number << UNITS,
            put: None,
        });
        true
    }

    /// Places what came for a get, which goes to `done` when that was the last. False: no such bytes are missing.
    fn got(&mut self, word: u64, payload: &[u8], done: &mut Vec<TransferId>) -> bool {
        let (number, offset) = answer(word);
        let Some(get) = self.gets.get(number) else { return false };
        // Its bytes are counted, so that a peer that sends some twice never gets at memory that was given back.
        let Some(left) = get.left.checked_sub(payload.len()) else {
            return false;
        };
        get.left = left;
        if !get.destination.write(offset, payload) {
            return false;
        }
        if left == 0 {
            done.extend(self.gets.remove(number).map(|get| get.id));
        }
        true
    }

    /// This memory will not be there any more: what was sent of it and may have to be sent again is copied, and what was not is nobody's any more.
    pub fn give_back(&mut self, keys: &Keys, memory: Lent) {
        self.out[1].copy_lent(keys, memory);
        self.streams[1].retain(|stream| !stream.rest.meets(memory));
    }

    /// Whether a message of so many parts leaves room to long transfers that wait.
    pub fn has_share(&self, class: usize, parts: usize) -> bool {
        let out = &self.out[class];
        self.streams[class].is_empty() || out.len() - out.long + parts <= SHARE
    }

    /// Makes datagrams of long transfers: one, or more that fit into `room`.
    pub fn pull(&mut self, keys: &Keys, class: usize, room: usize) {
        let kind = [Kind::Put, Kind::Got][class];
        if self.streams[class].is_empty() {
            return;
        }
        let most = WINDOW - self.parts(MAX_PACKET_BYTES).max(SPARE);
        let most = if class == 0 { most.min(self.depth) } else { most };
        let mut bytes = 0;
        while let Some(rest) = self.streams[class].front().map(|stream| stream.rest.bytes) {
            // The last two are equally long.
            let part = if rest < 2 * self.datagram {
                self.part(rest)
            } else {
                self.datagram
            };
            let next = rest.min(part);
            let out = &mut self.out[class];
            if out.long >= most || !out.has_room(1) || out.waiting() >= RUN || (bytes > 0 && bytes + next > room) {
                return;
            }
            let Some(stream) = self.streams[class].front_mut() else {
                return;
            };
            let part = stream.rest.take(next);
            let (word, put, ends) = (stream.word, stream.put, stream.rest.bytes == 0);
            stream.word += if class == 0 { next } else { next / UNIT } as u64;
            if ends {
                self.streams[class].pop_front();
            }
            let body = if part.bytes <= LENT_BEYOND {
                self.copy(keys, part)
            } else {
                Body::Lent(part)
            };
            let header: Header = self.header(keys, kind, class).with_word(word);
            self.out[class].push_long(header, body, put);
            bytes += next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::lent;
    use crate::peer::link::Link;

    const COPIED: usize = 4096;

    /// Puts and gets of many sizes between two processes, over a link that loses, doubles and delays.
    fn exchange(datagram: usize, takes: usize, seed: u64, (loss, duplicates, late): (u64, u64, u64)) {
        let mut link = Link::new(datagram, seed);
        link.takes = takes;
        let sizes = [1, 2, 4, 8, 100, 4096, 4097, 70_000, 300_000];
        let total: usize = sizes.iter().sum();
        let mut source: Vec<u8> = (0..total).map(|i| (i * 11 + i / 251) as u8).collect();
        let (mut put, mut got) = (vec![0u8; total], vec![0u8; total]);
        let base = put.as_mut_ptr() as usize;
        link.segments[1].add(base, total);
        let answers: Vec<u8> = source.iter().map(|byte| !byte).collect();
        link.segments[1].add(answers.as_ptr() as usize, total);
        let (mut at, mut expected) = (0, Vec::new());
        for (i, &bytes) in sizes.iter().enumerate() {
            let id = |get: bool| TransferId(2 * i as u64 + u64::from(get));
            let (keys, here) = (&link.keys, &mut link.ends[0]);
            let local = here
                .put(keys, base + at, lent(&mut source[at..at + bytes]), COPIED, id(false))
                .unwrap();
            assert_eq!(local == LocalCompletion::AtReturn, bytes <= COPIED);
            let destination = lent(&mut got[at..at + bytes]);
            here.get(keys, answers.as_ptr() as usize + at, destination, id(true)).unwrap();
            expected.extend([id(false), id(true)]);
            at += bytes;
        }
        for turn in 0.. {
            assert!(turn < 1_000_000, "nothing goes on");
            link.step(loss, duplicates, late);
            // A put that is complete is complete at its target.
            for id in link.done[0].iter().filter(|id| id.0 % 2 == 0) {
                let from: usize = sizes[..id.0 as usize / 2].iter().sum();
                let range = from..from + sizes[id.0 as usize / 2];
                assert!(put[range.clone()] == source[range], "{id:?} was not placed");
            }
            if link.done[0].len() == expected.len() && link.ends.iter().all(Peer::is_quiet) {
                break;
            }
        }
        assert!(put == source && got == answers);
        link.done[0].sort_by_key(|id| id.0);
        assert_eq!(link.done[0], expected);
        assert_eq!((link.done[1].len(), link.ends[0].gets.len()), (0, 0));
        got.clear();
    }

    #[test]
    fn transfers_survive_bad_links() {
        for (seed, fate) in [(0, 0, 1), (0, 300, 400_000), (50, 0, 1), (200, 100, 100_000)]
            .into_iter()
            .enumerate()
        {
            for datagram in [1408, 8896, 65_408] {
                exchange(datagram, usize::MAX, seed as u64 + 3, fate);
            }
        }
    }

    #[test]
    fn transfers_survive_paths_that_silently_take_less() {
        for (seed, fate) in [(0, 0, 1), (50, 100, 100_000)].into_iter().enumerate() {
            exchange(8896, 1280 - 48, seed as u64 + 3, fate);
        }
    }

    #[test]
    fn what_comes_again_is_not_placed_again() {
        let mut link = Link::new(1408, 5);
        link.kept = Some(Vec::new());
        let mut source = vec![1u8; 50_000];
        let (mut put, mut got) = (vec![0u8; 50_000], vec![0u8; 50_000]);
        let (to, from) = (put.as_mut_ptr() as usize, source.as_ptr() as usize);
        link.segments[1].add(to, put.len());
        link.segments[1].add(from, source.len());
        for bytes in [8, 50_000] {
            let keys = &link.keys;
            link.ends[0]
                .put(keys, to, lent(&mut source[..bytes]), COPIED, TransferId(1))
                .unwrap();
            link.ends[0].get(keys, from, lent(&mut got[..bytes]), TransferId(2)).unwrap();
        }
        while link.done[0].len() < 4 {
            link.step(50, 50, 50_000);
        }
        assert!(put == source && got == source);
        put.fill(7);
        got.fill(8);
        for (to, datagram) in link.kept.take().unwrap() {
            link.arrive(to, &datagram);
        }
        assert!(put.iter().all(|&byte| byte == 7) && got.iter().all(|&byte| byte == 8));
    }

    #[test]
    fn answers_outlive_the_memory_that_they_come_from() {
        let mut link = Link::new(65_408, 5);
        let (mut source, mut got) = (vec![1u8; 50_000], vec![0u8; 50_000]);
        let (lender, borrower) = (lent(&mut source), lent(&mut got));
        let from = source.as_ptr() as usize;
        link.segments[1].add(from, source.len());
        link.ends[0].get(&link.keys, from, borrower, TransferId(2)).unwrap();
        link.step(0, 0, 1);
        // The answer is lost, and its source overwritten; another answer was not begun.
        while !link.ends[1].awaits_answer() {
            link.step(0, 0, 1);
        }
        link.drop_all();
        link.ends[1].give_back(&link.keys, lender);
        source.fill(9);
        while link.done[0].is_empty() {
            link.step(0, 0, 1);
        }
        assert!(got.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn nobody_waits_for_the_end_of_long_transfers() {
        let mut link = Link::new(1408, 5);
        let (mut source, mut there) = (vec![1u8; 4 << 20], vec![0u8; 4 << 20]);
        let (mut asked, mut answers) = (vec![0u8; 4 << 20], vec![1u8; 4 << 20]);
        let (to, from) = (there.as_mut_ptr() as usize, answers.as_ptr() as usize);
        link.segments[1].add(to, there.len());
        link.segments[0].add(from, answers.len());
        // End 0 has much to answer, much to put, and many messages.
        for id in 0..8 {
            let destination = lent(&mut asked);
            link.ends[1].get(&link.keys, from, destination, TransferId(id)).unwrap();
            link.ends[0]
                .put(&link.keys, to, lent(&mut source), 0, TransferId(id))
                .unwrap();
        }
        let mut messages = 0;
        while link.done.iter().all(Vec::is_empty) {
            while link.ends[0].has_room(0, 1000) {
                link.ends[0].keep(&link.keys, 0, &[&[3; 1000]]);
                messages += 1;
            }
            link.step(0, 0, 1);
        }
        // Whichever is first complete, the others have come as far.
        let ones = |bytes: &[u8]| -> u32 { bytes.iter().map(|&byte| u32::from(byte == 1)).sum() };
        let (put, got) = (ones(&there), ones(&asked));
        assert!(
            messages > 500 && put > 1 << 20 && got > 1 << 20,
            "{messages} messages, {put} put, {got} got"
        );
        (there[0], answers[0]) = (0, 0);
    }

    #[test]
    fn what_was_not_asked_for_is_nonsense() {
        let mut link = Link::new(1408, 5);
        let memory = vec![0u8; 4096];
        let base = memory.as_ptr() as u64;
        link.segments[1].add(base as usize, memory.len());
        let (peer, segments, mut done) = (&mut link.ends[1], &link.segments[1], Vec::new());
        let mut settle = |heard, payload: &[u8]| peer.settle(heard, payload, segments, &mut done) == Heard::Placed;
        let request = |number: u64, bytes: u64| [number.to_le_bytes(), bytes.to_le_bytes()].concat();
        assert!(settle(Heard::Put(base + 4088), &[1; 8]));
        assert!(settle(Heard::Get(base), &request(0, 4096)));
        for (heard, payload) in [
            (Heard::Put(base + 4089), vec![1; 8]),
            (Heard::Put(base - 1), vec![1; 8]),
            (Heard::Put(8), vec![1; 8]),
            (Heard::Put(base), Vec::new()),
            (Heard::Get(base), request(0, 4097)),
            (Heard::Get(base), request(0, u64::MAX)),
            (Heard::Get(base), request(MOST_GETS as u64, 8)),
            (Heard::Get(base), vec![0; 15]),
            (Heard::Get(base), vec![0; 17]),
            (Heard::Got(0), vec![1; 8]),
            (Heard::Got(u64::MAX), vec![1; 8]),
        ] {
            let shown = format!("{heard:?}, {} bytes", payload.len());
            assert!(!settle(heard, &payload), "{shown}");
        }
        for _ in 1..MOST_GETS {
            assert!(settle(Heard::Get(base), &request(1, 8)));
        }
        assert!(!settle(Heard::Get(base), &request(1, 8)));
        // An answer that is longer than what is missing, or lies elsewhere.
        let mut destination = vec![0u8; 100];
        for (word, payload) in [(0, vec![1; 101]), (2, vec![1; 1]), (1, vec![1; 50])] {
            link.ends[0]
                .get(&link.keys, 0x1000, lent(&mut destination), TransferId(9))
                .unwrap();
            let word = (link.ends[0].gets.len() as u64 - 1) << UNITS | word;
            let heard = link.ends[0].settle(Heard::Got(word), &payload, &link.segments[0], &mut Vec::new());
            assert_eq!(heard, Heard::Nonsense);
        }
        assert!(destination.iter().all(|&byte| byte == 0) && memory[4088..] == [1; 8]);
    }

    #[test]
    fn messages_get_through_beside_long_transfers() {
        let mut link = Link::new(1408, 5);
        let mut source = vec![1u8; 4 << 20];
        let mut put = vec![0u8; 4 << 20];
        let base = put.as_mut_ptr() as usize;
        link.segments[1].add(base, put.len());
        for id in 0..MOST_PUTS as u64 {
            let taken = link.ends[0].put(&link.keys, base, lent(&mut source), 0, TransferId(id));
            assert_eq!(taken, Ok(LocalCompletion::WithOperation));
        }
        assert_eq!(
            link.ends[0].put(&link.keys, base, lent(&mut source), 0, TransferId(0)),
            Err(Busy)
        );
        for i in 0..200 {
            link.step(0, 0, 1);
            if link.ends[0].has_room(0, 1000) {
                link.ends[0].keep(&link.keys, 0, &[&[i as u8; 1000]]);
            }
        }
        assert!(link.heard[1].len() > 20, "{}", link.heard[1].len());
        put.clear();
    }
}
