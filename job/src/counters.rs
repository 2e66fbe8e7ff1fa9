//! Counters and states of the ranks of a host, for `gasnet_info --attach`. They are in the job
//! control block, which outlives a rank that hangs.
//!
//! A rank has [`RankCounters`]; each of its threads writes a [`Lane`] of it, and a [`Traffic`] for
//! each group of peers, by relaxed loads and stores: no locks, no calls, no lines that other ranks
//! write. Readers see words of slightly different times.
//!
//! A group is a power of two of consecutive ranks ([`group_shift`]): one rank in jobs of up to
//! [`GROUPS`]. The memory is sparse: pages that no thread writes take none.
//!
//! Times are nanoseconds of the monotonic clock; 0 is unknown. Waits have their own. Reading the
//! clock costs more than a handler, so handlers and polls take the time of the host's
//! [coarse clock](super::control_block::ControlBlock::coarse_clock), which the node agent sets
//! every second. Then it also [samples](Lane::sample) what each thread does.
//!
//! A change of anything here, or of the structures of the control block before it, changes
//! [`VERSION`].

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use gasnet_conduit::connections::ConnectionWords;
use gasnet_sys::padded::{Padded, LINE};

/// Version of the control block up to the counters, for tools of another libgasnet.
pub const VERSION: u32 = 5;
/// Lanes of a rank. Threads above that number share the last one, where counts may be lost and the
/// state is that of the thread that wrote last.
pub const LANES: usize = 32;
/// Kinds of messages: Short, Medium, Long requests; then replies.
pub const KINDS: usize = 6;
/// Kinds of one-sided operations ([`OneSided`]).
pub const ONE_SIDED: usize = 3;
/// Maximum number of groups of peers.
pub const GROUPS: usize = 64;

/// The binary logarithm of the number of ranks in a group, in a job of `size` ranks.
pub fn group_shift(size: u32) -> u32 {
    u32::BITS - (size.saturating_sub(1) / GROUPS as u32).leading_zeros()
}

/// The words of a [`Traffic`]. Each operation touches one cache line of it.
pub mod words {
    use super::{KINDS, ONE_SIDED};
    use std::ops::Range;

    /// Messages that the client has sent, by kind.
    pub const SENT: Range<usize> = 0..KINDS;
    /// Bytes of the payloads of Mediums and of Longs.
    pub const SENT_BYTES: Range<usize> = 6..8;
    /// Messages to the client's handlers, by kind.
    pub const RECEIVED: Range<usize> = 8..8 + KINDS;
    /// Bytes of their payloads, likewise.
    pub const RECEIVED_BYTES: Range<usize> = 14..16;
    /// One-sided operations over a network, by kind.
    pub const ACCESSES: Range<usize> = 16..16 + ONE_SIDED;
    /// Their bytes.
    pub const ACCESS_BYTES: Range<usize> = 19..19 + ONE_SIDED;
    /// All of them, and padding.
    pub const COUNT: usize = 24;
}

/// Traffic of a thread with a group of peers, by [`words`].
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Traffic(pub [AtomicU64; words::COUNT]);

impl Traffic {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; words::COUNT])
    }
}

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
    /// The rank that it waits for, if that is known to be one.
    pub peer: Option<u32>,
    /// Of waits for operations, what is outstanding: bits by the index in [`WORK`].
    pub work: u8,
}

/// Kinds of outstanding work. The first four are in the order of `GEX_EC_*`.
pub const WORK: [&str; 5] = ["puts", "local completion", "gets", "atomics", "a collective"];
/// The bit of a collective.
pub const COLLECTIVE: u8 = 1 << 4;

impl WaitWord {
    const NO_PEER: u32 = u32::MAX;

    /// The word: the reason, 256 in a handler, the work above 16 bits and the peer above 32.
    pub fn encode(self) -> u64 {
        let peer = u64::from(self.peer.unwrap_or(Self::NO_PEER));
        peer << 32 | u64::from(self.work) << 16 | u64::from(self.in_handler) << 8 | self.reason as u64
    }

    /// None for 0, and for a reason without a name.
    pub fn decode(word: u64) -> Option<Self> {
        Some(Self {
            reason: Wait::ALL.into_iter().find(|&reason| reason as u8 == word as u8)?,
            in_handler: word >> 8 & 1 != 0,
            peer: Some((word >> 32) as u32).filter(|&peer| peer != Self::NO_PEER),
            work: (word >> 16) as u8,
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
    /// The client's running handler of a request and of a reply ([`HandlerWord`]). That of a reply
    /// may run inside that of a request; no others nest.
    pub handlers: [AtomicU64; 2],
    /// Their coarse begins.
    pub handlers_since: [AtomicU64; 2],
    /// Polls.
    pub polls: AtomicU64,
    /// The coarse time of the last poll.
    pub polled: AtomicU64,
    /// The coarse time of the last poll that found something.
    pub found: AtomicU64,
    /// The present wait ([`WaitWord`]), once it has left its spinning phase.
    pub wait: AtomicU64,
    /// When it did.
    pub wait_since: AtomicU64,
    /// Messages refused to a client that does not wait (`GEX_FLAG_IMMEDIATE`).
    pub refused: AtomicU64,
    /// Waits by their reason; those for room and for the conduit are refused attempts.
    pub waits: [AtomicU64; Wait::ALL.len() + 1],
    /// Collectives begun.
    pub collectives: AtomicU64,
    /// Seconds in which the thread was seen in a handler, in a wait outside handlers, and in
    /// neither. The node agent writes them.
    pub samples: [AtomicU64; 3],
}

impl Lane {
    /// Adds what the thread does now to the samples.
    pub fn sample(&self) {
        let is_set = |word: &AtomicU64| word.load(Ordering::Relaxed) != 0;
        let doing = match () {
            () if !is_set(&self.thread) => return,
            () if self.handlers.iter().any(is_set) => 0,
            () if is_set(&self.wait) => 1,
            () => 2,
        };
        add(&self.samples[doing], 1);
    }

    const fn new() -> Self {
        Self {
            thread: AtomicU64::new(0),
            handlers: [const { AtomicU64::new(0) }; 2],
            handlers_since: [const { AtomicU64::new(0) }; 2],
            polls: AtomicU64::new(0),
            polled: AtomicU64::new(0),
            found: AtomicU64::new(0),
            wait: AtomicU64::new(0),
            wait_since: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            waits: [const { AtomicU64::new(0) }; Wait::ALL.len() + 1],
            collectives: AtomicU64::new(0),
            samples: [const { AtomicU64::new(0) }; 3],
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
    /// Its connections.
    pub connections: ConnectionWords,
    /// Its threads.
    pub lanes: [Padded<Lane>; LANES],
    /// Their traffic, by groups of peers.
    pub traffic: [[Traffic; GROUPS]; LANES],
}

impl RankCounters {
    /// All zero, as in a new control block.
    #[allow(clippy::large_stack_arrays)] // For statics.
    pub const fn new() -> Self {
        Self {
            is_on: AtomicU32::new(0),
            exchanges: AtomicU32::new(0),
            exchange_since: AtomicU64::new(0),
            segment_bytes: AtomicU64::new(0),
            connections: ConnectionWords::new(),
            lanes: [const { Padded(Lane::new()) }; LANES],
            traffic: [const { [const { Traffic::new() }; GROUPS] }; LANES],
        }
    }
}

impl Default for RankCounters {
    fn default() -> Self {
        Self::new()
    }
}

const _: () = assert!(size_of::<RankCounters>() == LINE + LANES * (256 + GROUPS * 192));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_they_say() {
        for (number, reason) in (1..).zip(Wait::ALL) {
            assert_eq!(reason as u8, number);
            for (in_handler, peer, work) in [(false, None, 0), (true, Some(0), 1), (false, Some(70_000), 0b1_1010)] {
                let wait = WaitWord {
                    reason,
                    in_handler,
                    peer,
                    work,
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
        let lane = [
            offset_of!(Lane, thread),
            offset_of!(Lane, handlers),
            offset_of!(Lane, polls),
            offset_of!(Lane, wait),
            offset_of!(Lane, waits),
            offset_of!(Lane, samples),
            size_of::<Lane>(),
        ];
        assert_eq!(lane, [0, 8, 40, 64, 88, 192, 256]);
        let rank = [
            offset_of!(RankCounters, connections),
            offset_of!(ConnectionWords, retransmissions),
            offset_of!(RankCounters, lanes),
            offset_of!(RankCounters, traffic),
        ];
        assert_eq!(
            (rank, size_of::<Traffic>(), VERSION),
            ([24, 16, LINE, LINE + 256 * LANES], 192, 5)
        );
    }

    #[test]
    fn an_operation_touches_one_line() {
        use words::*;
        for (calls, bytes) in [(SENT, SENT_BYTES), (RECEIVED, RECEIVED_BYTES), (ACCESSES, ACCESS_BYTES)] {
            assert!(calls.end <= bytes.start && calls.start / 8 == (bytes.end - 1) / 8);
        }
    }

    #[test]
    fn groups_are_single_ranks_while_they_suffice() {
        let last = |size: u32| (group_shift(size), (size - 1) >> group_shift(size));
        assert_eq!([1, 2, 64].map(last), [(0, 0), (0, 1), (0, 63)]);
        assert_eq!([65, 128, 129].map(last), [(1, 32), (1, 63), (2, 32)]);
        assert!(last(u32::MAX).1 < GROUPS as u32);
    }

    #[test]
    fn samples_prefer_the_handler() {
        let lane = Lane::new();
        let mut seen = Vec::new();
        for word in [&lane.polls, &lane.thread, &lane.wait, &lane.handlers[1]] {
            word.store(1, Ordering::Relaxed);
            lane.sample();
            seen.push(lane.samples.each_ref().map(|count| count.load(Ordering::Relaxed)));
        }
        assert_eq!(seen, [[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]]);
    }
}
