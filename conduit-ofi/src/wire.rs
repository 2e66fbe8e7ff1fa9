//! The header of every message, in the byte order of the job's machines.
//!
//! A message is the header, for some kinds a number, the packet, and padding to a multiple of 16
//! bytes: in a buffer for several messages each begins where the last one ended, and packets are
//! delivered at that alignment. The source is in the header, in all 32 bits, so the conduit needs
//! neither tags nor the data of a completion to name it.
#![forbid(unsafe_code)]

use gasnet_conduit::{Class, JobRank, PACKET_ALIGN};
use std::ops::Range;

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Bytes that a message has in addition to its packet, at most.
pub const OVERHEAD: usize = HEADER + NUMBER + PACKET_ALIGN;
/// Bytes of the number of a put and its parts, padded.
pub const NUMBER: usize = PACKET_ALIGN;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet.
    Packet(Class),
    /// A packet that is delivered after the put of this number has arrived in its parts.
    Notice(Class, u32, u32),
    /// Parts of the put of this number have arrived: the number of the put, and how many.
    Arrived(u32, u32),
    /// Returned credits only.
    Credits,
    /// The sender has stopped in an orderly way.
    Bye,
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The job's, which authenticates the sender.
    pub token: u64,
    /// The sender.
    pub source: JobRank,
    /// Units of credit that are returned to the receiver of this message.
    pub credits: u16,
    /// Kind of the message.
    pub kind: Kind,
}

/// Why a message is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has not the job's token.
    Outsider,
    /// It has the token, and a header that no rank writes. It claims to be this one's, which may
    /// be beyond the job.
    Impossible(JobRank),
}

const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const REQUEST_NOTICE: u8 = 3;
const REPLY_NOTICE: u8 = 4;
const CREDITS: u8 = 5;
const BYE: u8 = 6;
const ARRIVED: u8 = 7;

/// The padding after a packet of `bytes`.
pub const fn padding(bytes: usize) -> usize {
    bytes.wrapping_neg() % PACKET_ALIGN
}

/// Whether delivering a message may run a request handler. Of a message that is not one of this job
/// it says nothing.
#[inline]
pub fn is_request(message: &[u8]) -> bool {
    matches!(message.get(14), Some(&(REQUEST | REQUEST_NOTICE)))
}

/// Takes the token from a message that was delivered. Headers that peers forge make libfabric 1.17
/// report a message without writing it (libfabric@v1.17.0:prov/net/src/xnet_progress.c, a
/// `hdr_size` below 16): the buffer must not have an earlier message then.
#[inline]
pub fn spend(message: &mut [u8]) {
    if let Some(token) = message.first_chunk_mut::<8>() {
        *token = [0; 8];
    }
}

impl Header {
    /// Bytes in front of the packet.
    pub fn bytes(&self) -> usize {
        match self.kind {
            Kind::Notice(..) | Kind::Arrived(..) => HEADER + NUMBER,
            _ => HEADER,
        }
    }

    /// Writes it, for a packet of `bytes`, and returns how much it wrote.
    #[inline]
    pub fn encode(&self, bytes: usize, message: &mut [u8]) -> usize {
        let (kind, number) = match self.kind {
            Kind::Packet(Class::Request) => (REQUEST, None),
            Kind::Packet(Class::Reply) => (REPLY, None),
            Kind::Notice(Class::Request, number, parts) => (REQUEST_NOTICE, Some((number, parts))),
            Kind::Notice(Class::Reply, number, parts) => (REPLY_NOTICE, Some((number, parts))),
            Kind::Arrived(number, parts) => (ARRIVED, Some((number, parts))),
            Kind::Credits => (CREDITS, None),
            Kind::Bye => (BYE, None),
        };
        message[..8].copy_from_slice(&self.token.to_ne_bytes());
        message[8..12].copy_from_slice(&self.source.0.to_ne_bytes());
        message[12..14].copy_from_slice(&self.credits.to_ne_bytes());
        message[14] = kind;
        message[15] = padding(bytes) as u8;
        if let Some((number, parts)) = number {
            let words = [number, parts, 0, 0].map(u32::to_ne_bytes);
            message[HEADER..HEADER + NUMBER].copy_from_slice(words.as_flattened());
        }
        self.bytes()
    }

    /// Reads the header of a message that a job of `ranks` processes received, and where its packet
    /// is.
    #[inline]
    pub fn decode(message: &[u8], token: u64, ranks: u32) -> Result<(Self, Range<usize>), Refusal> {
        let head = message.first_chunk::<HEADER>().ok_or(Refusal::Outsider)?;
        let (found, _) = head.split_first_chunk::<8>().ok_or(Refusal::Outsider)?;
        if u64::from_ne_bytes(*found) != token {
            return Err(Refusal::Outsider);
        }
        let source = JobRank(u32::from_ne_bytes([head[8], head[9], head[10], head[11]]));
        let decoded = Self::of_member(message, head, source).filter(|_| source.0 < ranks);
        decoded.ok_or(Refusal::Impossible(source))
    }

    /// The same of a message with the job's token. None if the header is impossible.
    #[inline]
    fn of_member(message: &[u8], head: &[u8; HEADER], source: JobRank) -> Option<(Self, Range<usize>)> {
        let word = |at: usize| {
            message
                .get(at..at + 4)?
                .first_chunk()
                .map(|word| u32::from_ne_bytes(*word))
        };
        // No put has no parts.
        let put = || Some((word(HEADER)?, word(HEADER + 4).filter(|parts| *parts > 0)?));
        let kind = match head[14] {
            REQUEST => Kind::Packet(Class::Request),
            REPLY => Kind::Packet(Class::Reply),
            REQUEST_NOTICE => put().map(|(number, parts)| Kind::Notice(Class::Request, number, parts))?,
            REPLY_NOTICE => put().map(|(number, parts)| Kind::Notice(Class::Reply, number, parts))?,
            ARRIVED => put().map(|(number, parts)| Kind::Arrived(number, parts))?,
            CREDITS => Kind::Credits,
            BYE => Kind::Bye,
            _ => return None,
        };
        let header = Self {
            token: u64::from_ne_bytes(*head.first_chunk()?),
            source,
            credits: u16::from_ne_bytes([head[12], head[13]]),
            kind,
        };
        let (start, pad) = (header.bytes(), usize::from(head[15]));
        let end = message.len().checked_sub(pad)?;
        let is_padded = pad < PACKET_ALIGN && message.len() % PACKET_ALIGN == 0;
        (is_padded && start <= end).then_some((header, start..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: u64 = 0x0123_4567_89ab_cdef;

    fn message(kind: Kind, packet: usize) -> Vec<u8> {
        let header = Header {
            token: TOKEN,
            source: JobRank(7),
            credits: 513,
            kind,
        };
        let mut message = vec![0xff; header.bytes() + packet + padding(packet)];
        assert_eq!(header.encode(packet, &mut message), header.bytes());
        message
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for kind in [
            Kind::Packet(Class::Request),
            Kind::Packet(Class::Reply),
            Kind::Notice(Class::Request, 0xdead_beef, 2),
            Kind::Notice(Class::Reply, 1, 1),
            Kind::Arrived(7, 3),
            Kind::Credits,
            Kind::Bye,
        ] {
            for packet in [0, 1, 15, 16, 17, 4096] {
                let message = message(kind, packet);
                assert_eq!(message.len() % PACKET_ALIGN, 0);
                let (header, place) = Header::decode(&message, TOKEN, 8).unwrap();
                assert_eq!((header.kind, header.source, header.credits), (kind, JobRank(7), 513));
                assert_eq!((place.start, place.len()), (header.bytes(), packet));
            }
        }
    }

    /// Random numbers (SplitMix64).
    fn next(state: &mut u64) -> usize {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) as usize
    }

    /// Bytes of a broken member of the job, at any place of any length.
    #[test]
    fn no_message_is_read_beyond_its_end() {
        let rounds = std::env::var("GASNET_TEST_ROUNDS").ok();
        let rounds = rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(100_000);
        let (mut state, mut accepted) = (1, 0_u64);
        let mut buffer = [0_u8; 256];
        for _ in 0..rounds {
            let start = next(&mut state) % 64;
            let length = next(&mut state) % (buffer.len() - start);
            let length = length & [!0, !15][next(&mut state) % 2];
            let message = &mut buffer[start..start + length];
            for byte in &mut *message {
                *byte = next(&mut state) as u8;
            }
            let edges: [(usize, &[u8]); 4] = [
                (0, &TOKEN.to_ne_bytes()),
                (8, &(next(&mut state) as u32 % 9).to_ne_bytes()),
                (14, &[next(&mut state) as u8 % 9]),
                (15, &[next(&mut state) as u8 % 18]),
            ];
            for (at, bytes) in edges {
                if let Some(room) = message.get_mut(at..at + bytes.len()) {
                    room.copy_from_slice(bytes);
                }
            }
            let _ = is_request(message);
            let Ok((header, place)) = Header::decode(message, TOKEN, 8) else {
                continue;
            };
            assert!(header.source.0 < 8 && place.start >= HEADER);
            assert!(place.start <= place.end && place.end <= length);
            accepted += 1;
        }
        // Otherwise the bytes would be too random to reach anything.
        assert!(accepted > rounds / 10, "{accepted} of {rounds}");
    }

    #[test]
    fn messages_are_delivered_once() {
        let mut message = message(Kind::Bye, 0);
        assert!(Header::decode(&message, TOKEN, 8).is_ok());
        spend(&mut message);
        assert_eq!(Header::decode(&message, TOKEN, 8), Err(Refusal::Outsider));
        spend(&mut []);
    }

    #[test]
    fn foreign_messages_are_refused() {
        let good = message(Kind::Notice(Class::Request, 5, 1), 40);
        assert!(Header::decode(&good, TOKEN, 8).is_ok());
        assert_eq!(Header::decode(&good, TOKEN ^ 1, 8), Err(Refusal::Outsider));
        for length in 0..HEADER {
            assert_eq!(Header::decode(&good[..length], TOKEN, 8), Err(Refusal::Outsider));
        }
    }

    #[test]
    fn impossible_headers_name_their_sender() {
        let (good, impossible) = (
            message(Kind::Notice(Class::Request, 5, 1), 40),
            Err(Refusal::Impossible(JobRank(7))),
        );
        assert_eq!(Header::decode(&good, TOKEN, 7), impossible, "a rank beyond the job");
        for length in HEADER..good.len() {
            let whole = length > 2 * PACKET_ALIGN && length % PACKET_ALIGN == 0;
            let decoded = Header::decode(&good[..length], TOKEN, 8);
            assert!(
                if whole { decoded.is_ok() } else { decoded == impossible },
                "{length} bytes"
            );
        }
        for (at, value) in [(14, 0), (14, 8), (15, 16), (15, 255), (HEADER + 4, 0)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(Header::decode(&bad, TOKEN, 8), impossible, "byte {at} is {value}");
        }
    }
}
