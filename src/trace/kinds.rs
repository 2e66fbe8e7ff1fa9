//! Categories of events, with the letters of the README, and kinds of events, with the names of
//! `docs/tracing.md`.
#![forbid(unsafe_code)]

/// A category: one letter of `GASNET_TRACEMASK`. The discriminant is its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TraceCategory {
    /// Gets.
    Get = 1,
    /// Puts.
    Put = 1 << 1,
    /// Remote atomics.
    Atomic = 1 << 2,
    /// Tests of events and waits for them.
    Sync = 1 << 3,
    /// Collectives, except barriers.
    Collective = 1 << 4,
    /// Barriers.
    Barrier = 1 << 5,
    /// Locks.
    Lock = 1 << 6,
    /// Active Messages.
    Message = 1 << 7,
    /// Polls of the client.
    Poll = 1 << 8,
    /// Remarks of the library.
    Info = 1 << 9,
    /// Creation and destruction of objects.
    Object = 1 << 10,
    /// Internal AMs of the runtime.
    Internal = 1 << 11,
    /// Addresses and arguments in lines of other categories.
    Detail = 1 << 12,
    /// Source lines.
    Source = 1 << 13,
    /// Notes of the client.
    Client = 1 << 14,
    /// Lines that no mask suppresses.
    Always = 1 << 15,
}

/// Letters and categories, in the order of bits.
pub const LETTERS: [(char, TraceCategory); 16] = [
    ('G', TraceCategory::Get),
    ('P', TraceCategory::Put),
    ('R', TraceCategory::Atomic),
    ('S', TraceCategory::Sync),
    ('W', TraceCategory::Collective),
    ('B', TraceCategory::Barrier),
    ('L', TraceCategory::Lock),
    ('A', TraceCategory::Message),
    ('X', TraceCategory::Poll),
    ('I', TraceCategory::Info),
    ('O', TraceCategory::Object),
    ('C', TraceCategory::Internal),
    ('D', TraceCategory::Detail),
    ('N', TraceCategory::Source),
    ('H', TraceCategory::Client),
    ('U', TraceCategory::Always),
];

impl EventKind {
    /// Whether it is the second line of an operation: a handler ran, a collective is complete.
    pub fn is_echo(self) -> bool {
        self.name().starts_with("RAN_") || self.name().ends_with("_RAN") || self.name().ends_with("_DONE")
    }

    /// The head of its line: the letter of its category, and its name.
    pub fn label(self) -> (char, &'static str) {
        (self.category().letter(), self.name())
    }
}

impl TraceCategory {
    /// Its letter.
    pub fn letter(self) -> char {
        LETTERS[(self as u32).trailing_zeros() as usize].0
    }
}

macro_rules! kinds {
    ($($kind:ident = $category:ident $name:literal;)*) => {
        /// A kind of event, as `docs/tracing.md` describes it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum EventKind { $(#[doc = concat!("`", $name, "`")] $kind,)* }

        /// All kinds, in the order of their numbers.
        pub const KINDS: &[EventKind] = &[$(EventKind::$kind),*];

        impl EventKind {
            /// Its category.
            #[inline]
            pub fn category(self) -> TraceCategory {
                match self { $(Self::$kind => TraceCategory::$category,)* }
            }

            /// Its name in the files.
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }
        }
    };
}

kinds! {
    Get = Get "GET";
    GetNb = Get "GET_NB";
    GetNbi = Get "GET_NBI";
    GetVal = Get "GET_VAL";
    GetVector = Get "GET_VECTOR";
    GetIndexed = Get "GET_INDEXED";
    GetStrided = Get "GET_STRIDED";
    Put = Put "PUT";
    PutNb = Put "PUT_NB";
    PutNbi = Put "PUT_NBI";
    PutVal = Put "PUT_VAL";
    PutNbVal = Put "PUT_NB_VAL";
    PutNbiVal = Put "PUT_NBI_VAL";
    PutVector = Put "PUT_VECTOR";
    PutIndexed = Put "PUT_INDEXED";
    PutStrided = Put "PUT_STRIDED";
    AtomicNb = Atomic "ATOMIC_NB";
    AtomicNbi = Atomic "ATOMIC_NBI";
    Test = Sync "TEST";
    Wait = Sync "WAIT";
    CollStart = Collective "COLL_START";
    CollDone = Collective "COLL_DONE";
    BarrierNotify = Barrier "BARRIER_NOTIFY";
    BarrierWait = Barrier "BARRIER_WAIT";
    BarrierTry = Barrier "BARRIER_TRY";
    BarrierStart = Barrier "BARRIER_START";
    BarrierDone = Barrier "BARRIER_DONE";
    Lock = Lock "LOCK";
    TryLock = Lock "TRYLOCK";
    Unlock = Lock "UNLOCK";
    RequestShort = Message "REQUEST_SHORT";
    RequestMedium = Message "REQUEST_MEDIUM";
    RequestLong = Message "REQUEST_LONG";
    ReplyShort = Message "REPLY_SHORT";
    ReplyMedium = Message "REPLY_MEDIUM";
    ReplyLong = Message "REPLY_LONG";
    RanRequestShort = Message "RAN_REQUEST_SHORT";
    RanRequestMedium = Message "RAN_REQUEST_MEDIUM";
    RanRequestLong = Message "RAN_REQUEST_LONG";
    RanReplyShort = Message "RAN_REPLY_SHORT";
    RanReplyMedium = Message "RAN_REPLY_MEDIUM";
    RanReplyLong = Message "RAN_REPLY_LONG";
    Poll = Poll "POLL";
    Remark = Info "REMARK";
    Create = Object "CREATE";
    Destroy = Object "DESTROY";
    InternalSend = Internal "INTERNAL_SEND";
    InternalRan = Internal "INTERNAL_RAN";
    Note = Client "NOTE";
    ForcedNote = Always "NOTE_FORCED";
    Start = Always "START";
    End = Always "END";
    Fatal = Always "FATAL";
    Backtrace = Always "BACKTRACE";
}

/// Number of kinds.
pub const KIND_COUNT: usize = KINDS.len();

/// Every category.
const ALL: u32 = (1 << LETTERS.len()) - 1;

/// Reads a mask: letters in upper or lower case, or `^` and the letters to leave out. Unknown
/// letters are ignored. `Always` is always set.
pub fn parse_mask(text: &str) -> u32 {
    let (complement, letters) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
    let mut mask = 0;
    for letter in letters.chars() {
        if let Some((_, category)) = LETTERS.iter().find(|(l, _)| l.eq_ignore_ascii_case(&letter)) {
            mask |= *category as u32;
        }
    }
    if complement {
        mask = !mask & ALL;
    }
    mask | TraceCategory::Always as u32
}

/// Writes a mask as letters.
pub fn format_mask(mask: u32) -> String {
    LETTERS
        .iter()
        .filter(|(_, c)| mask & *c as u32 != 0)
        .map(|(l, _)| l)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_their_bits() {
        for (i, (letter, category)) in LETTERS.iter().enumerate() {
            assert_eq!(*category as u32, 1 << i);
            assert_eq!(category.letter(), *letter);
        }
        for (i, kind) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
    }

    #[test]
    fn masks_are_read_and_written() {
        assert_eq!(format_mask(parse_mask("pg")), "GPU");
        assert_eq!(format_mask(parse_mask("^X")), "GPRSWBLAIOCDNHU");
        assert_eq!(format_mask(parse_mask("^U")), "GPRSWBLAXIOCDNHU");
        assert_eq!(format_mask(parse_mask("")), "U");
        assert_eq!(format_mask(parse_mask("P?7")), "PU");
    }
}
