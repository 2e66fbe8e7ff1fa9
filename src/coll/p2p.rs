//! Letters: what members of a team send each other inside a collective.
//!
//! A letter is named by team, collective, receiver, sender and a slot that the algorithm chooses. It travels in pieces of a Medium each. One
//! that comes before anybody waits for it is kept; algorithms bound how much that can be by asking for large ones first.
//!
//! SYNC POINT letter: a piece is copied and counted under the lock, and a letter is looked for under the lock.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::am::{join, split, Arg};
use crate::team::TeamId;
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// The name of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The team.
    pub team: TeamId,
    /// Its collective.
    pub number: u32,
    /// Rank of the receiver.
    pub to: u32,
    /// Rank of the sender.
    pub from: u32,
    /// The algorithm's own.
    pub slot: u32,
}

/// Memory of a client that an operation may use until it is complete.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// First byte.
    pub at: *mut u8,
    /// Length.
    pub bytes: usize,
}

// SAFETY: whoever makes a Span answers for the memory until the operation that it belongs to is complete; threads take turns under a lock.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// Nothing.
    pub const EMPTY: Self = Self {
        at: std::ptr::null_mut(),
        bytes: 0,
    };

    /// `bytes` at `at`, to read from.
    pub const fn source(at: *const u8, bytes: usize) -> Self {
        Self {
            at: at.cast_mut(),
            bytes,
        }
    }

    /// A part of it.
    #[must_use]
    pub fn part(self, offset: usize, bytes: usize) -> Self {
        debug_assert!(offset <= self.bytes && bytes <= self.bytes - offset);
        Self {
            at: self.at.wrapping_add(offset),
            bytes,
        }
    }

    /// As a message takes it.
    pub const fn payload(&self) -> (*const u8, usize) {
        (self.at.cast_const(), self.bytes)
    }

    /// Copies all of `from`, which is as long, and may be the same memory.
    pub fn copy_from(self, from: Self) {
        debug_assert_eq!(self.bytes, from.bytes);
        if self.bytes > 0 && !std::ptr::eq(self.at, from.at) {
            // SAFETY: both are valid by the contract of Span; `copy` bears overlap.
            unsafe { std::ptr::copy(from.at, self.at, self.bytes) };
        }
    }
}

/// Memory of a collective, aligned for any type.
#[derive(Debug, Default)]
pub struct Buffer {
    words: Vec<u128>,
    bytes: usize,
}

impl Buffer {
    /// `bytes` zeros. None if there is no such memory.
    pub fn new(bytes: usize) -> Option<Self> {
        let count = bytes.div_ceil(size_of::<u128>());
        let mut words = Vec::new();
        words.try_reserve_exact(count).ok()?;
        words.resize(count, 0);
        Some(Self { words, bytes })
    }

    /// A copy of `from`.
    pub fn copy_of(from: Span) -> Self {
        let Some(mut buffer) = Self::new(from.bytes) else {
            fatal!("a collective cannot have {} bytes of memory", from.bytes);
        };
        buffer.span().copy_from(from);
        buffer
    }

    /// All of it. Valid while the buffer is neither moved out of use nor dropped.
    pub fn span(&mut self) -> Span {
        Span {
            at: self.words.as_mut_ptr().cast(),
            bytes: self.bytes,
        }
    }
}

#[derive(Debug)]
enum Place {
    Kept(Buffer),
    Landing(Span),
}

#[derive(Debug)]
struct Letter {
    place: Place,
    total: usize,
    received: usize,
}

static LETTERS: Mutex<Option<HashMap<Name, Letter>>> = Mutex::new(None);
static ARRIVED: AtomicU64 = AtomicU64::new(0);

fn letters() -> MutexGuard<'static, Option<HashMap<Name, Letter>>> {
    gasnet_sys::lock(&LETTERS)
}

/// Letters that have arrived so far.
pub fn arrived() -> u64 {
    ARRIVED.load(Ordering::Acquire)
}

/// Takes a letter that has arrived.
pub fn take(name: Name) -> Option<Buffer> {
    let mut letters = letters();
    let letters = letters.as_mut()?;
    let letter = letters.get(&name)?;
    if letter.received < letter.total {
        return None;
    }
    match letters.remove(&name)?.place {
        Place::Kept(buffer) => Some(buffer),
        // Whoever posts a landing waits for it with `landed`.
        Place::Landing(_) => None,
    }
}

/// Says where a letter that has not begun to arrive is to land. `at` is not empty.
pub fn post(name: Name, at: Span) {
    debug_assert!(at.bytes > 0);
    letters().get_or_insert_with(HashMap::new).entry(name).or_insert(Letter {
        place: Place::Landing(at),
        total: at.bytes,
        received: 0,
    });
}

/// Whether a posted letter is where it was to land.
pub fn landed(name: Name, at: Span) -> bool {
    let mut letters = letters();
    let Some(letters) = letters.as_mut() else { return false };
    if letters.get(&name).is_none_or(|l| l.received < l.total) {
        return false;
    }
    if let Some(Letter {
        place: Place::Kept(mut buffer),
        ..
    }) = letters.remove(&name)
    {
        // It was early. A sender that disagrees with us about the length breaks the collective's contract.
        let bytes = buffer.bytes.min(at.bytes);
        at.part(0, bytes).copy_from(buffer.span().part(0, bytes));
    }
    true
}

/// Arguments of a message that brings a piece at `offset` of a letter of `total` bytes.
pub fn arguments(name: Name, total: usize, offset: usize) -> [Arg; 10] {
    let ([team_high, team_low], [total_high, total_low], [high, low]) =
        (split(name.team), split(total as u64), split(offset as u64));
    let [number, to, from, slot] = [name.number, name.to, name.from, name.slot].map(|word| word as Arg);
    [team_high, team_low, number, to, from, slot, total_high, total_low, high, low]
}

/// A piece has come. False if it makes no sense.
pub fn on_piece(args: &[Arg], payload: *const u8, bytes: usize) -> bool {
    let &[team_high, team_low, number, to, from, slot, total_high, total_low, high, low] = args else {
        return false;
    };
    let (total, offset) = (join(total_high, total_low) as usize, join(high, low) as usize);
    if offset > total || bytes > total - offset {
        return false;
    }
    let name = Name {
        team: join(team_high, team_low),
        number: number as u32,
        to: to as u32,
        from: from as u32,
        slot: slot as u32,
    };
    let mut letters = letters();
    let letters = letters.get_or_insert_with(HashMap::new);
    let letter = match letters.entry(name) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let Some(buffer) = Buffer::new(total) else { return false };
            let place = Place::Kept(buffer);
            new.insert(Letter {
                place,
                total,
                received: 0,
            })
        }
    };
    if letter.total != total || bytes > total - letter.received {
        return false;
    }
    let whole = match &mut letter.place {
        Place::Kept(buffer) => buffer.span(),
        Place::Landing(at) => *at,
    };
    whole.part(offset, bytes).copy_from(Span::source(payload, bytes));
    letter.received += bytes;
    if letter.received == total {
        ARRIVED.fetch_add(1, Ordering::Release);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(slot: u32) -> Name {
        Name {
            team: 0x1_0000_0002,
            number: 3,
            to: 4,
            from: 5,
            slot,
        }
    }

    fn piece(name: Name, total: usize, offset: usize, bytes: &[u8]) -> bool {
        on_piece(&arguments(name, total, offset), bytes.as_ptr(), bytes.len())
    }

    #[test]
    fn early_letters_are_kept_in_any_order_of_pieces() {
        assert!(take(name(1)).is_none());
        assert!(piece(name(1), 5, 3, b"lo") && take(name(1)).is_none());
        assert!(piece(name(1), 5, 0, b"hel"));
        let mut letter = take(name(1)).unwrap();
        assert_eq!(letter.bytes, 5);
        // SAFETY: the buffer lives.
        assert_eq!(unsafe { std::slice::from_raw_parts(letter.span().at, 5) }, b"hello");
        assert!(take(name(1)).is_none());
        assert!(piece(name(2), 0, 0, b"") && take(name(2)).is_some());
    }

    #[test]
    fn posted_letters_land() {
        let mut here = [0u8; 4];
        let span = Span {
            at: here.as_mut_ptr(),
            bytes: 4,
        };
        post(name(3), span);
        assert!(!landed(name(3), span) && piece(name(3), 4, 0, b"abcd") && landed(name(3), span));
        assert!(piece(name(4), 4, 0, b"wxyz"));
        post(name(4), span.part(0, 4));
        assert_eq!(&here, b"abcd");
        assert!(landed(name(4), span));
        assert_eq!(&here, b"wxyz");
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(!piece(name(5), 4, 5, b"") && !piece(name(5), 4, 2, b"abc") && !piece(name(5), usize::MAX, 0, b"a"));
        assert!(piece(name(6), 4, 0, b"ab") && !piece(name(6), 5, 2, b"ab") && !piece(name(6), 4, 1, b"abc"));
        assert!(!on_piece(&[0; 9], std::ptr::null(), 0));
    }
}
