//! Messages between agents: frames of a length, a kind, and the fields, with numbers in
//! little-endian order.
#![forbid(unsafe_code)]

use std::borrow::Cow;

use super::super::control_block::Phase;
use super::super::counters::{HandlerWord, WaitWord};
use super::super::layout::RankRange;
use super::super::view::{PeerView, Process, RankView, ThreadView, TrafficView};
use super::secret::Secret;

/// A value in a frame.
trait Field: Sized {
    fn put(&self, frame: &mut Vec<u8>);
    /// Takes the value off the front of `from`. None if that is too short.
    fn take(from: &mut &[u8]) -> Option<Self>;
}

fn take_bytes<'a>(from: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (front, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(front)
}

macro_rules! integers {
    ($($type:ty)*) => {
        $(impl Field for $type {
            fn put(&self, frame: &mut Vec<u8>) {
                frame.extend(self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(Self::from_le_bytes(take_bytes(from, size_of::<Self>())?.try_into().ok()?))
            }
        })*
    };
}

integers! { u32 u64 u128 }

/// Fields that travel as a `u32`: how they become one, and are made of one.
macro_rules! numbers {
    ($($type:ty: $to:expr, $from:expr;)*) => {
        $(impl Field for $type {
            fn put(&self, frame: &mut Vec<u8>) {
                let to: fn(Self) -> u32 = $to;
                to(*self).put(frame);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let of: fn(u32) -> Self = $from;
                u32::take(from).map(of)
            }
        })*
    };
}

numbers! {
    i32: |n| n as u32, |n| n as i32;
    bool: u32::from, |n| n != 0;
    Phase: |phase| phase as u32, Phase::from_raw;
    Process: |process| process as u32, Process::from_raw;
    Option<u32>: |rank| rank.unwrap_or(u32::MAX), |n| Some(n).filter(|&n| n != u32::MAX);
}

impl Field for Vec<u8> {
    fn put(&self, frame: &mut Vec<u8>) {
        (self.len() as u32).put(frame);
        frame.extend(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = u32::take(from)?;
        Some(take_bytes(from, length as usize)?.to_vec())
    }
}

impl Field for String {
    fn put(&self, frame: &mut Vec<u8>) {
        self.clone().into_bytes().put(frame);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Vec::take(from).map(|bytes| Self::from_utf8_lossy(&bytes).into_owned())
    }
}

impl<T: Field, const N: usize> Field for [T; N] {
    fn put(&self, frame: &mut Vec<u8>) {
        for item in self {
            item.put(frame);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let items: Option<Vec<T>> = (0..N).map(|_| T::take(from)).collect();
        items?.try_into().ok()
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, frame: &mut Vec<u8>) {
        (self.len() as u32).put(frame);
        for item in self {
            item.put(frame);
        }
    }

    /// Memory is allocated only for items that are there.
    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u32::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, frame: &mut Vec<u8>) {
        self.0.put(frame);
        self.1.put(frame);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// States with their times, which travel as two words: that of no state is 0.
macro_rules! states {
    ($($word:ident)*) => {
        $(impl Field for Option<($word, u64)> {
            fn put(&self, frame: &mut Vec<u8>) {
                self.map_or((0, 0), |(word, since)| (word.encode(), since)).put(frame);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (word, since) = Field::take(from)?;
                Some($word::decode(word).map(|word| (word, since)))
            }
        })*
    };
}

states! { WaitWord HandlerWord }

/// A rank with a time that is not 0.
impl Field for Option<(u32, u64)> {
    fn put(&self, frame: &mut Vec<u8>) {
        self.unwrap_or_default().put(frame);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (rank, since) = Field::take(from)?;
        Some((since != 0).then_some((rank, since)))
    }
}

/// Most counts are zero: a bit for each that is not, and those.
impl Field for TrafficView {
    fn put(&self, frame: &mut Vec<u8>) {
        let set = |mask: u32, (bit, &count): (usize, &u64)| mask | u32::from(count != 0) << bit;
        self.0.iter().enumerate().fold(0, set).put(frame);
        self.0
            .iter()
            .filter(|&&count| count != 0)
            .for_each(|count| count.put(frame));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (mask, mut all) = (u32::take(from)?, Self::default());
        for (bit, count) in all.0.iter_mut().enumerate() {
            if mask >> bit & 1 != 0 {
                *count = Field::take(from)?;
            }
        }
        Some(all)
    }
}

/// A structure whose fields travel in this order.
macro_rules! structure {
    ($name:ident { $($field:ident),* }) => {
        impl Field for $name {
            fn put(&self, frame: &mut Vec<u8>) {
                $(self.$field.put(frame);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Field::take(from)?),* })
            }
        }
    };
}

/// The ranks of a part of the job: of one host, or of a host and those below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// Ranks that have not called exit.
    pub running: u32,
    /// Those of them that are frozen or traced.
    pub held: u32,
    pub present: u32,
    /// The number of arrivals in exit, after which the next two were counted.
    pub epoch: u32,
    /// Windows in a row in which all running ranks only waited.
    pub waiting: u32,
    /// Windows in a row in which all running ranks only waited or polled.
    pub idle: u32,
}

impl RankCounts {
    /// Adds another part of the job. Only windows of the same epoch count.
    pub fn add(&mut self, other: &Self) {
        self.running = self.running.saturating_add(other.running);
        self.held = self.held.saturating_add(other.held);
        self.present = self.present.saturating_add(other.present);
        if other.running > 0 {
            let seen = |times| if other.epoch == self.epoch { times } else { 0 };
            (self.waiting, self.idle) = (self.waiting.min(seen(other.waiting)), self.idle.min(seen(other.idle)));
        }
    }
}

pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Pairs as the launcher process sends them to workers: they may contain tokens of other programs,
/// so that only the job's processes may read them.
pub fn mask_pairs(pairs: &Pairs, secret: Secret) -> Vec<u8> {
    let mut bytes = Vec::new();
    pairs.put(&mut bytes);
    secret.mask(&mut bytes);
    bytes
}

/// The pairs of a [`mask_pairs`].
pub fn unmask_pairs(mut bytes: Vec<u8>, secret: Secret) -> Option<Pairs> {
    secret.mask(&mut bytes);
    let mut from = &bytes[..];
    Pairs::take(&mut from).filter(|_| from.is_empty())
}

/// A host to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its number; its first rank, if a process manager or a command has started the ranks.
    pub number: u32,
    /// Its name or address.
    pub name: Vec<u8>,
}

impl Host {
    /// Its name in messages.
    pub fn shown(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.name)
    }
}

structure!(RankCounts {
    running,
    held,
    present,
    epoch,
    waiting,
    idle
});
structure!(Host { number, name });
structure!(RankRange { first, count, host });
structure!(RankView {
    rank,
    host,
    pid,
    process,
    counts,
    in_exit,
    barrier,
    exchanges,
    exchange_since,
    segment_bytes,
    connections,
    retransmissions,
    connecting,
    memory,
    threads,
    peers
});
structure!(PeerView { group, traffic });
structure!(ThreadView {
    thread,
    wait,
    handlers,
    polls,
    polled,
    found,
    traffic,
    refused,
    waits,
    collectives,
    samples
});

/// Bytes of the length that a frame begins with.
pub const LENGTH_BYTES: usize = size_of::<u32>();
const FRAME_MAX: usize = 1 << 30;

/// Defines the messages: each with the byte that is its kind.
macro_rules! messages {
    ($($(#[$doc:meta])* $kind:literal $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        /// A message between the agents of two hosts, or between a worker and the launcher process.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum AgentMessage {
            $($(#[$doc])* $name { $($field: $type),* },)*
        }

        impl AgentMessage {
            pub fn encode(&self) -> Vec<u8> {
                let mut frame = vec![0; 4];
                match self {
                    $(Self::$name { $($field),* } => {
                        frame.push($kind);
                        $($field.put(&mut frame);)*
                    })*
                }
                let length = (frame.len() - 4) as u32;
                frame[..4].copy_from_slice(&length.to_le_bytes());
                frame
            }

            fn parse(kind: u8, mut from: &[u8]) -> Option<Self> {
                let message = match kind {
                    $($kind => Self::$name { $($field: Field::take(&mut from)?),* },)*
                    _ => return None,
                };
                from.is_empty().then_some(message)
            }
        }
    };
}

messages! {
    /// Down: the job's layout, as `JobLayout::new` takes it (a refused message must not cost the
    /// memory of a built one); variables of the first host, which a process manager may not have
    /// passed on; the hosts that the receiver must start.
    b'S' Start { ranges: Vec<RankRange>, nbrhd_max: u32, variables: Pairs, todo: Vec<Host> }
    /// Down: the phase of the job's end, its exit code, and the epoch of [`RankCounts`].
    b'P' Phase { phase: Phase, code: i32, epoch: u32 }
    /// Down: the result of an exchange: the bytes of all ranks, in the order of ranks.
    b'R' Result { round: u32, bytes: Vec<u8> }
    /// Down: a signal for all ranks.
    b'K' Signal { number: i32 }
    /// Down: a tool asks for a view.
    b'V' Look { round: u32 }
    /// Up: the view of a host for that round, read when its monotonic clock showed `at`.
    b'Q' View { round: u32, at: u64, ranks: Vec<RankView> }
    /// Up: the bytes of all ranks of some hosts in an exchange, host by host, in the order of
    /// ranks.
    b'G' Gather { round: u32, length: u32, parts: Vec<(u32, Vec<u8>)> }
    /// Up: a rank is in exit, or was lost.
    b'E' Ended { code: i32, lost: bool }
    /// Up: a rank that had announced another code has ended with this one.
    b'X' Worse { code: i32 }
    /// Up: the state of the sender's part of the job.
    b'C' Report { counts: RankCounts }
    /// From a worker: the rank that it requests, and the identity of its host.
    b'W' Register { requested_rank: Option<u32>, host: Vec<u8> }
    /// To a worker: its rank, the number of ranks, and the launcher's environment, masked.
    b'L' Assign { rank: u32, size: u32, environment: Vec<u8> }
    /// From a worker: it waits for all workers. To a worker: all wait.
    b'F' Fence {}
    /// From a rank to the leader of its host: its rank, the process manager's daemon (0: unknown),
    /// and the cores that it may use.
    b'I' Introduce { rank: u32, daemon: i32, cpus: Vec<u32> }
    /// From the leader to the ranks of its host: what they put into the process manager's store.
    b'A' Endpoint { text: Vec<u8> }
    /// From the agent to a rank that a process manager has started: the job's token, cores of the
    /// host, whether there are other hosts, the layout and variables as in `Start`.
    b'J' Join {
        token: u128,
        cpus: u32,
        relayed: bool,
        ranges: Vec<RankRange>,
        nbrhd_max: u32,
        variables: Pairs,
    }
}

/// The length of the frame, itself included, that begins with `bytes`, once it is known. An error
/// if it is impossible.
pub fn frame_length(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
    match bytes
        .first_chunk::<4>()
        .map(|length| u32::from_le_bytes(*length) as usize)
    {
        None => Ok(None),
        Some(length @ 1..=FRAME_MAX) => Ok(Some(4 + length)),
        Some(_) => Err("a message has an impossible length"),
    }
}

impl AgentMessage {
    /// The message of a whole frame.
    pub fn decode(frame: &[u8]) -> Option<Self> {
        let body = frame
            .get(4..)
            .filter(|_| frame_length(frame) == Ok(Some(frame.len())))?;
        Self::parse(*body.first()?, &body[1..])
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::counters::Wait;
    use super::*;

    /// Messages with fields of every type.
    fn all() -> Vec<AgentMessage> {
        // Impossible in a layout, which decoding does not build.
        let range = RankRange {
            first: 3,
            count: 4,
            host: 1,
        };
        let host = Host {
            number: 2,
            name: b"node\xff2".to_vec(),
        };
        let counts = RankCounts {
            running: 1,
            held: 1,
            present: 2,
            epoch: 3,
            waiting: 4,
            idle: 5,
        };
        let registration = |requested_rank| AgentMessage::Register {
            requested_rank,
            host: b"x".to_vec(),
        };
        vec![
            AgentMessage::Start {
                ranges: vec![range; 3],
                nbrhd_max: 2,
                variables: vec![(b"GASNET_A".to_vec(), b"b\nc".to_vec())],
                todo: vec![host],
            },
            AgentMessage::Phase {
                phase: Phase::Leave,
                code: -3,
                epoch: 9,
            },
            AgentMessage::Gather {
                round: 1,
                length: 2,
                parts: vec![(0, vec![1, 2]), (4, vec![])],
            },
            registration(None),
            registration(Some(3)),
            AgentMessage::Fence {},
            AgentMessage::Ended { code: 137, lost: true },
            AgentMessage::Worse { code: 134 },
            AgentMessage::Report { counts },
            AgentMessage::Look { round: 7 },
            AgentMessage::View {
                round: 7,
                at: 1 << 40,
                ranks: vec![view()],
            },
        ]
    }

    fn view() -> RankView {
        let wait = WaitWord {
            reason: Wait::Event,
            in_handler: false,
            peer: Some(3),
            work: 5,
        };
        let mut traffic = TrafficView::default();
        (traffic.0[0], traffic.0[5], traffic.0[23]) = (1, 1 << 50, 3);
        let thread = ThreadView {
            wait: Some((wait, 1 << 33)),
            handlers: [None, Some((HandlerWord { index: 200, source: 4 }, 9))],
            traffic,
            waits: [7; Wait::ALL.len() + 1],
            ..ThreadView::default()
        };
        RankView {
            rank: 5,
            host: "node2".into(),
            pid: 77,
            process: Process::Stopped,
            counts: true,
            in_exit: false,
            barrier: 1,
            exchanges: 2,
            exchange_since: 0,
            segment_bytes: 1 << 35,
            connections: 6,
            retransmissions: 1 << 40,
            connecting: Some((8, 1 << 40)),
            threads: vec![thread, ThreadView::default()],
            memory: vec![("comm".into(), 4096)],
            peers: vec![PeerView { group: 63, traffic }],
        }
    }

    #[test]
    fn pairs_are_masked() {
        let (secret, pairs) = (Secret::new(), vec![(b"TOKEN".to_vec(), b"hidden".to_vec()); 3]);
        let masked = mask_pairs(&pairs, secret);
        for clear in [&b"TOKEN"[..], b"hidden"] {
            assert!(!masked.windows(clear.len()).any(|part| part == clear));
        }
        assert_eq!(unmask_pairs(masked.clone(), secret), Some(pairs));
        assert_eq!(unmask_pairs(masked, Secret::new()), None);
    }

    #[test]
    fn frames_are_decoded_whole_or_not_at_all() {
        for message in all() {
            let frame = message.encode();
            assert_eq!(AgentMessage::decode(&frame), Some(message));
            for length in 0..frame.len() - 4 {
                let mut cut = (length as u32).to_le_bytes().to_vec();
                cut.extend(&frame[4..4 + length]);
                assert_eq!(AgentMessage::decode(&cut), None, "{frame:?} cut to {length}");
            }
            // Another message, or none.
            for place in 4..frame.len() {
                let mut changed = frame.clone();
                changed[place] ^= 0x80;
                let _ = AgentMessage::decode(&changed);
            }
        }
        assert!(frame_length(&[0xff; 8]).is_err() && frame_length(&[0; 8]).is_err());
        assert_eq!(frame_length(&[1, 0, 0]), Ok(None));
    }
}
