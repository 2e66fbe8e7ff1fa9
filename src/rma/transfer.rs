//! Transfers under way of which the runtime keeps a record: those over packets, whose messages name
//! them, and operations of the network whose source was copied or that a stall report may list. All
//! others are counted in their [`Op`] only ([`super::native`]).
//!
//! Each thread uses a table of its own, so threads share no lock. A [`TransferId`] is table, index
//! and generation: replies of a peer are checked against all three, and no local address ever
//! travels.

use gasnet_sys::atomic::{Mutex, MutexGuard};
use gasnet_sys::padded::Padded;

use crate::event::{self, Op, OpKind};
use crate::mk::MemRef;
use crate::thread;
use gasnet_conduit::{Completion, Cookie, JobRank};

/// Names a transfer in messages: table (8 bits), index (24), generation (32).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferId(pub u64);

const INDEX_BITS: u32 = 24;
/// Bits of the generation in a cookie.
const COOKIE_GENERATION_BITS: u32 = 13;

impl TransferId {
    fn new(table: usize, index: u32, generation: u32) -> Self {
        Self((table as u64) << (INDEX_BITS + 32) | u64::from(index) << 32 | u64::from(generation))
    }

    fn table(self) -> usize {
        (self.0 >> (INDEX_BITS + 32)) as usize
    }

    fn index(self) -> usize {
        (self.0 >> 32) as usize & ((1 << INDEX_BITS) - 1)
    }

    /// As the network names it, with as much of the generation as fits.
    pub fn cookie(self) -> Cookie {
        let generation = self.0 & ((1 << COOKIE_GENERATION_BITS) - 1);
        event::other_cookie(self.0 >> 32 << COOKIE_GENERATION_BITS | generation)
    }
}

#[derive(Debug)]
struct Transfer {
    generation: u32,
    op: &'static Op,
    kind: OpKind,
    /// The other side.
    peer: JobRank,
    /// Destination of the data of a get, or of the old value of an atomic.
    local: MemRef,
    /// Length of the whole.
    bytes: usize,
    /// Bytes not yet accounted for.
    left: usize,
    /// A copy of a put's source that the network reads from.
    copy: Vec<u8>,
    /// Local completion is counted, and outstanding.
    source_open: bool,
    /// The whole is outstanding.
    whole_open: bool,
    live: bool,
}

#[derive(Debug)]
struct Table {
    transfers: Vec<Transfer>,
    free: Vec<u32>,
}

/// Threads beyond this number share tables.
const TABLES: usize = 64;

static ALL: [Padded<Mutex<Table>>; TABLES] = [const {
    Padded(Mutex::new(Table {
        transfers: Vec::new(),
        free: Vec::new(),
    }))
}; TABLES];

fn table(id: TransferId) -> Option<MutexGuard<'static, Table>> {
    ALL.get(id.table()).map(|table| gasnet_sys::lock(&table.0))
}

impl Table {
    fn live(&mut self, id: TransferId) -> Option<&mut Transfer> {
        let t = self.transfers.get_mut(id.index())?;
        (t.live && t.generation == id.0 as u32).then_some(t)
    }

    /// Removes a transfer; None if there is none.
    fn retire(&mut self, id: TransferId) -> Option<(&'static Op, OpKind)> {
        let t = self.live(id)?;
        t.live = false;
        t.copy = Vec::new();
        t.generation = t.generation.wrapping_add(1);
        let counted = (t.op, t.kind);
        self.free.push(id.index() as u32);
        Some(counted)
    }
}

/// A transfer under way, for a report.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Put, get or atomic.
    pub kind: OpKind,
    /// The other side.
    pub peer: JobRank,
    /// Length of the whole.
    pub bytes: usize,
    /// Bytes not yet accounted for.
    pub left: usize,
}

/// At most `most` transfers that are under way, of `op` or of all.
pub fn open(op: Option<&'static Op>, most: usize) -> Vec<Open> {
    let wanted = |t: &&Transfer| t.live && op.is_none_or(|op| std::ptr::eq(op, t.op));
    let mut all = Vec::new();
    for table in &ALL {
        let table = gasnet_sys::lock(&table.0);
        let open = table.transfers.iter().filter(wanted).map(|t| Open {
            kind: t.kind,
            peer: t.peer,
            bytes: t.bytes,
            left: t.left,
        });
        all.extend(open.take(most - all.len()));
    }
    all
}

/// Begins a transfer of `bytes` with `peer`, counted in `op`.
pub fn begin(op: &'static Op, kind: OpKind, peer: JobRank, local: MemRef, bytes: usize) -> TransferId {
    begin_among(op, kind, peer, local, bytes).0
}

/// The same. Also returns whether the thread had others under way.
pub fn begin_among(op: &'static Op, kind: OpKind, peer: JobRank, local: MemRef, bytes: usize) -> (TransferId, bool) {
    op.begin_kind(kind, peer);
    let number = thread::current().number as usize % TABLES;
    let mut table = gasnet_sys::lock(&ALL[number].0);
    let has_others = table.free.len() < table.transfers.len();
    let transfer = Transfer {
        generation: 0,
        op,
        kind,
        peer,
        local,
        bytes,
        left: bytes,
        copy: Vec::new(),
        source_open: kind.counts_local(),
        whole_open: true,
        live: true,
    };
    let Some(index) = table.free.pop() else {
        let index = table.transfers.len() as u32;
        assert!(
            index < 1 << INDEX_BITS,
            "more than {index} transfers of a thread are outstanding"
        );
        table.transfers.push(transfer);
        return (TransferId::new(number, index, 0), has_others);
    };
    let slot = &mut table.transfers[index as usize];
    let generation = slot.generation;
    *slot = Transfer { generation, ..transfer };
    (TransferId::new(number, index, generation), has_others)
}

/// Keeps a copy of a put's source until the put is complete, and returns its address.
pub fn keep(id: TransferId, copy: Vec<u8>) -> *const u8 {
    let place = copy.as_ptr();
    if let Some(t) = table(id).as_mut().and_then(|table| table.live(id)) {
        t.copy = copy;
    }
    place
}

/// `bytes` more of a put have arrived, says `from`. Returns false if the message is malformed.
#[must_use]
pub fn put_arrived(id: TransferId, from: JobRank, bytes: usize) -> bool {
    advance(id, from, bytes, |kind| !matches!(kind, OpKind::Get | OpKind::Rmw))
}

/// `bytes` more of a get have come from `from`. Returns false if the message is malformed.
#[must_use]
pub fn get_arrived(id: TransferId, from: JobRank, bytes: usize) -> bool {
    advance(id, from, bytes, |kind| kind == OpKind::Get)
}

fn advance(id: TransferId, from: JobRank, bytes: usize, is_of: impl Fn(OpKind) -> bool) -> bool {
    let Some(mut table) = table(id) else { return false };
    let Some(t) = table.live(id) else { return false };
    if t.peer != from || !is_of(t.kind) || bytes > t.left {
        return false;
    }
    t.left -= bytes;
    if t.left == 0 {
        let counted = table.retire(id);
        drop(table);
        complete(counted);
    }
    true
}

/// Destination of `bytes` at `offset` of a get from `from`; None if its message is malformed.
pub fn get_destination(id: TransferId, from: JobRank, offset: usize, bytes: usize) -> Option<MemRef> {
    let mut table = table(id)?;
    let t = table.live(id)?;
    let fits = t.kind == OpKind::Get && t.peer == from && offset <= t.bytes && bytes <= t.bytes - offset;
    fits.then(|| t.local.plus(offset))
}

/// The destination of the answer of `bytes` bytes by `from` to a remote atomic: memory of the host,
/// at any alignment, because a get may have that name. None if the message is malformed.
pub fn fetch_destination(id: TransferId, from: JobRank, bytes: usize) -> Option<*mut u8> {
    let mut table = table(id)?;
    let t = table.live(id)?;
    let is_of_host = bytes == 0 || t.kind != OpKind::Put && t.local.kind.is_none();
    let fits = t.peer == from && t.bytes == bytes && t.left == bytes && is_of_host;
    fits.then_some(t.local.address as *mut u8)
}

/// The whole is complete at both ends, or nothing of it was sent.
pub fn finish(id: TransferId) {
    let counted = table(id).and_then(|mut table| table.retire(id));
    complete(counted);
}

/// A part of the transfer with the number of a [`TransferId::cookie`] is complete. With several
/// polling threads remote completion may be seen before local completion, which keeps the record.
pub fn complete_numbered(number: u64, part: Completion) {
    let anyone = TransferId(number >> COOKIE_GENERATION_BITS << 32);
    let Some(mut table) = table(anyone) else { return };
    let mask = (1 << COOKIE_GENERATION_BITS) - 1;
    let Some(t) = table.transfers.get_mut(anyone.index()).filter(|t| t.live) else {
        return;
    };
    if (u64::from(t.generation) ^ number) & mask != 0 {
        return;
    }
    let of_source = part != Completion::Remote && std::mem::take(&mut t.source_open);
    let of_whole = part != Completion::Source && std::mem::take(&mut t.whole_open);
    let (op, kind, id) = (t.op, t.kind, TransferId(anyone.0 | u64::from(t.generation)));
    if !t.source_open && !t.whole_open {
        table.retire(id);
    }
    drop(table);
    match (of_source, of_whole) {
        (true, true) => op.complete_part(kind, Completion::Both),
        (true, false) => op.complete_part(kind, Completion::Source),
        (false, true) => op.complete_part(kind, Completion::Remote),
        (false, false) => {}
    }
}

fn complete(counted: Option<(&'static Op, OpKind)>) {
    if let Some((op, kind)) = counted {
        op.complete_part(kind, Completion::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FreeList;

    fn nowhere() -> MemRef {
        MemRef::host(std::ptr::null())
    }

    #[test]
    fn parts_add_up_and_stale_names_are_refused() {
        let op = FreeList::new().take();
        let from = JobRank(0);
        let id = begin(op, OpKind::Put, from, nowhere(), 100);
        assert!(op.event().leaf(2).is_invalid());
        assert!(put_arrived(id, from, 60) && !put_arrived(id, from, 41) && !op.event().is_done());
        assert!(!put_arrived(id, JobRank(1), 40) && !get_arrived(id, from, 40) && !op.event().is_done());
        assert!(put_arrived(id, from, 40) && op.event().is_done());
        assert!(!put_arrived(id, from, 1) && get_destination(id, from, 0, 1).is_none());
        assert!(!put_arrived(TransferId(u64::MAX), from, 1));
    }

    #[test]
    fn an_answer_has_the_length_that_was_asked_for() {
        let op = FreeList::new().take();
        let mut old = 0u64;
        let at = std::ptr::from_mut(&mut old).cast::<u8>();
        let id = begin(op, OpKind::Rmw, JobRank(0), MemRef::host(at), 8);
        let from = JobRank(0);
        assert!(fetch_destination(id, from, 0).is_none() && fetch_destination(id, from, 4).is_none());
        assert!(fetch_destination(id, JobRank(1), 8).is_none());
        assert_eq!(fetch_destination(id, from, 8), Some(at));
        finish(id);
        assert!(op.event().is_done() && fetch_destination(id, from, 8).is_none());
        let put = begin(op, OpKind::Put, JobRank(0), MemRef::host(at), 8);
        assert!(fetch_destination(put, from, 8).is_none());
        finish(put);
        // A get into a device is answered with data only.
        let kind = Some(crate::mk::tests::kind(0, false));
        let get = begin(op, OpKind::Get, from, MemRef { kind, address: 8 }, 8);
        assert!(fetch_destination(get, from, 8).is_none() && get_destination(get, from, 0, 8).is_some());
        finish(get);
    }

    #[test]
    fn a_get_lands_inside_only() {
        let op = FreeList::new().take();
        let mut memory = [0u8; 10];
        let id = begin(op, OpKind::Get, JobRank(0), MemRef::host(memory.as_mut_ptr()), 10);
        assert_eq!(
            get_destination(id, JobRank(0), 3, 7).map(|s| s.address),
            Some(memory.as_ptr() as usize + 3)
        );
        let [inside, outside] = [JobRank(0), JobRank(1)].map(|from| get_destination(id, from, 3, 7));
        assert!(inside.is_some() && outside.is_none());
        let none = [(3, 8), (11, 0)].map(|(offset, bytes)| get_destination(id, JobRank(0), offset, bytes));
        assert!(none.iter().all(Option::is_none) && !put_arrived(id, JobRank(0), 10));
        finish(id);
        assert!(op.event().is_done());
    }

    #[test]
    fn a_recorded_operation_of_the_network_completes_in_parts() {
        let op = FreeList::new().take();
        let id = begin(op, OpKind::PutNow, JobRank(3), nowhere(), 100);
        assert_eq!(open(Some(op), 9).len(), 1);
        let number = event::complete(id.cookie(), Completion::Source).unwrap();
        complete_numbered(number, Completion::Source);
        assert!(op.source_is_free() && !op.event().is_done());
        complete_numbered(number, Completion::Remote);
        assert!(op.event().is_done() && open(Some(op), 9).is_empty());
    }

    #[test]
    fn parts_of_a_recorded_operation_may_be_seen_in_any_order_and_late() {
        use Completion::{Both, Remote, Source};
        for kind in [OpKind::Put, OpKind::PutWithLocal, OpKind::PutNow] {
            for parts in [[Source, Remote], [Remote, Source]] {
                let op = FreeList::new().take();
                let id = begin(op, kind, JobRank(3), nowhere(), 100);
                let number = event::complete(id.cookie(), Both).unwrap();
                let counts_both = kind != OpKind::Put;
                complete_numbered(number, parts[0]);
                assert_eq!(
                    op.event().is_done(),
                    !counts_both && parts[0] == Remote,
                    "{kind:?} {parts:?}"
                );
                complete_numbered(number, parts[1]);
                assert!(
                    op.event().is_done() && open(Some(op), 9).is_empty(),
                    "{kind:?} {parts:?}"
                );
                // The record may be another operation's by now.
                let next = begin(op, kind, JobRank(3), nowhere(), 100);
                for part in [Source, Remote, Both] {
                    complete_numbered(number, part);
                }
                assert!(!op.event().is_done());
                finish(next);
            }
        }
    }
}
