//! A member of the job that is broken, or hostile: its datagrams have the right tag. Whoever hears them may find them good or find their sender
//! broken, but must not stop, touch memory that was not lent for it, take more memory than its windows have, or report a transfer twice.

use super::{change, set, Choices, Field};
use crate::fragment::{FRAGMENT_BYTES, FRAGMENT_PREFIX};
use crate::mac::Keys;
use crate::memory::tests::client_memory;
use crate::peer::link::{Link, LinkFaults};
use crate::peer::Disposition;
use crate::per_class::CLASSES;
use crate::recv_window::WINDOW;
use crate::transfers::PutOp;
use crate::wire::{at, Header, Kind, HEADER_BYTES, OFFSET_BITS};
use crate::MAX_PACKET_BYTES;
use gasnet_conduit::{Class, TransferId};
use std::collections::HashMap;
use std::rc::Rc;

/// Payload of the largest datagrams.
const DATAGRAM: usize = 1408;
/// Sizes of messages and transfers.
const SIZES: [usize; 8] = [1, 8, 64, 100, 1408, 1409, 3000, 9000];
const SEGMENT: usize = 16 << 10;
/// Puts of up to so many bytes are copied at once.
const COPIED: usize = 2000;
/// So often a datagram comes again with other numbers.
const REPEATS: u64 = 300;
/// What is almost right.
const NEAR_MISSES: [i64; 10] = [0, 0, 0, -1, -2, -64, -300, 1, 8, 256];
/// Before and behind memory that is lent, and what is there.
const MARGIN: usize = 256;
const CANARY: u8 = 0xee;
/// What is in memory that was given back.
const RELEASED: u8 = 0xdd;

/// Memory between margins that nobody may touch.
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

/// Two processes at work, and somebody who speaks to the first as the second.
struct Scene {
    link: Link,
    segments: [Guarded; 2],
    /// Transfers under way, by end and number: the source of a put, or the destination of a get.
    open: [HashMap<u64, Guarded>; 2],
    /// Destinations of gets that are complete.
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

    /// Honest work of one end.
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
                .put(keys, PutOp::new(address, destination, COPIED, TransferId(2 * self.next)))
                .is_ok(),
            _ => end.get(keys, address, destination, TransferId(2 * self.next + 1)).is_ok(),
        };
        if accepted {
            // Neither has the other one's numbers, for they are open at different ends.
            self.open[me].insert(2 * self.next, memory);
        }
        self.next += 1;
    }

    /// What is complete was begun, and no more than once; its memory is given back.
    fn settle(&mut self) {
        for (done, open) in self.link.done.iter_mut().zip(&mut self.open) {
            for id in done.drain(..) {
                let memory = open.remove(&(id.0 & !1));
                let mut memory = memory.unwrap_or_else(|| panic!("{id:?} was completed twice"));
                assert!(memory.is_intact(), "{id:?} touched what is beside its memory");
                if id.0 % 2 == 1 {
                    memory.inside().fill(RELEASED);
                    self.closed.push(memory);
                }
            }
        }
        self.link.received.iter_mut().for_each(Vec::clear);
    }

    /// One hostile datagram, of which only the tag is right.
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
            // And many more of the kind, one by one or all over the window.
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

    /// Something that was sent to the first end.
    fn sample(&self, choices: &mut impl Choices) -> Vec<u8> {
        let sent = self.link.sent_datagrams.as_ref().expect("all that was sent");
        let first = choices.below(sent.len());
        let real = sent.iter().cycle().skip(first).take(sent.len()).find(|(to, _)| *to == 0);
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

    /// Makes a field almost right.
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
                // A piece of a datagram, and the whole's word and kind.
                let bytes = [any() as usize % 9000, any() as usize % 9000, MAX_PACKET_BYTES, 200_000][any() as usize % 4];
                let (part, parts) = (any() as usize % [9, 200][class as usize], bytes.div_ceil(FRAGMENT_BYTES));
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
                // What a get asks for.
                datagram.resize(HEADER_BYTES + 16, 0);
                set(datagram, Field::new(HEADER_BYTES, 8), any() % 260);
                set(datagram, Field::new(HEADER_BYTES + 8, 8), any() % (2 * SEGMENT as u64));
            }
        }
    }

    /// Makes right, most often, what would be found wrong at once.
    fn repair(&self, choices: &mut impl Choices, datagram: &mut [u8]) {
        // What is beside segments is not to be put into them.
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

    /// Gives a datagram the number that is expected, or one ahead of it.
    fn number(&self, datagram: &mut [u8], ahead: u64) {
        if let Some(header) = datagram.first_chunk().and_then(Header::decode) {
            let expected = self.link.ends[0].expected_number(&header);
            set(datagram, Field::new(at::NUMBER, 4), expected.wrapping_add(ahead));
        }
    }

    /// Puts the right tag into a datagram.
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
            "more than a window is under way"
        );
        assert!(
            end.incomplete() <= WINDOW + 1,
            "{} messages or datagrams lack parts",
            end.incomplete()
        );
        assert!(
            end.bulk[Class::Reply].len() <= 256,
            "{} answers to gets",
            end.bulk[Class::Reply].len()
        );
    }

    fn finish(&mut self) {
        assert!(
            self.segments.iter().all(Guarded::is_intact),
            "what is beside a segment was touched"
        );
        let mut open = self.open.iter().flat_map(HashMap::values);
        assert!(open.all(Guarded::is_intact), "what is beside a transfer's memory was touched");
        let mut closed = self.closed.iter_mut();
        let all_given_back = closed.all(|memory| memory.inside().iter().all(|&byte| byte == RELEASED));
        assert!(all_given_back, "memory of a complete get was touched");
        for (to, datagram) in self.link.sent_datagrams.iter().flatten() {
            let beside = datagram.chunks(8).any(|bytes| bytes == [CANARY; 8]);
            assert!(!beside || *to == 0, "what is beside a segment was sent");
        }
    }
}

/// Hostile datagrams sent, and those of them that had an effect.
#[derive(Debug, Default)]
pub struct Tally {
    pub sent: u64,
    pub accepted: u64,
}

/// Plays one scene, with hostile datagrams. Returns how many of these there were, and how many of them had an effect.
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
        // Otherwise they would be too strange to reach anything.
        assert!(all.accepted > all.sent / 8, "{all:?}");
    }
}
