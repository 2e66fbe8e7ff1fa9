//! The 32 bits beside every message: what it is, whose, and the credits that it returns. The bytes
//! of a message are its packet alone.
#![forbid(unsafe_code)]

use gasnet_conduit::{Class, JobRank};

/// Most ranks of a job: a rank has 24 bits.
pub const MOST_RANKS: u32 = 1 << RANK_BITS;
/// Most credits that a message returns.
pub const MOST_CREDITS: u32 = 63;

const RANK_BITS: u32 = 24;
const KIND_SHIFT: u32 = 30;

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet.
    Packet(Class),
    /// No packet: returned credits, a report on rings, an offer of a packet or the note that it was
    /// fetched. Its length says which.
    Note,
    /// The sender has stopped in an orderly way.
    Bye,
}

/// Encodes them.
#[inline]
pub fn encode(kind: Kind, source: JobRank, credits: u32) -> u32 {
    let kind = match kind {
        Kind::Packet(Class::Request) => 0,
        Kind::Packet(Class::Reply) => 1,
        Kind::Note => 2,
        Kind::Bye => 3,
    };
    kind << KIND_SHIFT | credits << RANK_BITS | source.0
}

/// Decodes them.
#[inline]
pub fn decode(word: u32) -> (Kind, JobRank, u32) {
    let kind = match word >> KIND_SHIFT {
        0 => Kind::Packet(Class::Request),
        1 => Kind::Packet(Class::Reply),
        2 => Kind::Note,
        _ => Kind::Bye,
    };
    (kind, JobRank(word & (MOST_RANKS - 1)), word >> RANK_BITS & MOST_CREDITS)
}

/// The class of a packet and the credits that it returns. None: the word is that of no packet.
#[inline]
pub fn packet(word: u32) -> Option<(Class, u32)> {
    match decode(word) {
        (Kind::Packet(class), _, credits) => Some((class, credits)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_have_a_class() {
        for (kind, expected) in [
            (Kind::Packet(Class::Request), Some((Class::Request, 5))),
            (Kind::Packet(Class::Reply), Some((Class::Reply, 5))),
            (Kind::Note, None),
            (Kind::Bye, None),
        ] {
            assert_eq!(packet(encode(kind, JobRank(1), 5)), expected);
        }
    }

    #[test]
    fn everything_comes_back() {
        let packets = [Class::Request, Class::Reply].map(Kind::Packet);
        for kind in packets.into_iter().chain([Kind::Note, Kind::Bye]) {
            for (rank, credits) in [(0, 0), (MOST_RANKS - 1, 1), (7, MOST_CREDITS)] {
                let message = (kind, JobRank(rank), credits);
                assert_eq!(decode(encode(kind, JobRank(rank), credits)), message);
            }
        }
    }
}
