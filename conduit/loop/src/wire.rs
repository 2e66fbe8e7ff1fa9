//! Messages between NICs: a header of seven words in host byte order, because all processes share a
//! host, and a tail of bytes.
#![forbid(unsafe_code)]

use crate::MAX_PACKET_BYTES;
use gasnet_conduit::Class;

/// Most bytes of a put or get in one message.
pub const FRAGMENT: usize = 8 << 10;
/// Bytes of a header.
const HEADER: usize = 56;
/// Bytes of the largest message.
pub const LARGEST: usize = HEADER
    + if FRAGMENT > MAX_PACKET_BYTES {
        FRAGMENT
    } else {
        MAX_PACKET_BYTES
    };

/// Memory of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// Number of the operation at its initiator.
    pub id: u64,
    pub key: u64,
    pub address: usize,
}

/// A message of one NIC to another. Answers begin with the number of the operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Message<'a> {
    /// A packet of the runtime.
    Packet(Class, &'a [u8]),
    /// Number of packets that were delivered.
    Credit(Class, u32),
    /// A fragment of a put; `true`: of one with notification.
    Put(At, bool, &'a [u8]),
    /// A packet, to be delivered when this number of fragments of a put are placed.
    Notice(u64, Class, u32, &'a [u8]),
    /// Requests a number of bytes of a get, from an offset of the whole.
    Get(At, usize, usize),
    /// Requests an atomic: type, operation, operands.
    Atomic(At, u32, u32, [u64; 2]),
    /// A fragment of a put is at its destination.
    Placed(u64),
    /// A fragment of a get, and its offset.
    Data(u64, usize, &'a [u8]),
    /// The old value of an atomic.
    Old(u64, u64),
    /// The target refuses a part of an operation.
    Denied(u64),
    /// The sender enters a round of the barrier.
    Enter([u64; 2]),
    /// A round of the barrier has ended.
    RoundEnd([u64; 2]),
    /// A word of the receiver: index and value.
    Word(usize, u64),
    /// The sender stops: end-of-file after this is not a loss.
    Bye,
}

impl<'a> Message<'a> {
    /// The encoded message.
    pub fn encode(&self) -> Vec<u8> {
        let at = |kind, at: At, [x, y, z]: [u64; 3]| [kind, at.id, at.key, at.address as u64, x, y, z];
        let short = |kind, id, x, y| [kind, id, 0, 0, x, y, 0];
        let (words, tail): ([u64; 7], &[u8]) = match *self {
            Message::Packet(class, packet) => (short(1, 0, class as u64, 0), packet),
            Message::Credit(class, count) => (short(2, 0, class as u64, count.into()), &[]),
            Message::Put(to, notified, data) => (at(3, to, [notified.into(), 0, 0]), data),
            Message::Notice(id, class, fragments, packet) => (short(4, id, class as u64, fragments.into()), packet),
            Message::Get(from, offset, bytes) => (at(5, from, [offset as u64, bytes as u64, 0]), &[]),
            Message::Atomic(to, dt, op, [a, b]) => (at(6, to, [u64::from(dt) << 32 | u64::from(op), a, b]), &[]),
            Message::Placed(id) => (short(7, id, 0, 0), &[]),
            Message::Data(id, offset, data) => (short(8, id, offset as u64, 0), data),
            Message::Old(id, value) => (short(9, id, value, 0), &[]),
            Message::Denied(id) => (short(10, id, 0, 0), &[]),
            Message::Bye => (short(11, 0, 0, 0), &[]),
            Message::Enter([a, b]) => (short(12, 0, a, b), &[]),
            Message::RoundEnd([a, b]) => (short(13, 0, a, b), &[]),
            Message::Word(index, word) => (short(14, 0, index as u64, word), &[]),
        };
        let mut bytes = Vec::with_capacity(HEADER + tail.len());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(tail);
        bytes
    }

    /// The reverse of `encode`. None if the bytes are malformed.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (header, tail) = bytes.split_at_checked(HEADER)?;
        let mut words = [0; 7];
        for (word, bytes) in words.iter_mut().zip(header.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().ok()?);
        }
        let [kind, id, key, address, x, y, z] = words;
        let address = address as usize;
        let at = At { id, key, address };
        let class = if x == 0 { Class::Request } else { Class::Reply };
        let has_tail = matches!(kind, 1 | 3 | 4 | 8);
        if tail.len() > LARGEST - HEADER || !(has_tail || tail.is_empty()) {
            return None;
        }
        Some(match kind {
            1 => Message::Packet(class, tail),
            2 => Message::Credit(class, y as u32),
            3 => Message::Put(at, x != 0, tail),
            4 => Message::Notice(id, class, y as u32, tail),
            5 if y <= FRAGMENT as u64 => Message::Get(at, x as usize, y as usize),
            6 => Message::Atomic(at, (x >> 32) as u32, x as u32, [y, z]),
            7 => Message::Placed(id),
            8 => Message::Data(id, x as usize, tail),
            9 => Message::Old(id, x),
            10 => Message::Denied(id),
            11 => Message::Bye,
            12 => Message::Enter([x, y]),
            13 => Message::RoundEnd([x, y]),
            14 => Message::Word(x as usize, y),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_no_other_length() {
        let (id, key, address, class) = (u64::MAX, 77, 0x1234_5678, Class::Reply);
        let at = At { id, key, address };
        for message in [
            Message::Packet(class, &[1, 2]),
            Message::Credit(class, 3),
            Message::Put(at, true, &[9; 100]),
            Message::Notice(id, class, 7, &[4]),
            Message::Get(at, 1 << 40, 8),
            Message::Atomic(at, 8, 1 << 27, [5, u64::MAX]),
            Message::Placed(id),
            Message::Data(id, 9, &[7]),
            Message::Old(id, 1),
            Message::Denied(id),
            Message::Bye,
            Message::Enter([1, u64::MAX]),
            Message::RoundEnd([u64::MAX, 2]),
            Message::Word(7, u64::MAX),
        ] {
            let mut bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Some(message));
            assert_eq!(Message::decode(&bytes[..HEADER - 1]), None);
            bytes.resize(LARGEST + 1, 0);
            assert_eq!(Message::decode(&bytes), None);
        }
        assert_eq!(Message::decode(&[0; HEADER]), None);
    }
}
