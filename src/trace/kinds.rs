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

/// The head of a line: the letter of its category, and its name.
#[derive(Clone, Copy)]
pub struct Label<'a> {
    /// The letter.
    pub letter: char,
    /// The name.
    pub name: &'a str,
}

impl EventKind {
    /// Whether it is the second line of an operation: a handler ran, a collective is complete.
    pub fn is_echo(self) -> bool {
        self.name().starts_with("RAN_") || self.name().ends_with("_RAN") || self.name().ends_with("_DONE")
    }

    /// The head of its line.
    pub fn label(self) -> Label<'static> {
        Label {
            letter: self.category().letter(),
            name: self.name(),
        }
    }
}

impl TraceCategory {
    /// Its letter.
    pub fn letter(self) -> char {
        LETTERS[(self as u32).trailing_zeros() as usize].0
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $category:ident $name:literal;)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum EventKind { $($(#[$doc])* $kind,)* }

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
    /// Blocking get.
    Get = Get "GET";
    /// Get with an event.
    GetNb = Get "GET_NB";
    /// Get in the implicit set.
    GetNbi = Get "GET_NBI";
    /// Get of a value.
    GetVal = Get "GET_VAL";
    /// Get of a vector list.
    GetVector = Get "GET_VECTOR";
    /// Get of an indexed list.
    GetIndexed = Get "GET_INDEXED";
    /// Strided get.
    GetStrided = Get "GET_STRIDED";
    /// Blocking put.
    Put = Put "PUT";
    /// Put with an event.
    PutNb = Put "PUT_NB";
    /// Put in the implicit set.
    PutNbi = Put "PUT_NBI";
    /// Blocking put of a value.
    PutVal = Put "PUT_VAL";
    /// Put of a value with an event.
    PutNbVal = Put "PUT_NB_VAL";
    /// Put of a value in the implicit set.
    PutNbiVal = Put "PUT_NBI_VAL";
    /// Put of a vector list.
    PutVector = Put "PUT_VECTOR";
    /// Put of an indexed list.
    PutIndexed = Put "PUT_INDEXED";
    /// Strided put.
    PutStrided = Put "PUT_STRIDED";
    /// Remote atomic with an event.
    AtomicNb = Atomic "ATOMIC_NB";
    /// Remote atomic in the implicit set.
    AtomicNbi = Atomic "ATOMIC_NBI";
    /// A test that does not wait.
    Test = Sync "TEST";
    /// A wait.
    Wait = Sync "WAIT";
    /// Called a collective.
    CollStart = Collective "COLL_START";
    /// A collective is complete here.
    CollDone = Collective "COLL_DONE";
    /// Entered the GASNet-1 barrier.
    BarrierNotify = Barrier "BARRIER_NOTIFY";
    /// Waited for the GASNet-1 barrier.
    BarrierWait = Barrier "BARRIER_WAIT";
    /// Tested the GASNet-1 barrier.
    BarrierTry = Barrier "BARRIER_TRY";
    /// Entered a team's barrier.
    BarrierStart = Barrier "BARRIER_START";
    /// A team's barrier is complete here.
    BarrierDone = Barrier "BARRIER_DONE";
    /// Took a handler-safe lock.
    Lock = Lock "LOCK";
    /// Tried to take a handler-safe lock.
    TryLock = Lock "TRYLOCK";
    /// Released a handler-safe lock.
    Unlock = Lock "UNLOCK";
    /// Sent a request without payload.
    RequestShort = Message "REQUEST_SHORT";
    /// Sent a Medium request.
    RequestMedium = Message "REQUEST_MEDIUM";
    /// Sent a Long request.
    RequestLong = Message "REQUEST_LONG";
    /// Sent a reply without payload.
    ReplyShort = Message "REPLY_SHORT";
    /// Sent a Medium reply.
    ReplyMedium = Message "REPLY_MEDIUM";
    /// Sent a Long reply.
    ReplyLong = Message "REPLY_LONG";
    /// Ran the handler of a request without payload.
    RanRequestShort = Message "RAN_REQUEST_SHORT";
    /// Ran the handler of a Medium request.
    RanRequestMedium = Message "RAN_REQUEST_MEDIUM";
    /// Ran the handler of a Long request.
    RanRequestLong = Message "RAN_REQUEST_LONG";
    /// Ran the handler of a reply without payload.
    RanReplyShort = Message "RAN_REPLY_SHORT";
    /// Ran the handler of a Medium reply.
    RanReplyMedium = Message "RAN_REPLY_MEDIUM";
    /// Ran the handler of a Long reply.
    RanReplyLong = Message "RAN_REPLY_LONG";
    /// Polled. Counted only.
    Poll = Poll "POLL";
    /// A remark of the library.
    Remark = Info "REMARK";
    /// An object was created.
    Create = Object "CREATE";
    /// An object was destroyed.
    Destroy = Object "DESTROY";
    /// Sent an internal AM.
    InternalSend = Internal "INTERNAL_SEND";
    /// Handled an internal AM.
    InternalRan = Internal "INTERNAL_RAN";
    /// A note of the client.
    Note = Client "NOTE";
    /// A note of the client that no mask suppresses.
    ForcedNote = Always "NOTE_FORCED";
    /// The first line of a rank.
    Start = Always "START";
    /// The last line of a rank that exited normally.
    End = Always "END";
    /// A fatal error of this rank ends the job.
    Fatal = Always "FATAL";
    /// A line of a backtrace (`GASNET_BACKTRACE`).
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
