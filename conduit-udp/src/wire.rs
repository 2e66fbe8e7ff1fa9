//! The wire format: a header of 64 bytes, little-endian, and a payload.
//!
//! Every header acknowledges both classes. Fields that both ends know are not transmitted, but the
//! MACs cover them ([`ImplicitFields`]).
#![forbid(unsafe_code)]

use crate::per_class::{PerClass, CLASSES};
use gasnet_conduit::{Class, JobRank};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// Offset of the two MACs in a header ([`crate::mac`]); the fields are before them.
pub const MAC_OFFSET: usize = 48;
/// Version of this format.
const VERSION: u8 = 2;

/// Offsets of the fields in a header.
pub mod at {
    use super::PerClass;

    /// The job; four bytes.
    pub const JOB: usize = 0;
    /// Version of the format.
    pub const VERSION: usize = 4;
    /// See [`super::Kind`].
    pub const KIND: usize = 5;
    /// The class: 0 request, 1 reply.
    pub const CLASS: usize = 6;
    /// See [`super::ACK_NOW`] and [`super::TRANSMISSION`].
    pub const FLAGS: usize = 7;
    /// Rank of the sender; four bytes.
    pub const SOURCE: usize = 8;
    /// Low half of the datagram's number; four bytes.
    pub const NUMBER: usize = 12;
    /// Bytes of the message, four; or the first half of the operand ([`super::Header::operand`]).
    pub const MESSAGE: usize = 16;
    /// Index of the part; two bytes.
    pub const PART: usize = 20;
    /// Number of parts; two bytes.
    pub const PARTS: usize = 22;
    /// Cumulative acknowledgement of each class: low half of a number, four bytes.
    pub const ACK: PerClass<usize> = PerClass::new(24, 28);
    /// SACK bitmap of each class; eight bytes.
    pub const SACK: PerClass<usize> = PerClass::new(32, 40);
}

/// The type of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Part of a message.
    Data = 1,
    /// Acknowledgements only. The payload, if any, has the bitmaps of both whole windows. Its
    /// number counts control datagrams: these and [`Kind::Close`].
    Ack = 2,
    /// The sender ends in order and expects nothing more.
    Close = 3,
    /// Bytes for the receiver's segment, at the address in [`Header::operand`].
    Put = 4,
    /// A request for memory of the receiver's segment, at the address in [`Header::operand`]. The
    /// payload has the key of the get and the length.
    Get = 5,
    /// Data of a get. [`Header::operand`] has its key, and in the low [`OFFSET_BITS`] bits the
    /// offset in [`OFFSET_UNIT`]s.
    GetReply = 6,
    /// A fragment of a datagram ([`crate::fragment`]): its index, the number of fragments, and the
    /// bytes of the original payload.
    Fragment = 7,
}

/// See [`Kind::GetReply`].
pub const OFFSET_BITS: u32 = 40;
/// The payloads of all but the last datagram of a message or transfer are multiples of it.
pub const OFFSET_UNIT: usize = 64;

/// Flag: the sender needs an acknowledgement to continue.
pub const ACK_NOW: u8 = 1;
/// Unit of the transmission number in the other flag bits. With it, no two headers with the same
/// number but different payloads are equal.
pub const TRANSMISSION: u8 = 2;

/// Received numbers of one class: cumulative acknowledgement and SACK bitmap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sack {
    /// Number of the first missing datagram. A header holds its low half.
    pub next: u64,
    /// Bit i: number `next + 1 + i` was received.
    pub bitmap: u64,
}

/// Fields that both ends know. They are authenticated but not transmitted.
#[derive(Clone, Copy, Debug)]
pub struct ImplicitFields {
    /// Rank of the receiver.
    pub target: JobRank,
    /// Full number of the datagram.
    pub number: u64,
    /// Full numbers of the cumulative acknowledgements.
    pub next: PerClass<u64>,
}

/// A decoded header, without its MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The job.
    pub job: u32,
    /// The type of the datagram.
    pub kind: Kind,
    /// The class of the data.
    pub class: Class,
    /// [`ACK_NOW`], and the transmission number in units of [`TRANSMISSION`].
    pub flags: u8,
    /// Rank of the sender.
    pub source: JobRank,
    /// Low half of the number. Each class from this sender to this receiver, and the control
    /// datagrams, are numbered separately.
    pub number: u32,
    /// Bytes of the whole message.
    pub message: u32,
    /// Index of this part.
    pub part: u16,
    /// Parts of the message.
    pub parts: u16,
    /// Acknowledgements.
    pub sacks: PerClass<Sack>,
}

impl Header {
    /// Encodes the header, with room for the MACs.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(at::JOB, &self.job.to_le_bytes());
        put(at::VERSION, &[VERSION, self.kind as u8, self.class as u8, self.flags]);
        put(at::SOURCE, &self.source.0.to_le_bytes());
        put(at::NUMBER, &self.number.to_le_bytes());
        put(at::MESSAGE, &self.message.to_le_bytes());
        put(at::PART, &self.part.to_le_bytes());
        put(at::PARTS, &self.parts.to_le_bytes());
        Self::refresh(&mut out, self.flags, self.sacks);
        out
    }

    /// Updates the fields that change with each transmission in an encoded header.
    pub fn refresh(bytes: &mut [u8; HEADER_BYTES], flags: u8, sacks: PerClass<Sack>) {
        bytes[at::FLAGS] = flags;
        for class in CLASSES {
            let (next, bitmap) = (at::ACK[class], at::SACK[class]);
            bytes[next..next + 4].copy_from_slice(&(sacks[class].next as u32).to_le_bytes());
            bytes[bitmap..bitmap + 8].copy_from_slice(&sacks[class].bitmap.to_le_bytes());
        }
    }

    /// A 64-bit operand in place of the message fields, in datagrams of transfers.
    pub fn operand(&self) -> u64 {
        u64::from(self.message) | u64::from(self.part) << 32 | u64::from(self.parts) << 48
    }

    /// Sets [`Header::operand`].
    pub fn with_operand(self, operand: u64) -> Self {
        Self {
            message: operand as u32,
            part: (operand >> 32) as u16,
            parts: (operand >> 48) as u16,
            ..self
        }
    }

    /// Decodes a header. `None`: it is invalid.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let sack = |class: Class| Sack {
            next: u32_at(at::ACK[class]).into(),
            bitmap: u64_at(at::SACK[class]),
        };
        let header = Self {
            job: u32_at(at::JOB),
            kind: Kind::Data,
            class: *CLASSES.get(usize::from(bytes[at::CLASS]))?,
            flags: bytes[at::FLAGS],
            source: JobRank(u32_at(at::SOURCE)),
            number: u32_at(at::NUMBER),
            message: u32_at(at::MESSAGE),
            part: u16_at(at::PART),
            parts: u16_at(at::PARTS),
            sacks: PerClass::from_fn(sack),
        };
        let sound = bytes[at::VERSION] == VERSION;
        header.with_kind(bytes[at::KIND]).filter(|_| sound)
    }

    /// The header with another kind. `None`: there is no such kind, or the part is out of range.
    pub fn with_kind(self, kind: u8) -> Option<Self> {
        let kind = match kind {
            1 => Kind::Data,
            2 => Kind::Ack,
            3 => Kind::Close,
            4 => Kind::Put,
            5 => Kind::Get,
            6 => Kind::GetReply,
            7 => Kind::Fragment,
            _ => return None,
        };
        let has_parts = matches!(kind, Kind::Data | Kind::Fragment);
        (!has_parts || self.part < self.parts.max(1)).then_some(Self { kind, ..self })
    }
}

/// The full number nearest to `near` whose low half is `low`.
pub fn widen(low: u32, near: u64) -> u64 {
    near.wrapping_add(i64::from(low.wrapping_sub(near as u32) as i32) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let header = Header {
            job: 0x1234_5678,
            kind: Kind::Data,
            class: Class::Reply,
            flags: ACK_NOW,
            source: JobRank(70_000),
            number: u32::MAX,
            message: 68_000,
            part: 3,
            parts: 48,
            sacks: PerClass::new(
                Sack {
                    next: 5,
                    bitmap: 1 << 63,
                },
                Sack { next: 9, bitmap: 0x55 },
            ),
        };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Some(header));
        let mut renewed = Header {
            flags: 0,
            sacks: PerClass::default(),
            ..header
        }
        .encode();
        Header::refresh(&mut renewed, header.flags, header.sacks);
        assert_eq!(renewed, bytes);
        for (at, value) in [
            (at::VERSION, 1),
            (at::KIND, 0),
            (at::KIND, 8),
            (at::CLASS, 2),
            (at::PART, 48),
        ] {
            let mut bad = bytes;
            bad[at] = value;
            assert_eq!(Header::decode(&bad), None, "{at}");
        }
        let operand = 0xfedc_ba98_7654_3210;
        let put = Header {
            kind: Kind::Put,
            ..header
        }
        .with_operand(operand);
        assert_eq!(Header::decode(&put.encode()).unwrap().operand(), operand);
    }

    #[test]
    fn numbers_widen_to_the_nearest() {
        let big = 5 << 32;
        for (low, near, full) in [
            (0, 0, 0),
            (7, 3, 7),
            (u32::MAX, big, big - 1),
            (2, big - 3, big + 2),
            (u32::MAX, big - 3, big - 1),
        ] {
            assert_eq!(widen(low, near), full);
        }
    }
}
