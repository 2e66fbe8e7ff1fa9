//! What has come of one class from one peer: which datagrams, and the parts of messages that are not whole yet.
#![forbid(unsafe_code)]

use crate::packet::Packet;
use crate::wire::{widen, Have, Header};

/// Datagrams that may be under way: a sender goes no further beyond the first that is missing.
pub const WINDOW: usize = 256;
const WORDS: usize = WINDOW / 64;
/// Bytes that acknowledge a whole window of both classes, in the payload of an acknowledgement.
pub const ALL_ACKS: usize = 2 * 8 * WORDS;

/// A message that lacks parts.
#[derive(Debug)]
struct Partial {
    /// Number of its first part.
    first: u64,
    parts: u16,
    /// Parts that have come.
    have: u16,
    bytes: Packet,
    /// Bytes of each part but the last; 0 until one has come.
    each: usize,
}

/// What one accepted datagram brings about.
#[derive(Debug, PartialEq)]
pub enum Taken {
    /// It came before, or is of no use: its sender may not know that.
    Old,
    /// It is a whole message.
    Whole,
    /// It was kept; the message lacks other parts.
    Kept,
    /// The message is whole with it.
    Message(Packet),
    /// It contradicts an earlier part: only a defective peer sends that.
    Nonsense,
}

/// One class of one peer.
#[derive(Debug, Default)]
pub struct Incoming {
    /// The first datagram that is missing.
    next: u64,
    /// Bit i of all words: number `next + 1 + i` has come.
    beyond: [u64; WORDS],
    partial: Vec<Partial>,
}

impl Incoming {
    /// The full number of the datagram whose low half a header brings.
    pub fn number(&self, low: u32) -> u64 {
        widen(low, self.next)
    }

    /// What has come.
    pub fn have(&self) -> Have {
        Have {
            next: self.next,
            beyond: self.beyond[0],
        }
    }

    /// The same for the whole window.
    pub fn all(&self) -> [u64; WORDS] {
        self.beyond
    }

    /// Messages that lack parts.
    #[cfg(any(test, fuzzing))]
    pub fn unfinished(&self) -> usize {
        self.partial.len()
    }

    fn has(&self, number: u64) -> bool {
        let Some(bit) = number.checked_sub(self.next + 1) else {
            return number < self.next;
        };
        self.beyond[bit as usize / 64] >> (bit % 64) & 1 != 0
    }

    fn note(&mut self, number: u64) {
        if number > self.next {
            let bit = number - self.next - 1;
            self.beyond[bit as usize / 64] |= 1 << (bit % 64);
            return;
        }
        // One more than the run of those that have come behind it.
        loop {
            let come = self.beyond[0] & 1 != 0;
            self.next += 1;
            for i in 0..WORDS {
                let above = self.beyond.get(i + 1).map_or(0, |word| word << 63);
                self.beyond[i] = self.beyond[i] >> 1 | above;
            }
            if !come {
                return;
            }
        }
    }

    /// Whether a datagram is of no more use: it came before, or its number is far off and thus that of one long ago.
    pub fn is_old(&self, number: u64) -> bool {
        number > self.next + WINDOW as u64 || self.has(number)
    }

    /// Takes in a datagram that is no part of a message. Returns whether it is new.
    pub fn take_alone(&mut self, number: u64) -> bool {
        let new = !self.is_old(number);
        if new {
            self.note(number);
        }
        new
    }

    /// Takes in a datagram whose tag was right. `number` is [`Incoming::number`] of its header.
    pub fn take(&mut self, header: &Header, number: u64, payload: &[u8]) -> Taken {
        if self.is_old(number) {
            return Taken::Old;
        }
        if header.parts <= 1 {
            if header.message as usize != payload.len() {
                return Taken::Nonsense;
            }
            self.note(number);
            return Taken::Whole;
        }
        self.keep(header, number, payload)
    }

    fn keep(&mut self, header: &Header, number: u64, payload: &[u8]) -> Taken {
        let Some(first) = number.checked_sub(u64::from(header.part)) else {
            return Taken::Nonsense;
        };
        let (parts, message) = (header.parts, header.message as usize);
        if usize::from(parts) > WINDOW || message > crate::MAX_PACKET_BYTES {
            return Taken::Nonsense;
        }
        let known = self.partial.iter().position(|p| p.first == first);
        // Each has a part, and lacks one, whose number is in the window or just behind it.
        if known.is_none() && self.partial.len() >= WINDOW {
            return Taken::Nonsense;
        }
        let at = known.unwrap_or_else(|| {
            self.partial.push(Partial {
                first,
                parts,
                have: 0,
                bytes: Packet::new(message),
                each: 0,
            });
            self.partial.len() - 1
        });
        let partial = &mut self.partial[at];
        let is_last = header.part + 1 == parts;
        // The parts before the last are equally long, and the last ends the message.
        let from = if is_last {
            message.checked_sub(payload.len())
        } else {
            Some(usize::from(header.part) * payload.len())
        };
        let each = if is_last { partial.each } else { payload.len() };
        let whole_parts = usize::from(parts) - 1;
        let fits = from.is_some_and(|from| from + payload.len() <= message)
            && partial.parts == parts
            && partial.bytes.bytes().len() == message
            && (partial.each == 0 || each == partial.each)
            && (!is_last || each == 0 || from == Some(whole_parts * each));
        let Some(from) = from.filter(|_| fits) else {
            return Taken::Nonsense;
        };
        partial.each = each;
        partial.bytes.bytes_mut()[from..from + payload.len()].copy_from_slice(payload);
        partial.have += 1;
        let whole = partial.have == parts;
        self.note(number);
        if whole {
            return Taken::Message(self.partial.swap_remove(at).bytes);
        }
        Taken::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;

    fn header(part: u16, parts: u16, message: usize) -> Header {
        Header {
            job: 1,
            kind: Kind::Data,
            class: 0,
            flags: 0,
            source: 0,
            number: 0,
            message: message as u32,
            part,
            parts,
            have: [Have::default(); 2],
        }
    }

    fn single(incoming: &mut Incoming, number: u64) -> Taken {
        incoming.take(&header(0, 1, 3), number, b"abc")
    }

    #[test]
    fn each_comes_once_in_any_order() {
        let mut incoming = Incoming::default();
        for number in [2, 0, 255, 256, 1, 3] {
            assert_eq!(single(&mut incoming, number), Taken::Whole, "{number}");
        }
        for number in [0, 1, 2, 3, 255, 256] {
            assert_eq!(single(&mut incoming, number), Taken::Old, "{number}");
        }
        assert_eq!(incoming.have().next, 4);
        assert_eq!(single(&mut incoming, 4 + 257), Taken::Old);
        assert_eq!(single(&mut incoming, 4 + 256), Taken::Whole);
        for number in 4..255 {
            assert_eq!(single(&mut incoming, number), Taken::Whole);
        }
        assert_eq!((incoming.have().next, incoming.have().beyond), (257, 0b100));
        assert_eq!(incoming.number(0), 0);
    }

    #[test]
    fn messages_come_together_in_any_order() {
        let message: Vec<u8> = (0..250).map(|i| i as u8).collect();
        let parts: Vec<&[u8]> = message.chunks(100).collect();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let mut incoming = Incoming::default();
            assert_eq!(single(&mut incoming, 0), Taken::Whole);
            for (i, &part) in order.iter().enumerate() {
                let taken = incoming.take(&header(part as u16, 3, 250), 1 + part as u64, parts[part]);
                if i < 2 {
                    assert_eq!(taken, Taken::Kept);
                } else {
                    assert_eq!(taken, Taken::Message(Packet::of(&message)));
                }
            }
            assert_eq!(incoming.have().next, 4);
        }
    }

    #[test]
    fn nonsense_is_found_out() {
        let two = |first: (Header, &[u8]), second: (Header, &[u8])| {
            let mut incoming = Incoming::default();
            let one = incoming.take(&first.0, u64::from(first.0.part), first.1);
            (one, incoming.take(&second.0, u64::from(second.0.part), second.1))
        };
        let (a, b) = ([0; 100], [0; 50]);
        assert_eq!(
            two((header(0, 2, 150), &a), (header(1, 2, 150), &b)).1,
            Taken::Message(Packet::new(150))
        );
        for bad in [header(1, 2, 151), header(1, 3, 150), header(1, 2, 149)] {
            assert_eq!(two((header(0, 2, 150), &a), (bad, &b)).1, Taken::Nonsense, "{bad:?}");
        }
        assert_eq!(two((header(0, 3, 150), &a), (header(1, 3, 150), &b)).1, Taken::Nonsense);
        assert_eq!(two((header(0, 2, 50), &a), (header(1, 2, 50), &b)).0, Taken::Nonsense);
        assert_eq!(
            Incoming::default().take(&header(0, 2, usize::MAX >> 33), 0, &a),
            Taken::Nonsense
        );
        assert_eq!(Incoming::default().take(&header(1, 2, 150), 0, &b), Taken::Nonsense);
        assert_eq!(Incoming::default().take(&header(0, 1, 4), 0, b"abc"), Taken::Nonsense);
    }

    #[test]
    fn messages_that_never_end_are_found_out() {
        let mut incoming = Incoming::default();
        let parts = (0..).take_while(|&number| incoming.take(&header(0, 2, 150), number, &[0; 100]) == Taken::Kept);
        assert_eq!(parts.count(), WINDOW);
    }
}
