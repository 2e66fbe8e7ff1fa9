//! The receive window of one class: which datagrams were received, and incomplete messages.
#![forbid(unsafe_code)]

use crate::packet::Packet;
use crate::wire::{widen, Header, Sack};
use gasnet_conduit::Class;

/// Datagrams in a window. A sender stays within this distance of the first missing datagram.
pub const WINDOW: usize = 256;
const SACK_WORDS: usize = WINDOW / 64;
/// Bytes of the SACK bitmaps of both whole windows, in the payload of an ACK.
pub const FULL_SACK_BYTES: usize = 2 * 8 * SACK_WORDS;

/// Result of receiving a datagram: work done, or left to the caller.
#[derive(Debug, PartialEq)]
pub enum Disposition {
    /// Nothing to deliver.
    Nothing,
    /// Received before, or stale. No sign of life of the peer: anybody can replay a datagram.
    Duplicate,
    /// The payload is a packet.
    Packet(Class),
    /// A packet of several datagrams is complete.
    Message(Class, Packet),
    /// A part of a transfer was placed.
    Placed,
    /// The payload belongs into a segment, at this address.
    Put(u64),
    /// The peer requests the memory at this address.
    Get(u64),
    /// The payload belongs to a get; the operand names the get and the offset.
    GetReply(u64),
    /// The datagram was the last fragment of one with this payload, which has this disposition.
    Reassembled(Box<Disposition>, Packet),
    /// The peer has closed its end.
    Close,
    /// The MAC is right but the content is impossible: the peer is defective.
    Malformed,
}

/// An incomplete message.
#[derive(Debug)]
struct PartialMessage {
    /// Number of its first part.
    first: u64,
    parts: u16,
    /// Parts received.
    received: u16,
    bytes: Packet,
    /// Bytes of each part but the last; 0 until one was received.
    part_bytes: usize,
}

/// The receive window of one class of one peer.
#[derive(Debug, Default)]
pub struct RecvWindow {
    /// Number of the first missing datagram.
    next: u64,
    /// Bit i of the whole bitmap: number `next + 1 + i` was received.
    received: [u64; SACK_WORDS],
    partials: Vec<PartialMessage>,
}

impl RecvWindow {
    /// Expands the low half of a number in a header.
    pub fn widen(&self, low: u32) -> u64 {
        widen(low, self.next)
    }

    /// The received numbers, as far as a header can describe them.
    pub fn sack(&self) -> Sack {
        Sack {
            next: self.next,
            bitmap: self.received[0],
        }
    }

    /// The bitmap of the whole window.
    pub fn bitmap(&self) -> [u64; SACK_WORDS] {
        self.received
    }

    /// Number of incomplete messages.
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
        // Advance by one, and by the run of received numbers behind it.
        loop {
            let is_received = self.received[0] & 1 != 0;
            self.next += 1;
            for i in 0..SACK_WORDS {
                let above = self.received.get(i + 1).map_or(0, |word| word << 63);
                self.received[i] = self.received[i] >> 1 | above;
            }
            if !is_received {
                return;
            }
        }
    }

    /// Whether a datagram is of no use: received before, or so far ahead that its number must have
    /// wrapped.
    pub fn is_stale(&self, number: u64) -> bool {
        number > self.next + WINDOW as u64 || self.has_received(number)
    }

    /// Marks the datagram of a transfer as received. Returns whether it is new.
    pub fn accept_number(&mut self, number: u64) -> bool {
        let new = !self.is_stale(number);
        if new {
            self.mark_received(number);
        }
        new
    }

    /// Accepts an authentic data datagram, once. `number` is [`RecvWindow::widen`] of its header's.
    /// Malformed: it contradicts an earlier part.
    pub fn accept(&mut self, header: &Header, number: u64, payload: &[u8]) -> Disposition {
        if self.is_stale(number) {
            return Disposition::Duplicate;
        }
        if header.parts <= 1 {
            if header.message as usize != payload.len() {
                return Disposition::Malformed;
            }
            self.mark_received(number);
            return Disposition::Packet(header.class);
        }
        self.reassemble(header, number, payload)
    }

    fn reassemble(&mut self, header: &Header, number: u64, payload: &[u8]) -> Disposition {
        let Some(first) = number.checked_sub(u64::from(header.part)) else {
            return Disposition::Malformed;
        };
        let (parts, message) = (header.parts, header.message as usize);
        if usize::from(parts) > WINDOW || message > crate::MAX_PACKET_BYTES {
            return Disposition::Malformed;
        }
        let position = self.partials.iter().position(|p| p.first == first);
        // Every incomplete message has a part, and lacks one, in the window or just behind it.
        if position.is_none() && self.partials.len() >= WINDOW {
            return Disposition::Malformed;
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
        // All parts before the last have equal length, and the last one ends the message.
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
            return Disposition::Malformed;
        };
        partial.part_bytes = part_bytes;
        partial.bytes.bytes_mut()[from..from + payload.len()].copy_from_slice(payload);
        partial.received += 1;
        let is_complete = partial.received == parts;
        self.mark_received(number);
        if is_complete {
            return Disposition::Message(header.class, self.partials.swap_remove(at).bytes);
        }
        Disposition::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::per_class::PerClass;
    use crate::wire::Kind;
    use gasnet_conduit::JobRank;

    fn header(part: u16, parts: u16, message: usize) -> Header {
        Header {
            job: 1,
            kind: Kind::Data,
            class: Class::Request,
            flags: 0,
            source: JobRank(0),
            number: 0,
            message: message as u32,
            part,
            parts,
            sacks: PerClass::default(),
        }
    }

    fn single(window: &mut RecvWindow, number: u64) -> Disposition {
        window.accept(&header(0, 1, 3), number, b"abc")
    }

    #[test]
    fn each_datagram_is_delivered_once_in_any_order() {
        let mut window = RecvWindow::default();
        for number in [2, 0, 255, 256, 1, 3] {
            assert_eq!(
                single(&mut window, number),
                Disposition::Packet(Class::Request),
                "{number}"
            );
        }
        for number in [0, 1, 2, 3, 255, 256] {
            assert_eq!(single(&mut window, number), Disposition::Duplicate, "{number}");
        }
        assert_eq!(window.sack().next, 4);
        assert_eq!(single(&mut window, 4 + 257), Disposition::Duplicate);
        assert_eq!(single(&mut window, 4 + 256), Disposition::Packet(Class::Request));
        for number in 4..255 {
            assert_eq!(single(&mut window, number), Disposition::Packet(Class::Request));
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
            assert_eq!(single(&mut window, 0), Disposition::Packet(Class::Request));
            for (i, &part) in order.iter().enumerate() {
                let taken = window.accept(&header(part as u16, 3, 250), 1 + part as u64, parts[part]);
                if i < 2 {
                    assert_eq!(taken, Disposition::Nothing);
                } else {
                    assert_eq!(taken, Disposition::Message(Class::Request, Packet::of(&message)));
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
            Disposition::Message(Class::Request, Packet::new(150))
        );
        for bad in [header(1, 2, 151), header(1, 3, 150), header(1, 2, 149)] {
            assert_eq!(
                two((header(0, 2, 150), &a), (bad, &b)).1,
                Disposition::Malformed,
                "{bad:?}"
            );
        }
        assert_eq!(
            two((header(0, 3, 150), &a), (header(1, 3, 150), &b)).1,
            Disposition::Malformed
        );
        assert_eq!(
            two((header(0, 2, 50), &a), (header(1, 2, 50), &b)).0,
            Disposition::Malformed
        );
        assert_eq!(
            RecvWindow::default().accept(&header(0, 2, usize::MAX >> 33), 0, &a),
            Disposition::Malformed
        );
        assert_eq!(
            RecvWindow::default().accept(&header(1, 2, 150), 0, &b),
            Disposition::Malformed
        );
        assert_eq!(
            RecvWindow::default().accept(&header(0, 1, 4), 0, b"abc"),
            Disposition::Malformed
        );
    }

    #[test]
    fn incomplete_messages_are_bounded() {
        let mut window = RecvWindow::default();
        let parts =
            (0..).take_while(|&number| window.accept(&header(0, 2, 150), number, &[0; 100]) == Disposition::Nothing);
        assert_eq!(parts.count(), WINDOW);
    }
}
