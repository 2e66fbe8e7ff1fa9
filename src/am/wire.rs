//! Validation of received messages, independent of the runtime: kind, number of arguments, lengths,
//! where the payload is. Input is untrusted; everything accepted lies inside the record or packet.

#![forbid(unsafe_code)]

use super::internal::{MEDIUM_DATA, MEDIUM_HEAD};
use super::table::INDEX_BASE;
use super::{kind, payload_offset, AmCategory, Header, HEADER, IN_PLACE, MAX_ARGS};

/// How a message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// In a ring record.
    Record,
    /// In a conduit's packet.
    Packet,
}

/// Place of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none, or it was at its destination before the message.
    None,
    /// In the record or packet, from [`payload_offset`] on; a Long's is to be copied to its
    /// destination.
    InPlace,
    /// In this block of the sender, of which nothing is checked yet.
    Block(u16),
}

/// Category and number of arguments, from the first word of a message of `length` bytes. The header
/// and the arguments are then inside it.
#[inline]
pub fn shape(kind: u8, small: u8, length: usize) -> Result<(AmCategory, usize), &'static str> {
    let nargs = usize::from(small);
    let category = match kind {
        kind::SHORT => AmCategory::Short,
        kind::MEDIUM => AmCategory::Medium,
        kind::LONG | kind::PACKED_LONG => AmCategory::Long,
        _ => return Err("unknown kind"),
    };
    if nargs > MAX_ARGS || length < HEADER + 4 * nargs {
        return Err("bad argument count");
    }
    Ok((category, nargs))
}

/// Place of the payload of a message whose [`shape`] is good. A payload in place is inside
/// `length`.
#[inline]
pub fn payload(
    carrier: Carrier,
    kind: u8,
    nargs: usize,
    header: &Header,
    length: usize,
) -> Result<Payload, &'static str> {
    let in_place = || {
        let end = payload_offset(nargs) as u64 + u64::from(header.bytes);
        if end > length as u64 {
            return Err("a payload longer than its message");
        }
        Ok(Payload::InPlace)
    };
    match kind {
        kind::SHORT if header.bytes != 0 => Err("a Short with a payload"),
        kind::SHORT => Ok(Payload::None),
        // Only the memory of the host, which sender and receiver share, bounds these parts.
        kind::MEDIUM if carrier == Carrier::Packet && matches!(header.handler, MEDIUM_HEAD | MEDIUM_DATA) => {
            Err("a part of a Medium that came through no ring")
        }
        kind::MEDIUM if header.block == IN_PLACE => in_place(),
        kind::MEDIUM if carrier == Carrier::Packet => Err("a block in a packet"),
        kind::MEDIUM => Ok(Payload::Block(header.block)),
        // The runtime's own handlers get no Longs, and would take the length for that of a payload
        // in the message.
        _ if header.handler < INDEX_BASE => Err("a Long for an internal handler"),
        kind::LONG => Ok(Payload::None),
        _ if header.block == IN_PLACE => in_place(),
        _ if carrier == Carrier::Packet => Err("a block in a packet"),
        _ => Ok(Payload::Block(header.block)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::read_all;

    /// Xorshift: the same sequence in every run.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// Often at an edge, sometimes anything.
        fn edgy(&mut self, edges: &[u64]) -> u64 {
            match self.next() % 4 {
                0 => self.next(),
                1 => self.next() % 64,
                _ => edges[self.next() as usize % edges.len()]
                    .wrapping_add(self.next() % 3)
                    .wrapping_sub(1),
            }
        }
    }

    fn header(random: &mut Random, length: u64) -> Header {
        Header {
            word: random.next() as u32,
            handler: random.edgy(&[0, 127, 128, 255]) as u8,
            flags: random.next() as u8,
            target_ep: random.next() as u16,
            bytes: random.edgy(&[0, length, length.wrapping_sub(32), u64::from(u32::MAX)]) as u32,
            source_ep: random.next() as u16,
            block: random.edgy(&[0, 65_535]) as u16,
            destination: random.next(),
        }
    }

    #[test]
    fn no_message_is_read_beyond_its_end() {
        let rounds = std::env::var("GASNET_TEST_ROUNDS")
            .ok()
            .and_then(|r| r.parse().ok())
            .unwrap_or(200_000);
        let (mut random, mut accepted) = (Random(0x9e37_79b9_7f4a_7c15), 0);
        let memory = vec![0u8; 4096];
        for _ in 0..rounds {
            let length = random.edgy(&[0, HEADER as u64, 64, 88, 96, 128, 4096]) as usize % (memory.len() + 1);
            let header = header(&mut random, length as u64);
            let kind = random.edgy(&[1, 2, 3, 4, 255]) as u8;
            let small = random.edgy(&[0, 1, 16, 17]) as u8;
            let carrier = [Carrier::Record, Carrier::Packet][random.next() as usize % 2];
            accepted += u32::from(read_all(carrier, kind, small, &header, &memory[..length]));
        }
        // Otherwise the inputs would be too random to reach anything.
        assert!(accepted > rounds / 100, "{accepted} of {rounds}");
    }

    #[test]
    fn parts_of_mediums_come_through_rings_only() {
        let mut h = header(&mut Random(1), 0);
        (h.bytes, h.block) = (0, IN_PLACE);
        for (handler, may_come) in [(MEDIUM_HEAD - 1, true), (MEDIUM_HEAD, false), (MEDIUM_DATA, false)] {
            h.handler = handler;
            let of = |carrier| payload(carrier, kind::MEDIUM, 0, &h, payload_offset(0)).is_ok();
            assert_eq!((of(Carrier::Packet), of(Carrier::Record)), (may_come, true));
        }
    }

    #[test]
    fn what_the_library_sends_is_accepted_at_every_size() {
        for nargs in 0..=MAX_ARGS {
            for bytes in [0u32, 1, 63, 64, 1000] {
                let mut h = header(&mut Random(1), 0);
                (h.bytes, h.block, h.handler) = (bytes, IN_PLACE, 128);
                let length = payload_offset(nargs) + bytes as usize;
                for (carrier, kind) in [
                    (Carrier::Record, kind::MEDIUM),
                    (Carrier::Packet, kind::MEDIUM),
                    (Carrier::Packet, kind::PACKED_LONG),
                    (Carrier::Record, kind::PACKED_LONG),
                ] {
                    assert_eq!(payload(carrier, kind, nargs, &h, length), Ok(Payload::InPlace));
                    if bytes > 0 {
                        assert!(payload(carrier, kind, nargs, &h, length - 1).is_err());
                    }
                }
                assert_eq!(
                    payload(Carrier::Record, kind::LONG, nargs, &h, HEADER + 4 * nargs),
                    Ok(Payload::None)
                );
                h.bytes = 0;
                assert_eq!(
                    payload(Carrier::Record, kind::SHORT, nargs, &h, HEADER + 4 * nargs),
                    Ok(Payload::None)
                );
                assert!(shape(kind::SHORT, nargs as u8, HEADER + 4 * nargs).is_ok());
                assert!(shape(kind::SHORT, nargs as u8 + 1, HEADER + 4 * nargs).is_err());
            }
        }
    }
}
