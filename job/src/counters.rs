//! Counters and states of the ranks of a host, for `gasnet_info --attach`. They are in the job
//! control block, which outlives a rank that hangs.
//!
//! A rank has [`RankCounters`]; each of its threads writes a [`Lane`] of it, by relaxed loads and
//! stores: no locks, no calls, no lines that other ranks write. Readers see words of slightly
//! different times.
//!
//! Times are nanoseconds of the monotonic clock; 0 is unknown. Waits have their own. Reading the
//! clock costs more than a handler, so handlers and polls take the time of the host's
//! [coarse clock](super::control_block::ControlBlock::coarse_clock), which the node agent sets
//! every second.
//!
//! A change of anything here, or of the structures of the control block before it, changes
//! [`VERSION`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Version of the control block up to the counters, for tools of another libgasnet.
pub const VERSION: u32 = 2;
/// Lanes of a rank. Threads above that number share the last one, where counts may be lost and the
/// state is that of the thread that wrote last.
pub const LANES: usize = 8;
/// Kinds of messages: Short, Medium, Long requests; then replies.
pub const KINDS: usize = 6;
/// Kinds of one-sided operations ([`OneSided`]).
pub const ONE_SIDED: usize = 3;

/// A one-sided operation, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneSided {
    /// A put.
    Put,
    /// A get.
    Get,
    /// A remote atomic.
    Atomic,
}

/// The reason for a wait, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Wait {
    /// Completion of an event.
    Event = 1,
    /// Completion of some of an array of events.
    SomeEvent = 2,
    /// Completion of all of an array of events.
    AllEvents = 3,
    /// Completion of implicit operations.
    Implicit = 4,
    /// The GASNet-1 barrier.
    NamedBarrier = 5,
    /// Room for a request to the peer.
    RequestRoom = 6,
    /// Room for a reply to the peer.
    ReplyRoom = 7,
    /// Room in the conduit for a transfer with the peer.
    Conduit = 8,
    /// Local completion of a put to the peer.
    Source = 9,
    /// A blocking collective.
    Collective = 10,
    /// A client's condition (`GASNET_BLOCKUNTIL`).
    Condition = 11,
}

impl Wait {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Event,
        Self::SomeEvent,
        Self::AllEvents,
        Self::Implicit,
        Self::NamedBarrier,
        Self::RequestRoom,
        Self::ReplyRoom,
        Self::Conduit,
        Self::Source,
        Self::Collective,
        Self::Condition,
    ];
}

/// The present wait of a thread, in a word that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitWord {
    /// Its reason.
    pub reason: Wait,
    /// Whether a handler waits, or else a handler that runs was called by the wait.
    pub in_handler: bool,
    /// The rank that it waits for, if the reason names one.
    pub peer: Option<u32>,
}

impl WaitWord {
    const NO_PEER: u32 = u32::MAX;

    /// The word: the reason, 256 in a handler, and the peer above 32 bits.
    pub fn encode(self) -> u64 {
        u64::from(self.peer.unwrap_or(Self::NO_PEER)) << 32 | u64::from(self.in_handler) << 8 | self.reason as u64
    }

    /// None for 0, and for a reason without a name.
    pub fn decode(word: u64) -> Option<Self> {
        Some(Self {
            reason: Wait::ALL.into_iter().find(|&reason| reason as u8 == word as u8)?,
            in_handler: word >> 8 & 1 != 0,
            peer: Some((word >> 32) as u32).filter(|&peer| peer != Self::NO_PEER),
        })
    }
}

/// A running handler, in a word that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandlerWord {
    /// Its index.
    pub index: u8,
    /// The rank that sent its message.
    pub source: u32,
}

impl HandlerWord {
    /// The word: the index, 256, and the source above 32 bits.
    #[inline(always)]
    pub fn encode(self) -> u64 {
        u64::from(self.source) << 32 | 1 << 8 | u64::from(self.index)
    }

    /// None for 0.
    pub fn decode(word: u64) -> Option<Self> {
        (word >> 8 & 1 != 0).then_some(Self {
            index: word as u8,
            source: (word >> 32) as u32,
        })
    }
}

/// Counters and state of one thread. Counts stay when the thread ends, and the next one adds to
/// them.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Lane {
    /// The kernel's number of the thread; 0: the lane is free.
    pub thread: AtomicU64,
    /// The present wait ([`WaitWord`]), once it has left its spinning phase.
    pub wait: AtomicU64,
    /// When it did.
    pub wait_since: AtomicU64,
    /// The client's running handler of a request and of a reply ([`HandlerWord`]). That of a reply
    /// may run inside that of a request; no others nest.
    pub handlers: [AtomicU64; 2],
    /// Their coarse begins.
    pub handlers_since: [AtomicU64; 2],
    /// Polls.
    pub polls: AtomicU64,
    /// The coarse time of the last poll.
    pub polled: AtomicU64,
    /// Messages that the client has sent, by kind.
    pub sent: [AtomicU64; KINDS],
    /// Messages to the client's handlers, by kind.
    pub received: [AtomicU64; KINDS],
    /// Bytes of the payloads that the client has sent.
    pub sent_bytes: AtomicU64,
    /// Bytes of the payloads that its handlers have received.
    pub received_bytes: AtomicU64,
    /// One-sided operations over a network, by kind.
    pub one_sided: [AtomicU64; ONE_SIDED],
    /// Their bytes.
    pub one_sided_bytes: [AtomicU64; ONE_SIDED],
    /// Messages refused to a client that does not wait (`GEX_FLAG_IMMEDIATE`).
    pub refused: AtomicU64,
    /// Waits by their reason; those for room and for the conduit are refused attempts.
    pub waits: [AtomicU64; Wait::ALL.len() + 1],
    /// Collectives begun.
    pub collectives: AtomicU64,
    /// The coarse time of the last poll that found something.
    pub found: AtomicU64,
}

impl Lane {
    const fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            wait: AtomicU64::new(0),
            wait_since: AtomicU64::new(0),
            handlers: [const { AtomicU64::new(0) }; 2],
            handlers_since: [const { AtomicU64::new(0) }; 2],
            polls: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            sent: [const { AtomicU64::new(0) }; KINDS],
            received: [const { AtomicU64::new(0) }; KINDS],
            sent_bytes: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
            one_sided: [const { AtomicU64::new(0) }; ONE_SIDED],
            one_sided_bytes: [const { AtomicU64::new(0) }; ONE_SIDED],
            refused: AtomicU64::new(0),
            waits: [const { AtomicU64::new(0) }; Wait::ALL.len() + 1],
            collectives: AtomicU64::new(0),
            found: AtomicU64::new(0),
        }
    }
}

/// Adds to a word that one thread writes. Compiles to one instruction.
#[inline(always)]
pub fn add(word: &AtomicU64, more: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

/// Counters and states of a rank.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RankCounters {
    /// 1 while the rank counts (`GASNET_COUNTERS`).
    pub is_on: AtomicU32,
    /// Rounds of job exchanges that the rank has entered: at the start, and to attach segments.
    pub exchanges: AtomicU32,
    /// Since when it waits in one; 0 if it does not.
    pub exchange_since: AtomicU64,
    /// Size of the client's attached segment.
    pub segment_bytes: AtomicU64,
    /// Its threads.
    pub lanes: [Lane; LANES],
}

impl RankCounters {
    /// All zero, as in a new control block.
    pub const fn new() -> Self {
        Self {
            is_on: AtomicU32::new(0),
            exchanges: AtomicU32::new(0),
            exchange_since: AtomicU64::new(0),
            segment_bytes: AtomicU64::new(0),
            lanes: [const { Lane::new() }; LANES],
        }
    }
}

impl Default for RankCounters {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(size_of::<Lane>() == 384 && size_of::<RankCounters>() == 64 + LANES * 384);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_they_say() {
        for (number, reason) in (1..).zip(Wait::ALL) {
            assert_eq!(reason as u8, number);
            for (in_handler, peer) in [(false, None), (true, Some(0)), (false, Some(70_000))] {
                let wait = WaitWord {
                    reason,
                    in_handler,
                    peer,
                };
                assert_eq!(WaitWord::decode(wait.encode()), Some(wait));
            }
        }
        for (index, source) in [(0, 0), (255, 70_000)] {
            let handler = HandlerWord { index, source };
            assert_eq!(HandlerWord::decode(handler.encode()), Some(handler));
        }
        assert_eq!((WaitWord::decode(0), HandlerWord::decode(0)), (None, None));
        assert_eq!(WaitWord::decode(Wait::ALL.len() as u64 + 1), None);
    }

    /// Tools of another build read these by their offsets.
    #[test]
    fn the_layout_is_that_of_its_version() {
        use std::mem::offset_of;
        let state = [
            offset_of!(Lane, thread),
            offset_of!(Lane, wait_since),
            offset_of!(Lane, handlers),
            offset_of!(Lane, polled),
        ];
        assert_eq!(state, [0, 16, 24, 64]);
        let counts = [
            offset_of!(Lane, sent),
            offset_of!(Lane, received),
            offset_of!(Lane, sent_bytes),
            offset_of!(Lane, one_sided),
            offset_of!(Lane, waits),
            offset_of!(Lane, collectives),
        ];
        assert_eq!(counts, [72, 120, 168, 184, 240, 336]);
        assert_eq!((offset_of!(RankCounters, lanes), VERSION), (64, 2));
    }
}
