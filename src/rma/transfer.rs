//! Puts, gets and atomics under way on a network. A [`TransferId`] is index and generation: replies
//! of a peer are checked against both, and no local address ever travels.

use gasnet_sys::atomic::Mutex;

use crate::event::{Category, Op};
use crate::mk::MemRef;
use gasnet_conduit::{JobRank, TransferId};

#[derive(Debug)]
struct Transfer {
    generation: u32,
    op: &'static Op,
    category: Category,
    /// Rank whose reply completes it.
    peer: JobRank,
    /// Where the data of a get or the old value of an atomic goes.
    local: MemRef,
    /// Length of the whole.
    bytes: usize,
    /// Bytes not yet accounted for.
    left: usize,
    /// The source of a put is still needed.
    source_open: bool,
    /// A copy of it that the network reads from.
    copy: Vec<u8>,
    live: bool,
}

#[derive(Debug)]
struct Table {
    transfers: Vec<Transfer>,
    free: Vec<u32>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    transfers: Vec::new(),
    free: Vec::new(),
});

fn table() -> gasnet_sys::atomic::MutexGuard<'static, Table> {
    gasnet_sys::lock(&TABLE)
}

impl Table {
    fn live(&mut self, id: TransferId) -> Option<&mut Transfer> {
        let t = self.transfers.get_mut((id.0 >> 32) as usize)?;
        (t.live && t.generation == id.0 as u32).then_some(t)
    }

    fn retire(&mut self, id: TransferId) {
        let index = (id.0 >> 32) as u32;
        let t = &mut self.transfers[index as usize];
        t.live = false;
        t.copy = Vec::new();
        t.generation = t.generation.wrapping_add(1);
        self.free.push(index);
    }
}

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// Put, get or atomic.
    pub category: Category,
    /// The other side.
    pub peer: JobRank,
    /// Length of the whole.
    pub bytes: usize,
    /// Bytes not yet accounted for.
    pub left: usize,
}

/// At most `most` transfers that are under way, of `op` or of all.
pub fn open(op: Option<&'static Op>, most: usize) -> Vec<Open> {
    let table = table();
    let wanted = |t: &&Transfer| t.live && op.is_none_or(|op| std::ptr::eq(op, t.op));
    let open = table.transfers.iter().filter(wanted).take(most).map(|t| Open {
        category: t.category,
        peer: t.peer,
        bytes: t.bytes,
        left: t.left,
    });
    open.collect()
}

/// Begins a transfer of `bytes` with `peer`, counted in `op`: `category`, and for a put also local
/// completion.
pub fn begin(op: &'static Op, category: Category, peer: JobRank, local: *mut u8, bytes: usize) -> TransferId {
    begin_to(op, category, peer, MemRef::host(local), bytes)
}

/// The same, whose data may go to a device.
pub fn begin_to(op: &'static Op, category: Category, peer: JobRank, local: MemRef, bytes: usize) -> TransferId {
    op.begin(category);
    let is_put = category == Category::Put;
    if is_put {
        op.begin(Category::Local);
    }
    let mut table = table();
    let index = table.free.pop().unwrap_or(table.transfers.len() as u32);
    let generation = table.transfers.get(index as usize).map_or(0, |t| t.generation);
    let transfer = Transfer {
        generation,
        op,
        category,
        peer,
        local,
        bytes,
        left: bytes,
        source_open: is_put,
        copy: Vec::new(),
        live: true,
    };
    if (index as usize) < table.transfers.len() {
        table.transfers[index as usize] = transfer;
    } else {
        table.transfers.push(transfer);
    }
    TransferId(u64::from(index) << 32 | u64::from(generation))
}

/// Keeps a copy of a put's source until the put is complete, and returns its address.
pub fn keep(id: TransferId, copy: Vec<u8>) -> *const u8 {
    let place = copy.as_ptr();
    if let Some(t) = table().live(id) {
        t.copy = copy;
    }
    place
}

/// Removes a transfer of which nothing was sent.
pub fn cancel(id: TransferId) {
    finish(id);
}

/// The source of a put may be reused.
pub fn source_done(id: TransferId) {
    let mut table = table();
    if let Some(t) = table.live(id) {
        if std::mem::replace(&mut t.source_open, false) {
            t.op.complete(Category::Local);
        }
    }
}

/// Whether the source of a put may be reused.
pub fn source_is_free(id: TransferId) -> bool {
    table().live(id).is_none_or(|t| !t.source_open)
}

/// `bytes` more have arrived. Returns false if the peer's message is malformed.
#[must_use]
pub fn advance(id: TransferId, bytes: usize) -> bool {
    let mut table = table();
    let Some(t) = table.live(id) else { return false };
    if bytes > t.left {
        return false;
    }
    t.left -= bytes;
    if t.left == 0 {
        complete(&mut table, id);
    }
    true
}

/// Where `bytes` at `offset` of a get go; None if the peer's message is malformed.
pub fn get_destination(id: TransferId, offset: usize, bytes: usize) -> Option<MemRef> {
    let mut table = table();
    let t = table.live(id)?;
    let fits = t.category == Category::Get && offset <= t.bytes && bytes <= t.bytes - offset;
    fits.then(|| t.local.plus(offset))
}

/// Where the answer of `bytes` bytes to a remote atomic goes; None if the peer's message is
/// malformed.
pub fn fetch_destination(id: TransferId, bytes: usize) -> Option<*mut u8> {
    let mut table = table();
    let t = table.live(id)?;
    let fits = t.bytes == bytes && t.left == bytes && (bytes == 0 || t.category != Category::Put);
    fits.then_some(t.local.address as *mut u8)
}

/// The whole is complete at both ends.
pub fn finish(id: TransferId) {
    let mut table = table();
    if table.live(id).is_some() {
        complete(&mut table, id);
    }
}

fn complete(table: &mut Table, id: TransferId) {
    if let Some(t) = table.live(id) {
        let (op, category, source_open) = (t.op, t.category, t.source_open);
        table.retire(id);
        if source_open {
            op.complete(Category::Local);
        }
        op.complete(category);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::FreeList;

    #[test]
    fn parts_add_up_and_stale_names_are_refused() {
        let op = FreeList::new().take();
        let id = begin(op, Category::Put, JobRank(0), std::ptr::null_mut(), 100);
        source_done(id);
        assert!(op.event().leaf(2).is_invalid() && source_is_free(id));
        assert!(advance(id, 60) && !advance(id, 41) && !op.event().is_done());
        assert!(advance(id, 40) && op.event().is_done());
        assert!(!advance(id, 1) && get_destination(id, 0, 1).is_none());
    }

    #[test]
    fn an_answer_has_the_length_that_was_asked_for() {
        let op = FreeList::new().take();
        let mut old = 0u64;
        let id = begin(op, Category::Rmw, JobRank(0), std::ptr::from_mut(&mut old).cast(), 8);
        assert!(fetch_destination(id, 0).is_none() && fetch_destination(id, 4).is_none());
        assert_eq!(fetch_destination(id, 8), Some(std::ptr::from_mut(&mut old).cast()));
        finish(id);
        assert!(op.event().is_done() && fetch_destination(id, 8).is_none());
        let put = begin(op, Category::Put, JobRank(0), std::ptr::from_mut(&mut old).cast(), 8);
        assert!(fetch_destination(put, 8).is_none());
        finish(put);
    }

    #[test]
    fn a_get_lands_inside_only() {
        let op = FreeList::new().take();
        let mut memory = [0u8; 10];
        let id = begin(op, Category::Get, JobRank(0), memory.as_mut_ptr(), 10);
        assert_eq!(
            get_destination(id, 3, 7).map(|s| s.address),
            Some(memory.as_ptr() as usize + 3)
        );
        assert!(get_destination(id, 3, 8).is_none() && get_destination(id, 11, 0).is_none());
        finish(id);
        assert!(op.event().is_done());
    }
}
