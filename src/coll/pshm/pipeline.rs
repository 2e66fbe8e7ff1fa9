//! Data passing through lanes: some members show theirs, some look at it.

use super::{Chunk, Passage, Readers};
use crate::coll::choose::is_direct;
use crate::coll::p2p::Span;
use crate::{runtime, wait};

/// Chunks that a member shows before it looks at the first. Less than the slots, so that the slowest member always has room.
const AHEAD: usize = 3;

/// What a member shows.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The data.
    pub data: Span,
    /// Whether it stays as it is until the collective is complete here.
    pub steady: bool,
    /// Who reads it.
    pub readers: Readers,
}

/// What members show, as far as one reads it.
#[derive(Debug)]
pub struct Shown {
    passage: Passage,
    /// The members that are read.
    from: Vec<usize>,
    /// Where the data of each member lies that is read directly; 0 for the others. Empty before that is known.
    direct: Vec<usize>,
}

impl Shown {
    /// For a reader of the members in `from`.
    pub fn new(passage: Passage, from: Vec<usize>) -> Self {
        Self {
            passage,
            from,
            direct: Vec::new(),
        }
    }

    /// Waits until all that are read show `chunk`.
    pub async fn wait(&mut self, chunk: Chunk) {
        self.learn().await;
        for &member in &self.from {
            if !self.is_direct(member) {
                self.passage.shown(member, chunk.position).await;
            }
        }
    }

    /// Waits until all that are read have said where their data lies. To be called before the first position is passed.
    async fn learn(&mut self) {
        if !self.passage.is_long() || !self.direct.is_empty() {
            return;
        }
        let mut direct = vec![0; self.passage.near.count()];
        for &member in &self.from {
            self.passage.shown(member, self.passage.start).await;
            direct[member] = self.passage.announced(member);
        }
        self.direct = direct;
    }

    /// Whether every member shows every chunk, and is looked at.
    fn is_all(&self) -> bool {
        self.from.len() == self.passage.near.count() && self.direct.iter().all(|&base| base == 0)
    }

    fn is_direct(&self, member: usize) -> bool {
        self.direct.get(member).is_some_and(|&base| base != 0)
    }

    /// What `member` shows of `chunk`, after [`Shown::wait`].
    pub fn of(&self, member: usize, chunk: Chunk) -> Span {
        if self.is_direct(member) {
            let at = (self.direct[member] + chunk.offset) as *mut u8;
            return Span { at, bytes: chunk.bytes };
        }
        self.passage.slot(member, chunk.position, chunk.bytes)
    }
}

/// A member that shows its data chunk by chunk, or at once.
#[derive(Debug)]
pub struct Shower {
    passage: Passage,
    source: Source,
    /// Whether all members show data, and all wait for all.
    all_show: bool,
    direct: bool,
}

impl Shower {
    /// Shows `source`; `all_show` as in the field.
    pub const fn new(passage: Passage, source: Source, all_show: bool) -> Self {
        Self {
            passage,
            source,
            all_show,
            direct: false,
        }
    }

    /// Shows `chunk`.
    pub async fn chunk(&mut self, chunk: Chunk) {
        if self.direct {
            return;
        }
        let (passage, data) = (self.passage, self.source.data);
        let slot = passage.room(chunk.position, chunk.bytes).await;
        if passage.is_long() && chunk.offset == 0 {
            let wanted = self.source.steady && is_direct(passage.bytes, wait::is_crowded());
            self.direct = wanted && runtime::get().neighbours_map(data.at, data.bytes);
            passage.announce(if self.direct { data.at as usize } else { 0 });
        }
        if !self.direct {
            slot.copy_from(data.part(chunk.offset, chunk.bytes));
        }
        if self.all_show && chunk.offset == 0 {
            passage.show_among_all(chunk.position);
        } else {
            passage.show(chunk.position, self.source.readers);
        }
    }

    /// Waits until the data may change.
    pub async fn end(self) {
        if !self.direct {
            return;
        }
        match self.source.readers {
            Readers::One(reader) => self.passage.left(reader).await,
            Readers::All => {
                for member in (0..self.passage.near.count()).filter(|&member| member != self.passage.near.me()) {
                    self.passage.left(member).await;
                }
            }
        }
    }
}

impl Passage {
    /// Says where the own data lies: its address, or 0 if it is staged. There is room for the first position.
    pub(super) fn announce(self, address: usize) {
        let (lane, slot) = self.near.lanes.place(self.near.me(), self.start);
        let note = lane.note(slot).cast::<usize>();
        // SAFETY: a note is aligned and longer than a word; there is room, so nobody reads it now.
        unsafe { note.write(address) };
    }

    /// Where `member` said that its data lies, seen from here. It shows the first position, and we have not passed that.
    fn announced(self, member: usize) -> usize {
        let (lane, slot) = self.near.lanes.place(member, self.start);
        let note = lane.note(slot).cast::<usize>();
        // SAFETY: a note is aligned and longer than a word; its owner leaves it alone until we have passed it.
        match unsafe { note.read() } {
            0 => 0,
            address => {
                let rt = runtime::get();
                let rank = rt.nbrhd.rank(self.near.places[member]);
                rt.map_neighbour(rank, address, self.bytes) as usize
            }
        }
    }

    /// This member shows `source`, and when all is shown does `then`.
    pub async fn give(self, source: Source, then: impl FnOnce()) {
        // It reads nothing.
        self.leave();
        let mut shower = Shower::new(self, source, false);
        for number in 0..self.chunks {
            shower.chunk(self.chunk(number)).await;
        }
        then();
        shower.end().await;
    }

    /// This member looks at what those in `from` show, and at those chunks that it `wants`.
    pub async fn take(self, from: Vec<usize>, wants: impl Fn(Chunk) -> bool, mut visit: impl FnMut(Chunk, &Shown)) {
        let mut shown = Shown::new(self, from);
        for number in 0..self.chunks {
            self.look(&mut shown, number, &wants, &mut visit).await;
        }
    }

    /// Both. The own data may be looked at, too.
    pub async fn share(
        self,
        source: Source,
        from: Vec<usize>,
        wants: impl Fn(Chunk) -> bool,
        mut visit: impl FnMut(Chunk, &Shown),
    ) {
        let (mut shower, mut shown) = (Shower::new(self, source, true), Shown::new(self, from));
        for step in 0..self.chunks + AHEAD {
            if step < self.chunks {
                shower.chunk(self.chunk(step)).await;
            }
            if step >= AHEAD {
                self.look(&mut shown, step - AHEAD, &wants, &mut visit).await;
            }
        }
        shower.end().await;
    }

    async fn look(self, shown: &mut Shown, number: usize, wants: &impl Fn(Chunk) -> bool, visit: &mut impl FnMut(Chunk, &Shown)) {
        let chunk = self.chunk(number);
        shown.learn().await;
        if wants(chunk) {
            shown.wait(chunk).await;
            visit(chunk, shown);
            if shown.is_all() {
                self.near.lanes.learn(chunk.position);
            }
        }
        self.pass(chunk.position + self.stride);
    }
}
