//! Companions of packets: the 32 bits of an event at the peer, and the word in front of a
//! message.
#![forbid(unsafe_code)]

use gasnet_conduit::JobRank;

/// Most ranks of a job: a rank has 22 bits of an event.
pub const MOST_RANKS: u32 = 1 << RANK_BITS;
const RANK_BITS: u32 = 22;
const INDEX_BITS: u32 = 6;

/// Kind of an event. With an index: of the unit that a request begins at in the space for it, or
/// of the slot in its sender, if it waits there to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A request is in the space for it.
    Request = 0,
    /// A part of the payload of a request is at its destination.
    RequestPayload = 1,
    /// The reply to a request of the receiver is in the slot of that request.
    Reply = 2,
    /// A part of its payload is.
    ReplyPayload = 3,
    /// A request waits in its sender.
    WaitingRequest = 4,
    /// A reply that is not the first to its request waits in its sender.
    WaitingReply = 5,
    /// Such a reply was fetched.
    Fetched = 6,
    /// The words that say what is free have changed.
    Released = 7,
    /// The sender needs what is free.
    Wanted = 8,
    /// A word of a barrier is in the region.
    Barrier = 9,
    /// The sender has stopped.
    Bye = 10,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Request,
        Self::RequestPayload,
        Self::Reply,
        Self::ReplyPayload,
        Self::WaitingRequest,
        Self::WaitingReply,
        Self::Fetched,
        Self::Released,
        Self::Wanted,
        Self::Barrier,
        Self::Bye,
    ];
}

/// An event at a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    /// The process that caused it.
    pub source: JobRank,
    /// Less than 64.
    pub index: usize,
}

impl Event {
    /// As 32 bits.
    #[inline]
    pub const fn encode(self) -> u32 {
        (self.kind as u32) << (RANK_BITS + INDEX_BITS) | (self.index as u32) << RANK_BITS | self.source.0
    }

    /// Err: no event of this conduit, from this process.
    #[inline]
    pub fn decode(word: u32) -> Result<Self, JobRank> {
        let source = JobRank(word & (MOST_RANKS - 1));
        let kind = *Kind::ALL
            .get((word >> (RANK_BITS + INDEX_BITS)) as usize)
            .ok_or(source)?;
        let index = (word >> RANK_BITS) as usize & ((1 << INDEX_BITS) - 1);
        Ok(Self { kind, source, index })
    }
}

/// The word in front of a message, which is never 0: so it says, too, that the message is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the packet.
    pub bytes: usize,
    /// The slot of a request, for its reply.
    pub slot: usize,
    /// Parts of its payload that are at their destination before it is delivered.
    pub parts: usize,
}

impl Head {
    const BYTES_BITS: u32 = 20;
    const SLOT_BITS: u32 = 21;
    /// Most parts of a payload.
    pub const MOST_PARTS: usize = (1 << 16) - 1;
    const THERE: u64 = 1 << 63;

    /// As a word.
    #[inline]
    pub const fn encode(self) -> u64 {
        Self::THERE
            | (self.parts as u64) << (Self::BYTES_BITS + Self::SLOT_BITS)
            | (self.slot as u64) << Self::BYTES_BITS
            | self.bytes as u64
    }

    /// That of a reply, as a word.
    #[inline]
    pub const fn of_reply(bytes: usize, parts: usize) -> u64 {
        Self { bytes, slot: 0, parts }.encode()
    }

    /// None: no message is there.
    #[inline]
    pub const fn decode(word: u64) -> Option<Self> {
        if word & Self::THERE == 0 {
            return None;
        }
        Some(Self {
            bytes: word as usize & ((1 << Self::BYTES_BITS) - 1),
            slot: (word >> Self::BYTES_BITS) as usize & ((1 << Self::SLOT_BITS) - 1),
            parts: (word >> (Self::BYTES_BITS + Self::SLOT_BITS)) as usize & Self::MOST_PARTS,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back() {
        for kind in Kind::ALL {
            for (source, index) in [(0, 0), (MOST_RANKS - 1, 63), (77, 5)] {
                let source = JobRank(source);
                let event = Event { kind, source, index };
                assert_eq!(Event::decode(event.encode()), Ok(event));
            }
        }
        assert_eq!(Event::decode(u32::MAX), Err(JobRank(MOST_RANKS - 1)));
    }

    #[test]
    fn heads_come_back() {
        for (bytes, slot, parts) in [(0, 0, 0), (65_536, (1 << 20) - 1, Head::MOST_PARTS), (12, 3, 1)] {
            let head = Head { bytes, slot, parts };
            assert_eq!(Head::decode(head.encode()), Some(head));
        }
        assert_eq!(Head::decode(0), None);
    }
}
