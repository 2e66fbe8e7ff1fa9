//! The unused collective buffers of this process.
//!
//! Every process allocates from its own memory, so allocation needs no agreement: a member takes a
//! buffer before a team is created and sends its id in the exchange that creates the team.

use crate::shm::coll_buffers;
use crate::shm::memory::CollBufferMemory;
use crate::shm::Comm;
use gasnet_sys::atomic::{Mutex, MutexGuard};

/// A collective buffer by number: an inline buffer, and perhaps a staging buffer. Numbers start at
/// 1; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollBufferId {
    inline: u16,
    staging: u16,
}

/// That of the primordial team, in every process.
const PRIMORDIAL: CollBufferId = CollBufferId { inline: 1, staging: 1 };

struct Free {
    inline_buffers: Vec<u16>,
    staging_buffers: Vec<u16>,
}

static FREE: Mutex<Option<Free>> = Mutex::new(None);

fn free() -> MutexGuard<'static, Option<Free>> {
    gasnet_sys::lock(&FREE)
}

impl CollBufferId {
    /// The buffer of the primordial team, the same in all processes. Frees all others.
    pub fn primordial(comm: &Comm) -> Self {
        let layout = comm.memory().layout();
        if layout.coll_buffers == 0 {
            return Self::default();
        }
        // Descending, since `pop` takes the last.
        let numbers = |count: usize| (2..=count as u16).rev().collect();
        *free() = Some(Free {
            inline_buffers: numbers(layout.coll_buffers),
            staging_buffers: numbers(layout.staging_buffers()),
        });
        PRIMORDIAL
    }

    /// Takes a free buffer and clears it for a new team. Returns the empty id if none is free.
    pub fn take(comm: &Comm) -> Self {
        let mut free = free();
        let Some(free) = free.as_mut() else {
            return Self::default();
        };
        let Some(inline) = free.inline_buffers.pop() else {
            return Self::default();
        };
        let staging = free.staging_buffers.pop().unwrap_or(0);
        let coll_buffer = Self { inline, staging };
        coll_buffers::clear(&coll_buffer.memory(comm, comm.me()));
        coll_buffer
    }

    /// Frees the buffer. No member may use it any more.
    pub fn give_back(self) {
        let mut free = free();
        let Some(free) = free.as_mut() else { return };
        free.inline_buffers.extend((self.inline != 0).then_some(self.inline));
        free.staging_buffers.extend((self.staging != 0).then_some(self.staging));
    }

    /// Packs the id into a word of a message.
    pub const fn pack(self) -> u32 {
        (self.inline as u32) << 16 | self.staging as u32
    }

    /// Unpacks such a word.
    pub const fn unpack(word: u32) -> Self {
        Self {
            inline: (word >> 16) as u16,
            staging: word as u16,
        }
    }

    /// Whether the id names a buffer.
    pub const fn is_some(self) -> bool {
        self.inline != 0
    }

    /// Whether the buffer has a staging buffer.
    pub const fn has_staging(self) -> bool {
        self.staging != 0
    }

    /// The buffer in the memory of the neighbour with this index. The id must name one.
    pub fn memory(self, comm: &Comm, index: usize) -> CollBufferMemory {
        let layout = comm.memory().layout();
        let (inline, staging) = (usize::from(self.inline), usize::from(self.staging));
        if !(1..=layout.coll_buffers).contains(&inline) || staging > layout.staging_buffers() {
            fatal!(
                "neighbour {index} sent an invalid collective buffer (inline buffer {inline}, staging buffer \
                 {staging}): its memory is corrupt"
            );
        }
        comm.memory().coll_buffer(index, inline - 1, staging.checked_sub(1))
    }
}
