//! P2p messages: point-to-point messages between members of a team inside a collective.
//!
//! An [`Envelope`] names a message: team, collective, target, source, and a tag of the algorithm. A
//! message travels in packets of one Medium each. A packet whose envelope has no posted receive
//! starts an entry in the unexpected-message queue. Algorithms bound that memory: large messages
//! are sent only to posted receives.
//!
//! SYNC POINT p2p: packets are copied and counted, and messages are matched, under one lock.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::am::{join, split, Arg};
use crate::team::TeamId;
use crate::types::Rank;
use gasnet_sys::atomic::Mutex;

/// Identifies a p2p message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The team.
    pub team: TeamId,
    /// Sequence number of the collective in the team.
    pub sequence: u32,
    /// Rank of the receiver in the team.
    pub target: Rank,
    /// Rank of the sender in the team.
    pub source: Rank,
    /// Chosen by the algorithm.
    pub tag: u32,
}

/// A range of memory that an operation may use until it is complete.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte.
    pub at: *mut u8,
    /// Length in bytes.
    pub bytes: usize,
}

// SAFETY: the creator of a Span guarantees the memory until its operation is complete; threads use
// it one at a time, under a lock.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// The empty range.
    pub const EMPTY: Self = Self {
        at: std::ptr::null_mut(),
        bytes: 0,
    };

    /// `bytes` bytes at `at`, for reading.
    pub const fn source(at: *const u8, bytes: usize) -> Self {
        Self {
            at: at.cast_mut(),
            bytes,
        }
    }

    /// The sub-range of `bytes` bytes at `offset`.
    #[must_use]
    pub fn part(self, offset: usize, bytes: usize) -> Self {
        debug_assert!(offset <= self.bytes && bytes <= self.bytes - offset);
        Self {
            at: self.at.wrapping_add(offset),
            bytes,
        }
    }

    /// Address and length, as an AM payload.
    pub const fn payload(&self) -> (*const u8, usize) {
        (self.at.cast_const(), self.bytes)
    }

    /// Copies all of `from`, which has the same length and may be the same memory.
    pub fn copy_from(self, from: Self) {
        debug_assert_eq!(self.bytes, from.bytes);
        if self.bytes > 0 && !std::ptr::eq(self.at, from.at) {
            // SAFETY: both are valid by the contract of Span; `copy` allows overlap.
            unsafe { std::ptr::copy(from.at, self.at, self.bytes) };
        }
    }
}

/// Heap memory of a collective, aligned for any element type.
#[derive(Debug, Default)]
pub struct Buffer {
    words: Vec<u128>,
    bytes: usize,
}

impl Buffer {
    /// `bytes` zero bytes, or None if the allocation of long ones fails. These use memory where
    /// they are written: a broken member may announce more than it sends.
    pub fn new(bytes: usize) -> Option<Self> {
        const LONG: usize = 1 << 20;
        let count = bytes.div_ceil(size_of::<u128>());
        if bytes > LONG {
            let mut probe = Vec::<u128>::new();
            probe.try_reserve_exact(count).ok()?;
            // Without a use, the allocation would be optimised away.
            drop(std::hint::black_box(probe));
        }
        let words = vec![0; count];
        Some(Self { words, bytes })
    }

    /// A copy of `from`. A failed allocation is a fatal error.
    pub fn copy_of(from: Span) -> Self {
        let Some(mut buffer) = Self::new(from.bytes) else {
            fatal!("cannot allocate {} bytes for a collective: out of memory", from.bytes);
        };
        buffer.span().copy_from(from);
        buffer
    }

    /// The whole buffer. Valid until the buffer is dropped.
    pub fn span(&mut self) -> Span {
        Span {
            at: self.words.as_mut_ptr().cast(),
            bytes: self.bytes,
        }
    }
}

#[derive(Debug)]
enum Destination {
    Unexpected(Buffer),
    Posted(Span),
}

#[derive(Debug)]
struct Incoming {
    destination: Destination,
    total: usize,
    received: usize,
}

/// Posted receives and unexpected messages.
#[derive(Debug, Default)]
pub struct Matching(HashMap<Envelope, Incoming>);

static MATCHING: Mutex<Option<Matching>> = Mutex::new(None);
static ARRIVED: AtomicU64 = AtomicU64::new(0);

/// Calls `body` under the lock.
fn matching<R>(body: impl FnOnce(&mut Matching) -> R) -> R {
    body(gasnet_sys::lock(&MATCHING).get_or_insert_with(Matching::default))
}

/// Messages received in full so far.
pub fn arrived() -> u64 {
    ARRIVED.load(Ordering::Acquire)
}

/// See [`Matching::take`].
pub fn take(envelope: Envelope) -> Option<Buffer> {
    matching(|all| all.take(envelope))
}

/// See [`Matching::post_receive`].
pub fn post_receive(envelope: Envelope, at: Span) {
    matching(|all| all.post_receive(envelope, at));
}

/// See [`Matching::complete_receive`].
pub fn complete_receive(envelope: Envelope, at: Span) -> bool {
    matching(|all| all.complete_receive(envelope, at))
}

/// See [`Matching::packet`]. False if it is malformed.
pub fn on_packet(args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    matching(|all| {
        let is_whole = all.packet(args, payload, bytes);
        if is_whole == Some(true) {
            ARRIVED.fetch_add(1, Ordering::Release);
        }
        is_whole.is_some()
    })
}

/// AM arguments of a packet at `offset` of a message of `total` bytes.
pub fn encode(envelope: Envelope, total: usize, offset: usize) -> [Arg; 10] {
    let ([team_high, team_low], [total_high, total_low], [high, low]) =
        (split(envelope.team), split(total as u64), split(offset as u64));
    let [sequence, target, source, tag] =
        [envelope.sequence, envelope.target.0, envelope.source.0, envelope.tag].map(|word| word as Arg);
    [
        team_high, team_low, sequence, target, source, tag, total_high, total_low, high, low,
    ]
}

impl Matching {
    /// Removes a complete message from the unexpected-message queue.
    pub fn take(&mut self, envelope: Envelope) -> Option<Buffer> {
        let message = self.0.get(&envelope)?;
        if message.received < message.total {
            return None;
        }
        match self.0.remove(&envelope)?.destination {
            Destination::Unexpected(buffer) => Some(buffer),
            // A posted receive is completed by `complete_receive`.
            Destination::Posted(_) => None,
        }
    }

    /// Posts a receive into `at`, which is not empty. Has no effect if packets have arrived
    /// already.
    pub fn post_receive(&mut self, envelope: Envelope, at: Span) {
        debug_assert!(at.bytes > 0);
        self.0.entry(envelope).or_insert(Incoming {
            destination: Destination::Posted(at),
            total: at.bytes,
            received: 0,
        });
    }

    /// Completes a posted receive: true once the whole message is in `at`.
    pub fn complete_receive(&mut self, envelope: Envelope, at: Span) -> bool {
        if self.0.get(&envelope).is_none_or(|l| l.received < l.total) {
            return false;
        }
        if let Some(Incoming {
            destination: Destination::Unexpected(mut buffer),
            ..
        }) = self.0.remove(&envelope)
        {
            // Unexpected: packets came before the receive was posted. If the sender disagrees about
            // the length, it breaks the collective's contract.
            let bytes = buffer.bytes.min(at.bytes);
            at.part(0, bytes).copy_from(buffer.span().part(0, bytes));
        }
        true
    }

    /// Handles a packet: whether it completes its message. None if it is malformed.
    pub fn packet(&mut self, args: &[Arg], payload: *const u8, bytes: usize) -> Option<bool> {
        let &[team_high, team_low, sequence, target, source, tag, total_high, total_low, high, low] = args else {
            return None;
        };
        let (total, offset) = (join(total_high, total_low) as usize, join(high, low) as usize);
        if offset > total || bytes > total - offset {
            return None;
        }
        let envelope = Envelope {
            team: join(team_high, team_low),
            sequence: sequence as u32,
            target: Rank(target as u32),
            source: Rank(source as u32),
            tag: tag as u32,
        };
        let message = match self.0.entry(envelope) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Incoming {
                destination: Destination::Unexpected(Buffer::new(total)?),
                total,
                received: 0,
            }),
        };
        if message.total != total || bytes > total - message.received {
            return None;
        }
        let whole = match &mut message.destination {
            Destination::Unexpected(buffer) => buffer.span(),
            Destination::Posted(at) => *at,
        };
        whole.part(offset, bytes).copy_from(Span::source(payload, bytes));
        message.received += bytes;
        Some(message.received == total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(tag: u32) -> Envelope {
        Envelope {
            team: 0x1_0000_0002,
            sequence: 3,
            target: Rank(4),
            source: Rank(5),
            tag,
        }
    }

    fn packet(envelope: Envelope, total: usize, offset: usize, bytes: &[u8]) -> bool {
        on_packet(&encode(envelope, total, offset), bytes.as_ptr(), bytes.len())
    }

    #[test]
    fn unexpected_messages_are_kept_whatever_the_order_of_packets() {
        assert!(take(envelope(1)).is_none());
        assert!(packet(envelope(1), 5, 3, b"lo") && take(envelope(1)).is_none());
        assert!(packet(envelope(1), 5, 0, b"hel"));
        let mut message = take(envelope(1)).unwrap();
        assert_eq!(message.bytes, 5);
        // SAFETY: the buffer is alive.
        assert_eq!(unsafe { std::slice::from_raw_parts(message.span().at, 5) }, b"hello");
        assert!(take(envelope(1)).is_none());
        assert!(packet(envelope(2), 0, 0, b"") && take(envelope(2)).is_some());
    }

    /// Pages in memory of those that lie wholly inside `span`, and all of them.
    #[cfg(not(feature = "debug-checks"))]
    fn resident(span: Span) -> (usize, usize) {
        let page = gasnet_sys::mem::page_size();
        let first = (span.at as usize).next_multiple_of(page);
        let mut pages = vec![0u8; (span.at as usize + span.bytes - first) / page];
        // SAFETY: the range is mapped, its owner lives, and `pages` has a byte for each page.
        let done = unsafe { libc::mincore(first as *mut libc::c_void, pages.len() * page, pages.as_mut_ptr()) };
        assert_eq!(done, 0, "mincore: {}", std::io::Error::last_os_error());
        (pages.iter().filter(|page| *page & 1 == 1).count(), pages.len())
    }

    /// The allocator of the debug flavour writes all that it allocates.
    #[cfg(not(feature = "debug-checks"))]
    #[test]
    fn what_is_announced_but_not_sent_takes_no_memory() {
        const ANNOUNCED: usize = 64 << 20;
        assert!(packet(envelope(9), ANNOUNCED, 7, b"x") && take(envelope(9)).is_none());
        let Some(mut begun) = matching(|all| all.0.remove(&envelope(9))) else {
            panic!("the message is not kept");
        };
        let Destination::Unexpected(buffer) = &mut begun.destination else {
            panic!("nobody posted a receive");
        };
        let (used, pages) = resident(buffer.span());
        assert!(used < pages / 2, "{used} of {pages} pages are in memory");
        assert!(!packet(envelope(10), usize::MAX - 15, 0, b"x"));
    }

    #[test]
    fn messages_arrive_in_posted_receives() {
        let mut here = [0u8; 4];
        let span = Span {
            at: here.as_mut_ptr(),
            bytes: 4,
        };
        post_receive(envelope(3), span);
        assert!(
            !complete_receive(envelope(3), span)
                && packet(envelope(3), 4, 0, b"abcd")
                && complete_receive(envelope(3), span)
        );
        assert!(packet(envelope(4), 4, 0, b"wxyz"));
        post_receive(envelope(4), span.part(0, 4));
        assert_eq!(&here, b"abcd");
        assert!(complete_receive(envelope(4), span));
        assert_eq!(&here, b"wxyz");
    }

    #[test]
    fn malformed_packets_are_refused() {
        assert!(
            !packet(envelope(5), 4, 5, b"")
                && !packet(envelope(5), 4, 2, b"abc")
                && !packet(envelope(5), usize::MAX, 0, b"a")
        );
        assert!(
            packet(envelope(6), 4, 0, b"ab") && !packet(envelope(6), 5, 2, b"ab") && !packet(envelope(6), 4, 1, b"abc")
        );
        assert!(!on_packet(&[0; 9], std::ptr::null(), 0));
    }
}
