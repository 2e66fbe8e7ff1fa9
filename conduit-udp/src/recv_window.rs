//! What has come of one class from one peer: which datagrams, and the parts of messages that are not whole yet.
#![forbid(unsafe_code)]

use crate::packet::Packet;
use crate::wire::{widen, Header, Sack};

/// Datagrams that may be under way: a sender goes no further beyond the first that is missing.
pub const WINDOW: usize = 256;
const SACK_WORDS: usize = WINDOW / 64;
/// Bytes that acknowledge a whole window of both classes, in the payload of an acknowledgement.
pub const FULL_SACK_BYTES: usize = 2 * 8 * SACK_WORDS;

/// A message that lacks parts.
#[derive(Debug)]
struct PartialMessage {
    /// Number of its first part.
    first: u64,
    parts: u16,
    /// Parts that have come.
    received: u16,
    bytes: Packet,
    /// Bytes of each part but the last; 0 until one has come.
    part_bytes: usize,
}

/// What one accepted datagram brings about.
#[derive(Debug, PartialEq)]
pub enum DataOutcome {
    /// It came before, or is of no use: its sender may not know that.
    Duplicate,
    /// It is a whole message.
    Single,
    /// It was kept; the message lacks other parts.
    Incomplete,
    /// The message is whole with it.
    Complete(Packet),
    /// It contradicts an earlier part: only a defective peer sends that.
    Malformed,
}

/// One class of one peer.
#[derive(Debug, Default)]
pub struct RecvWindow {
    /// The first datagram that is missing.
    next: u64,
    /// Bit i of all words: number `next + 1 + i` has come.
    received: [u64; SACK_WORDS],
    partials: Vec<PartialMessage>,
}

impl RecvWindow {
    /// The full number of the datagram whose low half a header brings.
    pub fn widen(&self, low: u32) -> u64 {
        widen(low, self.next)
    }

    /// What has come.
    pub fn sack(&self) -> Sack {
        Sack {
            next: self.next,
            bitmap: self.received[0],
        }
    }

    /// The same for the whole window.
    pub fn bitmap(&self) -> [u64; SACK_WORDS] {
        self.received
    }

    /// Messages that lack parts.
    #[cfg(any(test, fuzzing))]
    pub fn incomplete(&self) -> usize {
        self.partials.len()
    }

    fn has_received(&self, number: u64) -> bool {
        let Some(bit) = number.checked_sub(self.next + 1) else {
            return number < self.next;
        };
        self.received[bit as usize / 64] >> (bit % 64) & 1 != 0
    }

    fn mark_received(&mut self, number: u64) {
        if number > self.next {
            let bit = number - self.next - 1;
            self.received[bit as usize / 64] |= 1 << (bit % 64);
            return;
        }
        // One more than the run of those that have come behind it.
        loop {
            let come = self.received[0] & 1 != 0;
            self.next += 1;
            for i in 0..SACK_WORDS {
                let above = self.received.get(i + 1).map_or(0, |word| word << 63);
                self.received[i] = self.received[i] >> 1 | above;
            }
            if !come {
                return;
            }
        }
    }

    /// Whether a datagram is of no more use: it came before, or its number is far off and thus that of one long ago.
    pub fn is_stale(&self, number: u64) -> bool {
        number > self.next + WINDOW as u64 || self.has_received(number)
    }

    /// Takes in a datagram that is no part of a message. Returns whether it is new.
    pub fn accept_number(&mut self, number: u64) -> bool {
        let new = !self.is_stale(number);
        if new {
            self.mark_received(number);
        }
        new
    }

    /// Takes in a datagram whose tag was right. `number` is [`RecvWindow::number`] of its header.
    pub fn accept(&mut self, header: &Header, number: u64, payload: &[u8]) -> DataOutcome {
        if self.is_stale(number) {
            return DataOutcome::Duplicate;
        }
        if header.parts <= 1 {
            if header.message as usize != payload.len() {
                return DataOutcome::Malformed;
            }
            self.mark_received(number);
            return DataOutcome::Single;
        }
        self.reassemble(header, number, payload)
    }

    fn reassemble(&mut self, header: &Header, number: u64, payload: &[u8]) -> DataOutcome {
        let Some(first) = number.checked_sub(u64::from(header.part)) else {
            return DataOutcome::Malformed;
        };
        let (parts, message) = (header.parts, header.message as usize);
        if usize::from(parts) > WINDOW || message > crate::MAX_PACKET_BYTES {
            return DataOutcome::Malformed;
        }
        let position = self.partials.iter().position(|p| p.first == first);
        // Each has a part, and lacks one, whose number is in the window or just behind it.
        if position.is_none() && self.partials.len() >= WINDOW {
            return DataOutcome::Malformed;
        }
        let at = position.unwrap_or_else(|| {
            self.partials.push(PartialMessage {
                first,
                parts,
                received: 0,
                bytes: Packet::new(message),
                part_bytes: 0,
            });
            self.partials.len() - 1
        });
        let partial = &mut self.partials[at];
        let is_last = header.part + 1 == parts;
        // The parts before the last are equally long, and the last ends the message.
        let from = if is_last {
            message.checked_sub(payload.len())
        } else {
            Some(usize::from(header.part) * payload.len())
        };
        let part_bytes = if is_last { partial.part_bytes } else { payload.len() };
        let whole_parts = usize::from(parts) - 1;
        let fits = from.is_some_and(|from| from + payload.len() <= message)
            && partial.parts == parts
            && partial.bytes.bytes().len() == message
            && (partial.part_bytes == 0 || part_bytes == partial.part_bytes)
            && (!is_last || part_bytes == 0 || from == Some(whole_parts * part_bytes));
        let Some(from) = from.filter(|_| fits) else {
            return DataOutcome::Malformed;
        };
        partial.part_bytes = part_bytes;
        partial.bytes.bytes_mut()[from..from + payload.len()].copy_from_slice(payload);
        partial.received += 1;
        let whole = partial.received == parts;
        self.mark_received(number);
        if whole {
            return DataOutcome::Complete(self.partials.swap_remove(at).bytes);
        }
        DataOutcome::Incomplete
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_class::PerClass;
    use crate::wire::Kind;
    use gasnet_conduit::Class;

    fn header(part: u16, parts: u16, message: usize) -> Header {
        Header {
            job: 1,
            kind: Kind::Data,
            class: Class::Request,
            flags: 0,
            source: 0,
            number: 0,
            message: message as u32,
            part,
            parts,
            sacks: PerClass::default(),
        }
    }

    fn single(window: &mut RecvWindow, number: u64) -> DataOutcome {
        window.accept(&header(0, 1, 3), number, b"abc")
    }

    #[test]
    fn each_datagram_is_delivered_once_in_any_order() {
        let mut window = RecvWindow::default();
        for number in [2, 0, 255, 256, 1, 3] {
            assert_eq!(single(&mut window, number), DataOutcome::Single, "{number}");
        }
        for number in [0, 1, 2, 3, 255, 256] {
            assert_eq!(single(&mut window, number), DataOutcome::Duplicate, "{number}");
        }
        assert_eq!(window.sack().next, 4);
        assert_eq!(single(&mut window, 4 + 257), DataOutcome::Duplicate);
        assert_eq!(single(&mut window, 4 + 256), DataOutcome::Single);
        for number in 4..255 {
            assert_eq!(single(&mut window, number), DataOutcome::Single);
        }
        assert_eq!((window.sack().next, window.sack().bitmap), (257, 0b100));
        assert_eq!(window.widen(0), 0);
    }

    #[test]
    fn messages_are_reassembled_in_any_order() {
        let message: Vec<u8> = (0..250).map(|i| i as u8).collect();
        let parts: Vec<&[u8]> = message.chunks(100).collect();
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            let mut window = RecvWindow::default();
            assert_eq!(single(&mut window, 0), DataOutcome::Single);
            for (i, &part) in order.iter().enumerate() {
                let taken = window.accept(&header(part as u16, 3, 250), 1 + part as u64, parts[part]);
                if i < 2 {
                    assert_eq!(taken, DataOutcome::Incomplete);
                } else {
                    assert_eq!(taken, DataOutcome::Complete(Packet::of(&message)));
                }
            }
            assert_eq!(window.sack().next, 4);
        }
    }

    #[test]
    fn malformed_input_is_detected() {
        let two = |first: (Header, &[u8]), second: (Header, &[u8])| {
            let mut window = RecvWindow::default();
            let one = window.accept(&first.0, u64::from(first.0.part), first.1);
            (one, window.accept(&second.0, u64::from(second.0.part), second.1))
        };
        let (a, b) = ([0; 100], [0; 50]);
        assert_eq!(
            two((header(0, 2, 150), &a), (header(1, 2, 150), &b)).1,
            DataOutcome::Complete(Packet::new(150))
        );
        for bad in [header(1, 2, 151), header(1, 3, 150), header(1, 2, 149)] {
            assert_eq!(two((header(0, 2, 150), &a), (bad, &b)).1, DataOutcome::Malformed, "{bad:?}");
        }
        assert_eq!(
            two((header(0, 3, 150), &a), (header(1, 3, 150), &b)).1,
            DataOutcome::Malformed
        );
        assert_eq!(two((header(0, 2, 50), &a), (header(1, 2, 50), &b)).0, DataOutcome::Malformed);
        assert_eq!(
            RecvWindow::default().accept(&header(0, 2, usize::MAX >> 33), 0, &a),
            DataOutcome::Malformed
        );
        assert_eq!(
            RecvWindow::default().accept(&header(1, 2, 150), 0, &b),
            DataOutcome::Malformed
        );
        assert_eq!(
            RecvWindow::default().accept(&header(0, 1, 4), 0, b"abc"),
            DataOutcome::Malformed
        );
    }

    #[test]
    fn incomplete_messages_are_bounded() {
        let mut window = RecvWindow::default();
        let parts = (0..).take_while(|&number| window.accept(&header(0, 2, 150), number, &[0; 100]) == DataOutcome::Incomplete);
        assert_eq!(parts.count(), WINDOW);
    }
}
