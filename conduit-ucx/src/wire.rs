//! The header of every message, in the header of its Active Message. The id of that is its kind.
#![forbid(unsafe_code)]

use gasnet_conduit::Class;
use gasnet_conduit_util::record::{self, Record};

/// Bytes of a header.
pub const HEADER: usize = Header::BYTES;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A packet.
    Packet(Class),
    /// Returned credits only.
    Credits,
    /// The sender has stopped in an orderly way.
    Bye,
}

/// All kinds. The id of one is its place, counted from 1.
const KINDS: [Kind; 4] = [
    Kind::Packet(Class::Request),
    Kind::Packet(Class::Reply),
    Kind::Credits,
    Kind::Bye,
];

/// The ids of all kinds.
pub const IDS: [u32; KINDS.len()] = [1, 2, 3, 4];

impl Kind {
    /// The kind of an id.
    pub fn of(id: u32) -> Option<Self> {
        KINDS.get(id.checked_sub(IDS[0])? as usize).copied()
    }

    /// Its id.
    pub fn id(self) -> u32 {
        match self {
            Self::Packet(Class::Request) => IDS[0],
            Self::Packet(Class::Reply) => IDS[1],
            Self::Credits => IDS[2],
            Self::Bye => IDS[3],
        }
    }
}

gasnet_conduit_util::record! {
    /// A header.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Header {
        /// The job's, which authenticates the sender.
        pub token: u64,
        /// The sender.
        pub source: u32,
        /// Units of credit that are returned to the receiver of this message.
        pub credits: u32,
    }
}

impl Header {
    /// Reads the header of a message that a job of `ranks` processes received. None: an
    /// unauthenticated sender's, or from beyond the job.
    #[inline]
    pub fn read(header: &[u8], token: u64, ranks: u32) -> Option<Self> {
        let header = record::records::<Self>(header).next()?;
        (header.token == token && header.source < ranks).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_kinds() {
        for kind in KINDS {
            assert_eq!(Kind::of(kind.id()), Some(kind));
        }
        assert_eq!((Kind::of(0), Kind::of(5)), (None, None));
    }

    #[test]
    fn foreign_headers_are_refused() {
        let header = Header {
            token: 7,
            source: 1,
            credits: 5,
        };
        let bytes: [u8; HEADER] = header.encode();
        assert_eq!(Header::read(&bytes, 7, 2), Some(header));
        assert_eq!(Header::read(&bytes, 8, 2), None);
        assert_eq!(Header::read(&bytes, 7, 1), None);
        assert_eq!(Header::read(&bytes[1..], 7, 2), None);
    }
}
