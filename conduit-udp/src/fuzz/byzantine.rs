//! A Byzantine peer: a defective or hostile rank of the job, whose datagrams have the right MACs. A
//! receiver may accept them or declare the peer lost. It must not panic, touch memory that it was
//! not given, use more memory than its windows allow, or complete a transfer twice.

use super::{change, set, Choices, Field};
use crate::fragment::{FRAGMENT_BYTES, FRAGMENT_PREFIX};
use crate::mac::Keys;
use crate::memory::tests::client_memory;
use crate::peer::link::{Link, LinkFaults};
use crate::per_class::CLASSES;
use crate::recv_window::{Disposition, WINDOW};
use crate::transfers::PutOp;
use crate::wire::{at, Header, Kind, HEADER_BYTES, OFFSET_BITS};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Class, Cookie};
use std::collections::HashMap;
use std::rc::Rc;

/// Bytes of the largest payload.
const DATAGRAM: usize = 1408;
/// Bytes of messages and transfers.
const SIZES: [usize; 8] = [1, 8, 64, 100, 1408, 1409, 3000, 9000];
const SEGMENT: usize = 16 << 10;
/// Bytes up to which the source of a put is copied at once.
const COPIED: usize = 2000;
/// How often a datagram is repeated with other numbers.
const REPEATS: u64 = 300;
/// Offsets from a correct value.
const NEAR_MISSES: [i64; 10] = [0, 0, 0, -1, -2, -64, -300, 1, 8, 256];
/// Guard bytes before and behind client memory, and their value.
const MARGIN: usize = 256;
const CANARY: u8 = 0xee;
/// Value of memory that was returned to the client.
const RELEASED: u8 = 0xdd;

/// Memory between guard bytes.
struct Guarded(Vec<u8>);

impl Guarded {
    fn new(bytes: usize) -> Self {
        let mut all = vec![CANARY; bytes + 2 * MARGIN];
        all[MARGIN..MARGIN + bytes].fill(0);
        Self(all)
    }

    fn inside(&mut self) -> &mut [u8] {
        let end = self.0.len() - MARGIN;
        &mut self.0[MARGIN..end]
    }

    fn is_intact(&self) -> bool {
        self.0[..MARGIN] == [CANARY; MARGIN] && self.0[self.0.len() - MARGIN..] == [CANARY; MARGIN]
    }
}

/// Two processes at work, and an attacker that sends to the first as the second.
struct Scene {
    link: Link,
    segments: [Guarded; 2],
    /// Transfers in progress, by end and identifier: source of a put or destination of a get.
    open: [HashMap<u64, Guarded>; 2],
    /// Destinations of complete gets.
    closed: Vec<Guarded>,
    next: u64,
}

impl Scene {
    fn new(keys: &Rc<Keys>) -> Self {
        let mut link = Link::with(Rc::clone(keys), DATAGRAM, 1);
        (link.is_hostile, link.sent_datagrams) = (true, Some(Vec::new()));
        let mut segments = [Guarded::new(SEGMENT), Guarded::new(SEGMENT)];
        for (segments, memory) in link.segments.iter().zip(&mut segments) {
            segments.register(memory.inside().as_ptr() as usize, SEGMENT);
        }
        Self {
            link,
            segments,
            open: Default::default(),
            closed: Vec::new(),
            next: 0,
        }
    }

    /// A regular operation of one end.
    fn work(&mut self, choices: &mut impl Choices) {
        let (me, bytes) = (choices.below(2), choices.one_of(&SIZES));
        let address = self.segments[1 - me].inside().as_ptr() as usize + choices.below(SEGMENT - bytes);
        let (keys, end) = (&self.link.keys, &mut self.link.ends[me]);
        let mut memory = Guarded::new(bytes);
        let destination = client_memory(memory.inside());
        let accepted = match choices.below(4) {
            what @ (0 | 1) => {
                let class = CLASSES[what];
                if end.has_room(class, bytes) {
                    end.queue_message(keys, class, &[&memory.inside()[..bytes]]);
                }
                false
            }
            2 => end
                .put(
                    keys,
                    PutOp::new(address, destination, COPIED, Cookie::new(2 * self.next)),
                )
                .is_ok(),
            _ => end
                .get(keys, address, destination, Cookie::new(2 * self.next + 1))
                .is_ok(),
        };
        if accepted {
            // An end sees only its own transfers, so the numbers are distinct.
            self.open[me].insert(2 * self.next, memory);
        }
        self.next += 1;
    }

    /// Checks that each completed transfer was begun, once, and releases its memory.
    fn settle(&mut self) {
        for (done, open) in self.link.done.iter_mut().zip(&mut self.open) {
            for id in done.drain(..) {
                let memory = open.remove(&(id.bits() & !1));
                let mut memory = memory.unwrap_or_else(|| panic!("{id:?} was completed twice"));
                assert!(memory.is_intact(), "{id:?} wrote outside its memory");
                if id.bits() % 2 == 1 {
                    memory.inside().fill(RELEASED);
                    self.closed.push(memory);
                }
            }
        }
        self.link.received.iter_mut().for_each(Vec::clear);
    }

    /// Sends one hostile datagram with the right MACs.
    fn inject(&mut self, choices: &mut impl Choices) -> Option<Disposition> {
        let mut datagram = self.sample(choices);
        for _ in 0..=choices.below(3) {
            if choices.below(2) == 0 {
                let other = self.sample(choices);
                change(choices, &mut datagram, &other);
            } else {
                self.perturb(choices, &mut datagram);
            }
        }
        self.repair(choices, &mut datagram);
        self.seal(&mut datagram);
        let disposition = self.link.receive(0, &datagram);
        if choices.below(64) == 0 {
            // Repeats it with the same number or all over the window.
            let step = choices.below(2) as u64;
            for i in 0..REPEATS {
                self.number(&mut datagram, i * step % (WINDOW as u64 + 1));
                self.seal(&mut datagram);
                self.link.receive(0, &datagram);
                self.settle();
            }
        }
        disposition
    }

    /// A datagram that was sent to the first end.
    fn sample(&self, choices: &mut impl Choices) -> Vec<u8> {
        let sent = self.link.sent_datagrams.as_ref().expect("datagrams are recorded");
        let first = choices.below(sent.len());
        let real = sent
            .iter()
            .cycle()
            .skip(first)
            .take(sent.len())
            .find(|(to, _)| *to == 0);
        real.map_or_else(
            || {
                self.link.ends[1]
                    .header(&self.link.keys, Kind::Data, Class::Request)
                    .encode()
                    .to_vec()
            },
            |(_, datagram)| datagram.clone(),
        )
    }

    /// Gives a field a value that is almost right.
    fn perturb(&mut self, choices: &mut impl Choices, datagram: &mut Vec<u8>) {
        let class = choices.one_of(&CLASSES);
        let delta = choices.one_of(&NEAR_MISSES);
        let mut any = || choices.number(4);
        match any() % 8 {
            0 => {
                set(datagram, Field::new(at::KIND, 1), 1 + any() % 7);
                set(datagram, Field::new(at::CLASS, 1), any() % 2);
            }
            1 => {
                let base = self.segments[0].inside().as_ptr() as u64;
                let ends = [base, base + SEGMENT as u64, base + any() % SEGMENT as u64];
                let end = ends[any() as usize % ends.len()];
                set(datagram, Field::new(at::MESSAGE, 8), end.wrapping_add_signed(delta));
            }
            2 => set(
                datagram,
                Field::new(at::MESSAGE, 8),
                ((any() % 4) << OFFSET_BITS) + any() % 200,
            ),
            3 => {
                let next = self.link.ends[0].tx[class].next_number();
                set(datagram, Field::new(at::ACK[class], 4), next.wrapping_add_signed(delta));
            }
            4 => set(
                datagram,
                Field::new(at::SACK[class], 8),
                (any() << 32 | any()) >> (any() % 64),
            ),
            5 => {
                set(datagram, Field::new(at::PART, 2), any() % 4);
                set(datagram, Field::new(at::PARTS, 2), any() % 5);
                set(
                    datagram,
                    Field::new(at::MESSAGE, 4),
                    [any() % 9000, MAX_PACKET_BYTES as u64][class as usize],
                );
            }
            6 => {
                // A fragment, with operand and kind of the original datagram.
                let bytes =
                    [any() as usize % 9000, any() as usize % 9000, MAX_PACKET_BYTES, 200_000][any() as usize % 4];
                let (part, parts) = (
                    any() as usize % [9, 200][class as usize],
                    bytes.div_ceil(FRAGMENT_BYTES),
                );
                let bytes_here = bytes.saturating_sub(part * FRAGMENT_BYTES).min(FRAGMENT_BYTES);
                let operand = (any() << 32) | any();
                datagram.resize(HEADER_BYTES + FRAGMENT_PREFIX + bytes_here, 0);
                set(datagram, Field::new(at::KIND, 1), Kind::Fragment as u64);
                set(datagram, Field::new(at::MESSAGE, 4), bytes as u64);
                set(datagram, Field::new(at::PART, 2), part as u64);
                set(datagram, Field::new(at::PARTS, 2), parts as u64);
                set(
                    datagram,
                    Field::new(HEADER_BYTES, 8),
                    [operand, self.segments[0].inside().as_ptr() as u64][any() as usize % 2],
                );
                set(datagram, Field::new(HEADER_BYTES + 8, 1), 1 + any() % 7);
            }
            _ => {
                // The payload of a get request.
                datagram.resize(HEADER_BYTES + 16, 0);
                set(datagram, Field::new(HEADER_BYTES, 8), any() % 260);
                set(datagram, Field::new(HEADER_BYTES + 8, 8), any() % (2 * SEGMENT as u64));
            }
        }
    }

    /// Corrects, most of the time, what would be rejected at once.
    fn repair(&self, choices: &mut impl Choices, datagram: &mut [u8]) {
        // Guard bytes must not appear inside segments.
        for byte in datagram.iter_mut().filter(|byte| **byte == CANARY) {
            *byte = 0;
        }
        let bytes = datagram.len().saturating_sub(HEADER_BYTES) as u64;
        if choices.below(2) > 0 {
            for class in CLASSES {
                set(datagram, Field::new(at::ACK[class], 4), 0);
                set(datagram, Field::new(at::SACK[class], 8), 0);
            }
        }
        if choices.below(4) > 0 {
            self.number(datagram, choices.one_of(&[0, 0, 0, 1, 2, 63, 255, 256, 257]));
        }
        let header = datagram.first_chunk().and_then(Header::decode);
        let is_single = header.is_some_and(|header| header.kind == Kind::Data && header.parts <= 1);
        if is_single && choices.below(4) > 0 {
            set(datagram, Field::new(at::MESSAGE, 4), bytes);
        }
    }

    /// Gives a datagram the expected number, or one ahead of it.
    fn number(&self, datagram: &mut [u8], ahead: u64) {
        if let Some(header) = datagram.first_chunk().and_then(Header::decode) {
            let expected = self.link.ends[0].expected_number(&header);
            set(datagram, Field::new(at::NUMBER, 4), expected.wrapping_add(ahead));
        }
    }

    /// Seals a datagram with the right MACs.
    fn seal(&self, datagram: &mut [u8]) {
        let Some((head, payload)) = datagram.split_first_chunk_mut::<HEADER_BYTES>() else {
            return;
        };
        let Some(mut header) = Header::decode(head) else { return };
        let implicit = self.link.ends[0].implicit_fields(&mut header);
        self.link.keys.seal(head, &implicit, self.link.keys.digest(payload));
    }

    fn check(&mut self) {
        let end = &self.link.ends[0];
        assert!(
            end.tx.iter().all(|out| out.len() <= WINDOW),
            "more than a window is in flight"
        );
        assert!(
            end.incomplete() <= WINDOW + 1,
            "{} incomplete messages or datagrams",
            end.incomplete()
        );
        assert!(
            end.bulk[Class::Reply].len() <= 256,
            "{} get replies",
            end.bulk[Class::Reply].len()
        );
    }

    fn finish(&mut self) {
        assert!(
            self.segments.iter().all(Guarded::is_intact),
            "memory outside a segment was written"
        );
        let mut open = self.open.iter().flat_map(HashMap::values);
        assert!(open.all(Guarded::is_intact), "memory outside a transfer was written");
        let mut closed = self.closed.iter_mut();
        let all_released = closed.all(|memory| memory.inside().iter().all(|&byte| byte == RELEASED));
        assert!(all_released, "memory of a complete get was written");
        for (to, datagram) in self.link.sent_datagrams.iter().flatten() {
            let is_outside = datagram.chunks(8).any(|bytes| bytes == [CANARY; 8]);
            assert!(!is_outside || *to == 0, "memory outside a segment was sent");
        }
    }
}

/// Hostile datagrams sent, and those that were accepted.
#[derive(Debug, Default)]
pub struct Tally {
    pub sent: u64,
    pub accepted: u64,
}

/// Runs one scenario with hostile datagrams.
pub fn attack(choices: &mut impl Choices, keys: &Rc<Keys>, mut on_send: impl FnMut()) -> Tally {
    let mut scene = Scene::new(keys);
    let mut tally = Tally::default();
    for _ in 0..choices.below(64) {
        if choices.is_over() {
            break;
        }
        if choices.below(3) == 0 {
            scene.work(choices);
            scene.link.step(LinkFaults::NONE);
        } else {
            on_send();
            tally.sent += 1;
            let disposition = scene.inject(choices);
            tally.accepted += u64::from(!matches!(
                disposition,
                None | Some(Disposition::Duplicate | Disposition::Malformed)
            ));
        }
        scene.settle();
        scene.check();
    }
    scene.finish();
    tally
}

#[cfg(test)]
mod tests {
    use super::super::{Seeded, Trial};
    use super::*;

    #[test]
    fn byzantine_peers_do_no_harm() {
        let keys = Rc::new(Keys::new(9, b"fuzz"));
        let mut trial = Trial::new(60_000);
        let mut choices = Seeded(trial.seed);
        let mut all = Tally::default();
        while trial.round < trial.rounds {
            let tally = attack(&mut choices, &keys, || trial.round += 1);
            all.sent += tally.sent;
            all.accepted += tally.accepted;
        }
        // Otherwise the datagrams are too strange to test anything.
        assert!(all.accepted > all.sent / 8, "{all:?}");
    }
}
