//! Puts and gets of one peer. Their datagrams use the numbers and windows of messages, and carry an
//! address. Each is placed when it arrives, in any order. A put is complete when all its datagrams
//! are acknowledged, a get when all its bytes have arrived.
#![forbid(unsafe_code)]

use crate::mac::Keys;
use crate::memory::{ClientMemory, Segments};
use crate::peer::Peer;
use crate::recv_window::{Disposition, WINDOW};
use crate::send_window::Body;
use crate::sys::SEND_BATCH;
use crate::wire::{Header, Kind, OFFSET_BITS, OFFSET_UNIT};
use crate::{MAX_PACKET_BYTES, SOURCE_COPIED};
use gasnet_conduit::{Busy, Class, Cookie, LocalCompletion};

/// Limits of long puts that wait for transmission to one peer, and of gets outstanding from it.
const MAX_BULK_PUTS: usize = 64;
const MAX_GETS: usize = 256;
/// Datagrams of the window that long transfers leave to messages, and datagrams that messages may
/// occupy while long transfers wait.
const MESSAGE_RESERVE: usize = WINDOW / 4;
const MESSAGE_SHARE: usize = WINDOW / 2;
/// Bytes of a long transfer's datagram above which it is sent from client memory. Shorter ones are
/// copied.
const BORROW_ABOVE: usize = 8 << 10;
/// Bytes of a get request: the key of the get, and the length.
const GET_REQUEST_BYTES: usize = 16;

/// The get, and the offset in its destination, that the operand of a [`Kind::GetReply`] names.
fn get_target(operand: u64) -> (usize, usize) {
    let offset = operand & ((1 << OFFSET_BITS) - 1);
    ((operand >> OFFSET_BITS) as usize, offset as usize * OFFSET_UNIT)
}

/// A put to begin.
#[derive(Clone, Copy, Debug)]
pub struct PutOp {
    /// Destination, in the peer's address space.
    pub address: usize,
    /// Source, in this process.
    pub source: ClientMemory,
    /// Bytes up to which the source is copied at once.
    pub copy_limit: usize,
    /// Names the put when it is complete.
    pub id: Cookie,
}

impl PutOp {
    /// A shorthand for tests.
    #[cfg(any(test, fuzzing))]
    pub fn new(address: usize, source: ClientMemory, copy_limit: usize, id: Cookie) -> Self {
        Self {
            address,
            source,
            copy_limit,
            id,
        }
    }
}

/// A long transfer that is split into datagrams as the window allows.
#[derive(Debug)]
pub struct BulkTransfer {
    /// The part that is not split yet.
    rest: ClientMemory,
    /// Destination of that part: an address, or the operand of a [`Kind::GetReply`].
    operand: u64,
    /// Key of the put, if it is one.
    put: Option<usize>,
}

impl BulkTransfer {
    /// Bytes that are not split yet.
    pub fn remaining(&self) -> usize {
        self.rest.bytes
    }
}

/// A get whose data has not all arrived.
#[derive(Debug)]
pub struct PendingGet {
    id: Cookie,
    destination: ClientMemory,
    remaining: usize,
}

impl Peer {
    /// Begins a put.
    pub fn put(&mut self, keys: &Keys, op: PutOp) -> Result<LocalCompletion, Busy> {
        let PutOp { mut source, id, .. } = op;
        let mut operand = op.address as u64;
        if source.bytes > op.copy_limit {
            if self.bulk[Class::Request].len() >= MAX_BULK_PUTS {
                return Err(Busy);
            }
            let put = Some(self.tx[Class::Request].begin_put(id, source.bytes));
            self.bulk[Class::Request].push_back(BulkTransfer {
                rest: source,
                operand,
                put,
            });
            return Ok(LocalCompletion::Later);
        }
        if !self.has_room(Class::Request, source.bytes) {
            return Err(Busy);
        }
        let copied = id.with_tag(SOURCE_COPIED);
        let put = Some(self.tx[Class::Request].begin_put(copied, source.bytes));
        let each = self.part_bytes(source.bytes);
        while source.bytes > 0 {
            let part = source.split_off_front(each);
            let body = self.copy_payload(keys, part);
            let header = self.header(keys, Kind::Put, Class::Request).with_operand(operand);
            self.tx[Class::Request].push(header, body, put);
            operand += part.bytes as u64;
        }
        Ok(LocalCompletion::AtReturn)
    }

    /// Begins a get from `address` of the peer into `destination`.
    pub fn get(&mut self, keys: &Keys, address: usize, destination: ClientMemory, id: Cookie) -> Result<(), Busy> {
        if self.gets.len() >= MAX_GETS || !self.has_room(Class::Request, GET_REQUEST_BYTES) {
            return Err(Busy);
        }
        let remaining = destination.bytes;
        let number = self.gets.add(PendingGet {
            id,
            destination,
            remaining,
        }) as u64;
        let request = [number.to_le_bytes(), (remaining as u64).to_le_bytes()].concat();
        let hash = keys.hash(&request);
        let header = self
            .header(keys, Kind::Get, Class::Request)
            .with_operand(address as u64);
        self.tx[Class::Request].push(header, Body::Copied(request, hash), None);
        Ok(())
    }

    /// Destination of the payload of a transfer's datagram, unless it was received before or has
    /// none.
    pub fn destination_of(
        &mut self,
        header: &Header,
        number: u64,
        bytes: usize,
        segments: &Segments,
    ) -> Option<ClientMemory> {
        let class = header.class;
        if self.rx[class].is_stale(number) {
            return None;
        }
        match (header.kind, class) {
            (Kind::Put, Class::Request) => segments.find(header.operand(), bytes as u64),
            (Kind::GetReply, Class::Reply) => {
                let (number, offset) = get_target(header.operand());
                let get = self.gets.get(number).filter(|get| bytes <= get.remaining)?;
                get.destination.slice(offset, bytes)
            }
            _ => None,
        }
    }

    /// Applies a datagram of a transfer that [`Peer::receive`] found to be new. Local transfers
    /// that are complete are appended to `done`.
    pub fn apply(
        &mut self,
        disposition: Disposition,
        payload: &[u8],
        segments: &Segments,
        done: &mut Vec<Cookie>,
    ) -> Disposition {
        done.append(&mut self.tx[Class::Request].completed);
        let sound = match disposition {
            Disposition::Put(address) => segments
                .find(address, payload.len() as u64)
                .is_some_and(|memory| memory.write(0, payload)),
            Disposition::Get(address) => self.queue_get_reply(payload, |bytes| segments.find(address, bytes)),
            Disposition::GetReply(operand) => self.receive_get_reply(operand, payload, done),
            Disposition::Reassembled(disposition, packet) => {
                return match self.apply(*disposition, packet.bytes(), segments, done) {
                    Disposition::Packet(class) => Disposition::Message(class, packet),
                    other => other,
                };
            }
            other => return other,
        };
        if sound {
            Disposition::Placed
        } else {
            Disposition::Malformed
        }
    }

    /// Queues the reply to a get from memory that `find` finds. Returns false if the request is out
    /// of bounds, or exceeds the limit.
    fn queue_get_reply(&mut self, payload: &[u8], find: impl Fn(u64) -> Option<ClientMemory>) -> bool {
        let Some((number, bytes)) = payload.split_first_chunk::<8>() else {
            return false;
        };
        let Ok(bytes) = <[u8; 8]>::try_from(bytes) else {
            return false;
        };
        let number = u64::from_le_bytes(*number);
        if number >= MAX_GETS as u64 || self.bulk[Class::Reply].len() >= MAX_GETS {
            return false;
        }
        let Some(rest) = find(u64::from_le_bytes(bytes)) else {
            return false;
        };
        self.bulk[Class::Reply].push_back(BulkTransfer {
            rest,
            operand: number << OFFSET_BITS,
            put: None,
        });
        true
    }

    /// Places the data of a get, which is appended to `done` when complete. Returns false if no
    /// such data is missing.
    fn receive_get_reply(&mut self, operand: u64, payload: &[u8], done: &mut Vec<Cookie>) -> bool {
        let (number, offset) = get_target(operand);
        let Some(get) = self.gets.get(number) else { return false };
        // Counts the bytes, so that a defective peer that repeats some cannot write to memory of a
        // complete get.
        let Some(left) = get.remaining.checked_sub(payload.len()) else {
            return false;
        };
        get.remaining = left;
        if !get.destination.write(offset, payload) {
            return false;
        }
        if left == 0 {
            done.extend(self.gets.remove(number).map(|get| get.id));
        }
        true
    }

    /// Called when memory is about to be released. Payloads that may be retransmitted are copied;
    /// replies not sent yet are dropped.
    pub fn release_memory(&mut self, keys: &Keys, memory: ClientMemory) {
        self.tx[Class::Reply].copy_overlapping(keys, memory);
        self.bulk[Class::Reply].retain(|bulk| !bulk.rest.overlaps(memory));
    }

    /// Whether a message of `parts` datagrams leaves room for long transfers that wait.
    pub fn leaves_share(&self, class: Class, parts: usize) -> bool {
        let out = &self.tx[class];
        self.bulk[class].is_empty() || out.len() - out.bulk + parts <= MESSAGE_SHARE
    }

    /// Splits long transfers into datagrams: one, or as many as fit into `room` bytes.
    pub fn segment_bulk(&mut self, keys: &Keys, class: Class, room: usize) {
        let kind = match class {
            Class::Request => Kind::Put,
            Class::Reply => Kind::GetReply,
        };
        if self.bulk[class].is_empty() {
            return;
        }
        let most = WINDOW - self.part_count(MAX_PACKET_BYTES).max(MESSAGE_RESERVE);
        let most = if class == Class::Request {
            most.min(self.depth)
        } else {
            most
        };
        let mut bytes = 0;
        while let Some(rest) = self.bulk[class].front().map(|bulk| bulk.rest.bytes) {
            // The last two datagrams are of equal size.
            let part = if rest < 2 * self.max_payload {
                self.part_bytes(rest)
            } else {
                self.max_payload
            };
            let next = rest.min(part);
            let out = &mut self.tx[class];
            let is_full = out.bulk >= most || !out.has_room(1) || out.queued() >= SEND_BATCH;
            if is_full || (bytes > 0 && bytes + next > room) {
                return;
            }
            let Some(bulk) = self.bulk[class].front_mut() else {
                return;
            };
            let part = bulk.rest.split_off_front(next);
            let (operand, put, ends) = (bulk.operand, bulk.put, bulk.rest.bytes == 0);
            bulk.operand += if class == Class::Request {
                next
            } else {
                next / OFFSET_UNIT
            } as u64;
            if ends {
                self.bulk[class].pop_front();
            }
            let body = if part.bytes <= BORROW_ABOVE {
                self.copy_payload(keys, part)
            } else {
                Body::Borrowed(part)
            };
            let header: Header = self.header(keys, kind, class).with_operand(operand);
            self.tx[class].push_bulk(header, body, put);
            bytes += next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::client_memory;
    use crate::peer::link::{Link, LinkFaults};

    const COPIED: usize = 4096;

    /// Exchanges puts and gets of many sizes over a faulty link.
    fn exchange(datagram: usize, mtu: usize, seed: u64, faults: LinkFaults) {
        let mut link = Link::new(datagram, seed);
        link.mtu = mtu;
        let sizes = [1, 2, 4, 8, 100, 4096, 4097, 70_000, 300_000];
        let total: usize = sizes.iter().sum();
        let mut source: Vec<u8> = (0..total).map(|i| (i * 11 + i / 251) as u8).collect();
        let (mut put, mut got) = (vec![0u8; total], vec![0u8; total]);
        let base = put.as_mut_ptr() as usize;
        link.segments[1].register(base, total);
        let answers: Vec<u8> = source.iter().map(|byte| !byte).collect();
        link.segments[1].register(answers.as_ptr() as usize, total);
        let (mut at, mut expected) = (0, Vec::new());
        for (i, &bytes) in sizes.iter().enumerate() {
            let id = |get: bool| Cookie::new(2 * i as u64 + u64::from(get));
            let (keys, here) = (&link.keys, &mut link.ends[0]);
            let local = here
                .put(
                    keys,
                    PutOp::new(base + at, client_memory(&mut source[at..at + bytes]), COPIED, id(false)),
                )
                .unwrap();
            assert_eq!(local == LocalCompletion::AtReturn, bytes <= COPIED);
            let destination = client_memory(&mut got[at..at + bytes]);
            here.get(keys, answers.as_ptr() as usize + at, destination, id(true))
                .unwrap();
            expected.extend([id(false), id(true)]);
            at += bytes;
        }
        for turn in 0.. {
            assert!(turn < 1_000_000, "no progress");
            link.step(faults);
            // A put that is complete was placed at its target.
            for id in link.done[0].iter().filter(|id| id.bits() % 2 == 0) {
                let from: usize = sizes[..id.bits() as usize / 2].iter().sum();
                let range = from..from + sizes[id.bits() as usize / 2];
                assert!(put[range.clone()] == source[range], "{id:?} was not placed");
            }
            if link.done[0].len() == expected.len() && link.ends.iter().all(Peer::is_idle) {
                break;
            }
        }
        assert!(put == source && got == answers);
        let mut done: Vec<_> = link.done[0].iter().map(|cookie| cookie.with_tag(0)).collect();
        done.sort_by_key(|cookie| cookie.bits());
        assert_eq!(done, expected);
        assert_eq!((link.done[1].len(), link.ends[0].gets.len()), (0, 0));
        got.clear();
    }

    #[test]
    fn transfers_survive_bad_links() {
        let all = [
            LinkFaults::NONE,
            LinkFaults::new(0, 300, 400_000),
            LinkFaults::new(50, 0, 1),
            LinkFaults::new(200, 100, 100_000),
        ];
        for (seed, faults) in all.into_iter().enumerate() {
            for datagram in [1408, 8896, 65_408] {
                exchange(datagram, usize::MAX, seed as u64 + 3, faults);
            }
        }
    }

    #[test]
    fn transfers_survive_mtu_black_holes() {
        let all = [LinkFaults::NONE, LinkFaults::new(50, 100, 100_000)];
        for (seed, faults) in all.into_iter().enumerate() {
            exchange(8896, 1280 - 48, seed as u64 + 3, faults);
        }
    }

    #[test]
    fn duplicates_are_not_placed_again() {
        let mut link = Link::new(1408, 5);
        link.sent_datagrams = Some(Vec::new());
        let mut source = vec![1u8; 50_000];
        let (mut put, mut got) = (vec![0u8; 50_000], vec![0u8; 50_000]);
        let (to, from) = (put.as_mut_ptr() as usize, source.as_ptr() as usize);
        link.segments[1].register(to, put.len());
        link.segments[1].register(from, source.len());
        for bytes in [8, 50_000] {
            let keys = &link.keys;
            link.ends[0]
                .put(
                    keys,
                    PutOp::new(to, client_memory(&mut source[..bytes]), COPIED, Cookie::new(1)),
                )
                .unwrap();
            link.ends[0]
                .get(keys, from, client_memory(&mut got[..bytes]), Cookie::new(2))
                .unwrap();
        }
        while link.done[0].len() < 4 {
            link.step(LinkFaults::new(50, 50, 50_000));
        }
        assert!(put == source && got == source);
        put.fill(7);
        got.fill(8);
        for (to, datagram) in link.sent_datagrams.take().unwrap() {
            link.arrive(to, &datagram);
        }
        assert!(put.iter().all(|&byte| byte == 7) && got.iter().all(|&byte| byte == 8));
    }

    #[test]
    fn get_replies_outlive_their_source() {
        let mut link = Link::new(65_408, 5);
        let (mut source, mut got) = (vec![1u8; 50_000], vec![0u8; 50_000]);
        let (lender, borrower) = (client_memory(&mut source), client_memory(&mut got));
        let from = source.as_ptr() as usize;
        link.segments[1].register(from, source.len());
        link.ends[0].get(&link.keys, from, borrower, Cookie::new(2)).unwrap();
        link.step(LinkFaults::NONE);
        // The reply is lost and its source overwritten, before another transmission.
        while !link.ends[1].has_in_flight() {
            link.step(LinkFaults::NONE);
        }
        link.drop_all();
        link.ends[1].release_memory(&link.keys, lender);
        source.fill(9);
        while link.done[0].is_empty() {
            link.step(LinkFaults::NONE);
        }
        assert!(got.iter().all(|&byte| byte == 1));
    }

    #[test]
    fn long_transfers_share_the_window() {
        let mut link = Link::new(1408, 5);
        let (mut source, mut there) = (vec![1u8; 4 << 20], vec![0u8; 4 << 20]);
        let (mut asked, mut answers) = (vec![0u8; 4 << 20], vec![1u8; 4 << 20]);
        let (to, from) = (there.as_mut_ptr() as usize, answers.as_ptr() as usize);
        link.segments[1].register(to, there.len());
        link.segments[0].register(from, answers.len());
        // End 0 has many get replies, puts and messages to send.
        for id in 0..8 {
            let destination = client_memory(&mut asked);
            link.ends[1]
                .get(&link.keys, from, destination, Cookie::new(id))
                .unwrap();
            link.ends[0]
                .put(
                    &link.keys,
                    PutOp::new(to, client_memory(&mut source), 0, Cookie::new(id)),
                )
                .unwrap();
        }
        let mut messages = 0;
        while link.done.iter().all(Vec::is_empty) {
            while link.ends[0].has_room(Class::Request, 1000) {
                link.ends[0].queue_message(&link.keys, Class::Request, &[&[3; 1000]]);
                messages += 1;
            }
            link.step(LinkFaults::NONE);
        }
        // Whichever completes first, the others have progressed as far.
        let ones = |bytes: &[u8]| -> u32 { bytes.iter().map(|&byte| u32::from(byte == 1)).sum() };
        let (put, got) = (ones(&there), ones(&asked));
        assert!(
            messages > 500 && put > 1 << 20 && got > 1 << 20,
            "{messages} messages, {put} put, {got} got"
        );
        (there[0], answers[0]) = (0, 0);
    }

    #[test]
    fn unsolicited_transfers_are_malformed() {
        let mut link = Link::new(1408, 5);
        let memory = vec![0u8; 4096];
        let base = memory.as_ptr() as u64;
        link.segments[1].register(base as usize, memory.len());
        let (peer, segments, mut done) = (&mut link.ends[1], &link.segments[1], Vec::new());
        let mut is_placed =
            |disposition, payload: &[u8]| peer.apply(disposition, payload, segments, &mut done) == Disposition::Placed;
        let request = |number: u64, bytes: u64| [number.to_le_bytes(), bytes.to_le_bytes()].concat();
        assert!(is_placed(Disposition::Put(base + 4088), &[1; 8]));
        assert!(is_placed(Disposition::Get(base), &request(0, 4096)));
        for (disposition, payload) in [
            (Disposition::Put(base + 4089), vec![1; 8]),
            (Disposition::Put(base - 1), vec![1; 8]),
            (Disposition::Put(8), vec![1; 8]),
            (Disposition::Put(base), Vec::new()),
            (Disposition::Get(base), request(0, 4097)),
            (Disposition::Get(base), request(0, u64::MAX)),
            (Disposition::Get(base), request(MAX_GETS as u64, 8)),
            (Disposition::Get(base), vec![0; 15]),
            (Disposition::Get(base), vec![0; 17]),
            (Disposition::GetReply(0), vec![1; 8]),
            (Disposition::GetReply(u64::MAX), vec![1; 8]),
        ] {
            let shown = format!("{disposition:?}, {} bytes", payload.len());
            assert!(!is_placed(disposition, &payload), "{shown}");
        }
        for _ in 1..MAX_GETS {
            assert!(is_placed(Disposition::Get(base), &request(1, 8)));
        }
        assert!(!is_placed(Disposition::Get(base), &request(1, 8)));
        // A reply that exceeds the missing bytes, or is out of bounds.
        let mut destination = vec![0u8; 100];
        for (operand, payload) in [(0, vec![1; 101]), (2, vec![1; 1]), (1, vec![1; 50])] {
            link.ends[0]
                .get(&link.keys, 0x1000, client_memory(&mut destination), Cookie::new(9))
                .unwrap();
            let operand = (link.ends[0].gets.len() as u64 - 1) << OFFSET_BITS | operand;
            let received = Disposition::GetReply(operand);
            let disposition = link.ends[0].apply(received, &payload, &link.segments[0], &mut Vec::new());
            assert_eq!(disposition, Disposition::Malformed);
        }
        assert!(destination.iter().all(|&byte| byte == 0) && memory[4088..] == [1; 8]);
    }

    #[test]
    fn messages_pass_beside_long_transfers() {
        let mut link = Link::new(1408, 5);
        let mut source = vec![1u8; 4 << 20];
        let mut put = vec![0u8; 4 << 20];
        let base = put.as_mut_ptr() as usize;
        link.segments[1].register(base, put.len());
        for id in 0..MAX_BULK_PUTS as u64 {
            let taken = link.ends[0].put(
                &link.keys,
                PutOp::new(base, client_memory(&mut source), 0, Cookie::new(id)),
            );
            assert_eq!(taken, Ok(LocalCompletion::Later));
        }
        assert_eq!(
            link.ends[0].put(
                &link.keys,
                PutOp::new(base, client_memory(&mut source), 0, Cookie::new(0))
            ),
            Err(Busy)
        );
        for i in 0..200 {
            link.step(LinkFaults::NONE);
            if link.ends[0].has_room(Class::Request, 1000) {
                link.ends[0].queue_message(&link.keys, Class::Request, &[&[i as u8; 1000]]);
            }
        }
        assert!(link.received[1].len() > 20, "{}", link.received[1].len());
        put.clear();
    }
}
