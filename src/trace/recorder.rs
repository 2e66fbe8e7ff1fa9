//! Recordings (`GASNET_RECORD`): the calls of this rank as records of 16 bytes in a mapped file,
//! for `gasnet_replay`. `docs/recording.md` describes the file.
//!
//! Threads claim blocks of one ring, and write to them without atomic instructions. A message is
//! recorded before it is sent, the run of a handler at its end, a put, get or atomic when its call
//! returns. Whatever has an earlier time than a message happened before it was sent, so a replay
//! that waits for it comes to an end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use super::kinds::EventKind;
use super::sink;
use crate::flags::Flags;
use gasnet_conduit::config::{self, Config, RecordPayload};
use gasnet_conduit::JobRank;
use gasnet_job::Job;
use gasnet_sys::atomic::Mutex;
use gasnet_sys::mem;
use gasnet_tools::{bytes, timer};

const MAGIC: &[u8; 8] = b"GASNETRC";
const VERSION: u32 = 2;
/// Bytes of the header, and of a record.
const HEADER: usize = 4096;
const RECORD: usize = 16;

/// Bytes of the smallest page, and pages that are written to before the client's calls: 16 MB.
const PAGE: usize = 4096;
const TOUCHED: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;

/// Words of the header that change while the job runs.
const WRITTEN: usize = 5;
const SEGMENT: usize = 6;
const ENDED: usize = 11;
/// Table of handlers: 2 bytes for each index.
const HANDLERS: usize = 64;
/// Byte offset and length of the program's name.
const PROGRAM: usize = 128;
const PROGRAM_BYTES: usize = 256;

/// Kinds of records that belong to the next record: its contents and their checksum; its time; the
/// upper halves of its numbers. Other kinds are the number of the [`EventKind`] plus 1.
const CONTENTS: u8 = 252;
const CHECKSUM: u8 = 253;
const TIME: u8 = 254;
const WIDE: u8 = 255;
/// A record and those that belong to it, but for its contents.
const MOST_TOGETHER: u64 = 6;
/// Bytes of contents in a record.
const PIECE: usize = 12;
/// Records of a block. A file of the least size has four blocks.
const BLOCK: u64 = 64;
/// Thread number of all threads after the first 255.
const OTHER_THREADS: u32 = 255;
/// Unit of times: fine enough to order a message and the run that it causes in another rank.
const UNIT_NS: u64 = 16;
/// Longest time from a thread's last record to its next one that has none of its own.
const MOST_GAP: u64 = u16::MAX as u64;
const SCALE_BITS: u32 = 40;
/// A call without peer.
const NO_PEER: u16 = u16::MAX;

/// Bits of [`Call::flags`] above the number of arguments.
pub const IMMEDIATE: u8 = 1 << 5;
/// The address is not in the segment of the target, and the offset is 0.
pub const OUTSIDE: u8 = 1 << 6;

/// Parts of the names of collectives, by [`Call::code`]. Others have the last number.
const COLLECTIVES: [&str; 4] = ["arrier", "roadcast", "ReduceToOne", "ReduceToAll"];

/// [`Call::code`] of events in [`EventKind::Wait`] and [`EventKind::Test`].
pub const WHAT: [&str; 4] = ["event", "some", "all", "implicit"];

/// A call, or the run of a handler.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Its kind.
    pub kind: EventKind,
    /// Index of the handler, number of the operation, what is waited for, or of a collective
    /// ([`COLLECTIVES`]).
    pub code: u8,
    /// Number of arguments, and bits.
    pub flags: u8,
    /// The other rank.
    pub peer: Option<JobRank>,
    /// Length of the payload; the number of a barrier, or of a collective below its length; the
    /// rank of a team's member.
    pub bytes: u64,
    /// Offset in the segment of the target, or the id of a team.
    pub offset: u64,
}

impl Call {
    /// A call without a peer.
    pub fn new(kind: EventKind) -> Self {
        Self {
            kind,
            code: 0,
            flags: 0,
            peer: None,
            bytes: 0,
            offset: 0,
        }
    }

    /// Adds the peer and the length of the payload.
    #[must_use]
    pub fn to(self, peer: JobRank, bytes: usize) -> Self {
        Self {
            peer: Some(peer),
            bytes: bytes as u64,
            ..self
        }
    }

    /// Adds the offset; none if the address is outside the segment.
    #[must_use]
    pub fn at(self, offset: Option<u64>) -> Self {
        Self {
            flags: self.flags | if offset.is_none() { OUTSIDE } else { 0 },
            offset: offset.unwrap_or(0),
            ..self
        }
    }
}

#[derive(Debug)]
struct Recording {
    words: &'static [AtomicU64],
    /// Records in the ring, a power of two.
    capacity: u64,
    /// Ticks at the start.
    began: u64,
    /// Units of time in 2 to the power of `SCALE_BITS` ticks.
    scale: u64,
    payload: RecordPayload,
    file: File,
}

static RECORDING: OnceLock<Recording> = OnceLock::new();
static THREADS: AtomicU32 = AtomicU32::new(0);
/// Barriers of GASNet-1 that this rank has entered, and has left.
static BARRIERS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// Collectives that this rank has begun, by team.
static COLLECTIVES_OF: Mutex<BTreeMap<u64, u32>> = Mutex::new(BTreeMap::new());

/// State of a thread.
struct Thread {
    number: Cell<u32>,
    /// Number of its next record. 0: it has no block; a multiple of `BLOCK`: its block is full.
    next: Cell<u64>,
    /// Time of its last record.
    last: Cell<u64>,
    /// Polls since that record.
    polls: Cell<u32>,
}

impl Thread {
    const fn new() -> Self {
        Self {
            number: Cell::new(0),
            next: Cell::new(0),
            last: Cell::new(0),
            polls: Cell::new(0),
        }
    }
}

thread_local! {
    static MINE: Thread = const { Thread::new() };
}

/// Opens the file of this rank, if the configuration names one. Collective. The error is a message,
/// empty if another rank prints it.
pub fn start(config: &Config, job: &Job, conduit: &str, mode: &str) -> Result<(), String> {
    let Some(pattern) = config.get(&config::RECORD).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let opened = open(&pattern, config, job, conduit, mode);
    let failed = job.exchange(&[u8::from(opened.is_err())]);
    if let Some(first) = failed.iter().position(|&failed| failed != 0) {
        let is_first = first == job.rank() as usize;
        return Err(opened.err().filter(|_| is_first).unwrap_or_default());
    }
    let _ = opened.map(|recording| RECORDING.set(recording));
    Ok(())
}

fn open(pattern: &str, config: &Config, job: &Job, conduit: &str, mode: &str) -> Result<Recording, String> {
    if job.size() > 1 && sink::is_shared(pattern) {
        return Err(format!(
            "GASNET_RECORD={pattern}: ranks cannot share a file. Put % in the name, which stands for the rank."
        ));
    }
    if job.size() > u32::from(NO_PEER) {
        return Err(format!("GASNET_RECORD: a recording has at most {NO_PEER} ranks"));
    }
    let name = sink::file_name(pattern, JobRank(job.rank()));
    let capacity = 1_u64 << (config.get(&config::RECORD_SIZE) / RECORD as u64).ilog2();
    let create = || {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&name)?;
        let words = mem::file_words(&file, HEADER + capacity as usize * RECORD)
            .inspect_err(|_| drop(std::fs::remove_file(&name)))?;
        file.write_all_at(&header(job, capacity, conduit, mode), 0)?;
        // The first write to a page takes microseconds: now, not in the client's calls.
        for word in words
            .iter()
            .step_by(PAGE / size_of::<u64>())
            .skip(HEADER / PAGE)
            .take(TOUCHED)
        {
            word.store(0, Ordering::Relaxed);
        }
        Ok(Recording {
            words,
            capacity,
            began: timer::now(),
            scale: timer::to_ns(1 << SCALE_BITS) / UNIT_NS,
            payload: config.get(&config::RECORD_PAYLOAD),
            file,
        })
    };
    create().map_err(|why: std::io::Error| {
        format!(
            "GASNET_RECORD={pattern}: cannot create {name} with {} bytes: {why}. Name a file in a writable directory \
             with enough space, or lower GASNET_RECORD_SIZE.",
            HEADER + capacity as usize * RECORD
        )
    })
}

fn header(job: &Job, capacity: u64, conduit: &str, mode: &str) -> Vec<u8> {
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_nanos() as u64);
    let mut bytes = MAGIC.to_vec();
    for number in [VERSION, HEADER as u32, RECORD as u32, 0, job.rank(), job.size()] {
        bytes.extend(number.to_ne_bytes());
    }
    for number in [capacity, 0, 0, wall] {
        bytes.extend(number.to_ne_bytes());
    }
    for (text, place) in [(conduit, 16), (mode, 8)] {
        let text = text.to_ascii_lowercase();
        bytes.extend(text.bytes().chain(std::iter::repeat(0)).take(place));
    }
    bytes.resize(PROGRAM, 0);
    let program = gasnet_tools::system::exe_name_c().to_bytes();
    bytes.extend(program.iter().take(PROGRAM_BYTES - 1));
    bytes.resize(HEADER, 0);
    bytes
}

/// Whether calls are recorded.
pub fn is_on() -> bool {
    RECORDING.get().is_some()
}

/// Whether calls are recorded with a checksum of their contents.
pub fn wants_payload() -> bool {
    RECORDING.get().is_some_and(|r| r.payload != RecordPayload::None)
}

/// Records a call.
#[inline]
pub fn write(call: &Call) {
    if let Some(recording) = RECORDING.get() {
        MINE.with(|mine| recording.write(mine, call, None));
    }
}

/// Records a call with its arguments and payload, if they are given.
pub fn write_with(call: &Call, contents: Option<&[u8]>) {
    let (Some(recording), Some(contents)) = (RECORDING.get(), contents) else {
        return write(call);
    };
    MINE.with(|mine| {
        if recording.payload == RecordPayload::All {
            recording.write_contents(mine, contents);
        }
        recording.write(mine, call, Some(bytes::checksum(contents)));
    });
}

/// Counts a poll, or a test of what was not complete.
pub fn count_poll() {
    if is_on() {
        MINE.with(|mine| mine.polls.set(mine.polls.get().saturating_add(1)));
    }
}

/// Records that this rank enters or has left a barrier of GASNet-1.
pub fn barrier(kind: EventKind) {
    if is_on() {
        let number = 1 + BARRIERS[usize::from(kind == EventKind::BarrierWait)].fetch_add(1, Ordering::Relaxed);
        write(&Call {
            bytes: u64::from(number),
            ..Call::new(kind)
        });
    }
}

/// Records that a collective of a team begins, and returns the record, for its end.
pub fn collective(kind: EventKind, name: &str, team: u64, root: Option<JobRank>, bytes: usize) -> Call {
    let mut all = gasnet_sys::lock(&COLLECTIVES_OF);
    let number = all.entry(team).or_default();
    *number += 1;
    let code = COLLECTIVES.iter().position(|part| name.contains(part));
    let call = Call {
        code: code.unwrap_or(COLLECTIVES.len()) as u8,
        peer: root,
        bytes: u64::from(*number) | (bytes as u64).min(u64::from(u32::MAX)) << 32,
        offset: team,
        ..Call::new(kind)
    };
    // Within the lock: in the order of numbers.
    write(&call);
    call
}

/// Records the members of a team, one by one.
pub fn team(id: u64, members: impl Iterator<Item = JobRank>) {
    for (rank, member) in (0..).zip(members) {
        write(&Call {
            peer: Some(member),
            bytes: rank,
            offset: id,
            ..Call::new(EventKind::Create)
        });
    }
}

/// Notes a handler in the header: the bits of its flags, and the number of its arguments.
pub fn handler(index: u8, flags: Flags, nargs: u32) {
    if let Some(recording) = RECORDING.get() {
        let entry = u64::from(flags.bits() & 0xff) | u64::from(nargs & 0xff) << 8;
        let (word, shift) = (HANDLERS + usize::from(index) / 4, 16 * (index % 4));
        recording.words[word].fetch_or(entry << shift, Ordering::Relaxed);
    }
}

/// Notes the size of the client's segment.
pub fn segment(bytes: usize) {
    if let Some(recording) = RECORDING.get() {
        recording.words[SEGMENT].store(bytes as u64, Ordering::Relaxed);
    }
}

/// Completes the file of an ending rank, and frees the part that no record was written to.
pub fn stop() {
    if let Some(recording) = RECORDING.get() {
        let used = HEADER as u64 + recording.words[WRITTEN].load(Ordering::Relaxed) * RECORD as u64;
        recording.words[ENDED].store(1, Ordering::Relaxed);
        // Some file systems cannot; the zeros then stay.
        let _ = mem::free_from(&recording.file, used);
    }
}

impl Recording {
    #[inline]
    fn write(&self, mine: &Thread, call: &Call, checksum: Option<u64>) {
        let ticks = timer::now().saturating_sub(self.began);
        let time = ((u128::from(ticks) * u128::from(self.scale)) >> SCALE_BITS) as u64;
        let time = time.max(mine.last.get());
        let gap = time - mine.last.replace(time);
        let is_wide = (call.bytes | call.offset) >> 32 != 0;
        if gap > MOST_GAP || mine.polls.get() > 0 || is_wide || checksum.is_some() || !self.has_room(mine, 1) {
            return self.write_with_others(mine, call, gap, checksum);
        }
        self.store(mine, record(mine, call, gap));
    }

    /// Whether the block of a thread has room for so many records, and is still its own: others may
    /// have used up the ring since.
    #[inline]
    fn has_room(&self, mine: &Thread, records: u64) -> bool {
        let next = mine.next.get();
        let written = self.words[WRITTEN].load(Ordering::Relaxed);
        next % BLOCK != 0 && next % BLOCK <= BLOCK - records && written.wrapping_sub(next) <= self.capacity
    }

    /// Writes contents, to several blocks if they are long.
    fn write_contents(&self, mine: &Thread, contents: &[u8]) {
        for piece in contents.chunks(PIECE) {
            if !self.has_room(mine, 1) {
                self.claim(mine, mine.last.get());
            }
            let byte = |i: usize| piece.get(i).map_or(0, |&byte| u64::from(byte));
            let word = |bytes: Range<usize>| bytes.rev().fold(0, |word, i| word << 8 | byte(i));
            let head = u64::from(CONTENTS) | (piece.len() as u64) << 8 | u64::from(mine.number.get()) << 24;
            self.store(mine, [head | word(0..4) << 32, word(4..PIECE)]);
        }
    }

    /// Writes a record behind those that belong to it, all to one block.
    #[cold]
    #[inline(never)]
    fn write_with_others(&self, mine: &Thread, call: &Call, gap: u64, checksum: Option<u64>) {
        if !self.has_room(mine, MOST_TOGETHER) {
            self.claim(mine, mine.last.get() - gap);
        }
        let is_late = gap > MOST_GAP;
        let polls = mine.polls.replace(0);
        let (bytes, offset) = (call.bytes >> 32, call.offset >> 32);
        let head = |kind| head(mine, kind);
        let others = [
            is_late.then(|| [head(TIME), mine.last.get()]),
            (polls > 0).then(|| [head(EventKind::Poll as u8 + 1), u64::from(polls)]),
            (bytes | offset != 0).then(|| [head(WIDE), bytes | offset << 32]),
            checksum.map(|sum| [head(CHECKSUM), sum]),
        ];
        let last = record(mine, call, if is_late { 0 } else { gap });
        for record in others.into_iter().flatten().chain([last]) {
            self.store(mine, record);
        }
    }

    /// Gives a thread the next block of the ring, and the thread a number if that is its first one.
    /// `time`: of the thread's last record.
    fn claim(&self, mine: &Thread, time: u64) {
        if mine.next.get() == 0 {
            mine.number
                .set(THREADS.fetch_add(1, Ordering::Relaxed).min(OTHER_THREADS));
        }
        let first = self.words[WRITTEN].fetch_add(BLOCK, Ordering::Relaxed);
        for number in first..first + BLOCK {
            // A reader takes a record whose kind is 0 for one that was not written.
            self.words[self.place(number)].store(0, Ordering::Relaxed);
        }
        mine.next.set(first);
        // A reader learns from it up to when records of a thread have been replaced.
        self.store(mine, [head(mine, TIME), time]);
        self.prefetch(first + BLOCK);
    }

    /// Requests the cache lines of a block. A miss takes longer than all records of its line.
    fn prefetch(&self, first: u64) {
        for number in (first..first + BLOCK).step_by(LINE / RECORD) {
            mem::prefetch(&self.words[self.place(number)]);
        }
    }

    /// Index of the first word of a record.
    #[inline]
    fn place(&self, number: u64) -> usize {
        HEADER / 8 + 2 * (number & (self.capacity - 1)) as usize
    }

    #[inline]
    fn store(&self, mine: &Thread, record: [u64; 2]) {
        let number = mine.next.get();
        let at = self.place(number);
        mine.next.set(number + 1);
        self.words[at + 1].store(record[1], Ordering::Relaxed);
        self.words[at].store(record[0], Ordering::Release);
    }
}

/// First half of a record that belongs to another one.
fn head(mine: &Thread, kind: u8) -> u64 {
    u64::from(kind) | u64::from(mine.number.get()) << 24 | u64::from(NO_PEER) << 32
}

/// The record of a call, so long after the last one of its thread.
#[inline]
fn record(mine: &Thread, call: &Call, gap: u64) -> [u64; 2] {
    let peer = call.peer.map_or(NO_PEER, |rank| rank.0 as u16);
    [
        u64::from(call.kind as u8 + 1)
            | u64::from(call.code) << 8
            | u64::from(call.flags) << 16
            | u64::from(mine.number.get()) << 24
            | u64::from(peer) << 32
            | gap << 48,
        call.bytes & 0xffff_ffff | call.offset << 32,
    ]
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KINDS;
    use super::*;

    #[test]
    fn kinds_have_the_numbers_of_the_page() {
        let page = include_str!("../../docs/recording.md");
        let table = page.split("| kinds | names |").nth(1).unwrap();
        let mut count = 0;
        for row in table.lines() {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            let (Some(numbers), Some(names)) = (cells.get(1), cells.get(2)) else {
                continue;
            };
            let first: usize = numbers.split('–').next().unwrap().parse().unwrap_or(0);
            // The names are every second part between back quotes.
            let names = names.split('`').skip(1).step_by(2);
            for (number, name) in (first..).zip(names).filter(|_| (1..=KINDS.len()).contains(&first)) {
                assert_eq!(KINDS[number - 1].name(), name, "{number}");
                count += 1;
            }
        }
        assert_eq!(count, 7 + 9 + 2 + 2 + 2 + 2 + 2 + 6 + 6 + 1 + 1);
    }

    /// A ring of two blocks, in which a tick is a unit of time.
    fn ring(began: u64) -> Recording {
        let capacity = 2 * BLOCK;
        let words: Vec<_> = (0..HEADER / 8 + 2 * capacity as usize)
            .map(|_| AtomicU64::new(0))
            .collect();
        Recording {
            words: Box::leak(words.into()),
            capacity,
            began,
            scale: 1 << SCALE_BITS,
            payload: RecordPayload::All,
            file: File::open("/dev/null").unwrap(),
        }
    }

    fn at(ring: &Recording, number: u64) -> [u64; 2] {
        [0, 1].map(|half| ring.words[ring.place(number) + half].load(Ordering::Relaxed))
    }

    fn kinds<const COUNT: usize>(ring: &Recording, first: u64) -> [u8; COUNT] {
        std::array::from_fn(|i| at(ring, first + i as u64)[0] as u8)
    }

    #[test]
    fn a_record_has_all_fields() {
        let (ring, thread) = (ring(timer::now()), Thread::new());
        let call = Call {
            code: 130,
            flags: 2 | IMMEDIATE,
            offset: 5,
            ..Call::new(EventKind::RequestLong).to(JobRank(3), 4)
        };
        thread.last.set(1 << 60);
        ring.write(&thread, &call, None);
        thread.number.set(7);
        ring.write(&thread, &call, None);
        assert_eq!(
            at(&ring, 2),
            [0x21 | 130 << 8 | 34 << 16 | 7 << 24 | 3 << 32, 4 | 5 << 32],
            "time does not go back"
        );
        assert_eq!(kinds(&ring, 0), [TIME, EventKind::RequestLong as u8 + 1]);
    }

    #[test]
    fn threads_write_to_blocks_of_their_own_and_replace_the_oldest() {
        let (ring, threads) = (ring(timer::now()), [Thread::new(), Thread::new()]);
        let put = Call::new(EventKind::Put);
        let kind = EventKind::Put as u8 + 1;
        for thread in &threads {
            thread.last.set(u64::MAX);
        }
        ring.write(&threads[0], &put, None);
        for _ in 0..BLOCK {
            ring.write(&threads[1], &put, None);
        }
        assert_ne!(threads[0].number, threads[1].number);
        assert_eq!(kinds(&ring, BLOCK - 1), [0, TIME, kind]);
        assert_eq!(kinds(&ring, 2 * BLOCK), [TIME, kind, 0], "the third block is emptied");
        ring.write(&threads[0], &put, None);
        assert_eq!(kinds(&ring, 3 * BLOCK), [TIME, kind, 0], "a replaced block is left");
        assert_eq!(ring.words[WRITTEN].load(Ordering::Relaxed), 4 * BLOCK);
    }

    #[test]
    fn what_a_record_cannot_hold_precedes_it_in_its_block() {
        let (ring, thread) = (ring(0), Thread::new());
        for _ in 0..=BLOCK - MOST_TOGETHER {
            thread.last.set(u64::MAX);
            ring.write(&thread, &Call::new(EventKind::Put), None);
        }
        thread.last.set(8);
        thread.polls.set(9);
        let call = Call {
            bytes: 6 << 32 | 1,
            offset: 7 << 32 | 2,
            ..Call::new(EventKind::Put)
        };
        ring.write(&thread, &call, Some(77));
        assert_eq!(
            kinds(&ring, BLOCK - 5),
            [EventKind::Put as u8 + 1, 0, 0, 0, 0, TIME, TIME]
        );
        assert_eq!(
            kinds(&ring, BLOCK + 2),
            [EventKind::Poll as u8 + 1, WIDE, CHECKSUM, EventKind::Put as u8 + 1]
        );
        let body = |i: u64| at(&ring, BLOCK + i)[1];
        assert!(body(0) == 8 && body(1) > MOST_GAP && at(&ring, BLOCK + 5)[0] >> 48 == 0);
        assert_eq!([2, 3, 4, 5].map(body), [9, 6 | 7 << 32, 77, 1 | 2 << 32]);
        assert_eq!(thread.polls.get(), 0);
    }

    #[test]
    fn contents_may_need_several_blocks() {
        let (ring, thread) = (ring(timer::now()), Thread::new());
        thread.last.set(9);
        let contents: Vec<_> = (0..PIECE * BLOCK as usize + 5).map(|i| i as u8).collect();
        ring.write_contents(&thread, &contents);
        let mut found: Vec<u8> = Vec::new();
        for number in 0..thread.next.get() {
            let record = at(&ring, number);
            if number % BLOCK == 0 {
                assert_eq!((record[0] as u8, record[1]), (TIME, 9));
            } else {
                assert_eq!(record[0] as u8, CONTENTS);
                let bytes = record.map(u64::to_le_bytes).concat();
                found.extend(&bytes[4..4 + usize::from(bytes[1])]);
            }
        }
        assert_eq!(found, contents);
        assert_eq!(thread.next.get(), BLOCK + 3, "a block has a time and 63 pieces");
    }
}
