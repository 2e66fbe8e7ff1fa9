//! Data transfer through collective buffers: some members publish chunks, others read them.

use super::{Chunk, PshmCall, Readers};
use crate::coll::choose::is_direct;
use crate::coll::p2p::Span;
use crate::{runtime, wait};

/// Chunks that a member publishes before it reads its first. Less than the number of slots, so that
/// the slowest member always has room.
const AHEAD: usize = 3;

/// Data that a member publishes.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The data.
    pub data: Span,
    /// The data does not change until the collective is complete on this member.
    pub stable: bool,
    /// Its readers.
    pub readers: Readers,
}

impl Source {
    /// Data that does not change.
    pub const fn stable(data: Span, readers: Readers) -> Self {
        let stable = true;
        Self { data, stable, readers }
    }
}

/// Data that other members publish, from the view of one reader.
#[derive(Debug)]
pub struct Reader {
    pshm_call: PshmCall,
    /// Members to read from.
    from: Vec<usize>,
    /// For each member, the local address of its data if that is read in place, else 0. Empty until
    /// resolved.
    direct: Vec<usize>,
}

impl Reader {
    /// Reads from the members in `from`.
    pub fn new(pshm_call: PshmCall, from: Vec<usize>) -> Self {
        Self {
            pshm_call,
            from,
            direct: Vec::new(),
        }
    }

    /// Waits until all members to read from have published `chunk`.
    pub async fn wait(&mut self, chunk: Chunk) {
        self.resolve_direct().await;
        for &member in &self.from {
            if !self.is_direct(member) {
                self.pshm_call.wait_published(member, chunk.seq).await;
            }
        }
    }

    /// Waits until all members to read from have published where their data is. Must run before
    /// this member retires the first sequence number.
    async fn resolve_direct(&mut self) {
        if !self.pshm_call.is_long() || !self.direct.is_empty() {
            return;
        }
        let mut direct = vec![0; self.pshm_call.team.count()];
        for &member in &self.from {
            self.pshm_call.wait_published(member, self.pshm_call.start).await;
            direct[member] = self.pshm_call.read_address(member);
        }
        self.direct = direct;
    }

    /// Whether all members publish every chunk, and this reader reads all of them.
    fn is_all(&self) -> bool {
        self.from.len() == self.pshm_call.team.count() && self.direct.iter().all(|&base| base == 0)
    }

    fn is_direct(&self, member: usize) -> bool {
        self.direct.get(member).is_some_and(|&base| base != 0)
    }

    /// The bytes that `member` published of `chunk`, after [`Reader::wait`].
    pub fn of(&self, member: usize, chunk: Chunk) -> Span {
        if self.is_direct(member) {
            let at = (self.direct[member] + chunk.offset) as *mut u8;
            return Span { at, bytes: chunk.bytes };
        }
        self.pshm_call.slot(member, chunk.seq, chunk.bytes)
    }
}

/// A member that publishes its data, in chunks or in place.
#[derive(Debug)]
pub struct Publisher {
    pshm_call: PshmCall,
    source: Source,
    /// All members publish, and all wait for all.
    all_publish: bool,
    direct: bool,
}

impl Publisher {
    /// Publishes `source`; `all_publish` as in the field.
    pub const fn new(pshm_call: PshmCall, source: Source, all_publish: bool) -> Self {
        Self {
            pshm_call,
            source,
            all_publish,
            direct: false,
        }
    }

    /// Publishes `chunk`.
    pub async fn publish_chunk(&mut self, chunk: Chunk) {
        if self.direct {
            return;
        }
        let (pshm_call, data) = (self.pshm_call, self.source.data);
        let slot = pshm_call.wait_room(chunk.seq, chunk.bytes).await;
        if pshm_call.is_long() && chunk.offset == 0 {
            let wanted = self.source.stable && is_direct(pshm_call.bytes, wait::is_oversubscribed());
            self.direct = wanted && runtime::get().neighbours_map(data.at, data.bytes);
            pshm_call.publish_address(if self.direct { data.at as usize } else { 0 });
        }
        if !self.direct {
            slot.copy_from(data.part(chunk.offset, chunk.bytes));
        }
        if self.all_publish && chunk.offset == 0 {
            pshm_call.publish_to_all(chunk.seq);
        } else {
            pshm_call.publish(chunk.seq, self.source.readers);
        }
    }

    /// Waits until the readers of data in place have finished.
    pub async fn wait_readers(self) {
        if !self.direct {
            return;
        }
        match self.source.readers {
            Readers::One(reader) => self.pshm_call.wait_retired(reader).await,
            Readers::All => {
                for member in (0..self.pshm_call.team.count()).filter(|&member| member != self.pshm_call.team.me()) {
                    self.pshm_call.wait_retired(member).await;
                }
            }
        }
    }
}

impl PshmCall {
    /// Publishes the address of the own data, or 0 if it is staged. There must be room for the
    /// first sequence number.
    pub(super) fn publish_address(self, address: usize) {
        let (buffer, slot) = self.team.buffers().slot_of(self.team.me(), self.start);
        let word = buffer.inline_slot(slot).cast::<usize>();
        // SAFETY: an inline slot is aligned and longer than a word; there is room, so no member
        // reads it now.
        unsafe { word.write(address) };
    }

    /// Address here of the data of `member`, or 0 if it is staged. The member has published
    /// the first sequence number, and this one has not retired it.
    fn read_address(self, member: usize) -> usize {
        let (buffer, slot) = self.team.buffers().slot_of(member, self.start);
        let word = buffer.inline_slot(slot).cast::<usize>();
        // SAFETY: an inline slot is aligned and longer than a word; its owner does not write it
        // until we have retired it.
        match unsafe { word.read() } {
            0 => 0,
            address => {
                let rt = runtime::get();
                let rank = rt.nbrhd_rank(self.team.nbrhd_index(member));
                rt.map_neighbour(rank, address, self.bytes) as usize
            }
        }
    }

    /// Publishes `source`; calls `then` when all of it is published.
    pub async fn produce(self, source: Source, then: impl FnOnce()) {
        // This member reads nothing.
        self.retire_all();
        let mut publisher = Publisher::new(self, source, false);
        for number in 0..self.chunks {
            publisher.publish_chunk(self.chunk(number)).await;
        }
        then();
        publisher.wait_readers().await;
    }

    /// Reads what the members in `from` publish; calls `visit` for each chunk that `wants` selects.
    pub async fn consume(self, from: Vec<usize>, wants: impl Fn(Chunk) -> bool, mut visit: impl FnMut(Chunk, &Reader)) {
        let mut reader = Reader::new(self, from);
        for number in 0..self.chunks {
            self.consume_chunk(&mut reader, number, &wants, &mut visit).await;
        }
    }

    /// Publishes and reads. May also read the own data.
    pub async fn exchange(
        self,
        source: Source,
        from: Vec<usize>,
        wants: impl Fn(Chunk) -> bool,
        mut visit: impl FnMut(Chunk, &Reader),
    ) {
        let (mut publisher, mut reader) = (Publisher::new(self, source, true), Reader::new(self, from));
        for step in 0..self.chunks + AHEAD {
            if step < self.chunks {
                publisher.publish_chunk(self.chunk(step)).await;
            }
            if step >= AHEAD {
                self.consume_chunk(&mut reader, step - AHEAD, &wants, &mut visit).await;
            }
        }
        publisher.wait_readers().await;
    }

    async fn consume_chunk(
        self,
        reader: &mut Reader,
        number: usize,
        wants: &impl Fn(Chunk) -> bool,
        visit: &mut impl FnMut(Chunk, &Reader),
    ) {
        let chunk = self.chunk(number);
        reader.resolve_direct().await;
        if wants(chunk) {
            reader.wait(chunk).await;
            visit(chunk, reader);
            if reader.is_all() {
                self.team.buffers().learn_room(chunk.seq);
            }
        }
        self.retire(chunk.seq + self.stride);
    }
}
